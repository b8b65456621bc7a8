"""The priced side of the rolling-horizon model: each job's best plan at given prices, exactly."""

from __future__ import annotations

import numpy as np
from numba import njit, types

from policies.rolling_horizon_model import MODEL

_FLOATS = types.float64[::1]
_INTS = types.int64[::1]
_PLANS = types.int64[:, ::1]


@njit(types.float64(MODEL, types.int64, types.int64), cache=True)
def served_in(model, option, step):  # type: ignore[no-untyped-def]
    """Share of the demand that `step` serves at `option`."""
    return model.first_served[option] if step == 0 else model.served[option]


@njit(types.float64(MODEL, _FLOATS, types.int64, _INTS, _FLOATS, _FLOATS), cache=True)
def _best_uncapped(model, prices, job, plan, floor, linear):  # type: ignore[no-untyped-def]
    """The best plan if a job could be served beyond its demand; the share that it would serve.

    Steps are then independent. `linear[t]`: its profit from step t on, an upper bound on any
    plan's. `floor[t]`: what the smallest size costs from step t on.
    """
    demand = 0.0
    lowest = model.offset[job]
    for t in range(len(prices) - 1, -1, -1):
        best = -np.inf
        for option in range(lowest, model.offset[job + 1]):
            profit = model.worth[t] * served_in(model, option, t) - prices[t] * model.gpus[option]
            if profit > best:
                best, plan[t] = profit, option
        linear[t] = linear[t + 1] + best
        floor[t] = floor[t + 1] + prices[t] * model.gpus[lowest]
        demand += served_in(model, plan[t], t)
    return demand


@njit(types.void(MODEL, types.int64, _INTS), cache=True)
def trim(model, job, plan):  # type: ignore[no-untyped-def]
    """Take what does not serve: the smallest size that finishes, and the smallest of all after."""
    done = 0.0
    for t in range(len(plan)):
        if done + served_in(model, plan[t], t) >= 1:
            for option in range(model.offset[job], plan[t]):
                if done + served_in(model, option, t) >= 1:
                    plan[t] = option
                    break
        done += served_in(model, plan[t], t)


@njit(types.float64(MODEL, _FLOATS, _INTS), cache=True)
def _profit(model, prices, plan):  # type: ignore[no-untyped-def]
    """A plan's worth less the price of its GPUs."""
    done, profit = 0.0, 0.0
    for t in range(len(prices)):
        after = min(done + served_in(model, plan[t], t), 1.0)
        profit += model.worth[t] * (after - done) - prices[t] * model.gpus[plan[t]]
        done = after
    return profit


@njit(
    types.float64(
        MODEL, _FLOATS, types.int64, _INTS, types.float64, *[_FLOATS] * 4, _INTS, types.int64
    ),
    cache=True,
)
def _search(  # type: ignore[no-untyped-def]
    model, prices, job, plan, best, floor, linear, done, profit, trial, nodes
):
    """Depth first over K^T, from an incumbent `plan` of profit `best`; a bound on the best profit.

    The bound is the profit of `plan` itself unless the search was cut after `nodes`. A branch
    ends where the job finishes (larger sizes cost more and serve no more) and where neither the
    uncapped plan nor finishing at once on the smallest size would beat the incumbent.
    """
    lowest, end, last = model.offset[job], model.offset[job + 1], len(prices) - 1
    t = 0
    trial[0] = lowest - 1
    while t >= 0:
        nodes -= 1
        if nodes < 0:
            return min(linear[0], model.worth[0] - floor[0])
        trial[t] += 1
        if trial[t] == end:
            t -= 1
            continue
        option = trial[t]
        after = done[t] + served_in(model, option, t)
        made = min(after, 1.0) - done[t]
        now = profit[t] + model.worth[t] * made - prices[t] * model.gpus[option]
        if after >= 1 or t == last:
            if now - floor[t + 1] > best:
                best = now - floor[t + 1]
                plan[: t + 1] = trial[: t + 1]
                plan[t + 1 :] = lowest
            if after >= 1:
                trial[t] = end - 1
            continue
        rest = min(linear[t + 1], model.worth[t + 1] * (1 - after) - floor[t + 1])
        if now + rest > best:
            t += 1
            done[t], profit[t], trial[t] = after, now, lowest - 1
    return best


@njit(types.float64(MODEL, _FLOATS, _PLANS, types.int64), cache=True)
def price_jobs(model, prices, plans, nodes):  # type: ignore[no-untyped-def]
    """Fill `plans` with the most profitable plan of each job; a bound on their total profit.

    It is exact unless a job's search was cut after `nodes`.

    `prices` [steps] are of a GPU in a step, in units of the objective. A plan's profit is its
    worth less the price of its GPUs; the total and the price of the whole capacity bound the
    objective from above (Lagrangian relaxation of (6)).
    """
    steps = len(prices)
    floor = np.zeros(steps + 1)
    linear = np.zeros(steps + 1)
    done = np.zeros(steps)
    profit = np.zeros(steps)
    trial = np.zeros(steps, np.int64)
    total = 0.0
    for job in range(len(plans)):
        demand = _best_uncapped(model, prices, job, plans[job], floor, linear)
        if demand <= 1:
            total += linear[0]
        else:
            trim(model, job, plans[job])
            best = _profit(model, prices, plans[job])
            total += _search(
                model, prices, job, plans[job], best, floor, linear, done, profit, trial, nodes
            )
    return total
