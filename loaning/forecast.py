"""How much inference demand to prepare for while a reclaim is under way (004 §2.1, §4).

Aryl leaves the forecast to the inference scheduler; this is a plain one that needs no training. It
answers with the highest rate to expect within the lead, the largest of three:

- **observed**: the mean of the last `smooth_s` seconds, so that a burst is never forecast away;
- **trend**: a straight line by least squares through the last `window_s` seconds, carried
  `lead_s` ahead. Only the part of a rise that exceeds its own standard error counts, since a line
  through noise always slopes; a fall is never carried ahead;
- **season**, where `period_s` is given and the samples reach back that far: the highest smoothed
  rate in the same stretch of the last period.

Limits: a straight line lags where a rise steepens, by about half the curvature times
(`lead_s` + half of `window_s`) squared, and no trend foresees a step. Only `period_s`, headroom
or a shorter lead help there.
"""

from __future__ import annotations

from dataclasses import dataclass
from math import sqrt

import numpy as np

from loaning.problem import Floats

MIN_SAMPLES = 3
"""Two points always lie on a line: from three on its error can be told."""


@dataclass(frozen=True, slots=True)
class Forecast:
    """Demand now and at its highest within the lead, in requests per second (rps)."""

    observed_rps: float  # mean over the smoothing window
    expected_peak_rps: float  # highest within the lead, never below `observed_rps`
    slope_rps_per_s: float  # of the least squares line; negative: demand falls
    error_rps: float  # one standard error of the level of demand now


@dataclass(frozen=True, slots=True)
class _Line:
    """A least squares line and its standard errors; `level_rps` is its value now."""

    level_rps: float
    slope_rps_per_s: float
    level_error_rps: float
    slope_error_rps_per_s: float

    def ahead_rps(self, lead_s: float) -> float:
        """The line's value `lead_s` from now, rising only as far as its rise is certain."""
        rise = max(0.0, self.slope_rps_per_s - self.slope_error_rps_per_s)
        return self.level_rps + rise * lead_s


def forecast_rps(
    at_s: Floats,
    rps: Floats,
    now_s: float,
    lead_s: float,
    *,
    window_s: float,
    smooth_s: float,
    period_s: float | None = None,
) -> Forecast | None:
    """The demand to prepare for within [`now_s`, `now_s + lead_s`].

    `rps[i]` requests arrived per second in the interval that ended at `at_s[i]`; times ascend.
    None where fewer than three samples lie in the last `window_s` seconds: nothing is known.
    """
    line = _least_squares(*_between(at_s, rps, now_s - window_s, now_s), now_s)
    if line is None:
        return None
    observed = _smoothed_rps(at_s, rps, np.array([now_s]), smooth_s)[0]
    expected = [observed, line.ahead_rps(lead_s)]
    if period_s is not None:
        then_s = now_s - period_s
        # A mean over the past lags: what lies `smooth_s` beyond the lead still tells of it.
        ends_s, _ = _between(at_s, rps, then_s, then_s + lead_s + smooth_s)
        expected += list(_smoothed_rps(at_s, rps, ends_s, smooth_s))
    return Forecast(
        observed_rps=float(observed),
        expected_peak_rps=float(max(expected)),
        slope_rps_per_s=line.slope_rps_per_s,
        error_rps=line.level_error_rps,
    )


def _between(at_s: Floats, rps: Floats, start_s: float, end_s: float) -> tuple[Floats, Floats]:
    """The samples in (start_s, end_s]."""
    first, last = np.searchsorted(at_s, [start_s, end_s], side="right")
    return at_s[first:last], rps[first:last]


def _smoothed_rps(at_s: Floats, rps: Floats, ends_s: Floats, smooth_s: float) -> Floats:
    """[ends] Mean of the `smooth_s` seconds before each end, at the least of one sample."""
    last = np.searchsorted(at_s, ends_s, side="right")
    first = np.minimum(np.searchsorted(at_s, ends_s - smooth_s, side="right"), last - 1)
    total = np.concatenate(([0.0], np.cumsum(rps)))
    mean: Floats = (total[last] - total[first]) / (last - first)
    return mean


def _least_squares(at_s: Floats, rps: Floats, now_s: float) -> _Line | None:
    """The line through the samples; None where they do not determine one."""
    count = at_s.size
    if count < MIN_SAMPLES or at_s[0] == at_s[-1]:
        return None
    mean_s, mean_rps = at_s.mean(), rps.mean()
    spread = float(((at_s - mean_s) ** 2).sum())
    slope = float(((at_s - mean_s) * rps).sum()) / spread
    residual = rps - (mean_rps + slope * (at_s - mean_s))
    # A handful of samples may lie on a line by luck. Arrivals are at the least as noisy as a
    # Poisson process: over an interval of d seconds its rate has variance rate / d.
    interval_s = (at_s[-1] - at_s[0]) / (count - 1)
    variance = max(float((residual**2).sum()) / (count - 2), float(mean_rps / interval_s))
    return _Line(
        level_rps=float(mean_rps + slope * (now_s - mean_s)),
        slope_rps_per_s=slope,
        level_error_rps=sqrt(variance * (1 / count + float(now_s - mean_s) ** 2 / spread)),
        slope_error_rps_per_s=sqrt(variance / spread),
    )
