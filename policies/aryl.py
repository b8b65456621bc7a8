"""Aryl (paper 004): shortest job first for base demands, a knapsack for what is flexible."""

from __future__ import annotations

from dataclasses import dataclass
from typing import ClassVar, Literal

import numpy as np

from policies.aryl_answers import allocations
from policies.aryl_base import Base, allocate_base
from policies.aryl_gpus import Fleet
from policies.aryl_mixing import grow_mixed
from policies.aryl_objectives import WORTH, Flexible, allocate_by_knapsack
from policies.aryl_rollout import MAX_JOBS, allocate_by_rollout
from policies.checks import check, check_interval
from policies.problem import MIXING, NO_MEMORY, Bools, Decision, Ints, Memory, PolicyError, Problem

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
      jobs go back to the queue, or move to GPUs of another type that have room; of equal numbers
      of preemptions, those that spare jobs without checkpoints. The paper leaves that to
      reclaiming;
    - the paper normalises GPUs on loan into one capacity (§5.2). But a job that does not mix
      types stands on one: GPUs left on a T4 server are no room for a job on V100s, whatever they
      are worth. So each type has a capacity of its own, in GPUs, and a knapsack of its own, with
      the running times on that type. Only jobs that mix types see what is left of all of them,
      which they take last (§6), a type at a time.

    A job whose batch does not fit into the memory of a type runs there with the largest one that
    does (App. E), and not at all where none does. `mixing`: see `policies.aryl_gpus`; 1 in the
    paper's Ideal scenario (§7.1). `tuned`: at each size a job runs with the best of its admissible
    batch sizes (Aryl+TunedJobs, §7.1); its learning rate is its own affair. `apart`: elastic jobs
    go on loan first, base and flexible workers on servers of their own (§5.3); without, they are
    placed like others (Table 6).

    `objective` is what phase 2 maximises: `mckp` as above; `recip`, which weighs what a job gains
    by how soon it will end; `rollout`, which tries five rules to the end and takes the best, or
    `recip` above 300 jobs. The latter two are not the paper's, though optimal on its Table 2.
    """

    interval_s: float | None = 60.0
    objective: Literal["mckp", "recip", "rollout"] = "mckp"
    mixing: float = MIXING
    tuned: bool = False
    apart: bool = True

    name: ClassVar[str] = "aryl"
    source: ClassVar[str] = "004 §5.2-5.3, Algorithm 2"
    default_loaning: ClassVar[str] = "aryl"

    def __post_init__(self) -> None:
        check_interval(self.interval_s)
        if self.objective not in _OTHERS:
            raise PolicyError(f"objective is {self.objective!r}; use {' or '.join(_OTHERS)}")

        if not 0 < self.mixing <= 1:
            raise PolicyError(f"mixing is {self.mixing}; use more than 0, up to 1")

    def decide(self, problem: Problem, memory: Memory) -> tuple[Decision, Memory]:
        """Allocations with `objective` and, but for `rollout`, `bound`: sums over the types of
        what `Flexible` says, in which jobs that mix them do not count."""
        check(problem)
        fleet = Fleet.of(problem, self.mixing, self.tuned, self.apart)
        base = allocate_base(fleet)
        flexible = [_grow(fleet, base, at, self.objective) for at in range(len(fleet.types))]
        workers = base.workers.copy()
        for at, (rows, grown) in enumerate(flexible):
            workers[rows, at] += grown.extra
        if fleet.mixes.any():
            taken = (workers - base.workers) * problem.jobs.gpus_per_worker[:, None]
            free_gpus = base.free_gpus - taken.sum(axis=0)
            worth = WORTH["mckp" if self.objective == "mckp" else "recip"]
            workers = grow_mixed(fleet, workers, free_gpus, worth)
        bounds = [grown.bound for _, grown in flexible if grown.bound is not None]
        decision = Decision(
            allocations(fleet, base, workers, _OTHERS[self.objective]),
            objective=float(sum(grown.objective for _, grown in flexible)),
            bound=float(sum(bounds)) if len(bounds) == len(flexible) else None,
        )
        return decision, NO_MEMORY


def _grow(fleet: Fleet, base: Base, gpu_type: int, objective: str) -> tuple[Ints, Flexible]:
    """Phase 2 on one type, for the jobs that keep to it: Algorithm 2, lines 10-21, 26-27.

    Returns the jobs that run or would start there and may grow, and what they get.
    """
    there = (base.gpu_type == gpu_type) & ~fleet.mixes
    if objective != "rollout":  # who cannot grow is in no knapsack
        there &= fleet.problem.jobs.elastic
    rows = np.flatnonzero(there)
    problem, runs = fleet.alone(gpu_type, rows), base.runs[rows]
    return rows, _flexible(problem, runs, int(base.free_gpus[gpu_type]), objective)


def _flexible(problem: Problem, runs: Bools, free_gpus: int, objective: str) -> Flexible:
    if objective == "rollout":
        if len(problem.jobs) <= MAX_JOBS:
            return allocate_by_rollout(problem, runs, free_gpus)
        objective = "recip"
    return allocate_by_knapsack(problem, runs, free_gpus, WORTH[objective])
