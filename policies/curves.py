"""Running times off the predicted curves, for many jobs at once."""

from __future__ import annotations

import numpy as np

from policies.problem import Floats, Ints, Jobs
from policies.ragged import lengths_of, rows_of


def curve_start(jobs: Jobs) -> Ints:
    """[jobs] Where in `curves.epoch_s` the row of each job's present batch size begins.

    The entry after it by w is for w workers more than the minimum.
    """
    curves = jobs.curves
    if len(curves.batch_size) == len(jobs):  # each has one
        return curves.offset[:-1]
    job = rows_of(lengths_of(curves.batch_offset))
    smaller = curves.batch_size < jobs.batch_size[job]
    row = np.bincount(job[smaller], minlength=len(jobs))
    start: Ints = curves.offset[:-1] + row * jobs.span
    return start


def remaining_s(jobs: Jobs, workers: Ints) -> Floats:
    """[jobs] Predicted seconds to the end at a constant number of workers, min to max each."""
    epoch_s = jobs.curves.epoch_s[curve_start(jobs) + workers - jobs.min_workers]
    left: Floats = jobs.remaining_epochs * epoch_s
    return left
