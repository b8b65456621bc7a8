"""Between the state and the policy: the problem as it stands, and the answer carried out."""

from __future__ import annotations

from collections.abc import Mapping

import numpy as np

from policies.problem import Allocation, Decision, Jobs, Problem, Servers
from policies.reason import Reason
from raysched import grants
from raysched.actions import Action, Reject
from raysched.performance import predicted_epoch_s
from raysched.placement import Placed, Room, Wanted, place
from raysched.state import Job, State


def problem(state: State, jobs: Jobs) -> Problem:
    """What the policy may look at now."""
    servers = _servers(state)
    column = {server: index for index, server in enumerate(servers.ids)}
    placed = np.zeros((len(jobs), len(servers.ids)), dtype=np.int64)
    for row, job_id in enumerate(jobs.ids):
        for server, workers in state.live[job_id].target.items():
            if server in column:
                placed[row, column[server]] = workers
    return Problem(state.now_s, jobs, servers, placed, state.restart_s, seed=state.events)


def apply(state: State, decision: Decision) -> tuple[list[Action], list[str]]:
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
    for job, placed, reason in _placements(state, decision.allocations):
        before = dict(job.target)
        actions += grants.want(state, job, placed.servers, placed.shortfall or reason)
        if job.target != before:
            changed.append(job.id)
    return actions, changed


def predicted_s(state: State, job: Job, workers: int) -> float:
    """What an epoch of this job was predicted to take at this size."""
    curve = predicted_epoch_s(job.spec, job.times, state.history)
    return float(curve[workers - job.spec.min_workers])


def _servers(state: State) -> Servers:
    usable = [s for s in state.servers.values() if state.trainable(s.id)]
    accounts = [state.ledger.accounts[s.id] for s in usable]
    return Servers(
        ids=tuple(s.id for s in usable),
        gpus=np.array([account.usable for account in accounts], dtype=np.int64),
        on_loan=np.array([s.pool == "inference" for s in usable], dtype=np.bool_),
        gpu_type=tuple(s.gpu_type for s in usable),
        gpu_rate=np.array([s.gpu_rate for s in usable], dtype=np.float64),
    )


def _placements(
    state: State, allocations: Mapping[str, Allocation]
) -> list[tuple[Job, Placed, Reason]]:
    """Workers on servers for every job that the policy allocated and that has epochs left."""
    jobs = [job for job in state.live_jobs() if job.id in allocations and not job.trained]
    wanted = [_wanted(state, job, allocations[job.id]) for job in jobs]
    placed = place(wanted, _rooms(state))
    return [(job, placed[job.id], allocations[job.id].reason) for job in jobs]


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
    )


def _within_range(job: Job, workers: int) -> int:
    """A policy's slip must not break a job: under the minimum is nothing, the maximum a cap."""
    return 0 if workers < job.spec.min_workers else min(workers, job.spec.max_workers)


def _rooms(state: State) -> list[Room]:
    """Servers as placement sees them: GPUs on their way to be free count as free."""
    standing: dict[str, int] = {}
    for job in state.live_jobs():
        for server, workers in job.target.items():
            gpus = workers * job.spec.gpus_per_worker
            standing[server] = standing.get(server, 0) + gpus
    servers = _servers(state)
    columns = zip(servers.ids, servers.gpus.tolist(), servers.on_loan.tolist(), strict=True)
    return [
        Room(server, usable, usable - standing.get(server, 0), on_loan)
        for server, usable, on_loan in columns
    ]
