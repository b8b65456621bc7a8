"""How fast jobs run by number of workers, and what it costs to start, resize and preempt them."""

from __future__ import annotations

import math
from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import Protocol

import numpy as np

from policies.problem import MIXING
from raysched.simulator.slots import Told


class Scaling(Protocol):
    """How speed grows with the number of workers."""

    def speed(self, workers: int) -> float:
        """Units of work a second on so many workers; the unit is the model's own."""


@dataclass(frozen=True, slots=True)
class Linear:
    """Twice the workers, twice the speed (004 §5). Work is counted in seconds on one worker."""

    def speed(self, workers: int) -> float:
        """`workers` times that of one."""
        return float(workers)


@dataclass(frozen=True, slots=True)
class LossPerDoubling:
    """Each doubling of the workers keeps a share of the ideal: k · 0.8^(log2 k) (000 §4.2)."""

    keeps: float = 0.8

    def speed(self, workers: int) -> float:
        """In multiples of one worker's."""
        return float(workers * self.keeps ** math.log2(workers))


@dataclass(frozen=True, slots=True)
class SerialParallel:
    """A share of one worker's time does not shrink: 1 / (serial + (1 - serial) / k)."""

    serial: float = 0.05

    def speed(self, workers: int) -> float:
        """In multiples of one worker's."""
        return 1.0 / (self.serial + (1.0 - self.serial) / workers)


@dataclass(frozen=True, slots=True)
class LossPastMidpoint:
    """Imperfect scaling of 004 §7.2: past the midpoint of its range a job loses a further tenth of
    the ideal speed with each worker more."""

    min_workers: int
    max_workers: int
    loss: float = 0.1

    def speed(self, workers: int) -> float:
        """In multiples of one worker's; never below that of the midpoint itself."""
        midpoint = (self.min_workers + self.max_workers) // 2
        beyond = max(workers - midpoint, 0)
        ideal = workers * max(1.0 - self.loss * beyond, 0.0)
        return float(max(ideal, min(workers, midpoint)))


@dataclass(frozen=True, slots=True)
class Measured:
    """Speeds as measured at some numbers of workers, and on the line between two of them."""

    workers: tuple[int, ...]  # ascending
    speeds: tuple[float, ...]  # positive

    def speed(self, workers: int) -> float:
        """Held at the ends: below the smallest size and above the largest nothing is known."""
        return float(np.interp(workers, self.workers, self.speeds))


def epoch_curve(
    scaling: Scaling, work: float, epochs: int, workers: tuple[int, int]
) -> tuple[float, ...]:
    """Seconds of one of `epochs` equal parts of `work`, on min … max workers."""
    low, high = workers
    return tuple(work / epochs / scaling.speed(n) for n in range(low, high + 1))


@dataclass(frozen=True, slots=True)
class InPlace:
    """Seconds that going over to an offer takes a job some of whose workers stay.

    `warm_s`: from the offer until those who join are warm, while the others train on as fast as
    before. From the boundary at which the job then goes over, `exchange_s` until those that leave
    are gone, and `pause_s`, no less, until all train.
    """

    warm_s: float = 0.0
    exchange_s: float = 0.0
    pause_s: float = 0.0


@dataclass(frozen=True, slots=True)
class Costs:
    """Seconds that a change of workers takes, all of them without progress.

    From the pick-up of a grant to training: `start_s` the first time, `resize_s` on another number
    of workers, of which `shrink_s` on fewer, if that is another time (000 §5.5: scaling down is
    minimal), `move_s` on the same number elsewhere, `preempted_s` after workers were preempted or
    lost (004 §7.1: 63 s). `stop_s`: from the boundary at which a job leaves until its workers are
    gone; `free_s`: from there until their GPUs are seen free. `in_place`: what it takes instead
    where workers stay while others join and leave, if jobs have checkpoints (None: all are stopped
    at every change).

    `ready_s`: from a submission until the job can pick a grant up; `pick_up_s`: how long an offer
    waits for a job that can; `end_s`: from its last epoch until a job is over. `vacate_s`: from a
    wish for fewer replicas until they are seen gone.

    `decision_s` is paid by every job that trains, at each decision, whatever was decided: so the
    simulator of 001's authors counts. With `at_boundaries` a job leaves at its next epoch boundary,
    as on Ray; without, at once, and no part of its epoch is lost.

    `mixing`: the share of its workers' speed that a job keeps on GPUs of several types (004 §7.1:
    0.7, and 1 where that is ideal).
    """

    start_s: float = 0.0
    resize_s: float = 0.0
    shrink_s: float | None = None
    move_s: float = 0.0
    preempted_s: float = 0.0
    stop_s: float = 0.0
    free_s: float = 0.0
    in_place: InPlace | None = None
    ready_s: float = 0.0
    pick_up_s: float = 0.0
    end_s: float = 0.0
    vacate_s: float = 0.0
    decision_s: float = 0.0
    at_boundaries: bool = True
    mixing: float = MIXING


SCALING_DELAY = Costs(start_s=15.0, resize_s=15.0, shrink_s=0.0, move_s=15.0, preempted_s=15.0)
"""That of 000 §5.5, there while a job trains on as before. Departure: here it makes no progress."""


@dataclass(frozen=True, slots=True)
class Settings:
    """How a scenario is run: by which policy and loaning, at which costs.

    `slot_s`: of what happens the scheduler is told at the ends of slots, as `told` says (None: at
    once). `rows_when_told`: `deadline_ratio_slot` counts ends when they were told, not when they
    were. `report_every_s`: a job that trains reports its epochs before the policy is asked if it
    has not for this long; 0 keeps the remaining work that policies see exact, larger values save
    time where there are thousands of jobs. `weighs_resizes`: growth that does not pay for its
    resize is left out, as on Ray, whatever the policy says (`raysched.resizing`); the published
    systems leave that to their policies.
    """

    policy: str = "fifo"
    policy_parameters: Mapping[str, object] = field(default_factory=dict)
    loaning: str = "off"
    loaning_parameters: Mapping[str, object] = field(default_factory=dict)
    costs: Costs = field(default_factory=Costs)
    slot_s: float | None = None
    told: Told = Told.IN_SLOT
    rows_when_told: bool = True
    report_every_s: float = 0.0
    weighs_resizes: bool = False
