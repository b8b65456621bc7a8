"""What earliest deadline first will do from now on, if nobody else comes."""

from __future__ import annotations

import math
from collections.abc import Mapping
from dataclasses import dataclass

import numpy as np

from policies.baselines.deadlines import by_deadline
from policies.problem import Bools, Floats, Ints, PlanStep, Problem
from policies.sizes import Sizes

_ROUNDING_S = 1e-6  # by which a plan may end late: sums of floating point
_LEAST_EPOCHS = 1e-9  # that a job has left, so that it stands in its plan


@dataclass(frozen=True, slots=True)
class Plan:
    """Sizes over time of the jobs that are in it."""

    steps: Mapping[int, tuple[PlanStep, ...]]  # by row; the first begins now
    end_s: Floats  # [jobs] inf: never, or not in it
    late: Bools  # [jobs] in it, and not at its end by the deadline


def plan_of(problem: Problem, sizes: Sizes, planned: Bools, slot_s: float | None = None) -> Plan:
    """The jobs of `planned` [jobs] in the order of deadlines on the GPUs of the training pool.

    Each takes, at each time, the largest of its sizes within what those before it leave then. With
    `slot_s` others have its last GPUs only after whole slots from now.
    """
    jobs = problem.jobs
    start_s, free = np.array([problem.now_s]), np.array([problem.servers.owned_gpus])
    steps, end_s = {}, np.full(len(jobs), np.inf)
    order = by_deadline(jobs)
    for row in order[planned[order]].tolist():
        epochs = max(float(jobs.remaining_epochs[row]), _LEAST_EPOCHS)
        gpus, rate = sizes.gpus_of(row), sizes.rate_of(row)
        size = np.searchsorted(gpus, free, side="right") - 1
        last, end_s[row] = _end(start_s, rate[size], epochs)
        held = gpus[size[: last + 1]]
        steps[row] = _changes(start_s[: last + 1], held // jobs.gpus_per_worker[row], end_s[row])
        back_s = _whole_slots(problem.now_s, float(end_s[row]), slot_s)
        at = int(np.searchsorted(start_s, back_s))
        if back_s < (start_s[at] if at < len(start_s) else np.inf):
            start_s, free = np.insert(start_s, at, back_s), np.insert(free, at, free[at - 1])
        free[: last + 1] -= held
        free[last + 1 : at] -= np.minimum(held[-1], free[last + 1 : at])
    return Plan(steps, end_s, planned & (end_s > jobs.deadline_s + _ROUNDING_S))


def _whole_slots(now_s: float, end_s: float, slot_s: float | None) -> float:
    if slot_s is None or math.isinf(end_s):
        return end_s
    return now_s + slot_s * math.ceil((end_s - now_s) / slot_s)


def _end(start_s: Floats, speed: Floats, epochs: float) -> tuple[int, float]:
    """The step in which a job ends at these speeds [steps], and when; the last and inf: never."""
    length_s = np.diff(start_s, append=np.inf)
    done = np.cumsum(speed * np.where(speed > 0, length_s, 0.0))
    last = int(np.searchsorted(done, epochs))
    if last == len(done):
        return last - 1, math.inf
    before = float(done[last - 1]) if last else 0.0
    return last, float(start_s[last] + (epochs - before) / speed[last])


def _changes(start_s: Floats, workers: Ints, end_s: float) -> tuple[PlanStep, ...]:
    """One step for each change of the size, and one for the end, if there is one."""
    at = np.flatnonzero(np.diff(workers, prepend=-1))
    rows = zip(start_s[at].tolist(), workers[at].tolist(), strict=True)
    steps = tuple(PlanStep(*row) for row in rows)
    return steps if math.isinf(end_s) else (*steps, PlanStep(float(end_s), 0))
