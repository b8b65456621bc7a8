"""What elasticflow says of each job: its change, and the promise or the queue behind it."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import dataclass

from policies.answers import Answers
from policies.problem import Bools, Floats, Ints, PlacementRule, PlanStep, Problem, Promise
from policies.reason import Number, Reason
from policies.sentences import change


@dataclass(frozen=True, slots=True)
class Outcome:
    """A decision as columns."""

    problem: Problem
    placement: PlacementRule
    promised: Mapping[int, tuple[PlanStep, ...]]  # by row: the plans of minimum shares
    ahead: Callable[[], Mapping[int, tuple[PlanStep, ...]]]
    """By row: the plans with what is had beyond these."""
    rejected: Mapping[int, Reason]  # by row
    workers: Ints  # [jobs] from now on
    free_gpus: int  # that nobody got
    done: Floats  # [jobs] epochs that the promised plan does
    late: Bools  # [jobs] whose plan does not do what is left
    smallest_gpus: Ints  # [jobs] GPUs of the smallest size

    def allocations(self) -> Answers:
        """Of each job that is not rejected, with why it has what it has."""
        jobs = self.problem.jobs
        until_s = jobs.deadline_s.tolist()
        promises = {row: Promise(steps, until_s[row]) for row, steps in self.promised.items()}
        answers = Answers(
            jobs.ids,
            self.workers,
            self._why,
            self.placement,
            promises=promises,
            plan=lambda row: self.ahead().get(row, ()),
        )
        if not self.rejected:
            return answers
        return answers.of([job for row, job in enumerate(jobs.ids) if row not in self.rejected])

    def _why(self, row: int) -> Reason:
        jobs, now_s = self.problem.jobs, self.problem.now_s
        workers, before = int(self.workers[row]), int(jobs.workers[row])
        numbers: dict[str, Number] = {
            "workers": workers,
            "before": before,
            "epochs": float(jobs.remaining_epochs[row]),
        }
        steps = self.promised.get(row)
        if steps is None:
            numbers["needed"], numbers["free"] = int(self.smallest_gpus[row]), self.free_gpus
            return Reason(change(workers, before) + (_SPARE if workers else _WAITS), numbers)
        late = bool(self.late[row])
        numbers["share"] = steps[0].workers
        numbers["left_s"] = float(jobs.deadline_s[row]) - now_s
        numbers["done"] = float(self.done[row])
        behind = _LATE if late else _SHARE
        if not late and not steps[0].workers and len(steps) > 1:
            numbers["wait_s"] = steps[1].start_s - now_s
            behind = _SHARE_LATER
        return Reason(change(workers, before) + behind, numbers)


_TO_DEADLINE = (
    " and does {done:.1f} epochs in the {left_s:.0f} s to its deadline, {epochs:.1f} are to be done"
)
_SHARE = "; {share} are its minimum share now" + _TO_DEADLINE
_SHARE_LATER = "; its minimum share begins in {wait_s:.0f} s" + _TO_DEADLINE
_LATE = (
    "; its deadline in {left_s:.0f} s is at risk: of {epochs:.1f} epochs, {done:.1f} can be done"
)
_SPARE = (
    "; no deadline is promised to it: it has of the GPUs that minimum shares leave, {free} are "
    "free, {epochs:.1f} epochs are to be done"
)
_WAITS = "; it needs {needed} GPUs, {free} are left by minimum shares and by jobs before it"
