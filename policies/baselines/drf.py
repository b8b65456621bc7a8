"""Dominant resource fairness: progressive filling of the smallest share."""

from __future__ import annotations

from dataclasses import dataclass
from typing import ClassVar

import numpy as np

from policies.baselines.filling import fill
from policies.baselines.sentences import resized
from policies.checks import check
from policies.problem import NO_MEMORY, Allocation, Decision, Ints, Jobs, Memory, Problem


@dataclass(frozen=True)
class Drf:
    """002 §V-A (ii), after Ghodsi et al. (NSDI 2011): max-min fairness in dominant resources.

    All jobs are admitted. One worker at a time goes to the job of the smallest dominant share,
    until nothing fits; everything is computed anew at each arrival and departure. GPUs are the
    one resource of the contract, so the dominant share is a job's part of the GPUs, and the
    result is max-min fair on GPU counts.

    Departures: the first step of a job is its whole minimum, since it cannot run on less, so a
    job may wait whose minimum does not fit any more; there are no parameter servers; workers are
    placed by best fit, not round-robin, which keeps whole servers free for wide workers.
    """

    name: ClassVar[str] = "drf"
    source: ClassVar[str] = "002 §V-A (ii)"
    default_loaning: ClassVar[str] = "off"

    @property
    def interval_s(self) -> None:
        """Asked at arrivals and departures."""

    def decide(self, problem: Problem, memory: Memory) -> tuple[Decision, Memory]:
        """Sizes within the GPUs of the whole cluster; placement best fit decreasing."""
        check(problem)
        jobs, capacity = problem.jobs, problem.servers.total_gpus
        workers = fair_workers(jobs, capacity)
        free = capacity - int((workers * jobs.gpus_per_worker).sum())
        allocations = {}
        for row, (job, size) in enumerate(zip(jobs.ids, workers.tolist(), strict=True)):
            gpus = size * int(jobs.gpus_per_worker[row])
            share = gpus / capacity if capacity else 0.0
            more = "{gpus} of {capacity} GPUs, a share of {share:.3f}"
            reason = resized(jobs, row, size, free, more, gpus=gpus, capacity=capacity, share=share)
            allocations[job] = Allocation(size, reason)
        return Decision(allocations), NO_MEMORY


def fair_workers(jobs: Jobs, capacity_gpus: int) -> Ints:
    """[jobs] Workers by progressive filling: the job with the fewest GPUs is served next."""
    gpus = jobs.gpus_per_worker.tolist()
    nobody = np.zeros(len(jobs), dtype=np.int64)
    return fill(jobs, nobody, capacity_gpus, lambda row, workers: workers * gpus[row])
