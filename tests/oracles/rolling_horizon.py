"""The rolling-horizon model of paper 000 by trying everything: for a few jobs and steps."""

from __future__ import annotations

import itertools
import math
from collections.abc import Iterator

import numpy as np

from policies.rolling_horizon_model import modelarts_speed, objective_value


def best_objective(model):
    """The optimum of the linear model (15)-(20): every sequence of legal sizes of every job."""
    return _best([list(_choices(model, job)) for job in range(model.jobs)], model.capacity_gpus)


def best_profit(model, prices, job):
    """The most that one job's plan can be worth beyond the price of its GPUs."""
    return max(worth - np.dot(gpus, prices) for gpus, worth in _choices(model, job))


def best_objective_as_printed(
    demand_node_h, *, nodes, least_nodes, most_nodes, steps, step_s=300.0, sizes=None
):
    """The optimum of the non-linear model (1)-(14): any integers, or any of `sizes` and 0."""
    choices = [
        list(_choices_as_printed(demand, least, most, steps, step_s / 3600, sizes))
        for demand, least, most in zip(demand_node_h, least_nodes, most_nodes, strict=True)
    ]
    return _best(choices, nodes)


def _choices(model, job) -> Iterator[tuple[tuple[int, ...], float]]:
    """(GPUs in each step, objective) of each sequence of sizes."""
    alone = model._replace(offset=np.array([0, len(model.gpus)]))
    options = range(model.offset[job], model.offset[job + 1])
    for plan in itertools.product(options, repeat=len(model.worth)):
        plans = np.array([plan])
        yield tuple(model.gpus[plans[0]].tolist()), objective_value(alone, plans)


def _choices_as_printed(d, least, most, steps, p, sizes):
    """The same for (2)-(5) and (7)-(14), with s as large as they allow and M without bound."""
    legal = [n for n in range(most + 1) if sizes is None or n == 0 or n in sizes]
    for n in itertools.product(legal, repeat=steps):
        s, y = [0.0], [0]
        for nodes in n:
            speed = float(modelarts_speed(np.array([nodes]))[0]) if nodes else 0.0
            s.append(min(d, s[-1] + p * speed))  # (2), (3), (4)
            y.append(int(s[-1] / d >= 1))  # (7), (8)
        holds_minimum = all(n[t] >= least or y[t] for t in range(steps))  # (9), (10)
        goes_back = all(n[t] == 0 or s[t] < d for t in range(steps))  # (11)
        if holds_minimum and goes_back:
            yield n, sum(s[1:]) / d


def _best(choices, capacity):
    """The greatest sum of one choice's objective for each job, the loads within the capacity."""
    best = {(0,) * len(choices[0][0][0]): 0.0}
    for job in choices:
        reached: dict[tuple[int, ...], float] = {}
        for (load, value), (more, worth) in itertools.product(best.items(), job):
            total = tuple(a + b for a, b in zip(load, more, strict=True))
            if max(total) <= capacity:
                reached[total] = max(reached.get(total, -math.inf), value + worth)
        best = reached
    return max(best.values())
