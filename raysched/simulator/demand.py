"""Demand on the inference pool over time, and what a scheduler sees of it."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np

from policies.problem import Floats
from raysched.errors import UserError
from raysched.events import DemandObserved, InferenceConfigured, ServerAdded
from raysched.simulator.scenario import Outside

EVERY_S = 300.0
"""Demand is told every five minutes: that is how often 004's orchestrator looks (§2.1, Fig. 1 and
7), and 15 days are 4,320 events."""

REFILL_S = 60.0
"""From asking for a replica to its first answer. No paper says; a reclaim takes so much longer."""

USED = 0.8
"""Share of the pool's replicas that the highest demand keeps busy, unless said otherwise: with the
headroom that aryl keeps, the whole pool serves then."""


@dataclass(frozen=True, slots=True)
class Series:
    """Demand in a unit of its own: `value[i]` was its mean since the sample before.

    Raises `UserError` where there are not two samples at two times, or no demand at all.
    """

    at_s: Floats  # [samples] ascending, from 0
    value: Floats  # [samples]

    def __post_init__(self) -> None:
        if len(self.at_s) < 2 or not (np.diff(self.at_s) > 0).all():
            raise UserError("demand: needs samples at two times or more, ascending")
        if not (self.value >= 0).all() or not self.value.max() > 0:
            raise UserError("demand: needs numbers from 0, one of them above")

    def every(self, step_s: float) -> Floats:
        """[steps] The mean in each step from the beginning: of the samples in it, or, where these
        are further apart, on the line between two."""
        steps = max(int(self.at_s[-1] // step_s), 1)
        ends_s = step_s * np.arange(steps + 1)
        if float(np.median(np.diff(self.at_s))) >= step_s:
            between: Floats = np.interp(ends_s[1:], self.at_s, self.value)
            return between
        so_far = np.concatenate(([0.0], np.cumsum(np.diff(self.at_s) * self.value[1:])))
        mean: Floats = np.diff(np.interp(ends_s, self.at_s, so_far)) / step_s
        return mean


def inference_pool(
    servers: Sequence[ServerAdded],
    series: Series,
    until_s: float,
    *,
    peak_replicas: float | None = None,
    every_s: float = EVERY_S,
) -> list[Outside]:
    """A pool with a deployment on it, one replica a GPU, whose demand follows a series.

    The highest demand, as it is told, keeps `peak_replicas` busy (`USED` of the pool if left out).
    A replica answers one request a second. The series starts over until `until_s`. Raises
    `UserError` where servers differ in their GPUs, or there is none.
    """
    gpus = {server.gpus for server in servers}
    if len(gpus) != 1:
        raise UserError("inference servers need equal numbers of GPUs")
    replicas = gpus.pop()
    busiest = USED * len(servers) * replicas if peak_replicas is None else peak_replicas
    if not busiest > 0:
        raise UserError(f"the peak is {peak_replicas} replicas; use a number above 0")
    shape = series.every(every_s)
    rps = np.resize(busiest * shape / shape.max(), max(int(until_s // every_s), 1))
    config = InferenceConfigured(0.0, "inference", replicas, float(replicas), REFILL_S)
    seen = zip((every_s * np.arange(1, len(rps) + 1)).tolist(), rps.tolist(), strict=True)
    return [*servers, config, *(DemandObserved(at_s, each) for at_s, each in seen)]
