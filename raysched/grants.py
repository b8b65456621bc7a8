"""From what a job shall have to what it has: offers, boundaries, releases.

A resize has two phases. A decision states a standing target (`wanted`); when all GPUs that it
needs beyond those the job has are free, they are reserved and it becomes an `offer`; the job takes
the offer at its next epoch boundary, or at once where it has no workers. What it gives up counts
as free only when the body has seen it free.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import replace
from typing import Literal

from policies.problem import Allocation, parameter_servers_for
from policies.reason import Reason, because
from raysched.actions import Action, EndWorkers, Grant, Offer, ReleaseGrant, SetBatchSize
from raysched.state import Job, Outcome, State


def want(state: State, job: Job, servers: Mapping[str, int], reason: Reason) -> list[Action]:
    """Set the standing target of a job; `settle` makes an offer of it when its GPUs are free."""
    job.reason = reason
    if job.phase == "leaving":  # its offer is being taken: the new target follows after it
        leaving_for = job.offer.servers if job.offer else {}
        job.wanted = None if servers == leaving_for else dict(servers)
        return []
    if job.offer is not None and servers == job.offer.servers:
        job.wanted = None
        return []
    actions = withdraw(state, job)
    job.wanted = None if servers == job.standing else dict(servers)
    return actions


def set_batch_size(state: State, job: Job, batch_size: int | None, reason: Reason) -> list[Action]:
    """Have a job run with the global batch that a policy chose, if it is one of the job's own, and
    with its smallest one where the workers that it shall have cannot hold the batch.

    A grant that it has not taken yet comes with it; one that it runs on goes over at the next
    boundary, where its workers stay and can hold it (`reach_boundary`).
    """
    if batch_size not in job.spec.admissible:
        batch_size = job.batch_size
    batch_size = _held_by(state, job, batch_size, job.workers)
    if batch_size == job.batch_size:
        return []
    job.batch_size = batch_size
    if job.offer is not None:
        job.offer = replace(job.offer, batch_size=batch_size)
    if job.running is None:
        return []
    return [SetBatchSize(job.id, batch_size, reason.of(job.id))]


def set_parameter_servers(job: Job, allocation: Allocation) -> None:
    """Have a job's next grants come with the number of parameter servers that a policy named, or
    where it named none, with as many as their workers need. One that runs keeps those it has."""
    if job.spec.workers_per_parameter_server:
        job.parameter_servers = allocation.parameter_servers
        if job.offer is not None:
            beside = _parameter_servers(job, job.offer.workers)
            job.offer = replace(job.offer, parameter_servers=beside)


def settle(state: State, freed: str | None = None) -> list[Action]:
    """Turn every target whose GPUs are free into an offer, in the order of submission.

    `freed`: only on this server are GPUs free that were not when this was last done.
    """
    actions: list[Action] = []
    waiting = [job for job in state.live.values() if job.wanted is not None]
    if freed is not None:
        waiting = [job for job in waiting if freed in (job.wanted or {})]
    for job in waiting:
        if job.phase != "leaving":
            actions += _offer_wanted(state, job)
    return actions


def take(state: State, job: Job, grant: int) -> None:
    """A job without workers picks its offer up; its first ones may have to profile it."""
    if job.offer is not None and job.offer.grant == grant and job.running is None:
        job.running, job.offer, job.phase = job.offer, None, "starting"
        job.joinable = job.in_place = False
        job.profiling = state.to_profile(job) if job.profiling is None else ()


def withdraw(state: State, job: Job) -> list[Action]:
    """An offer that was not taken is void; what it had reserved is given up.

    A job that is leaving for it right now has nothing then, and waits once its workers are gone.
    """
    offer, job.offer = job.offer, None
    if offer is None:
        return []
    return _give_up(state, job, offer, job.standing)


def still_owed(state: State) -> list[Action]:
    """Releases that were not seen through before a restart."""
    return [
        ReleaseGrant(job, 0, (server,))
        for server, account in state.ledger.accounts.items()
        for job in account.releasing
    ]


def reach_boundary(state: State, job: Job) -> list[Action]:
    """A running job is at an epoch boundary: it leaves if there is an offer that it may leave for,
    else trains on.

    Workers on a server that is being reclaimed leave now in any case: what the job shall have
    elsewhere may not be free yet, and the server is needed. A batch that was chosen for workers
    that are still to come waits for them where those that are there cannot hold it.
    """
    running, batch_size = job.running, job.batch_size
    if (
        running is not None
        and running.batch_size != batch_size
        and state.fits(job, batch_size, running.workers)
    ):
        job.running = replace(running, batch_size=batch_size)
    actions = _offer_what_remains(state, job) if _stands_on_reclaimed(state, job) else []
    if job.offer is not None and may_leave(state, job):
        job.phase = "leaving"
    return actions


def reach_safe_point(state: State, job: Job) -> list[Action]:
    """A running job is at a safe point within an epoch: it leaves a server that is being reclaimed,
    and for nothing else."""
    if not _stands_on_reclaimed(state, job):
        return []
    actions = _offer_what_remains(state, job)
    job.phase = "leaving"
    return actions


def cut_short(state: State, job: Job) -> list[Action]:
    """The workers of a job must be gone now, wherever it is in its epoch, unless they are leaving
    already. It goes on elsewhere from what was saved."""
    if job.running is None or job.phase == "leaving" or job.trained:
        return []
    actions = _offer_what_remains(state, job)
    job.cut_short = True
    return [*actions, EndWorkers(job.id, job.running.grant)]


def may_leave(state: State, job: Job) -> bool:
    """Whether the job goes for its offer at a boundary now: not while the workers that are to join
    those that stay are still on their way, unless it stands where it must not."""
    offer = job.offer.servers if job.offer else {}
    joined = someone_stays(job) and _beyond(offer, job.standing)
    if not joined or _stands_on_reclaimed(state, job):
        return True
    return job.offer is not None and job.ready == job.offer.grant


def someone_stays(job: Job) -> bool:
    """Whether the job can go over to its offer in place: some of its workers stand in both."""
    offer = job.offer.servers if job.offer else {}
    return job.joinable and any(job.standing.get(server) for server in offer)


def resize_in_place(state: State, job: Job, grant: int) -> list[Action]:
    """The workers of a leaving job are now those of its offer. What only the old grant had is
    given up."""
    if job.offer is None or job.offer.grant != grant or job.phase != "leaving":
        return []  # said twice, or withdrawn meanwhile
    old, job.running, job.offer = job.running, job.offer, None
    job.phase, job.in_place, job.cut_short = "starting", True, False
    return [] if old is None else _give_up(state, job, old, job.standing)


def stop(state: State, job: Job, grant: int, *, lost: bool) -> list[Action]:
    """The workers of a grant are gone. What its successor does not need is given up."""
    if job.running is None or job.running.grant != grant:
        return []  # said twice, or said of an older grant
    old, job.running = job.running, None
    actions: list[Action] = []
    if (lost or job.cut_short) and job.phase == "running":
        job.epochs_repeated += 1 - job.part  # the epoch under way is redone
    job.cut_short = False
    if not job.spec.checkpoints and not job.trained:
        job.epochs_repeated += job.epochs_done
        job.epochs_done = 0
    if lost and job.offer is None:
        actions += _offer_again(state, job, old)
    job.phase = "queued"
    if job.offer is not None and not job.offer.servers:
        job.offer = None  # preempted to nothing, as it was told
    kept = job.offer.servers if job.offer else {}
    return actions + _give_up(state, job, old, kept)


def end(state: State, job: Job, outcome: Outcome, error: str = "") -> list[Action]:
    """A job is over: everything it holds is given up."""
    actions: list[Action] = []
    running, offer, stood = job.running, job.offer, job.held
    job.running = job.offer = job.wanted = None
    job.phase, job.outcome, job.error, job.ended_s = "ended", outcome, error, state.now_s
    state.retire(job)
    held = state.ledger.held(job.id, stood)
    state.ledger.release(job.id, held)
    for grant in (running, offer):
        if grant is not None:
            servers = tuple(sorted(s for s in grant.servers if s in held))
            actions.append(ReleaseGrant(job.id, grant.grant, servers))
    return actions


def _offer_wanted(state: State, job: Job) -> list[Action]:
    wanted = job.wanted or {}
    if not all(state.trainable(s) for s in wanted):
        job.wanted = None  # decided before a server went; the policy is being asked again
        return []
    if not state.ledger.fits(_gpus(job, _beyond(wanted, job.held))):
        return []
    return _offer(state, job, wanted)


def _offer(
    state: State, job: Job, servers: Mapping[str, int], *, keep_wanted: bool = False
) -> list[Action]:
    """Reserve what is needed beyond what the job holds, and offer it in place of an older offer."""
    state.ledger.grant(job.id, _gpus(job, _beyond(servers, job.held)))
    older, job.offer = job.offer, _grant(state, job, servers)
    if not keep_wanted or job.wanted == job.offer.servers:
        job.wanted = None
    change: Literal["preempt", "start", "move", "resize"]
    if not servers:
        change = "preempt"
    elif job.running is None:
        change = "start"
    else:
        change = "move" if job.offer.workers == job.running.workers else "resize"
    actions = [] if older is None else _give_up(state, job, older, job.held)
    return [*actions, Offer(change, job.offer, job.why)]


def _offer_what_remains(state: State, job: Job) -> list[Action]:
    """Have a job that must leave a server go on with what it may keep, if nothing else is offered:
    what it shall have elsewhere may not be free yet."""
    if job.offer is not None:
        return []
    return _offer(state, job, _what_remains(state, job), keep_wanted=True)


def _offer_again(state: State, job: Job, lost: Grant) -> list[Action]:
    """After a loss the job starts again where it stood, as far as that still stands."""
    servers = {s: n for s, n in lost.servers.items() if state.trainable(s)}
    if sum(servers.values()) < job.spec.min_workers:
        return []
    job.offer = _grant(state, job, servers)
    reason = because(
        "workers were lost in epoch {epoch}: it is redone on {workers} workers",
        epoch=job.epochs_done,
        workers=job.offer.workers,
    )
    return [Offer("restart", job.offer, reason)]


def _grant(state: State, job: Job, servers: Mapping[str, int]) -> Grant:
    batch_size = _held_by(state, job, job.batch_size, sum(servers.values()))
    beside = _parameter_servers(job, sum(servers.values()))
    return Grant(state.next_grant(), job.id, dict(servers), batch_size, beside)


def _parameter_servers(job: Job, workers: int) -> int:
    """002 (6) and (7): enough for the workers' bandwidth, and no more than workers."""
    needed = parameter_servers_for(workers, job.spec.workers_per_parameter_server)
    return min(job.parameter_servers or needed, workers)


def _held_by(state: State, job: Job, batch_size: int, workers: int) -> int:
    """This batch size, or the job's smallest one where so many workers cannot hold it."""
    if not workers or state.fits(job, batch_size, workers):
        return batch_size
    return job.spec.admissible[0]


def _give_up(state: State, job: Job, grant: Grant, kept: Mapping[str, int]) -> list[Action]:
    gone = _gpus(job, _beyond(grant.servers, kept))
    gone = {s: n for s, n in gone.items() if s in state.servers}
    state.ledger.release(job.id, gone)
    return [ReleaseGrant(job.id, grant.grant, tuple(sorted(gone)))]


def _stands_on_reclaimed(state: State, job: Job) -> bool:
    return any(not state.trainable(s) for s in job.standing)


def _what_remains(state: State, job: Job) -> dict[str, int]:
    """The part of the running grant that may stay, or nothing where it is under the minimum."""
    remaining = {s: n for s, n in job.standing.items() if state.trainable(s)}
    return remaining if sum(remaining.values()) >= job.spec.min_workers else {}


def _beyond(servers: Mapping[str, int], base: Mapping[str, int]) -> dict[str, int]:
    """Workers of `servers` that `base` does not have."""
    more = {server: count - base.get(server, 0) for server, count in servers.items()}
    return {server: count for server, count in more.items() if count > 0}


def _gpus(job: Job, workers: Mapping[str, int]) -> dict[str, int]:
    return {server: count * job.spec.gpus_per_worker for server, count in workers.items()}
