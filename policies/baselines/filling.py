"""Handing out GPUs in an order: whole demands while they fit, or one worker at a time."""

from __future__ import annotations

import heapq
from collections.abc import Callable, Iterable
from typing import TypeAlias

import numpy as np

from policies.problem import Bools, Ints, Jobs

Rank: TypeAlias = Callable[[int, int], float | None]
"""Of a job (its row) and the workers that it has: the lowest is served next, None wants no more."""


def fitting(order: Iterable[int], demand_gpus: Ints, capacity_gpus: int) -> Bools:
    """[jobs] Who gets its demand: each in its turn, those passed over that do not fit."""
    served = np.zeros(len(demand_gpus), dtype=np.bool_)
    for row in order:
        if demand_gpus[row] <= capacity_gpus:
            served[row] = True
            capacity_gpus -= int(demand_gpus[row])
    return served


def fill(jobs: Jobs, workers: Ints, free_gpus: int, rank: Rank) -> Ints:
    """[jobs] The workers after one more at a time went to the job of the lowest rank.

    A job without workers takes its minimum in one step. Ties break by row. A job whose step does
    not fit leaves the race, the others go on.
    """
    workers = workers.copy()
    most, gpus = jobs.max_workers.tolist(), jobs.gpus_per_worker.tolist()
    race: list[tuple[float, int]] = []

    def enter(row: int) -> None:
        place = rank(row, int(workers[row])) if workers[row] < most[row] else None
        if place is not None:
            heapq.heappush(race, (place, row))

    for row in range(len(jobs)):
        enter(row)
    while race:
        _, row = heapq.heappop(race)
        step = 1 if workers[row] else int(jobs.min_workers[row])
        if step * gpus[row] <= free_gpus:
            workers[row] += step
            free_gpus -= step * gpus[row]
            enter(row)
    return workers
