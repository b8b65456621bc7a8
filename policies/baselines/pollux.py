"""Pollux: sizes and batch sizes together, by a genetic search for the best mean speed-up."""

from __future__ import annotations

from dataclasses import dataclass
from typing import ClassVar

import numpy as np

from policies.baselines.genetic import Genome, search
from policies.checks import check, check_interval
from policies.problem import (
    NO_MEMORY,
    Allocation,
    Bools,
    Decision,
    Floats,
    Ints,
    Jobs,
    Memory,
    PolicyError,
    Problem,
)
from policies.reason import Reason
from policies.scaling import Scaling, scaling
from policies.sentences import change
from policies.standing import kept

VERSION = 1  # of the memory

MOST_CELLS = 250_000
"""Jobs x GPUs; beyond it the search is too short to mean anything, and too long to wait for."""

_PAUSED = 0.001
"""Speed-up of a job without workers, so that the mean over jobs has a value."""


@dataclass(frozen=True)
class Pollux:
    """001 §6.1 and 004 §7.1 (Pollux), after Qiao et al. (OSDI 2021): goodput by genetic search.

    The goodput of a size is 1 / seconds of an epoch at the batch size that is best there: epochs
    count statistical progress. A job's speed-up is its goodput over that at its fair share,
    ceil(GPUs / jobs). The search maximises the harmonic mean of all speed-ups. A job that runs
    and would be resized counts for less, by

        max(age - resize_s x resizes so far, 0) / (age + resize_s),

    and none may have more than twice the workers that it ever had. Work left does not count.

    Departures: a candidate is one number of workers for each job, not one for each job and
    server, since curves know no placement; and the search starts from the present allocation and
    from everybody at the minimum, not from the last population, which would fill the journal. A
    start does not count as a resize: nothing is lost by it.

    The search is capped by generations and population, draws from `problem.seed`, and may miss
    the best. More than 250,000 jobs x GPUs are refused.
    """

    interval_s: float | None = 60.0
    generations: int = 100
    """Of the search; 004 §7.4 sets 250 where there are more than 3,500 GPUs."""
    population: int = 100
    """Candidates that live from one generation to the next."""
    pauses: bool = True
    """Whether a job that runs may be paused for others. Not in 004, where a job keeps its base
    demand (§5.2) and schemes were modified to conform with that (§7.1)."""

    name: ClassVar[str] = "pollux"
    source: ClassVar[str] = "004 §7.1 (Pollux)"
    default_loaning: ClassVar[str] = "off"

    def __post_init__(self) -> None:
        check_interval(self.interval_s)
        if self.generations < 1:
            raise PolicyError(f"generations is {self.generations}; use 1 or more")
        if self.population < 2:
            raise PolicyError(f"population is {self.population}; use 2 or more")

    def decide(self, problem: Problem, memory: Memory) -> tuple[Decision, Memory]:
        """Allocations with batch sizes and `objective`, the mean speed-up that was found."""
        check(problem)
        jobs, gpus = problem.jobs, problem.servers.total_gpus
        if len(jobs) * gpus > MOST_CELLS:
            raise PolicyError(
                f"pollux searches up to {MOST_CELLS} jobs x GPUs, not {len(jobs)} x {gpus}; "
                "use optimus"
            )
        if not jobs.ids:
            return Decision({}), NO_MEMORY
        past = _Past.of(jobs, memory)
        rates = scaling(jobs)
        speedups = _Speedups.of(problem, rates, past)
        genome = Genome(
            present=jobs.workers,
            keeps=self._keeps(jobs, gpus),
            least=jobs.min_workers,
            most=np.clip(2 * past.most_workers, jobs.min_workers, jobs.max_workers),
            gpus=jobs.gpus_per_worker,
            turn=np.lexsort((np.arange(len(jobs)), jobs.attained_gpu_s)),
            capacity_gpus=gpus,
        )
        workers = search(genome, speedups.mean, self.generations, self.population, problem.seed)
        decision = Decision(
            _allocations(jobs, genome, speedups, rates, workers),
            objective=float(speedups.mean(workers)),
        )
        return decision, past.after(jobs, workers)

    def _keeps(self, jobs: Jobs, gpus: int) -> Ints:
        """[jobs] The workers that none of the others may have."""
        stays = kept(jobs, jobs.base_gpus, gpus) & (not self.pauses)
        return np.where(stays, jobs.min_workers, 0)


@dataclass(frozen=True, slots=True)
class _Past:
    """What became of each job so far, [jobs]."""

    resizes: Ints
    most_workers: Ints  # that it ever had

    @classmethod
    def of(cls, jobs: Jobs, memory: Memory) -> _Past:
        known = memory["jobs"] if memory.get("version") == VERSION else {}
        had = [known.get(job, (0, 0)) for job in jobs.ids]
        resizes, most = np.array(had, dtype=np.int64).reshape(len(jobs), 2).T
        return cls(resizes, np.maximum(most, jobs.workers))

    def after(self, jobs: Jobs, workers: Ints) -> Memory:
        """The memory once the jobs have these sizes."""
        resizes = self.resizes + _resized(jobs, workers)
        most = np.maximum(self.most_workers, workers)
        columns = zip(jobs.ids, resizes.tolist(), most.tolist(), strict=True)
        return {"version": VERSION, "jobs": {job: [n, size] for job, n, size in columns}}


@dataclass(frozen=True, slots=True)
class _Speedups:
    """How fast each job is at each size, over its fair share."""

    jobs: Jobs
    fair: Ints  # [jobs] workers
    start: Ints  # [jobs] into `speedup`: that of no worker; the next is of the minimum
    speedup: Floats
    if_resized: Floats  # [jobs] by which a resize lessens it

    @classmethod
    def of(cls, problem: Problem, rates: Scaling, past: _Past) -> _Speedups:
        jobs = problem.jobs
        fair_gpus = -(-problem.servers.total_gpus // max(1, len(jobs)))
        fair = np.clip(fair_gpus // jobs.gpus_per_worker, jobs.min_workers, jobs.max_workers)
        sizes = rates.sizes
        at_fair = sizes.value[sizes.offset[:-1] + fair - jobs.min_workers]
        start = sizes.offset[:-1] + np.arange(len(jobs))
        speedup = np.insert(sizes.value / at_fair[sizes.job], sizes.offset[:-1], 0.0)
        age_s, resize_s = problem.now_s - jobs.submitted_s, problem.resize_s
        kept = np.maximum(age_s - resize_s * past.resizes, 0.0)
        spent = age_s + resize_s
        if_resized = np.divide(kept, spent, out=np.ones(len(jobs)), where=spent > 0)
        return cls(jobs, fair, start, speedup, if_resized)

    def of_each(self, workers: Ints) -> Floats:
        """[..., jobs] The speed-ups at these sizes."""
        size = np.where(workers > 0, workers - self.jobs.min_workers + 1, 0)
        each: Floats = self.speedup[self.start + size]
        return each

    def mean(self, workers: Ints) -> Floats:
        """[...] The harmonic mean of the speed-ups, resizes taken into account."""
        resized = _resized(self.jobs, workers)
        each = self.of_each(workers) * np.where(resized, self.if_resized, 1.0) + _PAUSED
        mean: Floats = len(self.jobs) / (1 / each).sum(axis=-1)
        return mean


def _resized(jobs: Jobs, workers: Ints) -> Bools:
    """[..., jobs] Which jobs ran, and have another size now."""
    resized: Bools = (jobs.workers > 0) & (workers != jobs.workers)
    return resized


def _allocations(
    jobs: Jobs, genome: Genome, speedups: _Speedups, rates: Scaling, workers: Ints
) -> dict[str, Allocation]:
    """The size, the batch size and the reason of each job."""
    each = speedups.of_each(workers)
    mean = float(speedups.mean(workers))
    allocations = {}
    for row, (job, size) in enumerate(zip(jobs.ids, workers.tolist(), strict=True)):
        numbers = {
            "before": int(jobs.workers[row]),
            "workers": size,
            "fair": int(speedups.fair[row]),
            "speedup": float(each[row]),
            "most": int(genome.most[row]),
            "mean": mean,
        }
        why = (
            "{speedup:.2f} times as fast as on its fair share of {fair} workers, at most {most} "
            "for now; of all jobs {mean:.3f} on average"
        )
        batch = None
        if size:
            at = rates.sizes.offset[row] + size - jobs.min_workers[row]
            batch = int(rates.batch_size[at])
        else:
            why = "of all jobs {mean:.3f} times their speed on a fair share was the best found"
        reason = Reason(change(size, numbers["before"]) + ": " + why, numbers)
        allocations[job] = Allocation(size, reason, batch_size=batch)
    return allocations
