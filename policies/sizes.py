"""The sizes that jobs may have and their speeds, for every policy that picks among them."""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np
from numba import njit, types

from policies.curves import curve_start
from policies.problem import Floats, Ints, Jobs
from policies.ragged import counted, lengths_of, offsets, rows_of

_INTS = types.Array(types.int64, 1, "C", readonly=True)
_FLOATS = types.Array(types.float64, 1, "C", readonly=True)


@dataclass(frozen=True, slots=True)
class Sizes:
    """The sizes that each job may have, ragged over jobs, ascending from 0 GPUs."""

    offset: Ints  # [jobs + 1]
    gpus: Ints  # [sizes] of all workers
    rate: Floats  # [sizes] epochs a second, strictly ascending within a job (see `of`)

    @classmethod
    def of(cls, jobs: Jobs, powers_of_two: bool, *, slower: bool = False) -> Sizes:
        """From min to max workers at the present batch size, those that are worth their GPUs.

        With `powers_of_two` only these numbers of workers, or the minimum where none lies in the
        range. With `slower` a size no faster than a smaller one stays, and rates do not ascend.
        """
        job, workers = rows_of(jobs.span), counted(jobs.min_workers, jobs.span)
        if powers_of_two:
            power = (workers & (workers - 1)) == 0
            job, workers = job[power], workers[power]
        job, workers, epoch_s = sizes_among(jobs, job, workers, slower=slower)
        offset = offsets(np.bincount(job, minlength=len(jobs)) + 1)
        sized = np.ones(offset[-1], dtype=np.bool_)
        sized[offset[:-1]] = False  # 0 GPUs, at which nothing is done
        gpus, rate = np.zeros(offset[-1], dtype=np.int64), np.zeros(offset[-1])
        gpus[sized], rate[sized] = workers * jobs.gpus_per_worker[job], 1.0 / epoch_s
        return cls(offset, gpus, rate)

    def gpus_of(self, job: int) -> Ints:
        """A view of one job's sizes."""
        return self.gpus[self.offset[job] : self.offset[job + 1]]

    def rate_of(self, job: int) -> Floats:
        """A view of the speeds at one job's sizes, epochs a second."""
        return self.rate[self.offset[job] : self.offset[job + 1]]

    def standing(self, jobs: Jobs) -> Ints:
        """[jobs] Index of the size that each job has now; beyond its last where it is none."""
        counts = lengths_of(self.offset)
        job = rows_of(counts)
        same = np.flatnonzero(self.gpus == (jobs.workers * jobs.gpus_per_worker)[job])
        index = counts.copy()
        index[job[same]] = same - self.offset[job[same]]
        return index

    def within(self, job: Ints, gpus: Ints) -> Ints:
        """[rows] Index of the largest size of `job` [rows] within so many GPUs [rows]."""
        index: Ints = _within(self.offset, self.gpus, job, gpus)
        return index

    @property
    def smallest_gpu_s(self) -> Floats:
        """[jobs] GPU-seconds of one epoch at the smallest size."""
        smallest = self.offset[:-1] + 1
        gpu_s: Floats = self.gpus[smallest] / self.rate[smallest]
        return gpu_s

    @property
    def fastest(self) -> Floats:
        """[jobs] Epochs a second at the largest size."""
        return self.rate[self.offset[1:] - 1]


def sizes_among(
    jobs: Jobs, job: Ints, workers: Ints, *, slower: bool = False
) -> tuple[Ints, Ints, Floats]:
    """The sizes that jobs may have among those given, job after job: job, workers, epoch_s.

    Given are numbers of workers, ascending within a job. A job has those in its range, or its
    minimum where none is. One no faster than a smaller one is left out, as nothing would be
    gained, unless `slower`.
    """
    inside = (jobs.min_workers[job] <= workers) & (workers <= jobs.max_workers[job])
    job, workers = job[inside], workers[inside]
    none = np.flatnonzero(np.bincount(job, minlength=len(jobs)) == 0)
    if len(none):
        job = np.concatenate((job, none))
        order = np.argsort(job, kind="stable")
        job, workers = job[order], np.concatenate((workers, jobs.min_workers[none]))[order]
    epoch_s = jobs.curves.epoch_s[curve_start(jobs)[job] + workers - jobs.min_workers[job]]
    if slower:
        return job, workers, epoch_s
    faster = _faster(job, epoch_s)
    return job[faster], workers[faster], epoch_s[faster]


@njit(types.boolean[::1](_INTS, _FLOATS), cache=True)
def _faster(job, epoch_s):  # type: ignore[no-untyped-def]
    """Which entries fall below all earlier ones of the same job."""
    faster = np.empty(len(job), np.bool_)
    shortest_s = np.inf
    for at in range(len(job)):
        if at > 0 and job[at] != job[at - 1]:
            shortest_s = np.inf
        faster[at] = epoch_s[at] < shortest_s
        shortest_s = min(shortest_s, epoch_s[at])
    return faster


@njit(types.int64[::1](_INTS, _INTS, _INTS, _INTS), cache=True)
def _within(offset, gpus, job, most):  # type: ignore[no-untyped-def]
    """The last of a job's entries that is not over `most`."""
    index = np.empty(len(job), np.int64)
    for row, i in enumerate(job):
        own = gpus[offset[i] : offset[i + 1]]
        index[row] = np.searchsorted(own, most[row], side="right") - 1
    return index
