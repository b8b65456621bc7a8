"""First come, first served, at a fixed size: the baseline of the papers."""

from __future__ import annotations

from dataclasses import dataclass
from functools import partial
from typing import ClassVar

import numpy as np

from policies.answers import Answers
from policies.checks import check
from policies.line import Line
from policies.problem import NO_MEMORY, Decision, Jobs, Memory, Problem
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
        standing_gpus = jobs.workers * jobs.gpus_per_worker
        runs = kept(jobs, standing_gpus, problem.servers.total_gpus)
        free = problem.servers.total_gpus - int(standing_gpus[runs].sum())
        line = Line.of(np.flatnonzero(~runs), jobs.requested_gpus, free)
        workers = np.where(runs, jobs.workers, 0)
        workers[line.starts] = jobs.requested_workers[line.starts]
        return Decision(Answers(jobs.ids, workers, partial(_reason, jobs, line))), NO_MEMORY


def _reason(jobs: Jobs, line: Line, row: int) -> Reason:
    """Of one job."""
    needed, free = jobs.requested_gpus, line.free_at(row)
    if row in line.starts:
        return _starts(needed[row], free)
    if row in line.queue:
        head = line.queue[0]
        return _waits(line.ahead_of(row), jobs.ids[head], needed[head], free)
    return _keeps(jobs.workers[row] * jobs.gpus_per_worker[row])


def _keeps(gpus: np.int64) -> Reason:
    return because("keeps its {gpus} GPUs: sizes are fixed", gpus=gpus)


def _starts(needed: np.int64, free: int) -> Reason:
    return because(
        "takes the {needed} GPUs that it asked for: first of the queue, {free} are free",
        needed=needed,
        free=free,
    )


def _waits(ahead: int, head: str, needed: np.int64, free: int) -> Reason:
    template = "first of the queue: needs {needed} GPUs, {free} are free"
    if ahead:
        template = (
            "waits behind {ahead} in the queue: its first, {head}, needs {needed} GPUs, "
            "{free} are free"
        )
    return because(template, ahead=ahead, head=head, needed=needed, free=free)
