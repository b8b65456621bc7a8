"""When the scheduler is told of arrivals and ends: with slots, later than they were."""

from __future__ import annotations

import math
from dataclasses import dataclass
from enum import Enum

_ROUNDING_SLOTS = 1e-9
"""So much above a whole number of slots is that number."""


class Told(Enum):
    """When arrivals and ends are told, as in the simulator of 001's authors."""

    IN_SLOT = "in slot"
    """What happens within a slot after a decision is told at its end, unless it is the last thing
    to happen; what happens later, at once."""

    AT_ARRIVALS = "at arrivals"
    """As `IN_SLOT`, but while jobs still arrive no end is told before the next arrival is."""

    GRID = "grid"
    """Everything is told at whole slots since the beginning; so are Themis' leases there."""


@dataclass(slots=True)
class Slots:
    """The slots of a simulation."""

    slot_s: float
    told: Told
    decided_s: float = -math.inf  # when the last decision was taken

    def told_s(self, at_s: float, next_arrival_s: float | None, *, last: bool) -> float:
        """When an arrival or an end at `at_s` is told. `next_arrival_s`: of the next job, if one
        comes; `last`: nothing else will happen but it."""
        if self.told is Told.GRID:
            slots = math.ceil(at_s / self.slot_s - _ROUNDING_SLOTS)
            return max(slots * self.slot_s, at_s)
        return at_s if last else max(at_s, self.opens_s(next_arrival_s))

    def opens_s(self, next_arrival_s: float | None) -> float:
        """When the next decision may be taken; `next_arrival_s` as above."""
        slot_ends_s = self.decided_s + self.slot_s
        if self.told is Told.AT_ARRIVALS and next_arrival_s is not None:
            return max(slot_ends_s, next_arrival_s)
        return slot_ends_s
