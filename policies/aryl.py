"""Aryl (paper 004): shortest job first for base demands, a knapsack for what is flexible."""

from __future__ import annotations

from dataclasses import dataclass
from typing import ClassVar, Literal

import numpy as np

from policies.aryl_objectives import WORTH, Flexible, allocate_by_knapsack
from policies.aryl_rollout import MAX_JOBS, allocate_by_rollout
from policies.checks import check
from policies.curves import remaining_s
from policies.problem import (
    NO_MEMORY,
    Allocation,
    Bools,
    Decision,
    Ints,
    Jobs,
    Memory,
    PlacementRule,
    PolicyError,
    Problem,
)
from policies.reason import Reason, because
from policies.standing import kept

_OTHERS = {
    "mckp": "the others save more where they are",
    "recip": "others gain more for the time that they have to go",
    "rollout": "jobs end sooner on average with them where they are",
}
"""By objective: why a job does not get the GPUs that others have."""


@dataclass(frozen=True)
class Aryl:
    """004 §5.2, Algorithm 2 (Appendix D): two-phase resource allocation; placement by §5.3.

    Phase 1: running jobs keep their base demand (the minimum number of workers); queued jobs
    start with theirs, shortest remaining time at that size first; one that does not fit is
    skipped. Phase 2: a multiple-choice knapsack over the GPUs left gives extra workers to the
    elastic jobs that run or start, so that their remaining times fall by the most in total.

    With T(n) the remaining seconds at n workers as the job's curve predicts them and D the GPUs
    of a worker, w = 1 .. max - min extra workers weigh w D GPUs and are worth T(min) - T(min + w)
    seconds. Under linear scaling that is T(min) w / (w + min), the value of line 18.

    Departures from print:
    - line 17 weighs (w + min) D, which counts the base demand twice: here w D (Fig. 6);
    - line 19 appends the item to the groups instead of to its group; line 25's test C* >= 0
      always holds (> 0 was meant), and with C* = 0 the knapsack is empty without it;
    - resizing a running job costs it `problem.resize_s`, taken off the values: without that the
      knapsack would move workers to and fro for gains smaller than their price. With resize_s = 0
      it is the paper's;
    - where servers were lost and running base demands exceed the capacity, the latest submitted
      jobs go back to the queue; the paper leaves that to reclaiming;
    - GPUs are not normalised by type: all servers of one cluster are taken as equal.

    `objective` is what phase 2 maximises: `mckp` as above; `recip`, which weighs what a job gains
    by how soon it will end; `rollout`, which tries five rules to the end and takes the best, or
    `recip` above 300 jobs. The latter two are not the paper's, though optimal on its Table 2.
    """

    interval_s: float | None = 60.0
    objective: Literal["mckp", "recip", "rollout"] = "mckp"

    name: ClassVar[str] = "aryl"
    source: ClassVar[str] = "004 §5.2-5.3, Algorithm 2"
    default_loaning: ClassVar[str] = "aryl"

    def __post_init__(self) -> None:
        if self.interval_s is not None and not self.interval_s > 0:
            raise PolicyError(
                f"interval_s is {self.interval_s}; use a positive number of seconds, or None"
            )
        if self.objective not in _OTHERS:
            raise PolicyError(f"objective is {self.objective!r}; use {' or '.join(_OTHERS)}")

    def decide(self, problem: Problem, memory: Memory) -> tuple[Decision, Memory]:
        """Allocations with `objective` and, but for `rollout`, `bound`: see `Flexible`."""
        check(problem)
        base = _allocate_base(problem)
        flexible = _allocate_flexible(problem, base, self.objective)
        decision = Decision(
            _allocations(problem, base, flexible.extra, _OTHERS[self.objective]),
            objective=flexible.objective,
            bound=flexible.bound,
        )
        return decision, NO_MEMORY


@dataclass(frozen=True, slots=True)
class _Base:
    """Phase 1: who runs at least on its minimum."""

    runs: Bools  # [jobs]
    free_gpus: int  # C*, left for phase 2
    waits: dict[int, Reason]


def _allocate_base(problem: Problem) -> _Base:
    """Running jobs first, then the queue, shortest job first (Algorithm 2, lines 1-9, 24)."""
    jobs, capacity = problem.jobs, problem.servers.total_gpus
    base_gpus = jobs.base_gpus
    runs = kept(jobs, base_gpus, capacity)
    free = capacity - int(base_gpus[runs].sum())
    preempted = np.flatnonzero((jobs.workers > 0) & ~runs).tolist()
    waits = {row: _preempted(jobs, row, capacity, capacity - free) for row in preempted}

    queue = np.flatnonzero(jobs.workers == 0)
    left_s = remaining_s(jobs, jobs.min_workers)
    started = 0
    for row in queue[np.argsort(left_s[queue], kind="stable")].tolist():
        needed = int(base_gpus[row])
        if needed <= free:
            runs[row] = True
            free -= needed
            started += 1
        else:
            waits[row] = _waits(needed, free, started, float(left_s[row]))
    return _Base(runs, free, waits)


def _preempted(jobs: Jobs, row: int, capacity: int, taken: int) -> Reason:
    return because(
        "gives up its {workers} workers: of {capacity} GPUs left, {taken} go to the base "
        "demands of other running jobs, it needs {needed}",
        workers=int(jobs.workers[row]),
        capacity=capacity,
        taken=taken,
        needed=int(jobs.base_gpus[row]),
    )


def _waits(needed: int, free: int, started: int, left_s: float) -> Reason:
    return because(
        "waits: needs {needed} GPUs, {free} are left by the base demands of running jobs "
        "and of {started} shorter ones; {left_s:.0f} s to go at its minimum",
        needed=needed,
        free=free,
        started=started,
        left_s=left_s,
    )


def _allocate_flexible(problem: Problem, base: _Base, objective: str) -> Flexible:
    """Extra workers for the elastic jobs that run (Algorithm 2, lines 10-21, 26-27)."""
    if objective == "rollout":
        if len(problem.jobs) <= MAX_JOBS:
            return allocate_by_rollout(problem, base.runs, base.free_gpus)
        objective = "recip"
    return allocate_by_knapsack(problem, base.runs, base.free_gpus, WORTH[objective])


def _allocations(problem: Problem, base: _Base, extra: Ints, others: str) -> dict[str, Allocation]:
    """The size of each job, with its reason."""
    jobs = problem.jobs
    workers = np.where(base.runs, jobs.min_workers + extra, 0)
    left_s = remaining_s(jobs, np.maximum(workers, jobs.min_workers))
    before_s = remaining_s(jobs, np.maximum(jobs.workers, jobs.min_workers))
    larger = np.clip(workers + 1, jobs.min_workers, jobs.max_workers)
    columns = {
        "workers": workers,
        "before": jobs.workers,
        "most": jobs.max_workers,
        "gpus": jobs.gpus_per_worker,
        "left_s": left_s,
        "before_s": before_s,
        "next_s": left_s - remaining_s(jobs, larger),
    }
    rows = zip(*(column.tolist() for column in columns.values()), strict=True)
    free_gpus = base.free_gpus - int((extra * jobs.gpus_per_worker).sum())
    common = {"free": free_gpus, "resize_s": problem.resize_s}
    allocations = {}
    for row, (job, elastic, values) in enumerate(zip(jobs.ids, jobs.elastic, rows, strict=True)):
        numbers = dict(zip(columns, values, strict=True)) | common
        sentence = _change(numbers) + _limit(elastic, numbers, others)
        reason = base.waits.get(row) or Reason(sentence, numbers)
        allocations[job] = Allocation(numbers["workers"], reason, PlacementRule.APART)
    return allocations


def _change(numbers: dict[str, int | float]) -> str:
    """The first half of a reason: what happens to a job that runs."""
    workers, before = numbers["workers"], numbers["before"]
    if before == 0:
        return "starts on {workers} workers, {left_s:.0f} s to go; "
    if workers == before:
        return "keeps its {workers} workers, {left_s:.0f} s to go; "
    verb = "grows" if workers > before else "shrinks"
    return (
        verb + " from {before} to {workers} workers: {left_s:.0f} s to go, not {before_s:.0f} s; "
    )


def _limit(elastic: bool, numbers: dict[str, int | float], others: str) -> str:
    """The second half: why it does not get more."""
    if not elastic:
        return "its size is fixed"
    if numbers["workers"] == numbers["most"]:
        return "it can use no more"
    if numbers["gpus"] > numbers["free"]:
        return "one more would save {next_s:.1f} s for {gpus} GPUs, {free} are free and " + others
    return "one more would save {next_s:.1f} s, too little where a resize costs {resize_s:.1f} s"
