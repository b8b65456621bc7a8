"""How fast aryl's jobs run at each size, and with which batch size (004 §2.1, §7.1, App. E)."""

from __future__ import annotations

from dataclasses import dataclass, replace

import numpy as np

from policies.curves import curve_start
from policies.problem import Bools, Floats, Ints, Jobs
from policies.ragged import counted, lengths_of, rows_of
from policies.scaling import best_batches


@dataclass(frozen=True, slots=True)
class Speeds:
    """Jobs on GPUs of one memory and of rate 1. Sizes run from min to max workers, job by job."""

    epoch_s: Floats  # [sizes] seconds of an epoch
    batch_size: Ints  # [sizes] the global batch size that takes these seconds
    fits: Bools  # [jobs] whether any admissible batch size fits into the memory


def speeds(jobs: Jobs, tuned: bool, memory_gib: float) -> Speeds:
    """With the job's own batch size, or, `tuned`, the best of the admissible ones at each size.

    Only batch sizes that fit are taken, the memory of a GPU growing in proportion to its share of
    the batch: where the job's own does not fit, the largest that does (App. E cuts it to half on
    a T4). All are measured on the fewest workers, which have the largest shares. What is not known
    (NaN) fits.
    """
    fits = _fitting(jobs, memory_gib)
    width = jobs.span
    curves = jobs.curves
    first = curves.batch_offset[:-1]
    job = rows_of(lengths_of(curves.batch_offset))
    fitting = np.bincount(job[fits], minlength=len(jobs))
    if tuned:
        epoch_s = np.where(np.repeat(fits, width[job]), curves.epoch_s, np.inf)
        best = best_batches(replace(jobs, curves=replace(curves, epoch_s=epoch_s)))
        return Speeds(*best, fitting > 0)
    if len(curves.batch_size) == len(jobs):  # each has one: its curve is all there is
        return Speeds(curves.epoch_s, np.repeat(curves.batch_size, width), fitting > 0)
    own = (curve_start(jobs) - curves.offset[:-1]) // width
    row = np.minimum(own, np.maximum(fitting - 1, 0))
    entry = counted(curves.offset[:-1] + row * width, width)
    batch_size = np.repeat(curves.batch_size[first + row], width)
    return Speeds(curves.epoch_s[entry], batch_size, fitting > 0)


def _fitting(jobs: Jobs, memory_gib: float) -> Bools:
    """[batch sizes] Which fit: of each job the smaller ones."""
    curves = jobs.curves
    job = rows_of(lengths_of(curves.batch_offset))
    needed_gib = jobs.gpu_memory_gib[job] * curves.batch_size / jobs.batch_size[job]
    fits: Bools = ~(needed_gib > memory_gib)
    return fits
