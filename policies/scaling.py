"""Throughput scaling factors and best batch sizes off the predicted curves (paper 003 §III-C)."""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np
from numba import njit, types

from policies.elastic_program import Sizes
from policies.problem import Bools, Floats, Ints, Jobs, PolicyError
from policies.ragged import counted, lengths_of, offsets, rows_of

_INTS = types.Array(types.int64, 1, "C", readonly=True)
_FLOATS = types.Array(types.float64, 1, "C", readonly=True)
_NEW_INTS = types.int64[::1]
_NEW_FLOATS = types.float64[::1]


@dataclass(frozen=True, slots=True)
class Scaling:
    """How fast each job runs at each of its sizes, with the best batch size there.

    The scaling factor of a size is its samples per second over those of one GPU at the largest
    batch that fits (003, equations (1) and (2)), the number of samples in an epoch cancelling out:

        factor(k) = gpu_s / min over b of epoch_s(b, k).

    A curve begins at the job's smallest size, not at one GPU: `gpu_s`, the epoch on one GPU, is
    the epoch at the smallest size with the largest batch that fits there, times the GPUs of that
    size. For a job that begins on one GPU that is the paper's baseline T(b_max, 1); a larger one
    is taken to scale perfectly below the sizes that it can have, so that factors count in GPUs.
    An `epoch_s` of inf says that the batch does not fit on so many workers: no such size.
    """

    sizes: Sizes  # GPUs and factor
    workers: Ints  # [sizes]
    batch_size: Ints  # [sizes] the fastest; of equally fast ones the smallest
    gpu_s: Floats  # [jobs] seconds of an epoch on one GPU

    def only(self, jobs: Bools) -> tuple[Ints, Sizes]:
        """Where the sizes of these jobs stand, and the sizes by themselves."""
        kept = np.flatnonzero(jobs[self.sizes.job])
        offset = offsets(lengths_of(self.sizes.offset)[jobs])
        return kept, Sizes(offset, self.sizes.gpus[kept], self.sizes.value[kept])


def scaling(jobs: Jobs, max_gpus: int | None = None) -> Scaling:
    """The sizes of each job up to `max_gpus` (k_max), its smallest one in any case.

    Raises `PolicyError` for a job that has no size at all.
    """
    start = _start(jobs)
    fastest_s, batch_size = best_batches(jobs)
    job, workers = rows_of(jobs.span), counted(jobs.min_workers, jobs.span)
    gpus = workers * jobs.gpus_per_worker[job]

    fits = np.isfinite(fastest_s)
    smallest = _smallest(jobs, job, fits)
    gpu_s = _largest_batch_s(jobs, smallest - start[:-1]) * gpus[smallest]
    if max_gpus is not None:
        fits &= gpus <= np.maximum(max_gpus, gpus[smallest])[job]
    kept = np.flatnonzero(fits)
    offset = np.searchsorted(job[kept], np.arange(len(jobs) + 1))
    factor = gpu_s[job[kept]] / fastest_s[kept]
    return Scaling(Sizes(offset, gpus[kept], factor), workers[kept], batch_size[kept], gpu_s)


def best_batches(jobs: Jobs) -> tuple[Floats, Ints]:
    """[sizes] Seconds of an epoch at the best batch size, from min to max workers of each job, and
    that batch size: of equally fast ones the smallest."""
    curves = jobs.curves
    best: tuple[Floats, Ints] = _fastest(
        curves.epoch_s, curves.offset, curves.batch_size, curves.batch_offset, _start(jobs)
    )
    return best


def _start(jobs: Jobs) -> Ints:
    """[jobs + 1] Where the sizes of each job begin."""
    return offsets(jobs.span)


def _smallest(jobs: Jobs, job: Ints, fits: Bools) -> Ints:
    """[jobs] Index of the first size that fits."""
    fitting = np.flatnonzero(fits)
    found, first = np.unique(job[fitting], return_index=True)
    if len(found) < len(jobs):
        row = int(np.setdiff1d(np.arange(len(jobs)), found)[0])
        raise PolicyError(
            f"job {jobs.ids[row]}: epoch_s is finite nowhere; "
            "one batch size must fit on one number of workers"
        )
    smallest: Ints = fitting[first]
    return smallest


def _largest_batch_s(jobs: Jobs, column: Ints) -> Floats:
    """[jobs] Seconds of an epoch at a column of each curve, with the largest batch that fits."""
    curves = jobs.curves
    batches = lengths_of(curves.batch_offset)
    job = rows_of(batches)
    row = np.arange(len(job)) - curves.batch_offset[job]
    width = jobs.span[job]
    epoch_s = curves.epoch_s[curves.offset[job] + row * width + column[job]]
    largest = np.zeros(len(jobs), dtype=np.int64)
    fits = np.flatnonzero(np.isfinite(epoch_s))
    np.maximum.at(largest, job[fits], fits)
    seconds: Floats = epoch_s[largest]
    return seconds


@njit(
    types.Tuple((_NEW_FLOATS, _NEW_INTS))(_FLOATS, _INTS, _INTS, _INTS, _INTS),
    cache=True,
)
def _fastest(epoch_s, offset, batch_size, batch_offset, start):  # type: ignore[no-untyped-def]
    """Over all batch sizes of a job, at each of its sizes: seconds of an epoch, and the batch.

    `start` [jobs + 1]: where the sizes of each job begin in the answer.
    """
    fastest_s = np.full(start[-1], np.inf)
    fastest_batch = np.zeros(start[-1], np.int64)
    for j in range(len(start) - 1):
        entry = offset[j]
        for b in range(batch_offset[j], batch_offset[j + 1]):
            for size in range(start[j], start[j + 1]):
                if epoch_s[entry] < fastest_s[size]:
                    fastest_s[size] = epoch_s[entry]
                    fastest_batch[size] = batch_size[b]
                entry += 1
    return fastest_s, fastest_batch
