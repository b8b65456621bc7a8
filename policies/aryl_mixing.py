"""Phase 2 of aryl for jobs that mix GPU types: last, on what the others leave (004 §6)."""

from __future__ import annotations

import numpy as np

from policies.aryl_gpus import Fleet
from policies.aryl_objectives import Worth, extra_workers
from policies.knapsack import NONE, Groups, solve
from policies.problem import Floats, Ints


def grow_mixed(fleet: Fleet, workers: Ints, free_gpus: Ints, worth: Worth) -> Ints:
    """[jobs, types] The workers of all jobs, those that mix types with flexible ones added.

    One knapsack a type, types of which servers are on loan first (§6: flexible demands "on
    inference servers whenever possible"), each exact for what its GPUs add to what a job has by
    then. A few slow workers may cost more by `mixing` than they bring: they are not taken.
    """
    jobs, workers, free_gpus = fleet.problem.jobs, workers.copy(), free_gpus.copy()
    for gpu_type in fleet.elastic_first:
        rows = np.flatnonzero(fleet.mixes & workers.any(axis=1))
        now = workers[rows].sum(axis=1)
        job, extra, offset = extra_workers(now, jobs.max_workers[rows])
        value = worth(_left_s(fleet, rows[job], _with(workers[rows[job]], gpu_type, extra)))
        value -= worth(_left_s(fleet, rows[job], workers[rows[job]]))
        weight = extra * jobs.gpus_per_worker[rows[job]]
        chosen = solve(Groups(offset, weight, value), int(free_gpus[gpu_type])).choice
        grows = np.flatnonzero(chosen != NONE)
        workers[rows[grows], gpu_type] += extra[chosen[grows]]
        free_gpus[gpu_type] -= weight[chosen[grows]].sum()
    return workers


def _with(workers: Ints, gpu_type: int, extra: Ints) -> Ints:
    more = workers.copy()
    more[:, gpu_type] += extra
    return more


def _left_s(fleet: Fleet, rows: Ints, workers: Ints) -> Floats:
    """[rows] Seconds that jobs have to go on [rows, types] workers, a resize included."""
    jobs = fleet.problem.jobs
    resized = (jobs.workers[rows] > 0) & (jobs.workers[rows] != workers.sum(axis=1))
    left: Floats = fleet.left_s(rows, workers) + fleet.problem.resize_s * resized
    return left
