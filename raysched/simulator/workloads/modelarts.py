"""Jobs like those that 000 simulates: two days of Huawei ModelArts, whose trace is not public.

Printed (000 §5.1, §5.3), and kept here: 1,252 jobs within 49 h 41 min 38 s; 447 of them train for
5 minutes or more, 232.6 minutes in the mean; the others (64 %) for less, and since the mean of all
is 84.3 minutes, theirs is (1252 · 84.3 - 447 · 232.6) / 805 = 1.95. Each runs on 1 to 16 nodes, at
k · 0.8^(log2 k) times the speed of one.

Chosen: how training times spread about these means (lognormal between 5 minutes and 50 hours; a
power of a uniform number below 5 minutes), the nodes that they are measured on, and the hours of
the day at which jobs come.
"""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np
from scipy.optimize import brentq
from scipy.stats import norm

from policies.problem import Floats
from raysched.durations import DAY_S, HOUR_S
from raysched.errors import UserError
from raysched.simulator.models import LossPerDoubling
from raysched.simulator.scenario import Arrival
from raysched.simulator.traces.trace import MOST_EPOCHS, job

FIRST_S = 14 * 3600 + 25 * 60 + 41
"""Time of the day at which the first job was submitted (January 24, 2021, 14:25:41)."""


SMALL_S = 300.0
"""Jobs that train for less are small."""


@dataclass(frozen=True, slots=True)
class ModelArtsWorkload:
    """What is drawn. Raises `UserError`.

    Training times are those on the nodes that a job asks for: 1, 2, 4, … with `asked_shares`. Of
    four guesses these were taken because the gain of 000's Fig. 11 then has its top within its
    pools of 70 to 190 nodes, as printed: were each job on one node, 60 to 65 would be busy.
    """

    long_jobs: int = 447
    small_jobs: int = 0  # 805: "all 1252 jobs" (§5.3)
    span_s: float = 178_898.0  # from the first submission to the last, of long jobs
    long_mean_s: float = 232.6 * 60
    long_most_s: float = 50 * HOUR_S
    spread: float = 1.5  # sigma of the lognormal
    small_mean_s: float = 1.95 * 60
    asked_shares: tuple[float, ...] = (0.5, 0.2, 0.15, 0.15)
    max_nodes: int = 16
    swing: float = 0.6  # of the rate of submissions about its mean over the day
    busiest_s: float = 15 * HOUR_S  # time of the day

    def __post_init__(self) -> None:
        if self.long_jobs < 2 or self.small_jobs < 0:
            raise UserError("long_jobs, small_jobs: use 2 or more long jobs, 0 or more small ones")
        if not SMALL_S < self.long_mean_s < self.long_most_s:
            raise UserError(f"long_mean_s is {self.long_mean_s}; use {SMALL_S:.0f} to long_most_s")
        if not 0 < self.small_mean_s < SMALL_S:
            raise UserError(f"small_mean_s is {self.small_mean_s}; use 0 to {SMALL_S:.0f}")
        if 2 ** (len(self.asked_shares) - 1) > self.max_nodes:
            raise UserError("asked_shares: jobs may not ask for more than max_nodes")


ALL_JOBS = ModelArtsWorkload(small_jobs=805)


def modelarts(workload: ModelArtsWorkload, seed: int) -> tuple[Arrival, ...]:
    """Jobs in the order of arrival, the first at 0. A worker is a node; work is counted in seconds
    on one. The long jobs are the same whether there are small ones or not."""
    rng, small_rng = np.random.default_rng((seed, 0)), np.random.default_rng((seed, 1))
    count = workload.long_jobs
    at_s = np.sort(_submissions_s(workload, count, rng))
    at_s = (at_s - at_s[0]) * workload.span_s / (at_s[-1] - at_s[0])
    jobs = _jobs("long", workload, at_s, _long_s(workload, _spread_evenly(count, rng)), rng)

    count = workload.small_jobs
    at_s = _submissions_s(workload, count, small_rng)
    power = SMALL_S / workload.small_mean_s - 1  # the mean of u^power is 1 / (power + 1)
    small_s = SMALL_S * _spread_evenly(count, small_rng) ** power
    jobs += _jobs("small", workload, at_s, small_s, small_rng)
    return tuple(sorted(jobs, key=lambda arrival: arrival.at_s))


def _jobs(
    name: str, workload: ModelArtsWorkload, at_s: Floats, train_s: Floats, rng: np.random.Generator
) -> list[Arrival]:
    shares = np.array(workload.asked_shares)
    asked = 2 ** rng.choice(len(shares), len(at_s), p=shares / shares.sum())
    scaling = LossPerDoubling()
    return [
        job(
            f"{name}{number}",
            float(at_s[number]),
            scaling,
            float(train_s[number]) * scaling.speed(nodes),
            MOST_EPOCHS,
            (1, workload.max_nodes),
            batch_size=workload.max_nodes,
            requested_workers=nodes,
        )
        for number, nodes in enumerate(asked.tolist())
    ]


def _spread_evenly(count: int, rng: np.random.Generator) -> Floats:
    """[count] Uniform in (0, 1), one in each part of it, in random order: means hardly vary."""
    parts: Floats = (rng.permutation(count) + 1 - rng.random(count)) / max(count, 1)
    return parts


def _submissions_s(workload: ModelArtsWorkload, count: int, rng: np.random.Generator) -> Floats:
    """[count] Times within the span, more of them at busy hours."""
    at_s = np.linspace(0.0, workload.span_s, 1001)
    hours = 2 * np.pi * (FIRST_S + at_s - workload.busiest_s) / DAY_S
    before = np.concatenate([[0.0], np.cumsum(1 + workload.swing * np.cos(hours[1:]))])
    times: Floats = np.interp(rng.random(count), before / before[-1], at_s)
    return times


def _long_s(workload: ModelArtsWorkload, quantiles: Floats) -> Floats:
    """[jobs] Lognormal between `SMALL_S` and `long_most_s`, of the mean asked for."""
    low, high = np.log(SMALL_S), np.log(workload.long_most_s)
    spread = workload.spread

    def bounds(centre: float, moved: float) -> Floats:
        return np.asarray(norm.cdf((np.array([low, high]) - centre) / spread - moved))

    def excess_s(centre: float) -> float:
        part = np.diff(bounds(centre, spread))[0] / np.diff(bounds(centre, 0.0))[0]
        return float(np.exp(centre + spread**2 / 2) * part - workload.long_mean_s)

    centre = brentq(excess_s, low - 4 * spread, high + 4 * spread)
    below, above = bounds(centre, 0.0)
    times: Floats = np.exp(centre + spread * norm.ppf(below + quantiles * (above - below)))
    return times
