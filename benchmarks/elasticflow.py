"""elasticflow (001): one arrival, beside Algorithm 1 in plain Python over the same jobs."""

from __future__ import annotations

import json
from collections.abc import Mapping
from dataclasses import dataclass, replace
from functools import partial

import numpy as np

from benchmarks.measure import Question, Sample, require
from benchmarks.problems import (
    GPUS_PER_JOB,
    concave_curves,
    first,
    later,
    mixed,
    problem,
    with_deadlines,
)
from benchmarks.row import Row, Target
from policies.elasticflow import ElasticFlow
from policies.problem import NO_MEMORY, Decision, Floats, Ints, Memory, Problem
from policies.share import SATISFIED, Claims, Filled, Plans, minimum_shares
from policies.sizes import Sizes
from policies.timeline import Timeline
from tests.policies.literal_share import literal_shares

POLICY = ElasticFlow()

_SINCE_S = 100.0  # the decision before
_ROUNDING_EPOCHS = 1e-6


def arrival(name: str, jobs: int, target: Target | None = None) -> Row:
    """The whole decision on one arrival, beside the fill of Algorithm 1 alone."""
    return Row(
        name,
        Sample(f"{jobs:,} admitted jobs, a week of 5 min", partial(_ask, jobs), seeds=10),
        target,
        baseline="Algorithm 1 in plain Python",
    )


def arrives(jobs: int, seed: int) -> tuple[Problem, Memory]:
    """`jobs` admitted jobs with their promises in the memory, and one that arrives.

    On a small cluster some may not be admitted; these go on without a deadline.
    """
    random = np.random.default_rng(seed)
    demand = mixed(jobs + 1, random)
    gpus = GPUS_PER_JOB * jobs
    case = with_deadlines(problem(demand, concave_curves(demand, random), gpus, random), random)
    decision, memory = POLICY.decide(first(case, jobs), NO_MEMORY)
    refused = [job in decision.rejected for job in case.jobs.ids]
    deadline_s = np.where(refused, np.inf, case.jobs.deadline_s)
    case = replace(case, jobs=replace(case.jobs, deadline_s=deadline_s))
    return later(case, decision, _SINCE_S), json.loads(json.dumps(memory))


def check_promises(case: Problem, decision: Decision) -> None:
    """Each promise does what is left by its deadline, and together they fit."""
    jobs = case.jobs
    change_s, change_gpus = [np.zeros(0)], [np.zeros(0, dtype=np.int64)]
    for row, job in enumerate(jobs.ids):
        promise = decision.allocations[job].promise if job in decision.allocations else None
        if promise is None:
            continue
        edges_s = np.array([*(step.start_s for step in promise.plan), promise.until_s])
        workers = np.array([0, *(step.workers for step in promise.plan), 0])
        epoch_s = jobs.curves.of(row)[0, np.maximum(workers[1:-1] - jobs.min_workers[row], 0)]
        done = float((np.diff(edges_s) / epoch_s)[workers[1:-1] > 0].sum())
        left = float(jobs.remaining_epochs[row])
        require(promise.until_s <= jobs.deadline_s[row], f"{job} is promised after its deadline")
        require(done >= left - _ROUNDING_EPOCHS, f"{job} is promised {done} epochs of {left}")
        change_s.append(edges_s)
        change_gpus.append(np.diff(workers) * jobs.gpus_per_worker[row])
    most = _most_gpus(np.concatenate(change_s), np.concatenate(change_gpus))
    require(most <= case.servers.owned_gpus, f"{most} GPUs are promised at once")


def _most_gpus(change_s: Floats, change_gpus: Ints) -> int:
    """The most GPUs in use at once."""
    order = np.lexsort((change_gpus, change_s))  # those that are given back first
    return int(np.cumsum(change_gpus[order]).max(initial=0))


def _ask(jobs: int, seed: int) -> Question:
    case, memory = arrives(jobs, seed)
    fill = _Fill.of(case)
    return Question(
        fast=partial(POLICY.decide, case, memory),
        check=partial(_check, case, fill),
        naive=partial(
            literal_shares,
            fill.timeline.length_s,
            fill.free_gpus.tolist(),
            fill.order.tolist(),
            fill.claims,
        ),
    )


@dataclass(frozen=True, slots=True)
class _Fill:
    """What the policy fills anew, on the same slots; resizes cost nothing here."""

    timeline: Timeline
    claims: Claims
    order: Ints  # jobs with a deadline, the earliest first
    gpus: int

    @classmethod
    def of(cls, case: Problem) -> _Fill:
        """All admitted jobs and the arrival."""
        jobs = case.jobs
        due = int(np.isfinite(jobs.deadline_s).sum())
        order = np.argsort(jobs.deadline_s, kind="stable")[:due]
        last_s = float(jobs.deadline_s[order[-1]])
        timeline = Timeline.until(
            case.now_s, last_s, POLICY.slot_s, POLICY.horizon_slots, np.zeros(0)
        )
        needed = jobs.remaining_epochs + np.minimum(POLICY.boundary_epochs, jobs.remaining_epochs)
        sizes = Sizes.of(jobs, POLICY.powers_of_two)
        claims = timeline.claims(sizes, jobs.deadline_s, needed)
        return cls(timeline, claims, order, case.servers.owned_gpus)

    @property
    def free_gpus(self) -> Ints:
        """[pieces] All of them."""
        return np.full(len(self.timeline.length_s), self.gpus)

    def compiled(self) -> tuple[Plans, int | None]:
        """The plans by the policy's kernel, and who misses its deadline."""
        nothing = Filled(Plans.empty(len(self.claims.pieces)), self.free_gpus)
        filled = minimum_shares(self.timeline.length_s, nothing, self.order, self.claims)
        return filled.plans, None if filled.failed == SATISFIED else filled.failed


def _check(
    case: Problem,
    fill: _Fill,
    fast: tuple[Decision, Memory],
    naive: tuple[dict[int, list[int]], int | None],
) -> Mapping[str, float]:
    """The same arrival admitted, promises that hold, the same plans from the compiled fill."""
    decision, (plans, failed) = fast[0], naive
    refused = case.jobs.ids[-1] in decision.rejected
    require(refused == (failed is not None), f"refused is {refused}, by the naive form not")
    check_promises(case, decision)
    compiled, compiled_failed = fill.compiled()
    require(compiled_failed == failed, f"{compiled_failed} fails, by the naive form {failed}")
    for row, plan in plans.items():
        pieces = int(fill.claims.pieces[row])
        require(
            compiled.of(row, pieces).tolist() == plan, f"the plans of {case.jobs.ids[row]} differ"
        )
    return {"rejected": float(refused)}
