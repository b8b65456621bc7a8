"""The risk-reward heuristic: jobs run by what they gain less what others lose by waiting."""

from __future__ import annotations

import math
from dataclasses import dataclass
from typing import ClassVar

import numpy as np

from policies.baselines.filling import take
from policies.checks import check, check_seconds
from policies.curves import remaining_s
from policies.oasis.model import sigmoid
from policies.problem import (
    Allocation,
    Bools,
    Decision,
    Floats,
    Ints,
    Jobs,
    Memory,
    PolicyError,
    Problem,
)
from policies.reason import Reason, because
from policies.sentences import change

VERSION = 1  # of the memory


@dataclass(frozen=True)
class Rrh:
    """002 §V-A (iii), after Irwin, Grit and Chase (HPDC 2004).

    A job runs on a fixed number of workers (`requested_workers`) or pauses. At each arrival and
    departure all admitted jobs are ranked by

        (alpha PV - (1 - alpha) cost) / remaining slots,
        PV = utility at the predicted completion / (1 + discount x remaining slots),
        cost = remaining slots x sum over the other jobs of what one slot of delay costs them,

    and run in that order, those passed over that do not fit. An arrival is admitted if PV less
    the delay that it brings exceeds the threshold; otherwise it is refused for good.

    002 gives the rule and no formula. These are from memory of HPDC 2004, nobody here could
    confirm them, and the defaults are our choice. So are: the delay that an arrival brings is its
    remaining slots to each job ranked after it that does not run beside it; completion is
    predicted as if the job ran from now on; a job that brings no utility is worth 1 whenever it
    ends, and so yields to all that lose by waiting; a job that runs at another size, or that has
    run before, was admitted under another policy: it keeps its size, and is not judged again.
    """

    alpha: float = 0.5
    """Weight of the gain against the risk, 0 to 1."""
    discount: float = 0.01
    """By which the value of a completion falls, per slot until then, from 0."""
    threshold: float = 0.0
    """What an arrival must be worth beyond the delay that it brings."""
    slot_s: float = 300.0
    """Seconds of a slot."""

    name: ClassVar[str] = "rrh"
    source: ClassVar[str] = "002 §V-A (iii)"
    default_loaning: ClassVar[str] = "off"

    def __post_init__(self) -> None:
        if not 0 <= self.alpha <= 1:
            raise PolicyError(f"alpha is {self.alpha}; use 0 to 1")
        if not 0 <= self.discount < math.inf:
            raise PolicyError(f"discount is {self.discount}; use a number from 0")
        if not math.isfinite(self.threshold):
            raise PolicyError(f"threshold is {self.threshold}; use a number")
        check_seconds("slot_s", self.slot_s)

    @property
    def interval_s(self) -> None:
        """Asked at arrivals and departures."""

    def decide(self, problem: Problem, memory: Memory) -> tuple[Decision, Memory]:
        """Sizes within the GPUs of the whole cluster; placement best fit decreasing."""
        check(problem)
        jobs, capacity = problem.jobs, problem.servers.total_gpus
        known = memory["workers"] if memory.get("version") == VERSION else {}
        stakes = self._stakes(problem, _fixed_workers(jobs, known))
        admitted = (jobs.workers > 0) | (jobs.attained_gpu_s > 0) | np.isin(jobs.ids, [*known])
        rejected = {}
        for row in np.flatnonzero(~admitted).tolist():
            harm = self._harm(stakes, admitted, row, capacity)
            if stakes.present[row] - harm > self.threshold:
                admitted[row] = True
            else:
                rejected[jobs.ids[row]] = self._refused(stakes, row, harm)
        allocations = self._run(jobs, stakes, admitted, capacity)
        workers = {jobs.ids[row]: int(stakes.workers[row]) for row in np.flatnonzero(admitted)}
        return Decision(allocations, rejected), {"version": VERSION, "workers": workers}

    def _stakes(self, problem: Problem, workers: Ints) -> _Stakes:
        jobs = problem.jobs
        left_s = remaining_s(jobs, workers)
        end_s = problem.now_s + left_s - jobs.submitted_s
        value, later = _utility(jobs, end_s), _utility(jobs, end_s + self.slot_s)
        slots = np.maximum(np.ceil(left_s / self.slot_s), 1.0)
        present = value / (1 + self.discount * slots)
        return _Stakes(workers, workers * jobs.gpus_per_worker, slots, present, value - later)

    def _order(self, stakes: _Stakes, admitted: Bools) -> list[int]:
        """The rows of admitted jobs, best first; ties by row."""
        rows = np.flatnonzero(admitted)
        decay = stakes.decay[rows]
        cost = stakes.slots[rows] * (decay.sum() - decay)
        score = (self.alpha * stakes.present[rows] - (1 - self.alpha) * cost) / stakes.slots[rows]
        ranked: list[int] = rows[np.argsort(-score, kind="stable")].tolist()
        return ranked

    def _harm(self, stakes: _Stakes, admitted: Bools, row: int, capacity: int) -> float:
        """What the jobs lose that would wait behind this one."""
        beside = admitted.copy()
        beside[row] = True
        order = self._order(stakes, beside)
        runs = take(order, stakes.gpus, capacity).runs
        behind = np.array(order[order.index(row) + 1 :], dtype=np.int64)
        return float(stakes.slots[row] * stakes.decay[behind[~runs[behind]]].sum())

    def _refused(self, stakes: _Stakes, row: int, harm: float) -> Reason:
        return because(
            "refused: worth {present:.3g}, the delay that it brings costs others {harm:.3g}; "
            "the threshold is {threshold:.3g}",
            present=stakes.present[row],
            harm=harm,
            threshold=self.threshold,
        )

    def _run(
        self, jobs: Jobs, stakes: _Stakes, admitted: Bools, capacity: int
    ) -> dict[str, Allocation]:
        """Who runs and who pauses, in the order of their rank."""
        order, free = self._order(stakes, admitted), capacity
        allocations = {}
        for rank, row in enumerate(order, 1):
            needed = int(stakes.gpus[row])
            workers = int(stakes.workers[row]) if needed <= free else 0
            before = int(jobs.workers[row])
            reason = because(
                change(workers, before) + ": ranked {rank} of {jobs}, worth {present:.3g}, "
                "{decay:.3g} less for each slot of delay; needs {needed} GPUs, {free} are free",
                before=before,
                workers=workers,
                rank=rank,
                jobs=len(order),
                present=stakes.present[row],
                decay=stakes.decay[row],
                needed=needed,
                free=free,
            )
            allocations[jobs.ids[row]] = Allocation(workers, reason)
            free -= needed if workers else 0
        return allocations


@dataclass(frozen=True, slots=True)
class _Stakes:
    """What each job is in for, all [jobs]."""

    workers: Ints  # that it runs on, if it runs
    gpus: Ints  # of these
    slots: Floats  # until it ends, at least 1
    present: Floats  # PV
    decay: Floats  # utility lost by one slot of delay


def _fixed_workers(jobs: Jobs, known: dict[str, int]) -> Ints:
    """[jobs] The size that each one runs on: its standing one, else the one it had or asks for."""
    had = np.array([known.get(job, 0) for job in jobs.ids], dtype=np.int64)
    possible = (had >= jobs.min_workers) & (had <= jobs.max_workers)
    queued = np.where(possible, had, jobs.requested_workers)
    workers: Ints = np.where(jobs.workers > 0, jobs.workers, queued)
    return workers


def _utility(jobs: Jobs, elapsed_s: Floats) -> Floats:
    """[jobs] What an end so long after submission is worth."""
    utility = sigmoid(jobs.worth, jobs.steepness_per_s, jobs.target_s, elapsed_s)
    worth: Floats = np.where(np.isnan(jobs.worth), 1.0, utility)
    return worth
