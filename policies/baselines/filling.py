"""Handing out GPUs in an order: whole demands while they fit, or one worker at a time."""

from __future__ import annotations

import heapq
from collections.abc import Callable, Iterable
from dataclasses import dataclass
from typing import TypeAlias

import numpy as np

from policies.problem import Bools, Ints, Jobs

Rank: TypeAlias = Callable[[int, int], float | None]
"""Of a job (its row) and the workers that it has: the lowest is served next, None wants no more."""


@dataclass(frozen=True, slots=True)
class Taken:
    """Who runs, and what each met in its turn."""

    runs: Bools  # [jobs]
    free_gpus: Ints  # [jobs] in its turn


def take(order: Iterable[int], demand_gpus: Ints, free_gpus: int) -> Taken:
    """Jobs in this order while their demands fit; one that does not is skipped (backfilling)."""
    demands = demand_gpus.tolist()  # numpy is slow a number at a time
    runs, met = [False] * len(demands), [0] * len(demands)
    for row in order:
        met[row] = free_gpus
        if demands[row] <= free_gpus:
            runs[row] = True
            free_gpus -= demands[row]
    return Taken(np.array(runs, dtype=np.bool_), np.array(met, dtype=np.int64))


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
