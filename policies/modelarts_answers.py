"""What ModelArts (paper 000) answers: allocations with their plans and reasons."""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np

from policies.modelarts_sizes import Sizes, Start, started
from policies.problem import Allocation, Ints, Jobs, PlanStep, Problem
from policies.ragged import lengths_of
from policies.reason import Reason, because
from policies.rolling_horizon import Solution
from policies.rolling_horizon_model import Model, loads_gpus, progress


@dataclass(frozen=True, slots=True)
class Scaling:
    """A scaling decision in the model's terms."""

    rows: Ints  # [admitted] of the problem's jobs
    workers: Ints  # [options] of the model
    model: Model
    solution: Solution
    step_s: float


def scaled(problem: Problem, sizes: Sizes, scaling: Scaling) -> dict[str, Allocation]:
    """The allocations of a scaling decision: the first step, with the plan for the others."""
    jobs, capacity = problem.jobs, problem.servers.total_gpus
    least_gpus = sizes.least_gpus
    taken = int(least_gpus[scaling.rows].sum())
    running = dict(zip(scaling.rows.tolist(), _running(problem, scaling), strict=True))
    queue = _Queue(capacity - taken, "left by the smallest sizes of other jobs")
    answers = {}
    for row, job in enumerate(jobs.ids):
        if row in running:
            answers[job] = running[row]
        elif jobs.workers[row]:
            answers[job] = Allocation(0, _gives_up(jobs, row, capacity, taken, least_gpus))
        else:
            answers[job] = Allocation(0, queue.waits(job, int(least_gpus[row])))
    return answers


def between(problem: Problem, sizes: Sizes, next_s: float) -> dict[str, Allocation]:
    """The allocations between scaling decisions (§5.1, "regular times")."""
    jobs, least_gpus = problem.jobs, sizes.least_gpus
    standing_gpus = int((jobs.workers * jobs.gpus_per_worker).sum())
    starts, idle = started(jobs, sizes, problem.servers.total_gpus - standing_gpus)
    queue = _Queue(idle, "idle")
    wait_s = next_s - problem.now_s
    answers = {}
    for row, (job, workers) in enumerate(zip(jobs.ids, jobs.workers.tolist(), strict=True)):
        if workers:
            answers[job] = Allocation(workers, _keeps(workers, wait_s))
        elif row in starts:
            answers[job] = Allocation(starts[row].workers, _starts(starts[row], wait_s))
        else:
            answers[job] = Allocation(0, queue.waits(job, int(least_gpus[row])))
    return answers


@dataclass(slots=True)
class _Queue:
    """The jobs that wait, in the order in which they are met."""

    free: int
    what: str  # these GPUs are
    ahead: int = 0
    head: str = ""
    head_gpus: int = 0

    def waits(self, job: str, needed: int) -> Reason:
        """The reason of the next in the queue, whose smallest size takes `needed` GPUs."""
        if not self.ahead:
            self.head, self.head_gpus = job, needed
            template = "first of the queue: needs {needed} GPUs, {free} are "
        else:
            template = (
                "waits behind {ahead} in the queue: its first, {head}, needs {needed} GPUs, "
                "{free} are "
            )
        self.ahead += 1
        return because(
            template + self.what,
            ahead=self.ahead - 1,
            head=self.head,
            needed=self.head_gpus,
            free=self.free,
        )


def _gives_up(jobs: Jobs, row: int, capacity: int, taken: int, least_gpus: Ints) -> Reason:
    return because(
        "gives up its {workers} workers: of {capacity} GPUs left, {taken} go to the smallest "
        "sizes of other jobs, it needs {needed}",
        workers=jobs.workers[row],
        capacity=capacity,
        taken=taken,
        needed=least_gpus[row],
    )


def _keeps(workers: int, wait_s: float) -> Reason:
    return because(
        "keeps its {workers} workers: sizes change in {wait_s:.0f} s",
        workers=workers,
        wait_s=wait_s,
    )


def _starts(start: Start, wait_s: float) -> Reason:
    return because(
        "starts on {workers} workers, as many as it can use of {idle} idle GPUs; "
        "sizes change in {wait_s:.0f} s",
        workers=start.workers,
        idle=start.idle_gpus,
        wait_s=wait_s,
    )


def _running(problem: Problem, scaling: Scaling) -> list[Allocation]:
    """[admitted] The allocation of each job that runs."""
    plans = _plan_steps(problem, scaling)
    columns = _columns(problem, scaling)
    common = {
        "step_s": scaling.step_s,
        "horizon_s": scaling.step_s * len(scaling.model.worth),
        "free": scaling.model.capacity_gpus
        - int(loads_gpus(scaling.model, scaling.solution.plans)[0]),
    }
    answers = []
    rows = zip(*(column.tolist() for column in columns.values()), strict=True)
    for values, plan in zip(rows, plans, strict=True):
        numbers = dict(zip(columns, values, strict=True)) | common
        reason = Reason(_change(numbers) + _SERVES + _limit(numbers), numbers)
        answers.append(Allocation(numbers["workers"], reason, plan=plan))
    return answers


def _columns(problem: Problem, scaling: Scaling) -> dict[str, Ints]:
    """[admitted] each: the numbers of the reasons."""
    model, solution = scaling.model, scaling.solution
    first = solution.plans[:, 0]
    larger = np.minimum(first + 1, model.offset[1:] - 1)
    share = progress(model, solution.plans)
    extra = model.gpus[larger] - model.gpus[first]
    return {
        "workers": scaling.workers[first],
        "before": problem.jobs.workers[scaling.rows],
        "sizes": lengths_of(model.offset),
        "first": share[:, 0],
        "last": share[:, -1],
        "larger": scaling.workers[larger],
        "extra": extra,
        "gain": np.minimum(model.first_served[larger], 1) - share[:, 0],
        "price": extra * solution.prices[0],
    }


_SERVES = "{first:.1%} of what is left is done in {step_s:.0f} s, {last:.1%} in {horizon_s:.0f} s; "


def _change(numbers: dict[str, int | float]) -> str:
    """The beginning of a reason: what happens to a job that runs."""
    workers, before = numbers["workers"], numbers["before"]
    if before == 0:
        return "starts on {workers} workers: "
    if workers == before:
        return "keeps its {workers} workers: "
    return ("grows" if workers > before else "shrinks") + " from {before} to {workers} workers: "


def _limit(numbers: dict[str, int | float]) -> str:
    """Its end: why the job does not get more."""
    if numbers["sizes"] == 1:
        return "it has no other size"
    if not numbers["extra"]:
        return "it can use no more"
    return (
        "{larger} workers would do {gain:.1%} more in the step, for {extra} GPUs of which {free} "
        "are free, worth {price:.3f} of a job's progress to others"
    )


def _plan_steps(problem: Problem, scaling: Scaling) -> list[tuple[PlanStep, ...]]:
    """[admitted] The changes after the first step; 0 workers where the job has finished."""
    plans = scaling.solution.plans
    workers = scaling.workers[plans]
    done = progress(scaling.model, plans)
    workers[:, 1:][done[:, :-1] >= 1] = 0
    ahead: list[tuple[PlanStep, ...]] = [()] * len(plans)
    changes = np.argwhere(np.diff(workers, axis=1) != 0)
    for row, step in changes.tolist():
        start_s = problem.now_s + (step + 1) * scaling.step_s
        ahead[row] += (PlanStep(start_s, int(workers[row, step + 1])),)
    return ahead
