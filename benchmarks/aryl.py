"""aryl (004): the knapsack of phase 2, beside a dynamic program over GPUs."""

from __future__ import annotations

from collections.abc import Mapping
from functools import partial

import numpy as np

from benchmarks.literal_knapsack import best_by_capacity
from benchmarks.measure import Question, Sample, agree, require
from benchmarks.problems import Demand, concave_curves, problem
from benchmarks.row import Row, Target
from policies.aryl_objectives import WORTH, Flexible, allocate_by_knapsack, knapsack_groups
from policies.problem import Ints, Problem

_WORTH = WORTH["mckp"]


def allocated(name: str, jobs: int, gpus: int, target: Target | None = None) -> Row:
    """Phase 2 over elastic jobs that all run."""
    return Row(
        name,
        Sample(f"{jobs:,} elastic jobs, {gpus:,} GPUs", partial(_ask, jobs, gpus), seeds=20),
        target,
        baseline="dynamic program over GPUs (numpy)",
    )


def _ask(jobs: int, gpus: int, seed: int) -> Question:
    case = _case(jobs, gpus, seed)
    runs = np.ones(jobs, dtype=bool)
    free_gpus = gpus - int(case.jobs.base_gpus.sum())
    groups, _ = knapsack_groups(case, np.arange(jobs), _WORTH)
    return Question(
        fast=partial(allocate_by_knapsack, case, runs, free_gpus, _WORTH),
        check=partial(_check, case, free_gpus),
        naive=partial(best_by_capacity, groups, free_gpus),
    )


def _case(jobs: int, gpus: int, seed: int) -> Problem:
    """All elastic, and small enough at their least for half of the GPUs or more to be left."""
    random = np.random.default_rng(seed)
    least = random.choice([1, 2, 4], jobs, p=[0.7, 0.2, 0.1])
    most = least * random.choice([2, 4, 8, 16], jobs)
    demand = Demand(least, most, random.choice([1, 2], jobs, p=[0.8, 0.2]))
    return problem(demand, concave_curves(demand, random), gpus, random)


def _check(
    case: Problem, free_gpus: int, fast: Flexible, naive: tuple[Ints, float]
) -> Mapping[str, float]:
    """Within each job's range and the GPUs left, and worth what the dynamic program finds."""
    jobs = case.jobs
    most = jobs.max_workers - jobs.min_workers
    require(bool(((fast.extra >= 0) & (fast.extra <= most)).all()), "beyond a job's range")
    require(int((fast.extra * jobs.gpus_per_worker).sum()) <= free_gpus, "more than the GPUs left")
    agree("the objective", fast.objective, naive[1])
    return {"unproven": float(fast.bound != fast.objective)}
