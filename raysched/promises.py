"""Promises outlive the policy that gave them (ruling 4).

A policy keeps its own promises. Once another policy is chosen they are *inherited*: the engine
itself runs these jobs by the plans that were promised, on GPUs of the training pool, and the new
policy sees neither the jobs nor the GPUs that the plans need at their peak.
"""

from __future__ import annotations

from bisect import bisect_right
from collections.abc import Iterable, Iterator, Sequence
from itertools import accumulate

from policies.reason import Reason, because
from raysched.state import Job, State


def promised(state: State) -> list[Job]:
    """Jobs with a promise, whoever keeps it."""
    return [job for job in state.live_jobs() if job.promise is not None and not job.trained]


def inherited(state: State) -> list[Job]:
    """Jobs whose promise the engine keeps, in the order of submission."""
    kept = [job for job in state.live.values() if job.inherited]  # at every decision: mostly none
    return [job for job in kept if job.promise is not None and not job.trained]


def inherit(state: State) -> None:
    """The policy that gave the promises is gone: the engine keeps them from here on."""
    for job in promised(state):
        job.inherited = True


def workers_at(job: Job, at_s: float) -> int:
    """Workers that were promised to the job for that time: those of its plan's last step begun."""
    workers = 0
    if job.promise is None or job.promise.until_s <= at_s:
        return workers
    for step in job.promise.plan:
        if step.start_s <= at_s:
            workers = step.workers
    return workers


def peak_gpus(jobs: Iterable[Job], now_s: float) -> int:
    """GPUs that the plans of these jobs need together at most, from now on."""
    # At one time what is given up comes first, so that no sum on the way exceeds the last.
    changes = sorted(change for job in jobs for change in _changes(job, now_s))
    return max(accumulate(gpus for _, gpus in changes), default=0)


def next_change_s(state: State) -> float | None:
    """When an inherited plan takes its next step, or is over. None: there is no such plan."""
    changes_s = [
        at_s
        for job in inherited(state)
        if job.promise is not None
        for at_s in (job.promise.until_s, *(step.start_s for step in job.promise.plan))
        if at_s > state.now_s
    ]
    return min(changes_s, default=None)


def expire(state: State) -> None:
    """End inherited promises whose time is over: these jobs are the policy's again."""
    for job in inherited(state):
        if job.promise is not None and job.promise.until_s <= state.now_s:
            drop(job, because("it held until {until_s:.0f} s", until_s=job.promise.until_s))


def break_all(state: State) -> None:
    """An operator would rather have the new policy than the promises."""
    for job in promised(state):
        drop(job, because("broken by an operator for policy {policy}", policy=state.policy.name))


def drop(job: Job, why: Reason) -> None:
    """A promise does not hold any more; why is kept for whoever asks."""
    job.promise, job.inherited, job.promise_over = None, False, str(why.of(job.id))


def unkeepable(jobs: Sequence[Job], gpus: int, now_s: float) -> Sequence[Job]:
    """Those of these jobs, the latest submitted, whose promises `gpus` GPUs cannot bear."""
    kept = bisect_right(range(len(jobs)), gpus, key=lambda row: peak_gpus(jobs[: row + 1], now_s))
    return jobs[kept:]


def void_unkeepable(state: State) -> None:
    """After capacity was lost: drop the inherited promises that it cannot bear, and say which."""
    gpus, jobs = owned_gpus(state), inherited(state)
    void, needed = unkeepable(jobs, gpus, state.now_s), peak_gpus(jobs, state.now_s)
    for job in void:
        drop(
            job,
            because(
                "void: the plans promised need {needed} GPUs of the training pool, {gpus} are left",
                needed=needed,
                gpus=gpus,
            ),
        )


def owned_gpus(state: State) -> int:
    """GPUs of the training pool that we may use: what promises may rest on."""
    return sum(
        state.ledger.accounts[server.id].usable
        for server in state.servers.values()
        if server.pool == "training"
    )


def _changes(job: Job, now_s: float) -> Iterator[tuple[float, int]]:
    """When the plan takes GPUs or gives them up, and how many."""
    if job.promise is None or job.promise.until_s <= now_s:
        return
    before = 0
    for step in job.promise.plan:
        if step.start_s < job.promise.until_s:
            gpus = step.workers * job.spec.gpus_per_worker
            yield max(step.start_s, now_s), gpus - before
            before = gpus
    yield job.promise.until_s, -before
