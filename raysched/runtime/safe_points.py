"""When a safe point within an epoch is due: by rank 0's clock, seen by all ranks at the same step.

They agree by a look, which is a collective. Looks come every so many steps: often enough to be
within a tenth of the time between safe points, seldom enough to cost at most a hundredth of it.
"""

from __future__ import annotations

import math
import time

import torch.distributed as dist

from raysched.runtime.state import integer_from_rank_zero

_LOOKS = 10
"""Between two safe points, at the least: steps may get slower."""
_COST = 0.01
"""Share of the time of steps that looks may take."""
_GROWTH = 2
"""From one look to the next: the first steps tell little of the later ones."""
_DUE = 0


class SafePointClock:
    """Counts steps and time since the last safe point or boundary."""

    def __init__(self, every_s: float) -> None:
        self._every_s = every_s
        self.restart()

    def restart(self) -> None:
        """All is saved now."""
        self._saved_s = self._looked_s = time.perf_counter()
        self._look_s = 0.0
        self._steps, self._look_after = 0, 1

    def is_due(self) -> bool:
        """Call it after each step, on all ranks."""
        self._steps += 1
        if self._steps < self._look_after:
            return False
        began_s = time.perf_counter()
        following = self._next_look(began_s) if dist.get_rank() == 0 else _DUE
        following = integer_from_rank_zero(following)
        self._looked_s = time.perf_counter()
        self._look_s = self._looked_s - began_s
        self._steps, self._look_after = 0, following
        return following == _DUE

    def _next_look(self, now_s: float) -> int:
        """After how many steps to look again."""
        left_s = self._every_s - (now_s - self._saved_s)
        if left_s <= 0:
            return _DUE
        step_s = (now_s - self._looked_s) / self._steps
        wait_s = max(min(left_s, self._every_s / _LOOKS), self._look_s / _COST)
        return max(1, min(math.ceil(wait_s / step_s), _GROWTH * self._look_after))
