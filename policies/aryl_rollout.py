"""`rollout`: of five ways to share the flexible GPUs, the one whose jobs end soonest on average.

Beside the paper (004 §5.1 shows why no single rule is best). Each rule is rolled out to the end:
it allocates, the first job ends, its GPUs start queued jobs on their minimum (phase 1, shortest
first), the rule allocates again, until all have ended. The rule with the smallest sum of
completion times decides this time; at the next decision all five are asked again.

The rules, with R the epochs left, e(w) the seconds of an epoch on w workers, D the GPUs of a
worker, W the number of workers at which e is least, and L = R e(W) W the work in worker-seconds:

    recip, mckp             the knapsacks of `aryl_objectives`
    smallest L / W first    shortest remaining time at the largest size
    smallest W D first      fewest GPUs at the largest size (App. C, first case)
    smallest L D W D first  both

Within a rollout the knapsacks are taken greedily along the hulls of the curves, which is exact up
to the last job that does not fit whole. A job that changes size stands still for `resize_s`.
"""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass
from heapq import heapify, heappop, heappush

import numpy as np
from numba import njit, types

from policies.aryl_objectives import WORTH, Flexible, allocate_by_knapsack, extra_workers
from policies.curves import curve_start, remaining_s
from policies.knapsack import hull
from policies.problem import Bools, Floats, Ints, Problem
from policies.ragged import offsets

MAX_JOBS = 300
"""The five rollouts of so many take about 20 ms, and four times that of twice as many. Above,
`recip` decides."""

_TINY = 1e-300  # epochs left of a job that has none: no power of it divides by zero
_SAME_TIME = 1e-12  # relative difference of times that are one

_INTS = types.Array(types.int64, 1, "C", readonly=True)
_FLOATS = types.Array(types.float64, 1, "C", readonly=True)
_BOOLS = types.Array(types.boolean, 1, "C", readonly=True)
_NEW_INTS = types.int64[::1]
_NEW_FLOATS = types.float64[::1]
_NEW_BOOLS = types.boolean[::1]
_JOBS = types.Tuple((_INTS, _INTS, _INTS, _FLOATS))  # see `_job_columns`
_RULE = types.Tuple((_INTS, _INTS, _FLOATS, types.float64))  # see `_Rule.columns`


@dataclass(frozen=True, slots=True)
class _Rule:
    """Steps that a job grows by, in order; of all jobs' next steps the most urgent comes first.

    The urgency of a step is `gain` x R ** `power`.
    """

    start: Ints  # [jobs + 1] into the steps
    reach: Ints  # [steps] extra workers when the step is done
    gain: Floats  # [steps] falling within a job
    power: float

    @property
    def columns(self) -> tuple[Ints, Ints, Floats, float]:
        """As the kernels take them."""
        return self.start, self.reach, self.gain, self.power


def allocate_by_rollout(problem: Problem, runs: Bools, free_gpus: int) -> Flexible:
    """Extra workers by the best of the five rules, the earlier of equals.

    `objective`: minus the sum over all jobs of the predicted seconds until they end, which no
    bound is known on.
    """
    best = Flexible(np.zeros(len(problem.jobs), dtype=np.int64), -np.inf, None)
    for rule, extra in _candidates(problem, runs, free_gpus):
        total_s = _total_s(
            _job_columns(problem),
            rule.columns,
            extra,
            problem.jobs.remaining_epochs,
            problem.jobs.workers,
            runs,
            _queue(problem, runs),
            free_gpus,
            problem.resize_s,
        )
        if -total_s > best.objective:
            best = Flexible(extra, -total_s, None)
    return best


def _candidates(problem: Problem, runs: Bools, free_gpus: int) -> Iterator[tuple[_Rule, Ints]]:
    """Each rule with the extra workers [jobs] that it gives now."""
    recip, mckp, *orders = _rules(problem)
    yield recip, allocate_by_knapsack(problem, runs, free_gpus, WORTH["recip"]).extra
    yield mckp, allocate_by_knapsack(problem, runs, free_gpus, WORTH["mckp"]).extra
    left = problem.jobs.remaining_epochs
    for rule in orders:
        yield rule, _share(_job_columns(problem), rule.columns, left, runs, free_gpus)


def _rules(problem: Problem) -> list[_Rule]:
    """The five, in the order of the module's docstring; the curves are those of all jobs."""
    jobs = problem.jobs
    job, extra, offset = extra_workers(jobs.min_workers, jobs.max_workers)
    start = curve_start(jobs)[job]
    least_s, more_s = jobs.curves.epoch_s[start], jobs.curves.epoch_s[start + extra]
    gpus = extra * jobs.gpus_per_worker[job]
    everything = int(gpus.sum())
    faster, gets_faster, _, rate_gain = hull(offset, gpus, 1 / more_s - 1 / least_s, everything)
    shorter, gets_shorter, _, time_gain = hull(offset, gpus, least_s - more_s, everything)

    last = np.flatnonzero(np.diff(gets_shorter, append=-1))  # a job's last step, to W workers
    best, grows = shorter[last], gets_shorter[last]
    best_gpus = ((jobs.min_workers[job] + extra) * jobs.gpus_per_worker[job])[best]

    def rule(item: Ints, grown: Ints, gain: Floats, power: float) -> _Rule:
        steps = np.bincount(grown, minlength=len(jobs))
        return _Rule(offsets(steps), extra[item], gain, power)

    return [
        rule(faster, gets_faster, rate_gain, -1.0),
        rule(shorter, gets_shorter, time_gain, 1.0),
        rule(best, grows, 1 / more_s[best], -1.0),
        rule(best, grows, 1 / best_gpus, 0.0),
        rule(best, grows, 1 / (more_s[best] * best_gpus**2), -1.0),
    ]


def _job_columns(problem: Problem) -> tuple[Ints, Ints, Ints, Floats]:
    """[jobs] Minimum, GPUs of a worker, and where in the last, `epoch_s`, its minimum stands."""
    jobs = problem.jobs
    return jobs.min_workers, jobs.gpus_per_worker, curve_start(jobs), jobs.curves.epoch_s


def _queue(problem: Problem, runs: Bools) -> Ints:
    """The jobs that wait, shortest remaining time at the minimum first."""
    waiting = np.flatnonzero(~runs)
    left_s = remaining_s(problem.jobs, problem.jobs.min_workers)[waiting]
    queue: Ints = waiting[np.argsort(left_s, kind="stable")]
    return queue


@njit(_NEW_INTS(_JOBS, _RULE, _FLOATS, _BOOLS, types.int64), cache=True)
def _share(jobs, rule, left, runs, free):  # type: ignore[no-untyped-def]
    """[jobs] Extra workers: the most urgent step while any GPU is free, in part if need be."""
    _, gpus, curve, epoch_s = jobs
    start, reach, gain, power = rule
    extra = np.zeros(len(left), np.int64)
    urgency = np.maximum(left, _TINY) ** power
    steps = [(0.0, 0, 0) for _ in range(0)]
    for j in range(len(left)):
        if runs[j] and start[j] < start[j + 1]:
            steps.append((-gain[start[j]] * urgency[j], j, start[j]))
    heapify(steps)
    while len(steps) > 0 and free > 0:
        _, j, step = heappop(steps)
        wanted = reach[step] - extra[j]
        given = min(wanted, free // gpus[j])
        at = curve[j] + extra[j]
        while given > 0 and epoch_s[at + given] >= epoch_s[at + given - 1]:
            given -= 1  # part of a step may end where a worker more does not help
        extra[j] += given
        free -= given * gpus[j]
        if given == wanted and step + 1 < start[j + 1]:
            heappush(steps, (-gain[step + 1] * urgency[j], j, step + 1))
    return extra


@njit(types.void(_JOBS, _INTS, _NEW_INTS, _BOOLS, _NEW_FLOATS, types.float64), cache=True)
def _resize(jobs, extra, workers, runs, paused_s, resize_s):  # type: ignore[no-untyped-def]
    """Give the running jobs their size; those that had another one stand still for it."""
    min_workers = jobs[0]
    for j in np.flatnonzero(runs):
        size = min_workers[j] + extra[j]
        if workers[j] > 0 and workers[j] != size:
            paused_s[j] = resize_s
        workers[j] = size


@njit(
    types.Tuple((types.float64, types.int64, types.int64))(
        _JOBS, _INTS, _NEW_FLOATS, _NEW_BOOLS, _NEW_FLOATS
    ),
    cache=True,
)
def _pass_time(jobs, extra, left, runs, paused_s):  # type: ignore[no-untyped-def]
    """Let the running jobs work until the first of them ends.

    Returns the seconds until then, how many jobs end, and the GPUs of their minimums.
    """
    min_workers, gpus, curve, epoch_s = jobs
    running = np.flatnonzero(runs)
    each_s = epoch_s[curve[running] + extra[running]]
    end_s = paused_s[running] + left[running] * each_s
    step_s = end_s.min()
    ended = freed = 0
    for i, j in enumerate(running):
        if end_s[i] <= step_s * (1 + _SAME_TIME):
            runs[j] = False
            ended += 1
            freed += min_workers[j] * gpus[j]
        else:
            stood_s = min(paused_s[j], step_s)
            paused_s[j] -= stood_s
            left[j] -= (step_s - stood_s) / each_s[i]
    return step_s, ended, freed


@njit(types.int64(_JOBS, _INTS, _NEW_BOOLS, _NEW_BOOLS, types.int64), cache=True)
def _start(jobs, queue, waits, runs, free):  # type: ignore[no-untyped-def]
    """Start every job of the queue that fits on its minimum; the GPUs that are left."""
    min_workers, gpus = jobs[0], jobs[1]
    for j in queue:
        if waits[j] and min_workers[j] * gpus[j] <= free:
            waits[j], runs[j] = False, True
            free -= min_workers[j] * gpus[j]
    return free


@njit(
    types.float64(_JOBS, _RULE, _INTS, _FLOATS, _INTS, _BOOLS, _INTS, types.int64, types.float64),
    cache=True,
)
def _total_s(jobs, rule, extra, left, workers, runs, queue, free, resize_s):  # type: ignore[no-untyped-def]
    """Sum over the jobs of the seconds until they end, if `extra` now and the rule after it.

    `left` [jobs] epochs; `queue` the jobs that wait, in order; `free` GPUs beside all minimums.
    """
    left, workers, runs = left.copy(), workers.copy(), runs.copy()
    waits = ~runs
    workers[waits] = 0  # those that are preempted now start anew
    paused_s = np.zeros(len(left))
    now_s = total_s = 0.0
    while runs.any():
        _resize(jobs, extra, workers, runs, paused_s, resize_s)
        step_s, ended, freed = _pass_time(jobs, extra, left, runs, paused_s)
        now_s += step_s
        total_s += ended * now_s
        free = _start(jobs, queue, waits, runs, free + freed)
        extra = _share(jobs, rule, left, runs, free)
    return total_s
