"""The allocator that Huawei ModelArts had before: no node idle, whatever the jobs make of it."""

from __future__ import annotations

from dataclasses import dataclass
from typing import ClassVar, Literal

import numpy as np

from policies.checks import check, check_interval
from policies.curves import remaining_s
from policies.problem import Allocation, Decision, Floats, Ints, Memory, PolicyError, Problem
from policies.reason import Number, Reason
from policies.sentences import change
from policies.standing import kept

_VERSION = 1


@dataclass(frozen=True)
class ModelArtsGreedy:
    """000 §3: the greedy resource allocator, in four scenarios. A node is a worker.

    1. Idle nodes and a queue: its first job starts on as many nodes as it can use; repeat.
    2. Idle nodes and no queue: the job with the shortest training time grows as far as it can;
       repeat.
    3. A queue and no idle nodes: the job with the longest training time is halved, and the released
       nodes go to the first of the queue; repeat.
    4. Neither: nothing.

    Sizes of running jobs change every `interval_s`. In between, jobs start on idle nodes (§5.1,
    "regular times").

    Readings of what print leaves open: training time is what remains at the present size, or with
    `training_time` "elapsed" what has passed since submission, which needs no estimate; equal ones
    go by submission. Scenario 3 is served for each job in the queue, or with `halvings` for so many
    at most (1: "repeat" is printed in scenarios 1 and 2 only), by as many halvings as a job's
    minimum takes. A job is not halved below its own minimum, nor in the decision that starts it.
    Idle nodes that are too few for the first of the queue count as none, and nobody grows while it
    waits. Where servers were lost, the latest submitted go back to the queue. The memory is when
    sizes change next.
    """

    interval_s: float | None = 300.0  # elastic frequency f; None: at every event
    max_nodes: int = 16  # no job grows beyond ("the range of scaling is 1 to 16 nodes")
    training_time: Literal["remaining", "elapsed"] = "remaining"
    halvings: int | None = None  # jobs that scenario 3 serves in one decision; None: all

    name: ClassVar[str] = "modelarts_greedy"
    source: ClassVar[str] = "000 §3, Fig. 4"
    default_loaning: ClassVar[str] = "off"

    def __post_init__(self) -> None:
        check_interval(self.interval_s)
        if self.max_nodes < 1:
            raise PolicyError(f"max_nodes is {self.max_nodes}; use a number from 1")
        if self.training_time not in ("remaining", "elapsed"):
            raise PolicyError(
                f"training_time is {self.training_time!r}; use 'remaining' or 'elapsed'"
            )
        if self.halvings is not None and self.halvings < 1:
            raise PolicyError(f"halvings is {self.halvings}; use a number from 1, or None")

    def decide(self, problem: Problem, memory: Memory) -> tuple[Decision, Memory]:
        """Allocations in workers of the whole cluster."""
        check(problem)
        next_s = memory["next_scaling_s"] if memory.get("version") == _VERSION else problem.now_s
        nodes = _Nodes(problem, self.max_nodes, self.training_time)
        scales = self.interval_s is None or problem.now_s >= next_s or nodes.lost
        halvings = len(nodes.queue) if self.halvings is None else self.halvings
        nodes.serve(halvings if scales else 0)
        if scales and not nodes.queue:
            nodes.grow()
        if self.interval_s is None:
            return Decision(nodes.allocations(0.0)), {"version": _VERSION, "next_scaling_s": 0.0}
        next_s = problem.now_s + self.interval_s if scales else next_s
        decision = Decision(nodes.allocations(next_s - problem.now_s), review_at_s=next_s)
        return decision, {"version": _VERSION, "next_scaling_s": next_s}


class _Nodes:
    """Who has how many nodes, while a decision is being made."""

    def __init__(self, problem: Problem, max_nodes: int, training_time: str) -> None:
        jobs, capacity = problem.jobs, problem.servers.total_gpus
        self.jobs = jobs
        self.elapsed_s = problem.now_s - jobs.submitted_s if training_time == "elapsed" else None
        standing_gpus = jobs.workers * jobs.gpus_per_worker
        self.ran = kept(jobs, standing_gpus, capacity)
        self.lost = bool((self.ran < (jobs.workers > 0)).any())
        self.workers = np.where(self.ran, jobs.workers, 0)
        self.most = np.minimum(jobs.max_workers, np.maximum(max_nodes, jobs.min_workers))
        self.idle_gpus = capacity - int(standing_gpus[self.ran].sum())
        self.queue: list[int] = np.flatnonzero(~self.ran).tolist()
        self.why: dict[int, tuple[str, dict[str, Number]]] = {}

    def serve(self, halvings: int) -> None:
        """Scenarios 1 and 3, the latter for so many jobs at most."""
        while self.queue:
            if self.start():
                continue
            if not halvings or not self.halve():
                return
            halvings -= 1

    def start(self) -> bool:
        """Scenario 1: the first of the queue takes all that it can use, if its minimum is idle."""
        row = self.queue[0]
        if self._idle_for(row) < self.jobs.min_workers[row]:
            return False
        self._add(row, "first of the queue, {idle} GPUs were idle")
        del self.queue[0]
        return True

    def halve(self) -> bool:
        """Scenario 3: the longest job gives the first of the queue what it needs, if any can."""
        needed = int(self.jobs.base_gpus[self.queue[0]])
        workers, idle, why = self.workers.copy(), self.idle_gpus, {}
        while idle < needed:
            can = np.flatnonzero(self.ran & (workers // 2 >= self.jobs.min_workers))
            if not len(can):
                return False
            time_s = self._time_s(workers)
            longest = int(can[time_s[can].argmax()])
            released = int(workers[longest] - workers[longest] // 2)
            workers[longest] -= released
            idle += released * int(self.jobs.gpus_per_worker[longest])
            numbers: dict[str, Number] = {"time_s": float(time_s[longest])}
            numbers["head"] = self.jobs.ids[self.queue[0]]
            why[longest] = ("halved for {head}: at {time_s:.0f} s its time was longest", numbers)
        self.workers, self.idle_gpus, self.why = workers, idle, self.why | why
        return True

    def grow(self) -> None:
        """Scenario 2: the shortest jobs take what is idle."""
        while True:
            room = (self.workers > 0) & (self.workers < self.most)
            can = np.flatnonzero(room & (self.jobs.gpus_per_worker <= self.idle_gpus))
            if not len(can):
                return
            time_s = self._time_s(self.workers)
            shortest = int(can[time_s[can].argmin()])
            sentence = "at {time_s:.0f} s its time was shortest, {idle} GPUs were idle"
            self._add(shortest, sentence, time_s=float(time_s[shortest]))

    def _time_s(self, workers: Ints) -> Floats:
        """[jobs] Training time at these sizes; at the minimum where there are no workers."""
        if self.elapsed_s is not None:
            return self.elapsed_s
        return remaining_s(self.jobs, np.maximum(workers, self.jobs.min_workers))

    def _idle_for(self, row: int) -> int:
        return self.idle_gpus // int(self.jobs.gpus_per_worker[row])

    def _add(self, row: int, sentence: str, **numbers: Number) -> None:
        added = min(int(self.most[row] - self.workers[row]), self._idle_for(row))
        self.why[row] = (sentence, numbers | {"idle": self.idle_gpus})
        self.workers[row] += added
        self.idle_gpus -= added * int(self.jobs.gpus_per_worker[row])

    def allocations(self, wait_s: float) -> dict[str, Allocation]:
        """What each job has, and why; sizes change again in `wait_s`."""
        answers = {}
        for row, job in enumerate(self.jobs.ids):
            workers, before = int(self.workers[row]), int(self.jobs.workers[row])
            sentence, numbers = self.why.get(row) or self._unchanged(row)
            numbers |= {"workers": workers, "before": before, "wait_s": wait_s}
            sentence = change(workers, before) + "; " + sentence
            reason = Reason(sentence + "; sizes change in {wait_s:.0f} s", numbers)
            answers[job] = Allocation(workers, reason)
        return answers

    def _unchanged(self, row: int) -> tuple[str, dict[str, Number]]:
        numbers: dict[str, Number] = {"idle": self.idle_gpus, "queued": len(self.queue)}
        if row not in self.queue:
            return "{idle} GPUs are idle, {queued} jobs wait", numbers
        numbers |= {"ahead": self.queue.index(row), "needed": int(self.jobs.base_gpus[row])}
        return (
            "{ahead} jobs are before it in the queue, it needs {needed} GPUs, {idle} are idle",
            numbers,
        )
