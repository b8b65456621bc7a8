"""From the contract's jobs to requests: GPUs are the one resource, seconds become slots."""

from __future__ import annotations

import math
from dataclasses import dataclass

import numpy as np

from policies.oasis.market import PriceRange
from policies.oasis.model import ROUNDING, Request, sigmoid
from policies.problem import Floats, Jobs, PolicyError, Problem

MOST_UNITS = 20_000
"""Cap on the units of one job's work, and with it on the dynamic program's table: longer jobs are
counted in coarser units."""


@dataclass(frozen=True, slots=True)
class Calendar:
    """The span that is planned, in slots counted from the beginning of the journal."""

    now_s: float
    slot_s: float
    slots: int
    resize_s: float  # measured cost of one resize

    @classmethod
    def of(cls, problem: Problem, slot_s: float, slots: int) -> Calendar:
        """From the slot that now is in; raises `PolicyError` where a resize takes all of it."""
        if slot_s <= problem.resize_s:
            raise PolicyError(f"slot_s is {slot_s}; it must exceed resize_s, {problem.resize_s}")
        return cls(problem.now_s, slot_s, slots, problem.resize_s)

    @property
    def span(self) -> range:
        """The slots."""
        first = math.floor(self.now_s / self.slot_s + ROUNDING)
        return range(first, first + self.slots)

    @property
    def ends_s(self) -> Floats:
        """[slots] When each slot ends."""
        ends: Floats = (np.array(self.span) + 1) * self.slot_s
        return ends

    @property
    def full_s(self) -> float:
        """Seconds of training in one whole slot: the rest may go to a resize at its start."""
        return self.slot_s - self.resize_s

    @property
    def useful_s(self) -> Floats:
        """[slots] Seconds of training in each slot: of the first, part is gone."""
        left = np.minimum(self.ends_s - self.now_s, self.slot_s) - self.resize_s
        return np.maximum(left, 0.0)


@dataclass(frozen=True, slots=True)
class Worth:
    """What a job is worth: its own sigmoid, or for jobs that bring none one made up.

    That is made of priority and deadline: gamma_1 = `per_priority` ** priority, so jobs that
    bring their own state it in units of a job of priority 0. With a deadline, that is the target,
    and `critical` is gamma_2 per slot (the paper's time-critical jobs: 4 to 6). Without, the
    target is `patience` times the shortest time in which the job could run from now on (it may
    have waited under another policy), and `sensitive` is gamma_2 per slot (its time-sensitive
    jobs: 0.01 to 1).
    """

    per_priority: float
    critical: float
    sensitive: float
    patience: float

    def utility(self, jobs: Jobs, row: int, calendar: Calendar, end_s: Floats) -> Floats:
        """What it is worth that the job of `row` ends at `end_s`; its age counts from submission.

        A deadline has no part in a utility that the job brings, nor has its priority.
        """
        steepness_per_s, target_s = self._shape(jobs, row, calendar)
        elapsed_s = end_s - float(jobs.submitted_s[row])
        return sigmoid(self.most(jobs, row), steepness_per_s, target_s, elapsed_s)

    def most(self, jobs: Jobs, row: int) -> float:
        """gamma_1, which no completion reaches; raises `PolicyError` where it is no number."""
        if not math.isnan(jobs.worth[row]):
            return float(jobs.worth[row])
        try:
            worth = self.per_priority ** int(jobs.priority[row])
        except OverflowError:
            worth = math.inf
        if not 0 < worth < math.inf:
            raise PolicyError(
                f"job {jobs.ids[row]}: priority is {jobs.priority[row]}; "
                f"{self.per_priority} to that power must be a number"
            )
        return worth

    def _shape(self, jobs: Jobs, row: int, calendar: Calendar) -> tuple[float, float]:
        """gamma_2 per second, and gamma_3 in seconds from the submission."""
        if not math.isnan(jobs.worth[row]):
            return float(jobs.steepness_per_s[row]), float(jobs.target_s[row])
        target_s, steepness = float(jobs.deadline_s[row]), self.critical
        if math.isinf(target_s):
            target_s = calendar.now_s + self.patience * float(_left_s(jobs, row).min())
            steepness = self.sensitive
        return steepness / calendar.slot_s, target_s - float(jobs.submitted_s[row])


def price_range(
    jobs: Jobs, row: int, worth: Worth, calendar: Calendar, least_share: float
) -> PriceRange:
    """What one job contributes to U and L.

    Its least work is at the number of workers that costs the fewest GPU-seconds.
    """
    left_s = _left_s(jobs, row)
    workers = np.arange(jobs.min_workers[row], jobs.max_workers[row] + 1)
    moments = np.array([calendar.now_s + left_s.min(), calendar.ends_s[-1]])
    fastest, latest = worth.utility(jobs, row, calendar, moments)
    return PriceRange.of(
        np.array([fastest]),
        np.array([max(latest, least_share * worth.most(jobs, row))]),
        np.array([[float(jobs.gpus_per_worker[row])]]),
        np.maximum(np.ceil(np.min(workers * left_s, keepdims=True) / calendar.full_s), 1),
    )


def request(jobs: Jobs, row: int, worth: Worth, calendar: Calendar, grain: int) -> Request:
    """What the job of `row` asks of the span: `grain` units of work are one slot at its minimum.

    Progress is rounded down and work up, so that a job that runs as predicted ends in time.
    """
    epoch_s, left = _epoch_s(jobs, row), float(jobs.remaining_epochs[row])
    low, high = int(jobs.min_workers[row]), int(jobs.max_workers[row])
    unit_epochs = max(calendar.full_s / epoch_s[0] / grain, left / MOST_UNITS)
    done = calendar.useful_s[:, None] / epoch_s / unit_epochs
    progress = np.zeros((calendar.slots, high + 1), dtype=np.int64)
    progress[:, low:] = np.floor(np.minimum(done, MOST_UNITS) + ROUNDING)
    return Request(
        arrival_slot=0,
        work=max(math.ceil(left / unit_epochs - ROUNDING), 1),
        progress=progress,
        worker=np.array([float(jobs.gpus_per_worker[row])]),
        ps=np.zeros(1),
        ps_of=np.zeros(high + 1, dtype=np.int64),
        utility=worth.utility(jobs, row, calendar, calendar.ends_s),
    )


def _epoch_s(jobs: Jobs, row: int) -> Floats:
    """[sizes] Seconds of an epoch at the present batch size, from the minimum of workers."""
    curves = jobs.curves
    batch = int(np.searchsorted(curves.batch_sizes(row), jobs.batch_size[row]))
    epoch_s: Floats = curves.of(row)[batch]
    return epoch_s


def _left_s(jobs: Jobs, row: int) -> Floats:
    """[sizes] Seconds to the end at a constant size; raises `PolicyError` where too many."""
    with np.errstate(over="ignore"):
        left_s: Floats = jobs.remaining_epochs[row] * _epoch_s(jobs, row)
    if not np.isfinite(left_s).all():
        raise PolicyError(
            f"job {jobs.ids[row]}: remaining_epochs is {jobs.remaining_epochs[row]}; "
            "times epoch_s that must be a number of seconds"
        )
    return left_s
