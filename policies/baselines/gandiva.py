"""Gandiva: jobs of one size share servers, and take turns on them."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import ClassVar

import numpy as np

from policies.baselines.deadlines import Reading, check_reading
from policies.baselines.filling import take
from policies.baselines.gandiva_published import decide_published
from policies.checks import check, check_seconds
from policies.problem import (
    Allocation,
    Bools,
    Decision,
    Ints,
    Jobs,
    Memory,
    Problem,
)
from policies.reason import Number, Reason
from policies.sentences import change

_VERSION = 1
_NOTHING: Memory = {"queue": [], "turn_ends_s": 0.0}


@dataclass(frozen=True)
class Gandiva:
    """001 §6.1 "Gandiva" (Xiao et al., OSDI 2018): time slicing on sets of servers by size of job.

    "It is not elastic (i.e., uses the number of GPUs specified in job traces) and is not
    deadline-aware." Jobs that asked for the same number of GPUs are a class. When a turn begins,
    whole servers are dealt to classes, a set that holds a job at a time: first to each class one,
    in the order of the queue, then to the class whose jobs ask for most GPUs for each server that
    it has, until all of them have a place. On its sets a class runs the first of its jobs in the
    queue; GPUs left over go to whoever fits. At the end of a turn all that ran go to the back.
    Within a turn nobody is preempted. As the first of the queue always runs if it fits the cluster
    at all, each of n jobs has its turn within n turns.

    The memory is the queue and the end of the turn. OSDI 2018 also packs jobs on one GPU and
    migrates them by what it measures; 001's simulator has neither. The `published` reading is that
    simulator's: jobs stay in the set where they began, turns hardly ever go round, GPUs stay idle.
    """

    quantum_s: float = 60.0  # length of a turn
    reading: Reading = "clean"

    name: ClassVar[str] = "gandiva"
    source: ClassVar[str] = "001 §6.1 (Gandiva)"
    default_loaning: ClassVar[str] = "off"

    def __post_init__(self) -> None:
        check_reading(self.reading)
        check_seconds("quantum_s", self.quantum_s)

    @property
    def interval_s(self) -> None:
        """It asks to be called at the end of a turn for which somebody waits."""

    def decide(self, problem: Problem, memory: Memory) -> tuple[Decision, Memory]:
        """Allocations at the sizes that jobs asked for; placement best fit decreasing."""
        check(problem)
        if self.reading == "published":
            return decide_published(problem, memory, self.quantum_s)
        jobs, now_s, capacity = problem.jobs, problem.now_s, problem.servers.total_gpus
        gpus = jobs.requested_gpus
        known: Memory = memory if memory.get("version") == _VERSION else _NOTHING
        queue, ends_s = _queue(jobs, known["queue"]), known["turn_ends_s"]
        runs = jobs.workers > 0
        if now_s >= ends_s or gpus[runs].sum() > capacity:
            queue = queue[np.argsort(runs[queue], kind="stable")]  # who ran goes to the back
            runs, ends_s = _turn(problem.servers.gpus, gpus, queue), now_s + self.quantum_s
        waiting = queue[~runs[queue]]
        runs |= take(waiting.tolist(), gpus, capacity - int(gpus[runs].sum())).runs
        hopes = bool((~runs & (gpus <= capacity)).any())
        decision = Decision(
            _allocations(problem, queue, gpus, runs, ends_s), review_at_s=ends_s if hopes else None
        )
        ids = [jobs.ids[row] for row in queue.tolist()]
        return decision, {"version": _VERSION, "turn_ends_s": ends_s, "queue": ids}


def _queue(jobs: Jobs, known: Sequence[str]) -> Ints:
    """[jobs] Rows in the order of the queue; who is new to it at its end, by submission."""
    rows = {job: row for row, job in enumerate(jobs.ids)}
    stand = [rows.pop(job) for job in known if job in rows]
    return np.array(stand + list(rows.values()), dtype=np.int64)


def _turn(server_gpus: Ints, gpus: Ints, queue: Ints) -> Bools:
    """[jobs] Who runs in a new turn: on the sets of each class, the first of it in the queue."""
    by_class: dict[int, list[int]] = {}
    for row in queue.tolist():
        by_class.setdefault(int(gpus[row]), []).append(row)
    left = sorted(server_gpus.tolist())
    servers, places = dict.fromkeys(by_class, 0), dict.fromkeys(by_class, 0)
    wanting = list(by_class)  # in the order of the queue
    while wanting:
        size = max(
            wanting, key=lambda c: c * len(by_class[c]) / servers[c] if servers[c] else np.inf
        )
        dealt = _set_of_servers(left, size)
        del left[len(left) - len(dealt) :]
        servers[size] += len(dealt)
        places[size] += sum(dealt) // size
        if not dealt or places[size] >= len(by_class[size]):
            wanting.remove(size)
    runs = np.zeros(len(gpus), dtype=bool)
    for size, rows in by_class.items():
        runs[rows[: places[size]]] = True
    return runs


def _set_of_servers(left_gpus: list[int], size: int) -> list[int]:
    """GPUs of the fewest servers, the largest last in `left_gpus`, that hold a job; [] if none."""
    held = 0
    for count, gpus in enumerate(reversed(left_gpus), 1):
        held += gpus
        if held >= size:
            return left_gpus[-count:]
    return []


def _allocations(
    problem: Problem, queue: Ints, gpus: Ints, runs: Bools, ends_s: float
) -> dict[str, Allocation]:
    jobs = problem.jobs
    numbers: dict[str, Number] = {
        "jobs": len(jobs),
        "free": problem.servers.total_gpus - int(gpus[runs].sum()),
        "rest_s": ends_s - problem.now_s,
    }
    allocations = {}
    for place, row in enumerate(queue.tolist(), 1):
        workers = int(jobs.requested_workers[row]) if runs[row] else 0
        before = int(jobs.workers[row])
        own: dict[str, Number] = {
            "workers": workers,
            "before": before,
            "needed": int(gpus[row]),
            "place": place,
        }
        reason = Reason(
            change(workers, before) + ": it asked for {needed} GPUs and is {place} of {jobs} in "
            "the queue for turns; {free} GPUs are free, this turn ends in {rest_s:.0f} s",
            own | numbers,
        )
        allocations[jobs.ids[row]] = Allocation(workers, reason)
    return allocations
