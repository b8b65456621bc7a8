"""What phase 2 of aryl maximises: a multiple-choice knapsack over the extra workers (004 §5.2).

The worth of a job that has `left_s` seconds to go at its size:

- `mckp`: -left_s, so that an item is worth the seconds it saves: the paper's (Algorithm 2, line
  18). It favours long jobs, against shortest remaining time first, and loses where what one job
  gives up now it gets back when the other ends: on Table 2 it reaches an average JCT of 48.33.
- `recip`: 1 / left_s, so that an item of w workers is worth (f(w_min + w) - f(w_min)) / R, with f
  the throughput in epochs per second and R the epochs left. Departure from print: not the paper's.
  It weighs a rise of throughput by how soon it lets the job go, and reaches Table 2's best, 41.67.

A resize of a running job adds its cost to `left_s`.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import dataclass
from typing import TypeAlias

import numpy as np

from policies.curves import curve_start, remaining_s
from policies.knapsack import NONE, Groups, solve
from policies.problem import Bools, Floats, Ints, Problem
from policies.ragged import counted, offsets, rows_of

Worth: TypeAlias = Callable[[Floats], Floats]
"""Of jobs by the seconds that they have to go: falling."""

MOMENT_S = 1.0
"""`recip` tells no shorter times apart: a job about to end is not worth all the others."""


def _soonness(left_s: Floats) -> Floats:
    soonness: Floats = 1 / np.maximum(left_s, MOMENT_S)
    return soonness


WORTH: Mapping[str, Worth] = {"mckp": np.negative, "recip": _soonness}
"""By the name of the objective."""


@dataclass(frozen=True, slots=True)
class Flexible:
    """Phase 2: extra workers beyond the minimum."""

    extra: Ints  # [jobs]
    objective: float  # what was maximised
    bound: float | None  # an upper bound on it, where one is known


def allocate_by_knapsack(problem: Problem, runs: Bools, free_gpus: int, worth: Worth) -> Flexible:
    """Extra workers for the elastic jobs of `runs` within `free_gpus` (lines 10-21, 26-27).

    `objective`: by how much the worth of these jobs rises over that on their minimum, in seconds
    (`mckp`) or 1/s (`recip`).
    """
    jobs = problem.jobs
    rows = np.flatnonzero(runs & jobs.elastic)
    groups, wanted = knapsack_groups(problem, rows, worth)
    solution = solve(groups, free_gpus)
    chosen = solution.choice != NONE
    extra = np.zeros(len(jobs), dtype=np.int64)
    extra[rows[chosen]] = wanted[solution.choice[chosen]]
    # Values were counted from the minimum; getting there costs a job that is larger a resize.
    at_minimum_s = remaining_s(jobs, jobs.min_workers)[rows]
    shrink_s = problem.resize_s * (jobs.workers > jobs.min_workers)[rows]
    shrinking = float((worth(at_minimum_s + shrink_s) - worth(at_minimum_s)).sum())
    return Flexible(extra, solution.value + shrinking, solution.bound + shrinking)


def knapsack_groups(problem: Problem, rows: Ints, worth: Worth) -> tuple[Groups, Ints]:
    """One group for each job of `rows`, and the extra workers that each item stands for.

    An item weighs the GPUs of its extra workers and is worth what they add to the minimum.
    """
    jobs = problem.jobs
    group, extra, offset = extra_workers(jobs.min_workers[rows], jobs.max_workers[rows])
    job = rows[group]
    at_minimum = worth(_left_s(problem, rows, np.zeros_like(rows)))
    value = worth(_left_s(problem, job, extra)) - at_minimum[group]
    return Groups(offset, extra * jobs.gpus_per_worker[job], value), extra


def extra_workers(least: Ints, most: Ints) -> tuple[Ints, Ints, Ints]:
    """The items of jobs from `least` to `most` workers: job, extra workers; offset by job."""
    sizes = most - least
    return rows_of(sizes), counted(np.ones_like(sizes), sizes), offsets(sizes)


def _left_s(problem: Problem, job: Ints, extra: Ints) -> Floats:
    """[entries] Seconds that the job has to go on its minimum and `extra`, a resize included."""
    jobs = problem.jobs
    resized = (jobs.workers[job] > 0) & (jobs.workers[job] != jobs.min_workers[job] + extra)
    epoch_s = jobs.curves.epoch_s[curve_start(jobs)[job] + extra]
    left_s: Floats = jobs.remaining_epochs[job] * epoch_s + problem.resize_s * resized
    return left_s
