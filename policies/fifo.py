"""First come, first served, at a fixed size: the baseline of the papers."""

from __future__ import annotations

from dataclasses import dataclass
from typing import ClassVar

import numpy as np

from policies.checks import check
from policies.problem import NO_MEMORY, Allocation, Decision, Ints, Jobs, Memory, Problem
from policies.reason import Reason, because
from policies.standing import kept


@dataclass(frozen=True)
class Fifo:
    """004 §7.1 "Baseline": no elastic scaling, no capacity loaning, jobs in the order of arrival.

    A job starts on the workers that it asked for (`requested_workers`) and is never resized or
    preempted. The head of the queue blocks: no later job overtakes it, even into GPUs that it
    cannot use (no backfill).

    Departures: a job that another policy had grown keeps its size (resizing is what fifo never
    does). Where servers were lost and the running jobs no longer fit, the latest submitted go
    back to their place in the queue.
    """

    name: ClassVar[str] = "fifo"
    source: ClassVar[str] = "004 §7.1 (Baseline)"
    default_loaning: ClassVar[str] = "off"

    @property
    def interval_s(self) -> None:
        """Only arrivals, departures and changes of capacity matter."""

    def decide(self, problem: Problem, memory: Memory) -> tuple[Decision, Memory]:
        """Allocations in GPUs of the whole cluster; placement best fit decreasing."""
        check(problem)
        jobs = problem.jobs
        requested_gpus = jobs.requested_gpus
        standing_gpus = jobs.workers * jobs.gpus_per_worker
        runs = kept(jobs, standing_gpus, problem.servers.total_gpus)
        free = problem.servers.total_gpus - int(standing_gpus[runs].sum())
        allocations = _as_they_are(jobs, standing_gpus)
        head, queued = -1, 0
        for row in np.flatnonzero(~runs).tolist():
            needed = int(requested_gpus[row])
            if not queued and needed <= free:
                workers, reason = int(jobs.requested_workers[row]), _starts(needed, free)
                free -= needed
            else:
                head = row if not queued else head
                first = (jobs.ids[head], int(requested_gpus[head]))
                workers, reason = 0, _waits(queued, *first, free)
                queued += 1
            allocations[jobs.ids[row]] = Allocation(workers, reason)
        return Decision(allocations), NO_MEMORY


def _as_they_are(jobs: Jobs, standing_gpus: Ints) -> dict[str, Allocation]:
    """Each job as if it kept what it has: one answer for all of a size, since most jobs run."""
    sizes = list(zip(jobs.workers.tolist(), standing_gpus.tolist(), strict=True))
    kept = {(workers, gpus): Allocation(workers, _keeps(gpus)) for workers, gpus in set(sizes)}
    return {job: kept[size] for job, size in zip(jobs.ids, sizes, strict=True)}


def _keeps(gpus: int) -> Reason:
    return because("keeps its {gpus} GPUs: sizes are fixed", gpus=gpus)


def _starts(needed: int, free: int) -> Reason:
    return because(
        "takes the {needed} GPUs that it asked for: first of the queue, {free} are free",
        needed=needed,
        free=free,
    )


def _waits(ahead: int, head: str, needed: int, free: int) -> Reason:
    template = "first of the queue: needs {needed} GPUs, {free} are free"
    if ahead:
        template = (
            "waits behind {ahead} in the queue: its first, {head}, needs {needed} GPUs, "
            "{free} are free"
        )
    return because(template, ahead=ahead, head=head, needed=needed, free=free)
