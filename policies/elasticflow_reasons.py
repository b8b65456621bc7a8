"""What elasticflow says of each job: its change, and the promise or the queue behind it."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass

from policies.problem import (
    Allocation,
    Bools,
    Floats,
    Ints,
    PlacementRule,
    PlanStep,
    Problem,
    Promise,
)
from policies.reason import Number, Reason
from policies.sentences import change


@dataclass(frozen=True, slots=True)
class Outcome:
    """A decision as columns."""

    problem: Problem
    placement: PlacementRule
    promised: Mapping[int, tuple[PlanStep, ...]]  # by row: the plans of minimum shares
    ahead: Mapping[int, tuple[PlanStep, ...]]  # by row: the plans with what is had beyond these
    rejected: Mapping[str, Reason]
    workers: Ints  # [jobs] from now on
    free_gpus: int  # that nobody got
    done: Floats  # [jobs] epochs that the promised plan does
    late: Bools  # [jobs] whose plan does not do what is left
    smallest_gpus: Ints  # [jobs] GPUs of the smallest size

    def allocations(self) -> dict[str, Allocation]:
        """Of each job that is not rejected, with why it has what it has."""
        jobs, now_s = self.problem.jobs, self.problem.now_s
        columns = zip(
            jobs.ids,
            self.workers.tolist(),
            jobs.workers.tolist(),
            jobs.remaining_epochs.tolist(),
            jobs.deadline_s.tolist(),
            self.done.tolist(),
            self.late.tolist(),
            self.smallest_gpus.tolist(),
            strict=True,
        )
        allocations = {}
        for row, (job, workers, before, epochs, until_s, done, late, smallest) in enumerate(
            columns
        ):
            numbers: dict[str, Number] = {"workers": workers, "before": before, "epochs": epochs}
            steps = self.promised.get(row)
            if steps is not None:
                numbers["share"] = steps[0].workers
                numbers["left_s"] = until_s - now_s
                numbers["done"] = done
                behind = _LATE if late else _SHARE
                if not late and not steps[0].workers and len(steps) > 1:
                    numbers["wait_s"] = steps[1].start_s - now_s
                    behind = _SHARE_LATER
            elif job in self.rejected:
                continue
            else:
                numbers["needed"], numbers["free"] = smallest, self.free_gpus
                behind = _SPARE if workers else _WAITS
            allocations[job] = Allocation(
                workers,
                Reason(change(workers, before) + behind, numbers),
                self.placement,
                plan=self.ahead.get(row, ()),
                promise=None if steps is None else Promise(steps, until_s),
            )
        return allocations


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
