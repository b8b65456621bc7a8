"""Schedules of many admitted oasis jobs, laid out at random instead of solved for one by one."""

from __future__ import annotations

import json
import math
from dataclasses import replace
from functools import partial
from typing import Any, NamedTuple

import numpy as np

from benchmarks.problems import GPUS_PER_JOB, Random, concave_curves, first, mixed, problem
from policies.oasis import Oasis
from policies.oasis.reservations import Reservations
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
    blocks = _Book(case, random).blocks(jobs)
    return case, json.loads(json.dumps({**memory, "admitted": _admitted(case, blocks)}))


def _admitted(case: Problem, blocks: list[_Block]) -> dict[str, Any]:
    """The blocks as the policy remembers them."""
    row, start, end, server, workers = np.array(blocks).T
    jobs = np.unique(row)
    held = Reservations(
        job=jobs,
        utility=np.ones(len(jobs)),
        cost=np.full(len(jobs), 0.5),
        owner=row,
        start=start,
        end=end,
        server=server,
        workers=workers,
    )
    return held.to_json(case.jobs.ids, case.servers.ids)


def _with_arrival(jobs: Jobs) -> Jobs:
    """The last job has yet to start, and can end within the span."""
    workers, remaining_epochs = jobs.workers.copy(), jobs.remaining_epochs.copy()
    within_s = POLICY.slot_s * _LONGEST_RUN
    workers[-1] = 0
    remaining_epochs[-1] = min(remaining_epochs[-1], within_s / jobs.curves.of(len(jobs) - 1)[0, 0])
    return replace(jobs, workers=workers, remaining_epochs=remaining_epochs)


class _Block(NamedTuple):
    """Workers of one job on one server, from slot `start` until before slot `end`."""

    row: int
    start: int
    end: int
    server: int
    workers: int


class _Book:
    """From which slot on each GPU of each server is free, counted from now."""

    def __init__(self, case: Problem, random: Random) -> None:
        self._case, self._random = case, random
        self._now = int(case.now_s // POLICY.slot_s)
        self._free = np.zeros((len(case.servers.ids), SERVER_GPUS), dtype=np.int64)

    def blocks(self, jobs: int) -> list[_Block]:
        """A schedule for each of the first jobs, on its least workers, as early as it fits."""
        blocks: list[_Block] = []
        for row in range(jobs):
            ends = self._now
            for _ in range(_RUNS):
                blocks += self._run(row, ends)
                ends = blocks[-1].end
        return blocks

    def _run(self, row: int, not_before: int) -> list[_Block]:
        """On whole servers, or on neighbouring GPUs of one."""
        jobs = self._case.jobs
        left_s = float(jobs.remaining_epochs[row] * jobs.curves.of(row)[0, 0])
        slots = min(math.ceil(left_s / POLICY.slot_s / _RUNS), _LONGEST_RUN)
        workers = int(jobs.min_workers[row])
        gpus = workers * int(jobs.gpus_per_worker[row])
        servers, width = -(-gpus // SERVER_GPUS), min(gpus, SERVER_GPUS)
        draw = partial(self._random.choice, len(self._free), servers, replace=False)
        tries = [draw() for _ in range(_TRIES)]
        busy = np.array([self._free[t].reshape(servers, -1, width).max(axis=(0, 2)) for t in tries])
        tried, block = divmod(int(busy.argmin()), busy.shape[1])
        chosen, gpu = tries[tried], block * width
        start = max(self._now + int(busy[tried, block]), not_before)
        self._free[chosen, gpu : gpu + width] = start + slots - self._now
        share = workers // servers
        return [_Block(row, start, start + slots, s, share) for s in chosen.tolist()]
