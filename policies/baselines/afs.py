"""AFS: one more GPU at a time, to the job that makes the most of it."""

from __future__ import annotations

from dataclasses import dataclass
from typing import ClassVar, Literal

import numpy as np
from numba import njit, types

from policies.baselines.filling import fill, take
from policies.baselines.sentences import resized
from policies.checks import check
from policies.curves import curve_start
from policies.problem import (
    NO_MEMORY,
    Allocation,
    Decision,
    Floats,
    Ints,
    Jobs,
    Memory,
    PolicyError,
    Problem,
)
from policies.ragged import counted, offsets, rows_of

_INTS = types.Array(types.int64, 1, "C", readonly=True)
_FLOATS = types.Array(types.float64, 1, "C", readonly=True)

_STEPS = types.Tuple((types.float64[::1], types.float64[::1], types.int64[::1]))
"""[jobs] each: the factor now, the factor after the next step, the GPUs of that step."""

_DIGITS = 9
_LESS = 1 - 10.0**-_DIGITS
"""What differs by less is equal: rounding must not decide where all scale linearly."""


@dataclass(frozen=True)
class Afs:
    """004 §7.1 "AFS": base demands first, then workers where the throughput rises most per GPU.

    Reading `aryl`, 004's own: running jobs keep their base demand (the minimum number of
    workers); queued ones get theirs in the order of arrival, those passed over that do not fit.
    Then one worker at a time goes to the job of largest gain (T(w + 1) - T(w)) / GPUs of a worker.
    Throughputs of different models count in each one's own at its base demand, as GPUs of perfect
    scaling; so under linear scaling all gains are equal, and the earliest submitted grows first.

    Reading `afs_l`, the original (Hwang et al., NSDI 2021, AFS-L), recalled from memory: nobody
    is kept. Of two jobs without GPUs the one that ends sooner comes first. Otherwise, with a the
    one that ends sooner at its present size and b the other, b comes first exactly if

        (T_b(k + 1) - T_b(k)) / T_b(k + 1)  >  (T_a(k + 1) - T_a(k)) / T_a(k).

    A step is one worker, and its ratio is divided by its GPUs; but the first is the whole
    minimum, and its ratio is 1 throughout, so that nobody waits because it starts on several.
    The rule can go round in a circle. So those with GPUs are compared in the order of arrival,
    and the winner with the first of the others, who would starve in one long row.

    Both readings: a step that adds no throughput is not taken, which neither source says. Sizes
    end at `max_workers`: for the unbounded elasticity that 004 gives AFS, submit such jobs.
    """

    reading: Literal["aryl", "afs_l"] = "aryl"

    name: ClassVar[str] = "afs"
    source: ClassVar[str] = "004 §7.1, Appendix F (AFS)"
    default_loaning: ClassVar[str] = "off"

    def __post_init__(self) -> None:
        if self.reading not in ("aryl", "afs_l"):
            raise PolicyError(f"reading is {self.reading!r}; use aryl or afs_l")

    @property
    def interval_s(self) -> None:
        """Asked at arrivals and departures."""

    def decide(self, problem: Problem, memory: Memory) -> tuple[Decision, Memory]:
        """Sizes within the GPUs of the whole cluster; placement best fit decreasing."""
        check(problem)
        jobs, capacity = problem.jobs, problem.servers.total_gpus
        factors = _Factors.of(jobs)
        sized = _by_gain if self.reading == "aryl" else _by_pairs
        workers = sized(jobs, factors, capacity)
        free = capacity - int((workers * jobs.gpus_per_worker).sum())
        return Decision(_allocations(jobs, factors, workers, free)), NO_MEMORY


@dataclass(frozen=True, slots=True)
class _Factors:
    """Throughput of each size over that of one GPU at the base demand, from min to max workers."""

    start: Ints  # [jobs] into `factor`
    factor: Floats  # [sizes], at the present batch size

    @classmethod
    def of(cls, jobs: Jobs) -> _Factors:
        start, job = offsets(jobs.span)[:-1], rows_of(jobs.span)
        epoch_s = jobs.curves.epoch_s[counted(curve_start(jobs), jobs.span)]
        return cls(start, jobs.base_gpus[job] * epoch_s[start[job]] / epoch_s)

    def gain(self, jobs: Jobs, row: int, workers: int) -> float:
        """What the next step adds for each of its GPUs; the job is below its maximum."""
        if not workers:
            return 1.0
        at = self.start[row] + workers - jobs.min_workers[row]
        rise = float(self.factor[at + 1] - self.factor[at])
        return round(rise / int(jobs.gpus_per_worker[row]), _DIGITS)


def _by_gain(jobs: Jobs, factors: _Factors, capacity_gpus: int) -> Ints:
    """[jobs] Base demands in order, then one worker at a time by gain."""
    running = jobs.workers > 0
    order = np.concatenate((np.flatnonzero(running), np.flatnonzero(~running)))
    runs = take(order.tolist(), jobs.base_gpus, capacity_gpus).runs

    def rank(row: int, workers: int) -> float | None:
        gain = factors.gain(jobs, row, workers)
        return -gain if runs[row] and gain > 0 else None

    base = np.where(runs, jobs.min_workers, 0)
    return fill(jobs, base, capacity_gpus - int(jobs.base_gpus[runs].sum()), rank)


def _by_pairs(jobs: Jobs, factors: _Factors, capacity_gpus: int) -> Ints:
    """[jobs] From nothing, one step at a time to the winner of all comparisons."""
    alone_s = jobs.remaining_epochs * jobs.curves.epoch_s[curve_start(jobs)] * jobs.base_gpus
    workers: Ints = _fill_by_pairs(
        jobs.min_workers,
        jobs.max_workers,
        jobs.gpus_per_worker,
        alone_s,
        factors.start,
        factors.factor,
        capacity_gpus,
    )
    return workers


@njit(types.boolean(_STEPS, _FLOATS, types.int64, types.int64), cache=True)
def _first(steps, alone_s, j, best):  # type: ignore[no-untyped-def]
    """Whether job j comes before job `best`, which arrived earlier; both have GPUs."""
    now, ahead, gpus = steps
    sooner = alone_s[j] / now[j] < alone_s[best] / now[best] * _LESS
    a, b = (j, best) if sooner else (best, j)
    gain_a = (ahead[a] - now[a]) / now[a] / gpus[a]
    gain_b = (ahead[b] - now[b]) / ahead[b] / gpus[b]
    return (gain_a < gain_b * _LESS) != sooner


@njit(
    types.int64[::1](_INTS, _INTS, _INTS, _FLOATS, _INTS, _FLOATS, types.int64),
    cache=True,
)
def _fill_by_pairs(least, most, gpus, alone_s, start, factor, free):  # type: ignore[no-untyped-def]
    """[jobs] Workers; `alone_s` [jobs]: seconds to the end at a factor of 1."""
    workers = np.zeros(len(least), np.int64)
    now, ahead, step_gpus = np.zeros(len(least)), factor[start], least * gpus
    while True:
        best, waits = -1, -1
        for j in range(len(least)):
            if workers[j] == most[j] or step_gpus[j] > free or ahead[j] <= now[j]:
                continue
            if workers[j] == 0:
                if waits < 0 or alone_s[j] / ahead[j] < alone_s[waits] / ahead[waits] * _LESS:
                    waits = j
            elif best < 0 or _first((now, ahead, step_gpus), alone_s, j, best):
                best = j
        if waits >= 0 and (
            best < 0 or (ahead[best] - now[best]) / now[best] / step_gpus[best] < _LESS
        ):
            best = waits
        if best < 0:
            return workers
        free -= step_gpus[best]
        workers[best] += 1 if workers[best] else least[best]
        at = start[best] + workers[best] - least[best]
        now[best], step_gpus[best] = factor[at], gpus[best]
        if workers[best] < most[best]:
            ahead[best] = factor[at + 1]


def _allocations(
    jobs: Jobs, factors: _Factors, workers: Ints, free_gpus: int
) -> dict[str, Allocation]:
    allocations = {}
    for row, (job, size) in enumerate(zip(jobs.ids, workers.tolist(), strict=True)):
        gain, more = 0.0, ""
        if size < jobs.max_workers[row]:
            gain = factors.gain(jobs, row, size)
            more = "the next GPU would add {gain:.2f} of one" if size else "others come first"
        reason = resized(jobs, row, size, free_gpus, more, gain=gain)
        allocations[job] = Allocation(size, reason)
    return allocations
