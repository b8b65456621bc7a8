"""First come, first served: who of those that wait starts, and what was free in its turn."""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np

from policies.problem import Ints


@dataclass(frozen=True, slots=True)
class Line:
    """The jobs that do not run, as rows in the order of submission."""

    starts: Ints
    free_gpus: Ints  # [starts + 1] in the turn of each, and after the last
    queue: Ints

    @classmethod
    def of(cls, waiting: Ints, demand_gpus: Ints, free_gpus: int) -> Line:
        """Those `waiting` start while they fit; the first that does not blocks the others."""
        left = free_gpus - np.concatenate(([0], np.cumsum(demand_gpus[waiting])))
        starting = int(np.searchsorted(-left[1:], 0, side="right"))
        return cls(waiting[:starting], left[: starting + 1], waiting[starting:])

    def free_at(self, row: int) -> int:
        """GPUs that were free in the turn of any job, whether it waits or runs."""
        return int(self.free_gpus[np.searchsorted(self.starts, row)])

    def ahead_of(self, row: int) -> int:
        """Jobs of the queue that come before one."""
        return int(np.searchsorted(self.queue, row))
