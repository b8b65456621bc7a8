"""Optimus: each GPU to the job whose end it brings forward the most."""

from __future__ import annotations

from dataclasses import dataclass
from typing import ClassVar

import numpy as np

from policies.baselines.filling import fill, take
from policies.baselines.sentences import resized
from policies.checks import check, check_interval
from policies.curves import curve_start
from policies.problem import (
    NO_MEMORY,
    Allocation,
    Decision,
    Jobs,
    Memory,
    Problem,
)


@dataclass(frozen=True)
class Optimus:
    """004 §9 and Appendix F on Peng et al. (EuroSys 2018): the largest marginal gain.

    Everything is computed anew: each job gets its minimum in the order of arrival, those passed
    over that do not fit; then one worker at a time goes to the job of the largest gain, the
    seconds by which its predicted end comes closer for each GPU of the worker, until no GPU is
    left or nobody gains.

    Departures: Optimus learns the speed of a job and the epochs that it will need while the job
    runs; here both come with the problem (curve and remaining epochs), at the present batch size.
    The first step is the whole minimum, not one worker. Parameter servers do not exist.
    """

    interval_s: float | None = 60.0

    name: ClassVar[str] = "optimus"
    source: ClassVar[str] = "004 §9, Appendix F (Optimus)"
    default_loaning: ClassVar[str] = "off"

    def __post_init__(self) -> None:
        check_interval(self.interval_s)

    def decide(self, problem: Problem, memory: Memory) -> tuple[Decision, Memory]:
        """Sizes within the GPUs of the whole cluster; placement best fit decreasing."""
        check(problem)
        jobs, capacity = problem.jobs, problem.servers.total_gpus
        runs = take(range(len(jobs)), jobs.base_gpus, capacity).runs
        gains = _Gains.of(jobs)

        def rank(row: int, workers: int) -> float | None:
            gain_s = gains.next_s(row, workers) if runs[row] else 0.0
            return -gain_s if gain_s > 0 else None

        base = np.where(runs, jobs.min_workers, 0)
        workers = fill(jobs, base, capacity - int(jobs.base_gpus[runs].sum()), rank)
        free = capacity - int((workers * jobs.gpus_per_worker).sum())
        allocations = {}
        for row, (job, size) in enumerate(zip(jobs.ids, workers.tolist(), strict=True)):
            gain_s, more = 0.0, "its minimum does not fit beside those of earlier jobs"
            if size:
                more = "one more worker would save {gain_s:.1f} s for each of its GPUs"
                gain_s = gains.next_s(row, size) if size < jobs.max_workers[row] else 0.0
            reason = resized(jobs, row, size, free, more, gain_s=gain_s)
            allocations[job] = Allocation(size, reason)
        return Decision(allocations), NO_MEMORY


@dataclass(frozen=True, slots=True)
class _Gains:
    """What one more worker is worth, by job."""

    jobs: Jobs
    start: list[int]  # into `curves.epoch_s`: the minimum at the present batch size

    @classmethod
    def of(cls, jobs: Jobs) -> _Gains:
        return cls(jobs, (curve_start(jobs) - jobs.min_workers).tolist())

    def next_s(self, row: int, workers: int) -> float:
        """Seconds by which the job ends sooner with one worker more, for each of its GPUs."""
        jobs, at = self.jobs, self.start[row] + workers
        saved = jobs.curves.epoch_s[at] - jobs.curves.epoch_s[at + 1]
        return float(jobs.remaining_epochs[row] * saved / jobs.gpus_per_worker[row])
