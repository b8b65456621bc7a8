"""Earliest deadline first: each job as large as it gets faster, in the order of deadlines."""

from __future__ import annotations

from dataclasses import dataclass
from typing import ClassVar

import numpy as np

from policies.baselines.deadlines import Reading, by_deadline, check_reading, sizes_of
from policies.checks import check
from policies.problem import NO_MEMORY, Allocation, Decision, Ints, Memory, Problem
from policies.reason import Number, Reason
from policies.sentences import change


@dataclass(frozen=True)
class Edf:
    """001 §6.1 "Earliest-Deadline-First (EDF)".

    Each decision starts afresh: in the order of deadlines a job takes "as many GPUs as a job can
    scale out without decreasing the throughput", or its largest size within what is left. Jobs
    without a deadline come last. A job that has missed its deadline is not dropped and keeps its
    place, which is among the first: that is where EDF breaks down under load.

    On one GPU EDF is optimal: it meets all deadlines that any order meets. On more it is not, as
    throughput does not grow with GPUs (001 §2.3, Fig. 3).

    Departure: a size no faster than a smaller one is not taken; the paper allows an equal one.
    """

    reading: Reading = "clean"

    name: ClassVar[str] = "edf"
    source: ClassVar[str] = "001 §6.1 (EDF)"
    default_loaning: ClassVar[str] = "off"

    def __post_init__(self) -> None:
        check_reading(self.reading)

    @property
    def interval_s(self) -> None:
        """Only arrivals, departures and changes of capacity matter."""

    def decide(self, problem: Problem, memory: Memory) -> tuple[Decision, Memory]:
        """Allocations in GPUs of the whole cluster, of sizes that are worth their GPUs."""
        check(problem)
        jobs, free = problem.jobs, problem.servers.total_gpus
        sizes = sizes_of(jobs, self.reading)
        allocations = {}
        for place, row in enumerate(by_deadline(jobs).tolist()):
            gpus = sizes.gpus_of(row)
            taken = int(gpus[np.searchsorted(gpus, free, side="right") - 1])
            workers = taken // int(jobs.gpus_per_worker[row])
            reason = _reason(problem, row, workers, place, free, gpus)
            allocations[jobs.ids[row]] = Allocation(workers, reason)
            free -= taken
        return Decision(allocations), NO_MEMORY


def _reason(problem: Problem, row: int, workers: int, place: int, free: int, gpus: Ints) -> Reason:
    jobs = problem.jobs
    before = int(jobs.workers[row])
    numbers: dict[str, Number] = {"workers": workers, "before": before, "ahead": place}
    numbers |= {"free": free, "smallest": int(gpus[1]), "most": int(gpus[-1])}
    sentence = change(workers, before) + "; {free} GPUs are left by {ahead} earlier deadlines, "
    sentence += "it can use {smallest} to {most}"
    left_s = float(jobs.deadline_s[row]) - problem.now_s
    if np.isfinite(left_s):
        numbers["left_s"] = abs(left_s)
        late = left_s < 0
        sentence += "; its deadline was {left_s:.0f} s ago" if late else "; due in {left_s:.0f} s"
    return Reason(sentence, numbers)
