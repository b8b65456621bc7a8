"""Applications of Pollux's authors that tune their batch, as Pollux has them do."""

from __future__ import annotations

import math
from dataclasses import dataclass, field
from functools import cached_property

import numpy as np

from policies.problem import Floats
from raysched.simulator.traces.pollux_profiles import Application, Placement, packed
from raysched.simulator.traces.trace import MOST_EPOCHS

CANDIDATES = 25
"""Batch sizes that are tried, from the smallest to the largest by equal factors."""


@dataclass(frozen=True)
class Tuned:
    """Seconds of an epoch, one of equal parts of the whole training, by batch size.

    The scheduler chooses the largest batch; at each epoch of the validation the job takes the one
    up to there at which it is fastest then, as gradients get noisier in the course of a training.
    Departure: the gain of that is spread evenly over the whole training.
    """

    application: Application
    _known_s: dict[tuple[int, Placement], float] = field(default_factory=dict)

    @property
    def epochs(self) -> int:
        """Of a training: a boundary every 0.05 % of it."""
        return MOST_EPOCHS

    @cached_property
    def batch_sizes(self) -> tuple[int, ...]:
        """The admissible ones: those that were validated and have a sample for each worker."""
        validated = list(self.application.validations)
        if self.application.most_gpus == 1:
            return (validated[-1],)
        most = self.application.most(validated[-1])
        return tuple(batch for batch in validated if batch >= most)

    @cached_property
    def most(self) -> int:
        """The largest number of workers of which something is known."""
        largest = self.batch_sizes[-1]
        sizes = range(1, self.application.most(largest) + 1)
        return max(n for n in sizes if math.isfinite(self.epoch_s(largest, packed(n))))

    def epoch_s(self, batch_size: int, placement: Placement) -> float:
        """Seconds on so many GPUs of each server; inf where the batch does not fit on them.

        The smallest admissible batch fits anywhere: each GPU takes as few samples as it can.
        """
        key = batch_size, placement
        if key not in self._known_s:
            self._known_s[key] = self._seconds(batch_size, placement)
        return self._known_s[key]

    def _seconds(self, batch_size: int, placement: Placement) -> float:
        least = sum(placement) * self.application.smallest_local
        if batch_size < least and batch_size > self.batch_sizes[0]:
            return math.inf
        tried = [b for b in self._iterations if least <= b <= batch_size] or [least]
        each = [
            self._iterations_of(batch) * self.application.iteration_s(batch, placement)
            for batch in tried
        ]
        return float(np.min(each, axis=0).sum()) / self.epochs

    @cached_property
    def _iterations(self) -> dict[int, Floats]:
        """[epochs] Iterations in each epoch of the validation, by batch size."""
        first, last = self.application.initial_batch, self.batch_sizes[-1]
        tried = np.geomspace(first, last, CANDIDATES).round().astype(int).tolist()
        if len(self.batch_sizes) == 1:
            tried = [last]
        return {batch: self.application.iterations(batch) for batch in (*tried, last)}

    def _iterations_of(self, batch_size: int) -> Floats:
        known = self._iterations.get(batch_size)
        return self.application.iterations(batch_size) if known is None else known
