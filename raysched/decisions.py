"""Between the state and the policy: the problem as it stands, and the answer carried out.

Jobs whose promise the engine keeps (`promises.inherited`) stand apart from both: they are placed
first, on the training pool, and the policy sees neither them nor the GPUs that they will need.
"""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from dataclasses import replace
from itertools import compress

import numpy as np

from policies.problem import Allocation, Decision, Ints, Jobs, Problem, Servers
from policies.reason import Reason, because
from raysched import grants, promises, resizing
from raysched.actions import Action, Reject
from raysched.columns import servers_of
from raysched.placement import place
from raysched.placement_problem import Placed, Rooms, Wanted
from raysched.resizing import Changes
from raysched.standing import Standing, workers_on
from raysched.state import Job, State
from raysched.wishes import Wishes


def problem(
    state: State, jobs: Jobs, servers: Servers, standing: Standing, apart: Sequence[Job]
) -> Problem:
    """What the policy may look at now: of the live jobs and the servers not the jobs `apart`, nor
    the GPUs promised to them."""
    standing.refresh(state, servers)
    if apart:
        ids = {job.id for job in apart}
        jobs = jobs.take(np.flatnonzero([job not in ids for job in jobs.ids]))
        servers = replace(servers, gpus=servers.gpus - _promised_gpus(state, servers, apart))
    placed = standing.placed(jobs.ids, servers)
    resize_s = state.resize_s or state.restart_s  # in place, as soon as that was seen
    return Problem(state.now_s, jobs, servers, placed, resize_s, seed=state.events)


def apply(
    state: State, servers: Servers, standing: Standing, decision: Decision
) -> tuple[list[Action], list[str]]:
    """Turn an answer into standing targets; the actions, and the jobs whose target changed.

    The state may have moved on since the question: jobs that ended are passed over, those that
    arrived since wait for the next one, and placement works on the servers as they are now.
    """
    actions: list[Action] = []
    changed: list[str] = []
    for job_id, reason in decision.rejected.items():
        job = state.live.get(job_id)
        if job is not None:
            job.reason = reason
            actions += [Reject(job_id, reason), *grants.end(state, job, "rejected", str(reason))]
            changed.append(job_id)
    standing.touch(changed)
    standing.refresh(state, servers)
    wishes = Wishes.of(state.live, decision.allocations)
    for job, placed, reason, shall in _placements(state, servers, standing, wishes):
        before = dict(job.target), job.batch_size
        actions += grants.want(state, job, placed.servers, placed.shortfall or reason)
        if shall is not None:
            actions += grants.set_batch_size(state, job, shall.batch_size, reason)
            grants.set_parameter_servers(job, shall)
        if (job.target, job.batch_size) != before:
            changed.append(job.id)
    _note_promises(wishes)
    return actions, changed


def broken_promises(state: State) -> dict[str, str]:
    """Why the engine could not keep the promises of these jobs, were another policy chosen now."""
    jobs = promises.promised(state)
    gpus = promises.owned_gpus(state)
    too_many = promises.unkeepable(jobs, gpus, state.now_s)
    broken = {
        job.id: f"the plans need {promises.peak_gpus(jobs, state.now_s)} GPUs of the training "
        f"pool, which has {gpus}"
        for job in too_many
    }
    for job_id, placed in _place_promised(state, servers_of(state), jobs).items():
        if placed.shortfall is not None:
            broken.setdefault(job_id, str(placed.shortfall))
    return broken


def _placements(
    state: State, servers: Servers, standing: Standing, wishes: Wishes
) -> list[tuple[Job, Placed, Reason, Allocation | None]]:
    """Workers on servers, and what the policy asked for: for jobs with a promise to keep, then for
    every job that it allocated and that has epochs left, but not for those that stay as they are.
    Growth that does not pay for the resize is left out."""
    apart = promises.inherited(state)
    held = _place_promised(state, servers, apart)
    free_gpus = standing.free_gpus(servers)
    for job in apart:
        gpus = job.spec.gpus_per_worker
        free_gpus += gpus * workers_on(job.target, servers)
        free_gpus -= gpus * workers_on(held[job.id].servers, servers)
    stay, changes = _sifted(standing, wishes, not (free_gpus < 0).any())
    moved = resizing.worthwhile(state, changes)
    # Those that wait and go on waiting need no place: most of a long queue.
    wanted = [
        _wanted(state, job, allocation)
        for job, allocation in moved
        if job.target or allocation.workers
    ]
    placed = {}
    if wanted:
        # Where those who stay have workers matters on loan alone: base and flexible ones part.
        based = stay if servers.on_loan.any() else []
        settled = standing.workers_of(job.id for job in based)
        placed = place(wanted, Rooms(servers, free_gpus, settled))
    return [
        *((job, held[job.id], _keeps_promise(state, job), None) for job in apart),
        *((job, placed.get(job.id, Placed({})), shall.reason, shall) for job, shall in moved),
    ]


def _sifted(standing: Standing, wishes: Wishes, room: bool) -> tuple[Sequence[Job], Changes]:
    """Jobs that keep what they have, and learn why; and the others, if epochs are left to them."""
    keeps = standing.keeps(wishes, room)
    stays, moves = keeps.tolist(), np.flatnonzero(~keeps).tolist()
    for job, reason in compress(zip(wishes.jobs, wishes.reasons, strict=True), stays):
        job.reason = reason
    moved = [(wishes.jobs[row], wishes.allocation(row)) for row in moves]
    return [*compress(wishes.jobs, stays)], [each for each in moved if not each[0].trained]


def _place_promised(state: State, servers: Servers, jobs: Sequence[Job]) -> dict[str, Placed]:
    """The sizes that were promised for now, on the training pool: beside the other jobs if they
    fit there, else in the place of these."""
    if not jobs:
        return {}
    wanted = []
    for job in jobs:
        workers = promises.workers_at(job, state.now_s)
        wanted.append(
            Wanted(
                job=job.id,
                workers=workers,
                min_workers=workers,
                gpus_per_worker=job.spec.gpus_per_worker,
                standing={s: n for s, n in job.target.items() if _is_owned(state, s)},
                gpu_type=job.spec.gpu_type or None,
                mixes_gpus=job.spec.mixes_gpus,
            )
        )
    placed = place(wanted, _rooms(servers, state.live.values()).owned())
    if any(found.shortfall is not None for found in placed.values()):
        placed = place(wanted, _rooms(servers, jobs).owned())
    return placed


def _promised_gpus(state: State, servers: Servers, jobs: Sequence[Job]) -> Ints:
    """[servers] GPUs on which promised workers stand, and those by which their plans will grow:
    these where most is left, so that what grows finds it together."""
    column = servers.column
    taken = np.zeros(len(column), dtype=np.int64)
    placed = _place_promised(state, servers, jobs)
    for job in jobs:
        for server, workers in placed[job.id].servers.items():
            taken[column[server]] += workers * job.spec.gpus_per_worker
    growth = promises.peak_gpus(jobs, state.now_s) - int(taken.sum())
    left = np.where(servers.on_loan, 0, np.maximum(servers.gpus - taken, 0))
    for at in np.argsort(-left, kind="stable").tolist():
        more = min(growth, int(left[at]))
        taken[at] += more
        growth -= more
    return taken


def _keeps_promise(state: State, job: Job) -> Reason:
    return because(
        "keeps to the plan that was promised before policy {policy} was chosen: {workers} workers "
        "now, done by {until_s:.0f} s",
        policy=state.policy.name,
        workers=promises.workers_at(job, state.now_s),
        until_s=job.promise.until_s if job.promise else state.now_s,
    )


def _note_promises(wishes: Wishes) -> None:
    for row, promise in wishes.promises.items():
        wishes.jobs[row].promise, wishes.jobs[row].promise_over = promise, ""
    for row in [row for row, job in enumerate(wishes.jobs) if job.promise is not None]:
        if row not in wishes.promises:
            promises.drop(wishes.jobs[row], wishes.reasons[row])


def _wanted(state: State, job: Job, allocation: Allocation) -> Wanted:
    spec = job.spec
    return Wanted(
        job=job.id,
        workers=_within_range(job, allocation.workers),
        min_workers=spec.min_workers,
        gpus_per_worker=spec.gpus_per_worker,
        elastic=spec.max_workers > spec.min_workers,
        rule=allocation.placement,
        standing={s: n for s, n in job.target.items() if state.trainable(s)},
        servers=allocation.servers,
        gpu_type=spec.gpu_type or allocation.gpu_type,
        mixes_gpus=spec.mixes_gpus,
    )


def _within_range(job: Job, workers: int) -> int:
    """A policy's slip must not break a job: under the minimum is nothing, the maximum a cap."""
    return 0 if workers < job.spec.min_workers else min(workers, job.spec.max_workers)


def _is_owned(state: State, server: str) -> bool:
    known = state.servers.get(server)
    return known is not None and known.pool == "training"


def _rooms(servers: Servers, jobs: Iterable[Job]) -> Rooms:
    """Servers as placement sees them, with jobs and where they shall stand: GPUs on their way to
    be free count as free."""
    free_gpus = servers.gpus.copy()
    for job in jobs:
        free_gpus -= job.spec.gpus_per_worker * workers_on(job.target, servers)
    return Rooms(servers, free_gpus, np.zeros_like(free_gpus))
