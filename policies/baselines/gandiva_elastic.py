"""Gandiva as Aryl reads it: jobs grow on the servers that they are on, while nobody waits."""

from __future__ import annotations

from dataclasses import dataclass
from functools import partial
from typing import ClassVar

import numpy as np

from policies.answers import Answers
from policies.checks import check, check_interval
from policies.line import Line
from policies.problem import NO_MEMORY, Allocation, Decision, Ints, Jobs, Memory, Problem
from policies.reason import Reason, because
from policies.sentences import change
from policies.standing import kept


@dataclass(frozen=True)
class GandivaElastic:
    """004 §7.1 "Gandiva", Appendix F: opportunistic scaling, with no view of the whole cluster.

    Jobs start on their base demand (the minimum number of workers), first come first served, and
    are not preempted. Where GPUs are free and nobody waits ("under-utilized"), running elastic jobs
    grow "on servers": each on those that it occupies, one worker in turn, up to its maximum. As
    soon as somebody waits, all shrink back to their base demand.

    Readings of what print leaves open: turns go by submission, as jobs are not ranked by what they
    gain; a job that starts counts as one that waits in that decision; the first of the queue blocks
    those behind it. Where servers were lost, the latest submitted go back to the queue.
    """

    interval_s: float | None = 60.0  # after which jobs that have started may grow

    name: ClassVar[str] = "gandiva_elastic"
    source: ClassVar[str] = "004 §7.1 (Gandiva), Appendix F"
    default_loaning: ClassVar[str] = "off"

    def __post_init__(self) -> None:
        check_interval(self.interval_s)

    def decide(self, problem: Problem, memory: Memory) -> tuple[Decision, Memory]:
        """Allocations; those that grow name their servers, the others are placed best fit."""
        check(problem)
        if _under_utilised(problem):
            return Decision(_grown(problem)), NO_MEMORY
        return Decision(_at_base(problem)), NO_MEMORY


def _under_utilised(problem: Problem) -> bool:
    """Whether nobody waits, and everybody fits where it stands: servers may have been lost."""
    jobs, servers = problem.jobs, problem.servers
    if (jobs.workers == 0).any():
        return False
    stand_gpus = jobs.workers * jobs.gpus_per_worker
    return bool(stand_gpus.sum() <= servers.total_gpus and (_room_gpus(problem) >= 0).all())


def _room_gpus(problem: Problem) -> Ints:
    """[servers] GPUs on which no job stands."""
    room: Ints = problem.servers.gpus - problem.jobs.gpus_per_worker @ problem.placed
    return room


def _at_base(problem: Problem) -> Answers:
    """Base demands: those that run, then the queue while its first fits."""
    jobs, free = problem.jobs, problem.servers.total_gpus
    runs = kept(jobs, jobs.base_gpus, free)
    free -= int(jobs.base_gpus[runs].sum())
    line = Line.of(np.flatnonzero(~runs), jobs.base_gpus, free)
    workers = np.where(runs, jobs.min_workers, 0)
    workers[line.starts] = jobs.min_workers[line.starts]
    return Answers(jobs.ids, workers, partial(_why_at_base, jobs, workers, line))


def _why_at_base(jobs: Jobs, workers: Ints, line: Line, row: int) -> Reason:
    """Of one job."""
    ahead, waits = line.ahead_of(row), row in line.queue
    sentence = "its base demand is {needed} GPUs, jobs that run leave {free}"
    if ahead and waits:
        sentence += ", {ahead} jobs are before it in the queue"
    return because(
        change(int(workers[row]), int(jobs.workers[row])) + "; " + sentence,
        workers=workers[row],
        before=jobs.workers[row],
        needed=jobs.base_gpus[row],
        free=line.free_at(row),
        ahead=ahead,
    )


def _grown(problem: Problem) -> dict[str, Allocation]:
    """One worker in turn to each job that has room on its servers, while GPUs are free.

    A job that does not yet stand where it shall keeps its size: its servers are not known.
    """
    jobs, placed, room = problem.jobs, problem.placed.copy(), _room_gpus(problem)
    workers, gpus = jobs.workers.copy(), jobs.gpus_per_worker
    idle = problem.servers.total_gpus - int((workers * gpus).sum())
    can = np.flatnonzero((placed.sum(axis=1) == workers) & (workers < jobs.max_workers)).tolist()
    while can:
        for row in list(can):
            on = np.flatnonzero((placed[row] > 0) & (room >= gpus[row]))
            if not len(on) or gpus[row] > idle or workers[row] == jobs.max_workers[row]:
                can.remove(row)
                continue
            workers[row] += 1
            placed[row, on[0]] += 1
            room[on[0]] -= gpus[row]
            idle -= int(gpus[row])
    allocations = {}
    for row, job in enumerate(jobs.ids):
        now, before = int(workers[row]), int(jobs.workers[row])
        reason = because(
            change(now, before)
            + "; nobody waits, it can use {most}; {free} GPUs stay free, {here} "
            "of them on its servers",
            workers=now,
            before=before,
            most=jobs.max_workers[row],
            free=idle,
            here=room[placed[row] > 0].sum(),
        )
        servers = None
        if now > before:
            servers = {
                problem.servers.ids[at]: int(placed[row, at]) for at in np.flatnonzero(placed[row])
            }
        allocations[job] = Allocation(now, reason, servers=servers)
    return allocations
