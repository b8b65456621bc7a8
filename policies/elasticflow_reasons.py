"""What elasticflow says of each job: its change, and the promise or the queue behind it."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass

from policies.problem import Bools, Floats, Ints, PlanStep, Problem
from policies.reason import Number, Reason


@dataclass(frozen=True, slots=True)
class Outcome:
    """A decision as columns."""

    problem: Problem
    promised: Mapping[int, tuple[PlanStep, ...]]  # by row: the plans of minimum shares
    workers: Ints  # [jobs] from now on
    free_gpus: int  # that nobody got
    done: Floats  # [jobs] epochs that the promised plan does
    late: Bools  # [jobs] whose plan does not do what is left
    smallest_gpus: Ints  # [jobs] GPUs of the smallest size

    def reason(self, row: int) -> Reason:
        """Why this job has what it has."""
        jobs = self.problem.jobs
        workers, before = int(self.workers[row]), int(jobs.workers[row])
        numbers: dict[str, Number] = {"workers": workers, "before": before}
        behind = self._promise(row) if row in self.promised else self._queue(row)
        numbers.update(behind.numbers)
        return Reason(_change(workers, before) + "; " + behind.template, numbers)

    def _promise(self, row: int) -> Reason:
        jobs, steps = self.problem.jobs, self.promised[row]
        numbers: dict[str, Number] = {
            "share": steps[0].workers,
            "left_s": float(jobs.deadline_s[row]) - self.problem.now_s,
            "epochs": float(jobs.remaining_epochs[row]),
            "done": float(self.done[row]),
        }
        if self.late[row]:
            return Reason(
                "its deadline in {left_s:.0f} s is at risk: of {epochs:.1f} epochs, {done:.1f} can "
                "be done",
                numbers,
            )
        template = "{share} are its minimum share now"
        if not steps[0].workers and len(steps) > 1:
            numbers["wait_s"] = steps[1].start_s - self.problem.now_s
            template = "its minimum share begins in {wait_s:.0f} s"
        return Reason(
            template + " and does {done:.1f} epochs in the {left_s:.0f} s to its deadline, "
            "{epochs:.1f} are to be done",
            numbers,
        )

    def _queue(self, row: int) -> Reason:
        numbers: dict[str, Number] = {
            "needed": int(self.smallest_gpus[row]),
            "free": self.free_gpus,
            "epochs": float(self.problem.jobs.remaining_epochs[row]),
        }
        if self.workers[row]:
            return Reason(
                "no deadline is promised to it: it has of the GPUs that minimum shares leave, "
                "{free} are free, {epochs:.1f} epochs are to be done",
                numbers,
            )
        return Reason(
            "it needs {needed} GPUs, {free} are left by minimum shares and by jobs before it",
            numbers,
        )


def _change(workers: int, before: int) -> str:
    if workers == before:
        return "keeps its {workers} workers" if workers else "waits"
    if not workers:
        return "gives up its {before} workers"
    if not before:
        return "starts on {workers} workers"
    return ("grows" if workers > before else "shrinks") + " from {before} to {workers} workers"
