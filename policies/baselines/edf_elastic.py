"""Earliest deadline first with elastic sizes: ElasticFlow without its admission control."""

from __future__ import annotations

import math
from collections.abc import Mapping
from dataclasses import dataclass, replace
from typing import ClassVar

import numpy as np

from policies.baselines.deadlines import by_deadline
from policies.checks import check, check_seconds
from policies.marginal_return import Spare, marginal_return
from policies.problem import (
    NO_MEMORY,
    Allocation,
    Decision,
    Floats,
    Ints,
    Memory,
    PolicyError,
    Problem,
)
from policies.reason import Number, Reason
from policies.sentences import change
from policies.share import SATISFIED, Claims, Filled, Plans, minimum_shares
from policies.sizes import Sizes
from policies.timeline import Timeline


@dataclass(frozen=True)
class EdfElastic:
    """001 §6.4 "EDF + Elastic Scaling".

    In the order of deadlines each job takes its minimum satisfactory share of what those before it
    leave (Algorithm 1, lines 11-22): the least GPUs over time that meet its deadline. One that
    cannot meet it, or has missed it, takes all that it can use from now on until its end, and so
    keeps its place, among the first. GPUs that are left now go where they save most GPU time
    (Algorithm 2), to jobs without deadlines too. Nobody is refused, nothing is promised, and the
    plan is made afresh each time; what starts and resizes cost is not in it.

    Departures from the simulator of 001, whose figure for this scheduler is lower: there the sign
    of Algorithm 2's priority is turned, and others have a job's GPUs back only where its last slot
    ends.
    """

    slot_s: float = 300.0  # grid on which plans change
    horizon_slots: int = 2016  # one week; where deadlines lie farther off, slots are doubled

    name: ClassVar[str] = "edf_elastic"
    source: ClassVar[str] = "001 §6.4 (EDF + Elastic Scaling)"
    default_loaning: ClassVar[str] = "off"

    def __post_init__(self) -> None:
        check_seconds("slot_s", self.slot_s)
        if self.horizon_slots < 1:
            raise PolicyError(f"horizon_slots is {self.horizon_slots}; use at least 1")

    @property
    def interval_s(self) -> None:
        """It asks to be called when a plan needs more."""

    def decide(self, problem: Problem, memory: Memory) -> tuple[Decision, Memory]:
        """Allocations in GPUs of the whole cluster, in powers of two workers where there are."""
        check(problem)
        jobs, filled = problem.jobs, self._fill(problem)
        sizes, first = filled.claims.sizes, filled.grown(problem)
        gpus = sizes.gpus[sizes.offset[:-1] + first]
        free = problem.servers.total_gpus - int(gpus.sum())
        allocations = {}
        for row, (job, held) in enumerate(zip(jobs.ids, gpus.tolist(), strict=True)):
            workers = held // int(jobs.gpus_per_worker[row])
            allocations[job] = Allocation(workers, _reason(problem, filled, row, workers, free))
        return Decision(allocations, review_at_s=filled.review_at_s(first)), NO_MEMORY

    def _fill(self, problem: Problem) -> _Shares:
        """Shares for all deadlines, the earliest first."""
        jobs, now_s = problem.jobs, problem.now_s
        due = np.isfinite(jobs.deadline_s)
        last_s = float(jobs.deadline_s[due].max(initial=now_s))
        never_s = np.zeros(0)
        timeline = Timeline.until(now_s, last_s, self.slot_s, self.horizon_slots, never_s)
        sizes = Sizes.of(jobs, powers_of_two=True)
        claims = timeline.claims(sizes, jobs.deadline_s, jobs.remaining_epochs)
        gpus = np.full(len(timeline.length_s), problem.servers.total_gpus)
        filled, order = Filled(Plans.empty(len(jobs)), gpus), by_deadline(jobs)[: int(due.sum())]
        late = {}
        while len(order):
            filled = minimum_shares(timeline.length_s, filled, order, claims)
            if filled.failed == SATISFIED:
                break
            row, epochs = filled.failed, float(claims.needed[filled.failed])
            late[row] = _all_it_can(timeline.length_s, filled.free_gpus, sizes, row, epochs)
            order = order[int(np.argmax(order == row)) + 1 :]
        return _Shares(timeline, claims, filled.plans, filled.free_gpus, late)


def _all_it_can(length_s: Floats, free_gpus: Ints, sizes: Sizes, row: int, epochs: float) -> int:
    """Take the largest sizes that fit off `free_gpus` until the job ends; answers the first one."""
    gpus = sizes.gpus_of(row)
    size = np.searchsorted(gpus, free_gpus, side="right") - 1
    done = np.cumsum(sizes.rate_of(row)[size] * length_s)
    ends = int(np.searchsorted(done, epochs)) + 1
    free_gpus[:ends] -= gpus[size[:ends]]
    return int(size[0])


@dataclass(frozen=True, slots=True)
class _Shares:
    """Shares over time, before what they leave is given out."""

    timeline: Timeline
    claims: Claims
    plans: Plans
    free_gpus: Ints  # [pieces] left
    late: Mapping[int, int]  # by row of who cannot meet its deadline: its size now

    def grown(self, problem: Problem) -> Ints:
        """[jobs] The size of each job now, as an index into its sizes (Algorithm 2)."""
        jobs, sizes = problem.jobs, self.claims.sizes
        rows = list(self.late)
        in_time = np.ones(len(jobs), dtype=bool)
        in_time[rows] = False
        rank = np.empty(len(jobs), dtype=np.int64)
        rank[np.lexsort((jobs.workers == 0, jobs.deadline_s))] = np.arange(len(jobs))
        spare = Spare(
            gpus=int(self.free_gpus[0]),
            free_gpus=self.free_gpus,
            resize_s=problem.resize_s,
            standing=sizes.standing(jobs),
            rank=rank,
            may_grow=in_time,
        )
        claims = replace(self.claims, pieces=np.where(in_time, self.claims.pieces, 0))
        first, _ = marginal_return(self.timeline.length_s, spare, claims, self.plans)
        first[rows] = list(self.late.values())
        return first

    def review_at_s(self, first: Ints) -> float | None:
        """When a share first asks for more than its job has now."""
        runs, counts = self.plans.runs(np.arange(len(first)))
        piece, size = self.plans.piece[runs], self.plans.size[runs]
        more = size > np.repeat(first, counts)
        if not more.any():
            return None
        return float(self.timeline.start_s[piece[more].min()])


def _reason(problem: Problem, filled: _Shares, row: int, workers: int, free: int) -> Reason:
    jobs, gpus = problem.jobs, filled.claims.sizes.gpus_of(row)
    before, left_s = int(jobs.workers[row]), float(jobs.deadline_s[row]) - problem.now_s
    numbers: dict[str, Number] = {"workers": workers, "before": before, "free": free}
    if not math.isfinite(left_s):
        numbers |= {"smallest": int(gpus[1]), "most": int(gpus[-1])}
        sentence = "it has no deadline and can use {smallest} to {most} GPUs of those that are left"
    elif row in filled.late:
        numbers |= {"left_s": abs(left_s), "most": int(gpus[-1])}
        sentence = "it cannot meet its deadline in {left_s:.0f} s"
        if left_s <= 0:
            sentence = "its deadline was {left_s:.0f} s ago"
        sentence += ": it takes what earlier deadlines leave, up to {most} GPUs"
    else:
        share = int(gpus[filled.plans.size[filled.plans.begin[row]]]) // int(
            jobs.gpus_per_worker[row]
        )
        numbers |= {"left_s": left_s, "share": share}
        sentence = "{share} are its minimum share now, due in {left_s:.0f} s"
    return Reason(change(workers, before) + "; " + sentence + "; {free} GPUs are free", numbers)
