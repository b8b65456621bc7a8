"""Whole decisions of the five policies, by the number of jobs."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from functools import partial

import numpy as np

from benchmarks import elasticflow, reservations
from benchmarks.measure import Question, Sample, require
from benchmarks.problems import GPUS_PER_JOB, concave_curves, given, mixed, problem, step_curves
from benchmarks.row import Row, Target
from policies.aryl import Aryl
from policies.ffdl import Ffdl
from policies.modelarts import ModelArts
from policies.problem import NO_MEMORY, Decision, Memory, Policy, Problem

JOBS = (100, 300, 1_000, 3_000, 10_000)

Case = tuple[Problem, Memory]
"""What a policy is asked."""


def mixture(jobs: int, seed: int) -> Case:
    """Jobs that run and jobs that queue, nothing remembered."""
    random = np.random.default_rng(seed)
    demand = mixed(jobs, random)
    return problem(demand, concave_curves(demand, random), GPUS_PER_JOB * jobs, random), NO_MEMORY


def batches(jobs: int, seed: int) -> Case:
    """The same with up to four batch sizes each."""
    random = np.random.default_rng(seed)
    demand = mixed(jobs, random)
    return problem(demand, step_curves(demand, random), GPUS_PER_JOB * jobs, random), NO_MEMORY


CASES: Mapping[str, tuple[Policy, Callable[[int, int], Case]]] = {
    "modelarts": (ModelArts(interval_s=None), mixture),
    "elasticflow": (elasticflow.POLICY, elasticflow.arrives),
    "oasis": (reservations.POLICY, reservations.arrives),
    "ffdl": (Ffdl(interval_s=None), batches),
    "aryl": (Aryl(), mixture),
}
"""Policy by name, and what it is asked: elasticflow and oasis one arrival, the others all jobs."""


def grown(name: str, policy: str, jobs: Sequence[int], target: Target | None = None) -> Row:
    """A policy's whole decision at the last of `jobs`, and how it got there."""
    *fewer, most = jobs
    below = {count: _sample(policy, count) for count in fewer}
    return Row(name, _sample(policy, most), target, jobs=most, fewer=below)


def _sample(policy: str, jobs: int) -> Sample:
    decider, case = CASES[policy]

    def ask(seed: int) -> Question:
        asked, memory = case(jobs, seed)
        return Question(partial(decider.decide, asked, memory), partial(_check, asked))

    return Sample(f"{jobs:,} jobs, {GPUS_PER_JOB * jobs:,} GPUs", ask, seeds=3)


def _check(case: Problem, fast: tuple[Decision, Memory], naive: None) -> Mapping[str, float]:
    """Every job is answered within its range, and all workers fit; a bound bounds."""
    decision, _ = fast
    jobs = case.jobs
    answered = decision.allocations.keys() | decision.rejected.keys()
    require(answered == set(jobs.ids), "some job has no answer")
    workers = given(jobs, decision)
    outside = (workers > jobs.max_workers) | ((workers > 0) & (workers < jobs.min_workers))
    require(not outside.any(), "workers outside a job's range")
    gpus = int((workers * jobs.gpus_per_worker).sum())
    require(gpus <= case.servers.total_gpus, f"{gpus} GPUs given of {case.servers.total_gpus}")
    if decision.bound is None or not decision.objective:
        return {}
    gap = (decision.bound - decision.objective) / abs(decision.objective)
    require(gap >= -1e-9, f"objective {decision.objective} exceeds its bound {decision.bound}")
    return {"gap": gap}
