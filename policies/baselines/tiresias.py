"""Tiresias: least attained service first, so that nobody need know how long a job will run."""

from __future__ import annotations

import math
from dataclasses import dataclass
from functools import partial
from typing import ClassVar

import numpy as np

from policies.answers import Answers
from policies.baselines.deadlines import Reading, check_reading
from policies.baselines.filling import Taken, take
from policies.baselines.tiresias_published import decide_published
from policies.checks import check
from policies.problem import (
    NO_MEMORY,
    Bools,
    Decision,
    Floats,
    Ints,
    Jobs,
    Memory,
    PolicyError,
    Problem,
)
from policies.reason import Reason, because
from policies.sentences import change

_VERSION = 1


@dataclass(frozen=True)
class Tiresias:
    """001 §6.1 "Tiresias" (Gu et al., NSDI 2019): discretised two-dimensional LAS.

    Service is GPUs times time. A job begins in queue 0 and sinks to the next at each limit. Queues
    are served in order, in each the jobs that run before those that wait, so that equals do not
    preempt each other; then by submission. A job takes the size that it asked for; one that does
    not fit is skipped, and those behind it are tried.

    A job that sank, or is large, may wait for ever while new ones keep coming. With `promote_after`
    (PROMOTEKNOB of NSDI 2019) one that has waited so many times as long as it ran, or would have
    run to the first limit, goes to the head of queue 0, its service forgotten, until it sinks:
    then every job that fits the cluster runs at last. The memory is that service, and since when
    a job waits.

    Departures from the simulator that 001 used: a job sinks past all limits that it has reached at
    once, and goes by submission in its queue, not to the back; the review is due when the limit is
    reached (there, seconds are taken off a limit in GPU-seconds). Promotion is off there, as here.
    The `published` reading is that simulator's.
    """

    first_limit_gpu_s: float = 3250.0  # of service in queue 0
    second_limit_gpu_s: float | None = 7200.0  # of service in queues 0 and 1; None: two queues
    promote_after: float | None = None  # waiting time over running time; None: never
    review_s: float = 240.0  # the least time to a review that it asks for
    reading: Reading = "clean"

    name: ClassVar[str] = "tiresias"
    source: ClassVar[str] = "001 §6.1 (Tiresias)"
    default_loaning: ClassVar[str] = "off"

    def __post_init__(self) -> None:
        check_reading(self.reading)
        if self.reading == "published" and self.promote_after is not None:
            raise PolicyError("promote_after is None in the published reading; leave it out")
        last = math.inf if self.second_limit_gpu_s is None else self.second_limit_gpu_s
        promotes = math.inf if self.promote_after is None else self.promote_after
        for field, good, what in (
            ("first_limit_gpu_s", 0 < self.first_limit_gpu_s < math.inf, "a positive number"),
            ("second_limit_gpu_s", self.first_limit_gpu_s < last, "more than the first, or None"),
            ("promote_after", promotes > 0, "a positive number, or None"),
            ("review_s", 0 < self.review_s < math.inf, "a positive number of seconds"),
        ):
            if not good:
                raise PolicyError(f"{field} is {getattr(self, field)}; use {what}")

    @property
    def interval_s(self) -> None:
        """It asks for its reviews."""

    def decide(self, problem: Problem, memory: Memory) -> tuple[Decision, Memory]:
        """Allocations at the sizes that jobs asked for; placement best fit decreasing."""
        check(problem)
        if self.reading == "published":
            return decide_published(problem, memory, self._limits_gpu_s, self.review_s)
        jobs = problem.jobs
        gpus = jobs.requested_gpus
        service = self._service(problem, memory, gpus)
        taken = take(service.order(jobs).tolist(), gpus, problem.servers.total_gpus)
        workers = np.where(taken.runs, jobs.requested_workers, 0)
        allocations = Answers(jobs.ids, workers, partial(_reason, jobs, workers, taken, service))
        review_at_s = self._review_at_s(problem.now_s, gpus, taken.runs, service)
        return Decision(allocations, review_at_s=review_at_s), self._memory(jobs, service)

    @property
    def _limits_gpu_s(self) -> Floats:
        second = self.second_limit_gpu_s
        return np.array([self.first_limit_gpu_s] + ([] if second is None else [second]))

    def _service(self, problem: Problem, memory: Memory, gpus: Ints) -> _Service:
        """Where each job stands, after promotion."""
        jobs, now_s = problem.jobs, problem.now_s
        new = (0.0, now_s, 0.0)
        seen = np.tile(new, (len(jobs), 1))
        if memory.get("version") == _VERSION:
            known = memory["jobs"]
            seen = np.array([known.get(job, new) for job in jobs.ids]).reshape(-1, 3)
        forgotten = np.minimum(seen[:, 0], jobs.attained_gpu_s)
        received = jobs.attained_gpu_s - forgotten
        promoted = (seen[:, 2] > 0) & (received < self.first_limit_gpu_s)
        since_s = np.where((jobs.workers > 0) & ~promoted, now_s, np.minimum(seen[:, 1], now_s))
        patience_s = np.full(len(jobs), np.inf)
        if self.promote_after is not None:
            patience_s = self.promote_after * np.maximum(received, self.first_limit_gpu_s) / gpus
            rises = ~promoted & (jobs.workers == 0) & (now_s - since_s >= patience_s)
            forgotten = np.where(rises, jobs.attained_gpu_s, forgotten)
            received, promoted = jobs.attained_gpu_s - forgotten, promoted | rises
        queue = np.searchsorted(self._limits_gpu_s, received, side="right")
        return _Service(received, forgotten, since_s, patience_s, promoted, queue)

    def _review_at_s(
        self, now_s: float, gpus: Ints, runs: Bools, service: _Service
    ) -> float | None:
        """When a running job sinks or a waiting one is promoted; None: no one waits."""
        if runs.all():
            return None
        limits = np.append(self._limits_gpu_s, np.inf)
        sinks_s = (limits[service.queue] - service.received_gpu_s)[runs] / gpus[runs]
        waits = ~runs & ~service.promoted
        promoted_s = (service.patience_s - (now_s - service.since_s))[waits]
        next_s = float(np.concatenate((sinks_s, promoted_s)).min(initial=np.inf))
        return now_s + max(next_s, self.review_s) if next_s < math.inf else None

    def _memory(self, jobs: Jobs, service: _Service) -> Memory:
        """Service forgotten, waiting since, promoted or not; nothing where nobody ever is."""
        if self.promote_after is None:
            return NO_MEMORY
        columns = (service.forgotten_gpu_s, service.since_s, service.promoted)
        rows = np.column_stack(columns).tolist()
        return {"version": _VERSION, "jobs": dict(zip(jobs.ids, rows, strict=True))}


@dataclass(frozen=True, slots=True)
class _Service:
    """[jobs] each."""

    received_gpu_s: Floats  # since the last promotion
    forgotten_gpu_s: Floats  # before it
    since_s: Floats  # when it began to wait, a promoted one also while it runs; else now
    patience_s: Floats  # the waiting after which it is promoted
    promoted: Bools  # and has not sunk since
    queue: Ints

    def order(self, jobs: Jobs) -> Ints:
        """[jobs] Rows: by queue; in it those that were promoted, who runs, who was submitted first.

        Of promoted ones who waits longest goes first, whoever runs: so each has its turn.
        """
        waits = ~self.promoted & (jobs.workers == 0)
        since_s = np.where(self.promoted, self.since_s, 0.0)
        order: Ints = np.lexsort((waits, since_s, ~self.promoted, self.queue))
        return order


def _reason(jobs: Jobs, workers: Ints, taken: Taken, service: _Service, row: int) -> Reason:
    """Of one job: its size, and where it stands."""
    now, before = int(workers[row]), int(jobs.workers[row])
    return because(
        change(now, before) + "; {received_gpu_s:.0f} GPU-seconds of service put it in queue "
        "{queue}, where {free} GPUs were left in its turn; it asked for {needed}",
        workers=now,
        before=before,
        received_gpu_s=service.received_gpu_s[row],
        queue=service.queue[row],
        free=taken.free_gpus[row],
        needed=jobs.requested_gpus[row],
    )
