"""What earliest deadline first will do from now on, if nobody else comes."""

from __future__ import annotations

import math
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import TypeAlias

import numpy as np

from policies.baselines.deadlines import by_deadline
from policies.problem import Bools, Floats, Ints, PlanStep, Problem
from policies.sizes import Sizes

_ROUNDING_S = 1e-6  # by which a plan may end late: sums of floating point
_LEAST_EPOCHS = 1e-9  # that a job has left, so that it stands in its plan

Steps: TypeAlias = Sequence[tuple[float, int]]
"""From each time on, in seconds, so many GPUs; the last for ever."""


@dataclass(frozen=True, slots=True)
class Plan:
    """Sizes over time of the jobs that are in it."""

    steps: Mapping[int, tuple[PlanStep, ...]]  # by row; the first begins now
    end_s: Floats  # [jobs] inf: never, or not in it
    late: Bools  # [jobs] in it, and not at its end by the deadline


def plan_of(problem: Problem, sizes: Sizes, planned: Bools) -> Plan:
    """The jobs of `planned` [jobs] in the order of deadlines on the GPUs of the training pool.

    Each takes, at each time, the largest of its sizes within what those before it leave then.
    """
    jobs = problem.jobs
    free: Steps = [(problem.now_s, problem.servers.owned_gpus)]
    steps, end_s = {}, np.full(len(jobs), np.inf)
    order = by_deadline(jobs)
    for row in order[planned[order]].tolist():
        epochs = max(float(jobs.remaining_epochs[row]), _LEAST_EPOCHS)
        taken, end_s[row] = _take(free, sizes.gpus_of(row), sizes.rate_of(row), epochs)
        steps[row] = _in_workers(taken, float(end_s[row]), int(jobs.gpus_per_worker[row]))
        free = _leave(free, taken, float(end_s[row]))
    return Plan(steps, end_s, planned & (end_s > jobs.deadline_s + _ROUNDING_S))


def _take(free: Steps, gpus: Ints, rate: Floats, epochs: float) -> tuple[Steps, float]:
    """What one job takes of the first steps, and when it ends."""
    taken: list[tuple[float, int]] = []
    for (start_s, left), (until_s, _) in zip(free, [*free[1:], (math.inf, 0)], strict=True):
        size = int(np.searchsorted(gpus, left, side="right")) - 1
        taken.append((start_s, int(gpus[size])))
        if size:
            end_s = start_s + epochs / float(rate[size])
            if end_s <= until_s:
                return taken, end_s
            epochs -= float(rate[size]) * (until_s - start_s)
    return taken, math.inf


def _leave(free: Steps, taken: Steps, end_s: float) -> Steps:
    """The free GPUs without those taken until `end_s`."""
    left = [(start_s, gpus - held) for (start_s, gpus), (_, held) in zip(free, taken, strict=False)]
    after = free[len(taken) :]
    if end_s < (after[0][0] if after else math.inf):
        left.append((end_s, free[len(taken) - 1][1]))
    return [*left, *after]


def _in_workers(taken: Steps, end_s: float, gpus_per_worker: int) -> tuple[PlanStep, ...]:
    """One step for each change."""
    steps: list[PlanStep] = []
    for start_s, held in [*taken, (end_s, 0)]:
        workers = held // gpus_per_worker
        if start_s < math.inf and (not steps or steps[-1].workers != workers):
            steps.append(PlanStep(start_s, workers))
    return tuple(steps)
