"""Tiresias as in the simulators of ElasticFlow's and of Pollux's authors, for their figures.

Kept apart from `policies.baselines.tiresias`, which is the idea. A job that reaches a limit goes to
the back of the next queue, behind those that wait there, and at most one queue down at a decision;
so it may be preempted by its equals. The review is due when seconds of service, not GPU-seconds,
have come up to the limit: late, for jobs on several GPUs.
"""

from __future__ import annotations

import math

import numpy as np

from policies.baselines.filling import take
from policies.problem import Allocation, Bools, Decision, Floats, Jobs, Memory, Problem
from policies.reason import because
from policies.sentences import change

_VERSION = "published 1"


def decide_published(
    problem: Problem, memory: Memory, limits_gpu_s: Floats, review_s: float
) -> tuple[Decision, Memory]:
    """Allocations at the sizes that jobs asked for; the memory is the queues, by id."""
    jobs = problem.jobs
    queues = _queues(jobs, memory, len(limits_gpu_s) + 1)
    queue = np.zeros(len(jobs), dtype=np.int64)
    for number, rows in enumerate(queues):
        queue[rows] = number
    limits = np.append(limits_gpu_s, np.inf)
    for row in np.argsort(-jobs.requested_gpus, kind="stable").tolist():
        if jobs.workers[row] and jobs.attained_gpu_s[row] >= limits[queue[row]]:
            queues[queue[row]].remove(row)
            queue[row] += 1
            queues[queue[row]].append(row)
    order = [row for rows in queues for row in rows]
    runs = take(order, jobs.requested_gpus, problem.servers.total_gpus).runs
    allocations = {
        job: _allocation(jobs, row, int(queue[row]), bool(runs[row]))
        for row, job in enumerate(jobs.ids)
    }
    review_at_s = _review_at_s(problem, limits[queue], runs, review_s)
    ids = [[jobs.ids[row] for row in sorted(rows, key=lambda r: not runs[r])] for rows in queues]
    return Decision(allocations, review_at_s=review_at_s), {"version": _VERSION, "queues": ids}


def _queues(jobs: Jobs, memory: Memory, count: int) -> list[list[int]]:
    """Rows by queue, in its order; who is new at the back of the first one."""
    rows = {job: row for row, job in enumerate(jobs.ids)}
    known = memory["queues"] if memory.get("version") == _VERSION else []
    queues = [[rows.pop(job) for job in ids if job in rows] for ids in known[:count]]
    queues += [[] for _ in range(count - len(queues))]
    queues[0] += rows.values()
    return queues


def _review_at_s(
    problem: Problem, limit_gpu_s: Floats, runs: Bools, review_s: float
) -> float | None:
    jobs = problem.jobs
    gpus = jobs.requested_gpus
    due_s = np.ceil((limit_gpu_s - jobs.attained_gpu_s / gpus) / gpus)[runs]
    next_s = float(due_s.min(initial=np.inf))
    return problem.now_s + max(next_s, review_s) if next_s < math.inf else None


def _allocation(jobs: Jobs, row: int, queue: int, runs: bool) -> Allocation:
    workers, before = int(jobs.requested_workers[row]) * runs, int(jobs.workers[row])
    reason = because(
        change(workers, before) + "; {attained_gpu_s:.0f} GPU-seconds of service put it in queue "
        "{queue}; it asked for {needed} GPUs",
        workers=workers,
        before=before,
        attained_gpu_s=jobs.attained_gpu_s[row],
        queue=queue,
        needed=jobs.requested_gpus[row],
    )
    return Allocation(workers, reason)
