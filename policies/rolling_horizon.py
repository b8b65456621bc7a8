"""The rolling-horizon model of paper 000, solved fast and with a certificate.

Prices on the GPUs of each step relax the capacity (6): each job then plans for itself, by an
exact search that ends where the job finishes, and the profits plus the capacity at these prices
bound the objective from above. A step's price rises while it is over-demanded and falls while
GPUs are left; every few rounds the plans are made to fit, which bounds it from below. The gap
between the two is proven, whatever the prices.

Where few jobs leave a gap (it is real then: relaxing (6) loses up to 1 %), the compact model is
solved exactly, within a cap of nodes; the better plans and the better bound stand.
"""

from __future__ import annotations

from dataclasses import dataclass, replace

import numpy as np

from policies.problem import Floats
from policies.ragged import lengths_of
from policies.rolling_horizon_exact import EXACT_GAP, solve_compact
from policies.rolling_horizon_filling import fastest, fit
from policies.rolling_horizon_model import Model, Plans, loads_gpus, objective_value
from policies.rolling_horizon_pricing import price_jobs

GAP = 1e-4
"""Relative gap at which the search for better prices ends."""

SEARCH_NODES = 20_000
"""Cap on one job's search at one set of prices: six times K^T where |K| = T = 5. Beyond it the
best plan found stands, and the bound allows for what it may have missed."""

_BISECTIONS = 10  # for the first level of the prices: a factor of 1.01 in a range of 1e6
_PRICE_RANGE = 1e-6  # lowest price considered, of the highest: its error in the bound is as small
_FIT_EVERY = 5  # rounds of prices between two tries at plans that fit
_PATIENCE = 3  # rounds without a better bound before the steps shrink
_SHRINK = 0.6  # of the exponent, then
_MOMENTUM = 0.4  # share of the last direction in the next


@dataclass(frozen=True, slots=True)
class Solution:
    """Plans that fit, their objective, and an upper bound on that of any plans."""

    plans: Plans
    value: float
    bound: float
    prices: Floats  # [steps] of a GPU in each step, in units of the objective
    rounds: int  # of prices
    capped: bool = False  # a wall-clock backstop cut the exact search

    @property
    def gap(self) -> float:
        """How far `value` may be from the optimum, relative to the bound."""
        return (self.bound - self.value) / self.bound if self.bound > 0 else 0.0


def solve(
    model: Model,
    start: Floats | None = None,
    *,
    gap: float = GAP,
    rounds: int = 200,
    exact_jobs: int = 20,
    exact_nodes: int = 2000,
) -> Solution:
    """Good plans with their gap; up to `exact_jobs` jobs the optimum, within `exact_nodes`.

    `start`: prices to begin with, those of the last decision. Raises `ValueError` where even the
    smallest sizes do not fit.
    """
    if model.least_gpus > model.capacity_gpus:
        raise ValueError(
            f"capacity_gpus: {model.capacity_gpus}, but the smallest sizes take {model.least_gpus}"
        )
    unlimited = _without_capacity(model)
    if unlimited is not None:
        return unlimited
    solution = _by_prices(model, start, gap, rounds)
    if model.jobs <= exact_jobs and solution.gap > EXACT_GAP:
        return _exactly(model, solution, exact_nodes)
    return solution


def _without_capacity(model: Model) -> Solution | None:
    """Everybody's fastest plan, where they fit together: nothing can be better."""
    plans = _plans(model)
    fastest(model, plans)
    if (loads_gpus(model, plans) > model.capacity_gpus).any():
        return None
    value = objective_value(model, plans)
    return Solution(plans, value, value, np.zeros(len(model.worth)), rounds=0)


def _exactly(model: Model, solution: Solution, nodes: int) -> Solution:
    """The better of the solution at hand and the exact solver's, with the lower bound."""
    exact = solve_compact(model, nodes)
    if exact.plans is not None:
        value = fit(model, exact.plans)  # for what the solver leaves idle, or gives in vain
        if value > solution.value:
            solution = replace(solution, plans=exact.plans, value=value)
    bound = max(solution.value, min(solution.bound, exact.bound))
    return replace(solution, bound=bound, capped=exact.capped)


def _by_prices(model: Model, start: Floats | None, gap: float, rounds: int) -> Solution:
    """Prices by multiplicative subgradient steps, plans by repair, fill and polish.

    A price changes by the factor (demand / capacity)^exponent: its logarithm follows the
    subgradient's sign, whatever the scale of progress and GPUs. The exponent shrinks where the
    bound stops falling.
    """
    lowest, highest = _price_range(model)
    prices = _level_prices(model, lowest, highest) if start is None else start
    prices = np.clip(prices, lowest, highest)
    plans, direction, exponent, stalled = _plans(model), np.zeros(len(prices)), 1.0, 0
    best = Solution(plans, -np.inf, np.inf, prices, 0)
    for spent in range(1, rounds + 1):
        bound = _bound(model, prices, plans)
        demand = loads_gpus(model, plans) / model.capacity_gpus
        stalled += 1
        if bound < best.bound:
            best, stalled = replace(best, bound=bound, prices=prices), 0
        if spent % _FIT_EVERY == 1:
            value = fit(model, plans)
            if value > best.value:
                best = replace(best, plans=plans.copy(), value=value)
        best = replace(best, rounds=spent)
        if best.gap <= gap:
            break
        if stalled == _PATIENCE:
            exponent, stalled = exponent * _SHRINK, 0
            prices, direction = best.prices, np.zeros(len(prices))
        direction = _MOMENTUM * direction + (1 - _MOMENTUM) * np.log(demand)
        prices = np.clip(prices * np.exp(exponent * direction), lowest, highest)
    return replace(best, bound=max(best.bound, best.value))


def _plans(model: Model) -> Plans:
    """[jobs, steps] Every job at its smallest size."""
    return np.repeat(model.offset[:-1, None], len(model.worth), axis=1)


def _bound(model: Model, prices: Floats, plans: Plans) -> float:
    """The Lagrangian bound at `prices`; `plans` are filled with the most profitable ones."""
    return float(
        price_jobs(model, prices, plans, SEARCH_NODES) + model.capacity_gpus * prices.sum()
    )


def _price_range(model: Model) -> tuple[Floats, Floats]:
    """[steps] twice: prices that matter to nobody, and prices at which nobody grows."""
    smallest = np.repeat(model.gpus[model.offset[:-1]], lengths_of(model.offset))
    extra = model.gpus - smallest
    most_served = np.maximum(model.served, model.first_served)
    highest = (most_served[extra > 0] / extra[extra > 0]).max() * model.worth
    return _PRICE_RANGE * highest, highest


def _level_prices(model: Model, lowest: Floats, highest: Floats) -> Floats:
    """Prices between the two, in proportion to `highest`, that clear the steps' total demand."""
    plans = _plans(model)
    available = model.capacity_gpus * len(model.worth)
    for _ in range(_BISECTIONS):
        prices: Floats = np.sqrt(lowest * highest)
        price_jobs(model, prices, plans, SEARCH_NODES)
        if loads_gpus(model, plans).sum() > available:
            lowest = prices
        else:
            highest = prices
    return prices
