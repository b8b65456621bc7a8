"""Earliest deadline first, and only jobs whose deadlines can all be met."""

from __future__ import annotations

from dataclasses import dataclass
from typing import ClassVar

import numpy as np

from policies.baselines.deadlines import Reading, check_reading, sizes_of
from policies.baselines.edf_plan import Plan, plan_of
from policies.checks import check
from policies.problem import (
    Allocation,
    Bools,
    Decision,
    Jobs,
    Memory,
    Problem,
)
from policies.reason import Number, Reason, because
from policies.sentences import change
from policies.sizes import Sizes

_VERSION = 1


@dataclass(frozen=True)
class EdfAdmission:
    """001 §6.4 "EDF + Admission Control".

    Jobs with deadlines run by EDF on the GPUs of the training pool: each in turn is as large as
    what earlier deadlines leave lets it, now and at each later time until it ends. An arrival is
    admitted if with it that plan meets its deadline, and all deadlines that are met without it;
    else it is refused for good. Since the plan is greedy in the order of deadlines it comes out
    the same when it is made again later: an admitted deadline is kept where jobs run as predicted.

    What starts and resizes cost is not in the plan, as it is not in the paper's test, so a job may
    be late all the same. Hence plans are told as forecasts, not as promises. A late job stays in
    its place and hinders no admission but by the GPUs that it takes. A job that runs, or has run,
    is never refused. Jobs without deadlines come last, and have GPUs on loan too. The memory is
    the admitted jobs.

    In the `published` reading, as in the simulator of 001, one late job stops all admission, and
    plans count on a job's GPUs only whole slots after now.
    """

    reading: Reading = "clean"
    slot_s: float = 240.0  # of the published reading alone

    name: ClassVar[str] = "edf_admission"
    source: ClassVar[str] = "001 §6.4 (EDF + Admission Control)"
    default_loaning: ClassVar[str] = "off"

    def __post_init__(self) -> None:
        check_reading(self.reading)

    @property
    def interval_s(self) -> None:
        """Only arrivals, departures and changes of capacity matter."""

    def decide(self, problem: Problem, memory: Memory) -> tuple[Decision, Memory]:
        """Allocations with plans; refuses arrivals whose deadlines cannot be kept."""
        check(problem)
        sizes = sizes_of(problem.jobs, self.reading)
        slot_s = self.slot_s if self.reading == "published" else None
        admitted, arrived = _admitted(problem.jobs, memory)
        plan, rejected = plan_of(problem, sizes, admitted, slot_s), {}
        for row in np.flatnonzero(arrived).tolist():
            admitted[row] = True
            trial = plan_of(problem, sizes, admitted, slot_s)
            broken = trial.late & ~plan.late if self.reading == "clean" else trial.late
            if broken.any():
                admitted[row] = False
                rejected[problem.jobs.ids[row]] = _refuses(problem, row, trial, broken)
            else:
                plan = trial
        allocations = _by_plan(problem, plan) | _without_deadline(problem, sizes, plan)
        ids = [problem.jobs.ids[row] for row in plan.steps]
        return Decision(allocations, rejected), {"version": _VERSION, "admitted": sorted(ids)}


def _admitted(jobs: Jobs, memory: Memory) -> tuple[Bools, Bools]:
    """[jobs] Of those with deadlines: who was admitted, or has run; and who arrives."""
    ids = frozenset(memory["admitted"] if memory.get("version") == _VERSION else ())
    known = np.array([job in ids for job in jobs.ids], dtype=bool)
    known |= (jobs.workers > 0) | (jobs.attained_gpu_s > 0)
    due = np.isfinite(jobs.deadline_s)
    return due & known, due & ~known


def _by_plan(problem: Problem, plan: Plan) -> dict[str, Allocation]:
    """The first step of the plan."""
    jobs, allocations = problem.jobs, {}
    for row, steps in plan.steps.items():
        workers, before = steps[0].workers, int(jobs.workers[row])
        numbers: dict[str, Number] = {"workers": workers, "before": before}
        sentence = change(workers, before) + "; it cannot end on the {gpus} GPUs of training"
        numbers["gpus"] = problem.servers.owned_gpus
        if np.isfinite(plan.end_s[row]):
            spare_s = float(jobs.deadline_s[row] - plan.end_s[row])
            numbers |= {"spare_s": abs(spare_s), "ends_s": float(plan.end_s[row]) - problem.now_s}
            when = "after" if plan.late[row] else "before"
            sentence = change(workers, before) + (
                "; by plan it ends in {ends_s:.0f} s, {spare_s:.0f} s " + when + " its deadline"
            )
        allocations[jobs.ids[row]] = Allocation(workers, Reason(sentence, numbers), plan=steps)
    return allocations


def _without_deadline(problem: Problem, sizes: Sizes, plan: Plan) -> dict[str, Allocation]:
    """Who has none, in the order of submission, on what the plan leaves now."""
    jobs, allocations = problem.jobs, {}
    planned = [
        steps[0].workers * int(jobs.gpus_per_worker[row]) for row, steps in plan.steps.items()
    ]
    free = problem.servers.total_gpus - sum(planned)
    for row in np.flatnonzero(np.isinf(jobs.deadline_s)).tolist():
        gpus = sizes.gpus_of(row)
        held = int(gpus[np.searchsorted(gpus, free, side="right") - 1])
        workers, before = held // int(jobs.gpus_per_worker[row]), int(jobs.workers[row])
        reason = because(
            change(workers, before) + "; it has no deadline: {free} GPUs are left, it can use "
            "{smallest} to {most}",
            workers=workers,
            before=before,
            free=free,
            smallest=gpus[1],
            most=gpus[-1],
        )
        allocations[jobs.ids[row]] = Allocation(workers, reason)
        free -= held
    return allocations


def _refuses(problem: Problem, row: int, trial: Plan, broken: Bools) -> Reason:
    """Whose deadline the plan with this arrival would miss: its own first."""
    jobs = problem.jobs
    whose = row if broken[row] else int(broken.argmax())
    what = "it would end" if whose == row else "with it {broken} would end"
    ends_s = float(trial.end_s[whose])
    late = " {late_s:.0f} s after its deadline" if ends_s < np.inf else " never"
    return because(
        "refused: of {admitted} admitted jobs on {gpus} GPUs of training, " + what + late,
        admitted=len(trial.steps) - 1,
        gpus=problem.servers.owned_gpus,
        broken=jobs.ids[whose],
        late_s=ends_s - float(jobs.deadline_s[whose]) if ends_s < np.inf else 0.0,
    )
