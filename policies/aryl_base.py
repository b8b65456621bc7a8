"""Phase 1 of aryl: who runs at least on its base demand (004 §5.2, Algorithm 2, lines 1-9, 24).

Jobs that run keep theirs. Then the queue starts, shortest remaining time at base demand first, that
time being the one on the GPUs where the job would start. A job stands on GPUs of one type: an
inelastic one on a type of the training pool where it fits there, else on loan; an elastic one on
loan first (§5.3). Jobs that mix types come last, on what is left (§6), on training servers first.
"""

from __future__ import annotations

from bisect import bisect_left
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field
from functools import partial
from heapq import heapify, heappop, heappush
from itertools import compress
from typing import TypeAlias

import numpy as np

from policies.aryl_gpus import Fleet
from policies.problem import Bools, Ints
from policies.reason import Reason, because

Why: TypeAlias = Callable[[int], Reason]
"""Why a job does not run, given its row: put together where it is read."""

_Place: TypeAlias = tuple[float, int, int]
"""In the line, soonest first: seconds to go, job, type."""


@dataclass(frozen=True, slots=True)
class Base:
    """Who runs at least on its minimum, and on GPUs of which types."""

    workers: Ints  # [jobs, types] of the base demands: all zero for a job that does not run
    gpu_type: Ints  # [jobs] where a job runs or would start; -1: on several types, or on none
    free_gpus: Ints  # [types] C*, left for phase 2
    waits: Mapping[int, Why]  # by row of those that do not run

    @property
    def runs(self) -> Bools:
        """[jobs] Whether a job runs."""
        runs: Bools = self.workers.sum(axis=1) > 0
        return runs


def allocate_base(fleet: Fleet) -> Base:
    """Running jobs first, then the queue, then what of it mixes types."""
    jobs = fleet.problem.jobs
    floor = _Floor(fleet)
    floor.keep_running()
    queue = jobs.workers == 0
    _Line(floor, np.flatnonzero(queue & ~fleet.mixes)).start()
    floor.start_mixed(np.flatnonzero(queue & fleet.mixes))
    return Base(floor.workers, floor.gpu_type, floor.free, floor.waits)


def spread(wanted: int, room: Ints, order: Sequence[int]) -> Ints:
    """[types] Up to `wanted` workers where there is `room` (in workers), types in this order."""
    workers = np.zeros_like(room)
    for gpu_type in order:
        workers[gpu_type] = min(wanted - int(workers.sum()), int(room[gpu_type]))
    return workers


@dataclass
class _Floor:
    """The GPUs of each type while base demands fill them up."""

    fleet: Fleet
    free: Ints = field(init=False)  # [types]
    workers: Ints = field(init=False)  # [jobs, types]
    gpu_type: Ints = field(init=False)  # [jobs]
    waits: dict[int, Why] = field(default_factory=dict)

    def __post_init__(self) -> None:
        jobs, types = len(self.fleet.problem.jobs), len(self.fleet.types)
        self.free = self.fleet.gpus.copy()
        self.workers = np.zeros((jobs, types), dtype=np.int64)
        self.gpu_type = self.fleet.home.copy()

    def put(self, row: int, workers: Ints) -> None:
        """A base demand takes its GPUs."""
        self.workers[row] = workers
        self.free -= workers * self.fleet.problem.jobs.gpus_per_worker[row]

    def keep_running(self) -> None:
        """Running jobs stay on their types, or move to another one; else they are preempted."""
        jobs = self.fleet.problem.jobs
        stand = self._standing_base()
        kept = _kept(self.fleet, stand)
        self.workers[kept] = stand[kept]
        self.free -= jobs.gpus_per_worker[kept] @ stand[kept]
        for row in np.flatnonzero((jobs.workers > 0) & ~self.workers.any(axis=1)).tolist():
            self._settle(row)
        taken = self.fleet.gpus - self.free
        for row in np.flatnonzero((jobs.workers > 0) & ~self.workers.any(axis=1)).tolist():
            self.gpu_type[row] = (*self.fleet.preferred(row), -1)[0]
            self.waits[row] = partial(self._gives_up, taken)

    def start_mixed(self, queue: Ints) -> None:
        """Jobs that mix types start, shortest first by their times on what is left to them all."""
        if not len(queue):
            return
        fleet, jobs = self.fleet, self.fleet.problem.jobs
        bases = {row: self._mixed_base(row) for row in queue.tolist()}
        whole = [row for row, base in bases.items() if base.sum() == jobs.min_workers[row]]
        base = np.array([bases[row] for row in whole], dtype=np.int64)
        left_s = fleet.left_s(
            np.array(whole, dtype=np.int64), base.reshape(len(whole), len(fleet.types))
        )
        shortest_first = [whole[at] for at in np.argsort(left_s, kind="stable")]
        for row in [*shortest_first, *sorted(bases.keys() - set(whole))]:
            self._start_mixed(row)

    def _start_mixed(self, row: int) -> None:
        base, low = self._mixed_base(row), int(self.fleet.problem.jobs.min_workers[row])
        if base.sum() == low:
            self.put(row, base)
            return
        self.waits[row] = partial(self._waits_for_any, int(self.free.sum()))

    def _gives_up(self, taken: Ints, row: int) -> Reason:
        jobs, usable = self.fleet.problem.jobs, self.fleet.may_use[row]
        return because(
            "gives up its {workers} workers: of {capacity} GPUs left, {taken} go to the base "
            "demands of other running jobs, it needs {needed}",
            workers=int(jobs.workers[row]),
            capacity=int(self.fleet.gpus[usable].sum()),
            taken=int(taken[usable].sum()),
            needed=int(jobs.base_gpus[row]),
        )

    def _waits_for_any(self, free: int, row: int) -> Reason:
        return because(
            "waits: needs {needed} GPUs of any types, {free} are left by the base demands of "
            "running jobs, of jobs that keep to one type and of shorter ones",
            needed=int(self.fleet.problem.jobs.base_gpus[row]),
            free=free,
        )

    def _standing_base(self) -> Ints:
        """[jobs, types] The base demands where they stand; zero for those that stand nowhere."""
        fleet, jobs = self.fleet, self.fleet.problem.jobs
        base = np.zeros_like(self.workers)
        alone = np.flatnonzero((jobs.workers > 0) & ~fleet.mixes & (fleet.home >= 0))
        base[alone, fleet.home[alone]] = jobs.min_workers[alone]
        for row in np.flatnonzero(fleet.mixes & (jobs.workers > 0)).tolist():
            stands = spread(int(jobs.min_workers[row]), fleet.standing[row], fleet.training_first)
            base[row] = stands * (stands.sum() == jobs.min_workers[row])
        return base

    def _settle(self, row: int) -> None:
        """Find other GPUs for a running job that has too few where it stood."""
        fleet, jobs = self.fleet, self.fleet.problem.jobs
        low = int(jobs.min_workers[row])
        if fleet.mixes[row]:
            base = self._mixed_base(row)
            if base.sum() == low:
                self.put(row, base)
            return
        for gpu_type in fleet.preferred(row):
            if jobs.base_gpus[row] <= self.free[gpu_type]:
                self.gpu_type[row] = gpu_type
                self.put(row, _on(fleet, gpu_type, low))
                return

    def _mixed_base(self, row: int) -> Ints:
        """[types] Where the base demand of a job that mixes types fits now, or part of it."""
        jobs = self.fleet.problem.jobs
        room = self.free // jobs.gpus_per_worker[row]
        return spread(int(jobs.min_workers[row]), room, self.fleet.training_first)


class _Line:
    """The jobs that wait and keep to one type, each aimed at the first of its types with room.

    As types fill up, jobs aim at their next one, and their place in the line changes with the time
    that they would take there. One that fits nowhere any more keeps its place, to be told. Those
    that fit nowhere from the start, most of a long queue, stand beside the line.
    """

    def __init__(self, floor: _Floor, rows: Ints) -> None:
        fleet = floor.fleet
        self.floor, self.rows = floor, rows
        self.free: list[int] = floor.free.tolist()  # numpy is slow a number at a time
        self.need: list[int] = fleet.problem.jobs.base_gpus.tolist()
        self.left_s = np.array(fleet.base_s(rows))  # [types and any, rows]
        nowhere: _Place = (-np.inf, -1, -1)
        self.starts = [(nowhere, self.free)]
        """How far the line had come, and the GPUs left: before anyone started, and after each."""
        self.started: dict[int, int] = {}  # job that did not fit at its turn -> starts before it
        usable = fleet.may_use[rows]
        fits = usable & (fleet.problem.jobs.base_gpus[rows, None] <= floor.free)
        aim = fleet.first_choice(rows, fits)
        beside = aim < 0
        floor.gpu_type[rows] = np.where(beside, fleet.first_choice(rows, usable), aim)
        floor.waits |= dict.fromkeys(rows[beside].tolist(), self._waits)
        left_s = self.left_s[aim, np.arange(len(rows))]
        waiting = (column[~beside].tolist() for column in (left_s, rows, aim))
        self.line: list[_Place] = [*zip(*waiting, strict=True)]
        heapify(self.line)
        self.largest: list[list[tuple[int, int]]] = [[] for _ in fleet.types]  # -GPUs, job
        for _, row, gpu_type in self.line:
            heappush(self.largest[gpu_type], (-self.need[row], row))

    def start(self) -> None:
        """Start whoever fits when its turn comes; the others wait."""
        floor = self.floor
        while self.line:
            place = heappop(self.line)
            _, row, gpu_type = place
            if floor.gpu_type[row] != gpu_type:
                continue  # it aims elsewhere by now
            if self.need[row] > self.free[gpu_type]:
                floor.waits[row], self.started[row] = self._waits, len(self.starts) - 1
                continue
            low = int(floor.fleet.problem.jobs.min_workers[row])
            floor.put(row, _on(floor.fleet, gpu_type, low))
            self.free = floor.free.tolist()
            self.starts.append((max(place, self.starts[-1][0]), self.free))
            self._aim_elsewhere(gpu_type)

    def _aim_elsewhere(self, gpu_type: int) -> None:
        """Those that no longer fit on a type aim at the next one with room, if there is one."""
        floor, largest = self.floor, self.largest[gpu_type]
        while largest and -largest[0][0] > self.free[gpu_type]:
            _, row = heappop(largest)
            if floor.gpu_type[row] != gpu_type or floor.workers[row].any():
                continue
            need = self.need[row]
            fitting = [at for at in floor.fleet.preferred(row) if need <= self.free[at]]
            if fitting:
                floor.gpu_type[row] = fitting[0]
                heappush(self.line, (self._left_s(row, fitting[0]), row, fitting[0]))
                heappush(self.largest[fitting[0]], (-need, row))

    def _left_s(self, row: int, gpu_type: int) -> float:
        """Seconds to go on the base demand, on GPUs of a type or, for -1, of rate 1."""
        return float(self.left_s[gpu_type, self.rows.searchsorted(row)])

    def _waits(self, row: int) -> Reason:
        """Why a job waits: how many before it started, and how many GPUs these left."""
        fleet, gpu_type = self.floor.fleet, int(self.floor.gpu_type[row])
        left_s = self._left_s(row, gpu_type)
        started = self.started.get(row)
        if started is None:  # it stood beside the line
            place = (left_s, row, gpu_type)
            started = bisect_left(self.starts, place, key=lambda start: start[0]) - 1
        _, free = self.starts[started]
        asked = fleet.problem.jobs.gpu_type[row]
        if asked:
            needs, where = "{needed} {gpu_type} GPUs", "{free} are left"
        elif len(fleet.types) > 1:
            needs, where = "{needed} GPUs of one type", "{free} of one are left"
        else:
            needs, where = "{needed} GPUs", "{free} are left"
        return because(
            f"waits: needs {needs}, {where} by the base demands of running jobs "
            "and of {started} shorter ones; {left_s:.0f} s to go at its minimum",
            needed=self.need[row],
            free=max(compress(free, fleet.may_use[row].tolist()), default=0),
            started=started,
            left_s=left_s,
            **({"gpu_type": asked} if asked else {}),
        )


def _on(fleet: Fleet, gpu_type: int, workers: int) -> Ints:
    """[types] All workers on one type."""
    alone = np.zeros(len(fleet.types), dtype=np.int64)
    alone[gpu_type] = workers
    return alone


def _kept(fleet: Fleet, base: Ints) -> Ints:
    """Rows of the jobs whose base demands stay where they stand: all, unless servers were lost.

    Then the latest submitted give way: jobs stay in the order of submission, those passed over
    that no longer fit. Where that preempts no more jobs, those that would lose all their progress,
    having no checkpoints, stay before the others (§4).
    """
    jobs = fleet.problem.jobs
    rows = np.flatnonzero(base.any(axis=1))
    needed = base * jobs.gpus_per_worker[:, None]
    if (needed.sum(axis=0) <= fleet.gpus).all():
        return rows

    def walk(order: Ints) -> Ints:
        left, stays = fleet.gpus.copy(), []
        for row in order.tolist():
            if (needed[row] <= left).all():
                left -= needed[row]
                stays.append(row)
        return np.array(stays, dtype=np.int64)

    by_arrival = walk(rows)
    careful = walk(rows[np.argsort(jobs.checkpoints[rows], kind="stable")])
    return careful if len(careful) >= len(by_arrival) else by_arrival
