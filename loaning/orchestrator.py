"""The orchestrator: when to lend inference servers to training, when to take them back (004 §4).

Servers needed = demand to prepare for / (`server_rps` × `headroom`), rounded up. Too few serve:
reclaim at once. More serve than needed, with a margin for noise and for some time: lend.

A server that is vacating when demand rises is turned back first, which preempts nobody. That is
the engine's to do: it sees `needed` above what serves, and scales replicas back up. Only what
this leaves short is reclaimed.
"""

from __future__ import annotations

from dataclasses import dataclass
from math import ceil
from typing import ClassVar, Literal

import numpy as np

from loaning.forecast import Forecast, forecast_rps
from loaning.hysteresis import LowDemand
from loaning.problem import NO_MEMORY, LoanDecision, LoaningError, LoanProblem, Memory
from loaning.reclaim import Chooser, choose_aryl, reclaim
from loaning.reclaim_baselines import (
    choose_largest_size,
    choose_random,
    choose_smallest_count,
    choose_smallest_size,
    choose_static,
)
from loaning.reclaim_exact import choose_exact
from policies.reason import Number, Reason, because

NOISE_WINDOWS = 3
"""A trend is read over this many smoothing windows at the least, however short the lead."""

CHOOSERS: dict[str, Chooser] = {
    "aryl": choose_aryl,
    "exact": choose_exact,
    "random": choose_random,
    "smallest_count_first": choose_smallest_count,
    "static": choose_static,
    "smallest_size_first": choose_smallest_size,
    "largest_size_first": choose_largest_size,
}
"""Ways of choosing the servers to return, by the name of the parameter `reclaim`."""


@dataclass(frozen=True, slots=True)
class Aryl:
    """Lend in the valley, reclaim ahead of the rise, preempt few (004 §4, Algorithm 1).

    What depends on how long a reclaim takes is counted in leads: a trend carried one lead ahead
    must be read over about as long, and a loan must be worth a reclaim.
    """

    name: ClassVar[str] = "aryl"
    source: ClassVar[str] = "004 §2.1, §4, §5.3, Algorithm 1"

    headroom: float = 0.8
    """Share of a server's capacity to use: the rest absorbs bursts."""
    smooth_s: float = 5.0
    """Demand now is the mean of this many seconds."""
    trend_leads: float = 1.25
    """Window of the trend. Shorter follows a rise sooner, and noise too."""
    margin_errors: float = 2.0
    """Lend only if demand higher by this many standard errors would still be served: servers are
    lent at a lower demand than they are reclaimed at."""
    hold_leads: float = 1.0
    """Lend only once demand has been low for this long."""
    period_s: float | None = None
    """Period of the demand where one is known: a day, 86,400."""
    reclaim: Literal[
        "aryl",
        "exact",
        "random",
        "smallest_count_first",
        "static",
        "smallest_size_first",
        "largest_size_first",
    ] = "aryl"
    """How servers are chosen: the paper's Algorithm 1; the fewest preemptions that a capped
    search finds, never more than Algorithm 1; or one of the baselines (`reclaim_baselines`)."""

    def __post_init__(self) -> None:
        _require("headroom", self.headroom, 0 < self.headroom <= 1, "in (0, 1]")
        _require("smooth_s", self.smooth_s, self.smooth_s > 0, "above 0")
        _require("trend_leads", self.trend_leads, self.trend_leads > 0, "above 0")
        _require("margin_errors", self.margin_errors, self.margin_errors >= 0, "0 or more")
        _require("hold_leads", self.hold_leads, self.hold_leads >= 0, "0 or more")
        if self.period_s is not None:
            _require("period_s", self.period_s, self.period_s > 0, "above 0")
        if self.reclaim not in CHOOSERS:
            raise LoaningError(f"reclaim is {self.reclaim!r}; it must be {' or '.join(CHOOSERS)}")

    def decide(self, problem: LoanProblem, memory: Memory) -> tuple[LoanDecision, Memory]:
        """Lend, reclaim or stay; the memory is a `LowDemand`."""
        _check(problem)
        forecast = self._forecast(problem)
        if forecast is None:
            why = because("too few samples of demand to tell: nothing changes")
            return _stay(problem.serving, why), LowDemand().to_memory()
        needed = self._servers(forecast.expected_peak_rps, problem)
        reason = _demand(problem, forecast, needed)
        if needed > problem.serving:
            choose = CHOOSERS[self.reclaim]
            return _take_back(problem, needed, reason, choose), LowDemand().to_memory()
        margin_rps = self.margin_errors * forecast.error_rps
        needed_to_lend = self._servers(forecast.expected_peak_rps + margin_rps, problem)
        low = LowDemand.from_memory(memory).seen(problem.now_s, problem.serving - needed_to_lend)
        hold_s = self.hold_leads * problem.lead_s
        if low.lasted_s(problem.now_s) < hold_s or low.spare == 0:
            return _stay(needed, _held_back(reason, problem, low, hold_s)), low.to_memory()
        return _lend(low.spare, needed, reason), LowDemand().to_memory()

    def _forecast(self, problem: LoanProblem) -> Forecast | None:
        window_s = max(self.trend_leads * problem.lead_s, NOISE_WINDOWS * self.smooth_s)
        return forecast_rps(
            problem.demand_at_s,
            problem.demand_rps,
            problem.now_s,
            problem.lead_s,
            window_s=window_s,
            smooth_s=self.smooth_s,
            period_s=self.period_s,
        )

    def _servers(self, demand_rps: float, problem: LoanProblem) -> int:
        """Servers that carry this demand with headroom, `problem.min_serving` at the least."""
        # Rounded, lest 32 / (20 × 0.8) come out a hair above 2 and ask for a third.
        servers = round(demand_rps / (problem.server_rps * self.headroom), 9)
        return max(problem.min_serving, ceil(servers))


@dataclass(frozen=True, slots=True)
class Off:
    """No loaning: never lends, and takes back what is on loan when it is switched to."""

    name: ClassVar[str] = "off"
    source: ClassVar[str] = "004 §7.1, Baseline: no loaning"

    def decide(self, problem: LoanProblem, memory: Memory) -> tuple[LoanDecision, Memory]:
        """Reclaim everything; no memory."""
        _check(problem)
        pool = problem.serving + problem.vacating + len(problem.on_loan.servers)
        why = because("loaning is off: all {pool} inference servers serve", pool=pool)
        if pool == problem.serving:
            return _stay(pool, why), NO_MEMORY
        return _take_back(problem, pool, why, choose_aryl), NO_MEMORY


def _take_back(problem: LoanProblem, needed: int, why: Reason, choose: Chooser) -> LoanDecision:
    """Turn vacating servers back, and reclaim as many more as are short."""
    turned_back = min(problem.vacating, needed - problem.serving)
    short = needed - problem.serving - turned_back
    if turned_back:
        why = _and(why, because("{turned_back} vacating turn back", turned_back=turned_back))
    if not short:
        return _stay(needed, why)
    if not problem.on_loan.servers:
        return _stay(needed, _and(why, because("none are on loan")))
    returned = reclaim(problem.on_loan, short, choose)
    return LoanDecision(
        lend=0,
        reclaim=returned.servers,
        needed=needed,
        preempted=returned.preempted,
        reason=_and(why, returned.reason),
        capped=returned.capped,
    )


def _lend(servers: int, needed: int, why: Reason) -> LoanDecision:
    reason = _and(why, because("lend {lend}", lend=servers))
    return LoanDecision(lend=servers, reclaim=(), needed=needed, preempted=(), reason=reason)


def _stay(needed: int, why: Reason) -> LoanDecision:
    return LoanDecision(lend=0, reclaim=(), needed=needed, preempted=(), reason=why)


def _demand(problem: LoanProblem, forecast: Forecast, needed: int) -> Reason:
    return because(
        "{observed_rps:.1f} requests/s now, up to {expected_peak_rps:.1f} expected within "
        "{lead_s:.1f} s: {needed} servers needed, {serving} serve",
        observed_rps=forecast.observed_rps,
        expected_peak_rps=forecast.expected_peak_rps,
        slope_rps_per_s=forecast.slope_rps_per_s,
        error_rps=forecast.error_rps,
        lead_s=problem.lead_s,
        needed=needed,
        serving=problem.serving,
    )


def _held_back(why: Reason, problem: LoanProblem, low: LowDemand, hold_s: float) -> Reason:
    """Why nothing is lent although, or because, that many servers are to spare."""
    if low.spare == 0:
        return _and(why, because("none to spare with a margin for noise"))
    low_s = low.lasted_s(problem.now_s)
    waits = because(
        "{spare} to spare for {low_s:.1f} s, lent after {hold_s:.1f} s",
        spare=low.spare,
        low_s=low_s,
        hold_s=hold_s,
    )
    return _and(why, waits)


def _and(first: Reason, second: Reason) -> Reason:
    """Both sentences with the numbers of both."""
    numbers: dict[str, Number] = {**first.numbers, **second.numbers}
    return Reason(f"{first.template}; {second.template}", numbers)


def _check(problem: LoanProblem) -> None:
    """Refuse what could only give a wrong plan."""
    _require("server_rps", problem.server_rps, problem.server_rps > 0, "above 0")
    _require("lead_s", problem.lead_s, problem.lead_s >= 0, "0 or more")
    _require("min_serving", problem.min_serving, problem.min_serving >= 1, "1 or more")
    at_s, rps = problem.demand_at_s, problem.demand_rps
    sound = np.isfinite(rps) & (rps >= 0)
    if at_s.shape != rps.shape:
        raise LoaningError(f"demand_rps has {rps.size} samples; demand_at_s has {at_s.size}")
    if not sound.all():
        raise LoaningError(f"demand_rps is {rps[~sound][0]}; it must be a finite rate from 0")
    if not (at_s[:-1] <= at_s[1:]).all():
        raise LoaningError("demand_at_s must ascend")


def _require(field: str, value: float, holds: bool, wanted: str) -> None:
    if not (holds and np.isfinite(value)):
        raise LoaningError(f"{field} is {value}; it must be {wanted}")
