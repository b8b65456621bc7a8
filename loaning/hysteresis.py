"""Hysteresis of lending: for how long servers have been to spare."""

from __future__ import annotations

from dataclasses import dataclass

from loaning.problem import Memory


@dataclass(frozen=True, slots=True)
class LowDemand:
    """A stretch of low demand: since when servers have been to spare, and how many throughout.

    Any moment with none to spare ends it, a reclaim too. So a server is lent only when it has not
    been needed for as long as the stretch must last, and never soon after a reclaim.
    """

    since_s: float | None = None
    spare: int = 0

    def seen(self, now_s: float, spare: int) -> LowDemand:
        """The stretch after `spare` servers (or, below 1, none) were found to spare at `now_s`."""
        if spare < 1:
            return LowDemand()
        if self.since_s is None:
            return LowDemand(now_s, spare)
        return LowDemand(self.since_s, min(self.spare, spare))

    def lasted_s(self, now_s: float) -> float:
        """Seconds since the stretch began; 0 where there is none."""
        return 0.0 if self.since_s is None else now_s - self.since_s

    def to_memory(self) -> Memory:
        """As a JSON object."""
        return {"version": 1, "since_s": self.since_s, "spare": self.spare}

    @classmethod
    def from_memory(cls, memory: Memory) -> LowDemand:
        """What `to_memory` gave; of no memory, or another loaning's, no stretch."""
        if memory.get("version") != 1:
            return cls()
        return cls(memory.get("since_s"), memory.get("spare", 0))
