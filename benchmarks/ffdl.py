"""ffdl (003): the program of equations (3) to (5), beside Algorithm 1 in plain Python."""

from __future__ import annotations

from collections.abc import Mapping
from functools import partial

import numpy as np

from benchmarks.measure import Question, Sample, agree, require
from benchmarks.problems import problem, single_gpus, step_curves
from benchmarks.row import Row, Target
from policies.elastic_program import Sizes, solve, solve_by_recurrence
from policies.knapsack import Solution
from policies.scaling import scaling


def program(name: str, sample: Sample, target: Target | None, beside: Sample | None = None) -> Row:
    """The recurrence beside the fast form: on `sample` itself, or on smaller problems."""
    return Row(name, sample, target, baseline="Algorithm 1 in plain Python", beside=beside)


def sample(jobs: int, gpus: int, most: int, seeds: int, *, naive: bool) -> Sample:
    """Jobs of 1 to `most` GPUs with the steps of ceil(b / k)."""

    def ask(seed: int) -> Question:
        random = np.random.default_rng(seed)
        demand = single_gpus(jobs, most)
        sizes = scaling(problem(demand, step_curves(demand, random), gpus, random).jobs).sizes
        return Question(
            fast=partial(solve, sizes, gpus),
            check=partial(_check, sizes, gpus),
            naive=partial(solve_by_recurrence, sizes, gpus) if naive else None,
        )

    return Sample(f"{jobs:,} jobs, {gpus:,} GPUs, k_max {most}", ask, seeds)


def _check(
    sizes: Sizes, gpus: int, fast: Solution, naive: tuple[list[int], float] | None
) -> Mapping[str, float]:
    """One size of each job, within the GPUs, of the value that the recurrence finds."""
    owners = sizes.job[fast.choice]
    require(bool((owners == np.arange(len(sizes))).all()), "a job has another job's size")
    require(int(sizes.gpus[fast.choice].sum()) <= gpus, "the sizes do not fit")
    agree("the value", fast.value, float(sizes.value[fast.choice].sum()))
    if naive is not None:
        agree("the value", fast.value, naive[1])
    return {"unproven": float(not fast.optimal)}
