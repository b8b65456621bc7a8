"""Schedules of many admitted oasis jobs, laid out at random: to solve for them takes hours."""

from __future__ import annotations

import json
import math
from dataclasses import replace

import numpy as np

from benchmarks.problems import GPUS_PER_JOB, Random, concave_curves, first, mixed, problem
from policies.oasis import Oasis
from policies.oasis.reservations import Reservation, Run
from policies.problem import NO_MEMORY, Jobs, Memory, Problem

POLICY = Oasis()
SERVER_GPUS = 32

_PRICED = 20  # jobs that the policy decides on itself: its range of prices
_RUNS = 2  # of each schedule, one after the other on different servers
_LONGEST_RUN = 100  # slots
_TRIES = 4  # sets of servers, of which the first to be free is taken


def arrives(jobs: int, seed: int) -> tuple[Problem, Memory]:
    """`jobs` admitted jobs with their schedules in the memory, and one that arrives."""
    random = np.random.default_rng(seed)
    demand = mixed(jobs + 1, random)
    gpus = GPUS_PER_JOB * jobs
    case = problem(demand, concave_curves(demand, random), gpus, random, SERVER_GPUS)
    case = replace(case, jobs=_with_arrival(case.jobs))
    _, memory = POLICY.decide(first(case, min(_PRICED, jobs)), NO_MEMORY)
    book = _Book(case, random)
    admitted = {case.jobs.ids[row]: book.reserve(row).to_json() for row in range(jobs)}
    return case, json.loads(json.dumps({**memory, "admitted": admitted}))


def _with_arrival(jobs: Jobs) -> Jobs:
    """The last job has yet to start, and can end within the span."""
    workers, remaining_epochs = jobs.workers.copy(), jobs.remaining_epochs.copy()
    within_s = POLICY.slot_s * _LONGEST_RUN
    workers[-1] = 0
    remaining_epochs[-1] = min(remaining_epochs[-1], within_s / jobs.curves.of(len(jobs) - 1)[0, 0])
    return replace(jobs, workers=workers, remaining_epochs=remaining_epochs)


class _Book:
    """From which slot on each GPU of each server is free."""

    def __init__(self, case: Problem, random: Random) -> None:
        self._case, self._random = case, random
        self._free = np.zeros((len(case.servers.ids), SERVER_GPUS), dtype=np.int64)

    def reserve(self, row: int) -> Reservation:
        """A schedule for one job on its least workers, as early as it fits."""
        jobs = self._case.jobs
        left_s = jobs.remaining_epochs[row] * jobs.curves.of(row)[0, 0]
        slots = min(math.ceil(left_s / POLICY.slot_s / _RUNS), _LONGEST_RUN)
        runs: list[Run] = []
        for _ in range(_RUNS):
            runs.append(self._run(row, slots, runs[-1].end if runs else self._now))
        return Reservation(tuple(runs), utility=1.0, cost=0.5)

    @property
    def _now(self) -> int:
        return int(self._case.now_s // POLICY.slot_s)

    def _run(self, row: int, slots: int, not_before: int) -> Run:
        """On whole servers, or on neighbouring GPUs of one."""
        workers = int(self._case.jobs.min_workers[row])
        gpus = workers * int(self._case.jobs.gpus_per_worker[row])
        servers, width = -(-gpus // SERVER_GPUS), min(gpus, SERVER_GPUS)
        found: tuple[int, list[int], int] | None = None
        for _ in range(_TRIES):
            tried = self._random.choice(len(self._free), servers, replace=False)
            busy = self._free[tried].reshape(servers, -1, width).max(axis=(0, 2))
            block = int(busy.argmin())
            if found is None or busy[block] < found[0]:
                found = int(busy[block]), tried.tolist(), block
        assert found is not None
        free, chosen, block = found
        start = max(self._now + free, not_before)
        self._free[chosen, block * width : (block + 1) * width] = start + slots - self._now
        ids = self._case.servers.ids
        return Run(start, start + slots, {ids[s]: workers // servers for s in chosen})
