"""Demand with the shape of a day."""

from __future__ import annotations

import numpy as np

from raysched.durations import DAY_S
from raysched.errors import UserError
from raysched.simulator.demand import EVERY_S, Series

_PEAK = 21 / 24  # of the day: "at night" (004 §2.1)

_SHARPNESS = 1.5
"""Of the cosine. At a ratio of 2.2 demand is within 6 % of its peak for four hours, as in 004 §2.1,
and its mean is 0.69 of the peak (there 65 % of the GPUs; how many the peak takes is not said)."""


def diurnal(
    days: float,
    *,
    ratio: float = 2.2,
    noise: float = 0.0,
    seed: int = 0,
    every_s: float = EVERY_S,
) -> Series:
    """Demand that begins at midnight, 1 at its daily peak and 1 / `ratio` at its trough.

    `noise`: standard deviation of each sample, relative to it, drawn from the seed.
    Raises `UserError`.
    """
    if not ratio >= 1:
        raise UserError(f"ratio of peak to trough is {ratio}; use 1 or more")
    if not (days > 0 and noise >= 0 and 0 < every_s <= days * DAY_S / 2):
        raise UserError("days, noise, every_s: use at least two samples, and noise from 0")
    at_s = np.arange(0.0, days * DAY_S + every_s / 2, every_s)
    wave = (1 + np.cos(2 * np.pi * (at_s / DAY_S - _PEAK))) / 2
    trough = 1 / ratio
    value = trough + (1 - trough) * wave**_SHARPNESS
    factor = 1 + noise * np.random.default_rng(seed).standard_normal(len(at_s))
    return Series(at_s, value * np.maximum(factor, 0.0))
