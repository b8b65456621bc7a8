"""How the learning rate follows the global batch, inside a job's range of batch sizes (003 §II-C).

The user's own learning rate is for the job's first batch size. Optimizers step with that rate times
a factor, and have it back afterwards: learning rate schedulers and saved states know nothing of it.
"""

from __future__ import annotations

import math
from collections.abc import Callable
from dataclasses import dataclass
from typing import Any

RULES: dict[str, Callable[[float], float]] = {
    "linear": lambda ratio: ratio,  # Goyal et al., 2017
    "sqrt": math.sqrt,  # for optimizers that normalise gradients: Krizhevsky, 2014
    "fixed": lambda _: 1.0,
}
"""The factor for a batch that is `ratio` times the first one."""


@dataclass(frozen=True, slots=True)
class Following:
    """How a job's learning rate follows its batch, as its user chose it."""

    first_batch_size: int = 1  # that the user's own learning rate is for
    rule: str = "fixed"
    warmup_steps: int = 0  # over which a new factor is reached, evenly


FIXED = Following()


class LearningRate:
    """The factor as it is now; `state_dict` is what lives on when workers change."""

    def __init__(self, following: Following) -> None:
        self.factor = 1.0
        self._following = following
        self._target = 1.0
        self._steps_left = 0
        """Of a warm-up."""

    def aim_at(self, batch_size: int) -> None:
        """Begin to go over to the factor of a batch size, if it is not this one's already."""
        target = RULES[self._following.rule](batch_size / self._following.first_batch_size)
        if target != self._target:
            self._target, self._steps_left = target, self._following.warmup_steps
        if not self._steps_left:
            self.factor = self._target

    def advance(self) -> None:
        """One more step is done."""
        if self._steps_left:
            self.factor += (self._target - self.factor) / self._steps_left
            self._steps_left -= 1

    def drive(self, optimizer: Any) -> None:
        """Have a `torch.optim.Optimizer` take its steps with the factor."""
        own: list[Any] = []

        def scale(*_: Any) -> None:
            if self.factor != 1.0:
                own[:] = [group["lr"] for group in optimizer.param_groups]
                for group in optimizer.param_groups:
                    group["lr"] = group["lr"] * self.factor

        def put_back(*_: Any) -> None:
            for group, rate in zip(optimizer.param_groups, own, strict=False):
                group["lr"] = rate
            own.clear()

        optimizer.register_step_pre_hook(scale)
        optimizer.register_step_post_hook(put_back)

    def state_dict(self) -> dict[str, Any]:
        """How far a warm-up is."""
        return {"factor": self.factor, "target": self._target, "steps_left": self._steps_left}

    def load_state_dict(self, state_dict: dict[str, Any]) -> None:
        """Go on from there."""
        self.factor = state_dict["factor"]
        self._target, self._steps_left = state_dict["target"], state_dict["steps_left"]
