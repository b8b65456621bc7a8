"""FfDL's elastic scaling (paper 003): GPUs and batch sizes together, for most throughput."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any, ClassVar, Literal

import numpy as np

from policies.checks import check, check_interval
from policies.curves import curve_start
from policies.elastic_program import solve
from policies.problem import (
    Allocation,
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
from policies.scaling import Scaling, scaling
from policies.standing import kept

MEMORY_VERSION = 1


@dataclass(frozen=True)
class Ffdl:
    """003 §III: the autoscaler of Fig. 4 around the optimizer of equations (1) to (5).

    Jobs that run go on running. Arrived jobs are added in their order while the smallest sizes of
    all fit the GPUs; a set is feasible exactly then, so no trial needs the optimizer. For the
    final set it maximises the sum of the throughput scaling factors (`policies.scaling`), each
    job at the batch size that is fastest at its number of GPUs.

    It does so at most once in `interval_s`, or when `ended_share` of its jobs have ended: scaling
    more often is thrashing (§III-D). In between, running jobs keep what they have and new ones
    wait in the buffer, even beside free GPUs. Nothing is decided where nothing arrived or ended.

    Departures from print:
    - Fig. 4 calls the optimizer only in trials, so never when jobs only left, and may send an
      allocation found in a trial that failed: here it runs once, on the final set, always. Its
      index also passes over the job after each one that it removes; none is passed over here;
    - Algorithm 1 is corrected and replaced by an equal, faster method: see `elastic_program`;
    - Δ counts from the last decision, not on a grid, so that a job which comes to a quiet cluster
      does not wait for nothing; where none of its jobs run any more there is nothing to thrash;
    - a change in the number of GPUs counts as an arrival does. Where running jobs no longer fit
      it decides at once, and the latest submitted go back to the queue. The paper's cluster is
      fixed;
    - `drop` never refuses a job that has run before: that is a promise broken, not admission.

    As in the paper all GPUs are alike, and the optimizer does not weigh what a resize costs: Δ
    alone bounds it.
    """

    interval_s: float | None = 600.0
    """Δ, seconds: the least time between two decisions (§V-B: 10 to 15 minutes). None: decide
    whenever a job arrives or leaves, which the paper calls ideal but for the thrashing."""

    ended_share: float = 0.05
    """Decide before Δ is over once this share, above 0 to 1, of the jobs that the last decision
    ran have ended (§V-B, the hybrid strategy: "10 minutes or until 5% of the jobs terminate")."""

    max_gpus: int | None = None
    """k_max, GPUs: no job grows beyond (10 in §III-C). None: only the jobs' own maxima count."""

    when_full: Literal["queue", "drop"] = "queue"
    """What becomes of arrived jobs that cannot be accommodated: they wait, or are refused."""

    after_infeasible: Literal["continue", "stop"] = "continue"
    """After an arrived job that does not fit: try those behind it (Fig. 4), or none (§III-D)."""

    name: ClassVar[str] = "ffdl"
    source: ClassVar[str] = "003 §III, Fig. 4, Algorithm 1, §V-B"
    default_loaning: ClassVar[str] = "off"

    def __post_init__(self) -> None:
        check_interval(self.interval_s)
        if not 0 < self.ended_share <= 1:
            raise PolicyError(f"ended_share is {self.ended_share}; use above 0 to 1")
        if self.max_gpus is not None and self.max_gpus < 1:
            raise PolicyError(f"max_gpus is {self.max_gpus}; use a number of GPUs from 1, or None")

    def decide(self, problem: Problem, memory: Memory) -> tuple[Decision, Memory]:
        """Allocations with `objective` and `bound`: the sum of the scaling factors."""
        check(problem)
        pause = self._pause(problem, memory)
        if pause is not None:
            return _hold(problem.jobs, pause), memory
        decision = self._scale(problem)
        runs = [job for job, allocation in decision.allocations.items() if allocation.workers]
        return decision, {
            "version": MEMORY_VERSION,
            "decided_s": problem.now_s,
            "gpus": problem.servers.total_gpus,
            "running": runs,
        }

    def _pause(self, problem: Problem, memory: Memory) -> _Pause | None:
        """The hybrid trigger: what the next decision waits for, or None if it is due."""
        jobs, capacity = problem.jobs, problem.servers.total_gpus
        fits = int((jobs.workers * jobs.gpus_per_worker).sum()) <= capacity
        if self.interval_s is None or memory.get("version") != MEMORY_VERSION or not fits:
            return None
        ran = set(memory["running"])
        ended = len(ran.difference(jobs.ids))
        enough = next((n for n in range(1, len(ran) + 1) if n / len(ran) >= self.ended_share), 0)
        due_s = memory["decided_s"] + self.interval_s
        changed = ended or (jobs.workers == 0).any() or capacity != memory["gpus"]
        if changed and (problem.now_s >= due_s or ended >= enough):
            return None
        ends, running = enough - ended, len(ran) - ended
        if not changed:
            return _Pause(None, None, ends, running)
        return _Pause(due_s, due_s - problem.now_s, ends, running)

    def _scale(self, problem: Problem) -> Decision:
        """Admit jobs, then run the optimizer on the final set."""
        jobs, capacity = problem.jobs, problem.servers.total_gpus
        rates = self._rates(jobs)
        smallest_gpus = rates.sizes.smallest_gpus
        admission = _admit(jobs, smallest_gpus, capacity, self.after_infeasible == "stop")
        entry, sizes = rates.only(admission.runs)
        solution = solve(sizes, capacity)
        free = capacity - int(sizes.gpus[solution.choice].sum())
        allocations = _allocations(jobs, rates, entry[solution.choice], free)
        waits, rejected = self._turned_away(jobs, smallest_gpus, admission.passed)
        return Decision(
            allocations | waits, rejected, objective=solution.value, bound=solution.bound
        )

    def _rates(self, jobs: Jobs) -> Scaling:
        """The sizes that the optimizer chooses from."""
        return scaling(jobs, self.max_gpus)

    def _turned_away(
        self, jobs: Jobs, smallest_gpus: Ints, passed: list[_Passed]
    ) -> tuple[dict[str, Allocation], dict[str, Reason]]:
        """The jobs that wait, and those that are refused: new ones, where they are dropped."""
        waits: dict[str, Allocation] = {}
        refused: dict[str, Reason] = {}
        for place, each in enumerate(passed):
            ahead = passed[0] if place and self.after_infeasible == "stop" else None
            runs, ran = jobs.workers[each.row] > 0, jobs.attained_gpu_s[each.row] > 0
            job, why = jobs.ids[each.row], _does_not_fit(jobs, smallest_gpus, each, ahead)
            if self.when_full == "drop" and not runs and not ran:
                refused[job] = _opening("refused: ", why)
            else:
                opening = "gives up its {workers} workers: " if runs else "waits: "
                waits[job] = Allocation(0, _opening(opening, why))
        return waits, refused


@dataclass(frozen=True, slots=True)
class _Pause:
    """What the next decision waits for: a time, or jobs that end."""

    due_s: float | None  # None: nothing arrived or ended that it could be about
    wait_s: float | None  # until then
    ends: int  # jobs that must end for it to come sooner
    running: int  # of so many


def _hold(jobs: Jobs, pause: _Pause) -> Decision:
    """Jobs that run keep what they have, the others wait."""
    until, numbers = "nothing arrived or ended since the last decision", {}
    if pause.wait_s is not None:
        until = "next decision in {wait_s:.0f} s, or once {ends} of {running} running jobs end"
        numbers = {"wait_s": pause.wait_s, "ends": pause.ends, "running": pause.running}
    allocations = {}
    for job, workers in zip(jobs.ids, jobs.workers.tolist(), strict=True):
        verb = "keeps its {workers} workers: " if workers else "waits: "
        reason = Reason(verb + until, numbers | {"workers": workers})
        allocations[job] = Allocation(workers, reason)
    return Decision(allocations, review_at_s=pause.due_s)


@dataclass(frozen=True, slots=True)
class _Passed:
    """A job that did not fit in its turn."""

    row: int
    free_gpus: int  # left by the smallest sizes of the jobs admitted so far
    admitted: int  # so many jobs


@dataclass(frozen=True, slots=True)
class _Admission:
    """Who runs, and who does not, in the order of arrival."""

    runs: Bools  # [jobs]
    passed: list[_Passed]


def _admit(jobs: Jobs, smallest_gpus: Ints, capacity: int, stops: bool) -> _Admission:
    """Fig. 4, lines 13 to 23, where a trial is a comparison of the smallest sizes with K.

    `stops`: the first job that does not fit ends the trials.
    """
    runs = kept(jobs, smallest_gpus, capacity)
    free, admitted = capacity - int(smallest_gpus[runs].sum()), int(runs.sum())
    passed: list[_Passed] = []
    for row in np.flatnonzero(~runs).tolist():
        needed = int(smallest_gpus[row])
        if needed <= free and not (stops and passed):
            runs[row] = True
            free -= needed
            admitted += 1
        else:
            passed.append(_Passed(row, free, admitted))
    return _Admission(runs, passed)


def _does_not_fit(
    jobs: Jobs, smallest_gpus: Ints, passed: _Passed, ahead: _Passed | None
) -> Reason:
    """Why a job is not admitted: it does not fit, or the job `ahead` of it does not."""
    template = (
        "needs {needed} GPUs at its smallest size, {free} are left by those of {admitted} jobs"
    )
    if ahead is not None:
        template = "behind {ahead}, which " + template
    unfit = ahead or passed
    return because(
        template,
        ahead=jobs.ids[unfit.row],
        needed=smallest_gpus[unfit.row],
        free=passed.free_gpus,
        admitted=passed.admitted,
        workers=jobs.workers[passed.row],
    )


def _opening(words: str, reason: Reason) -> Reason:
    return Reason(words + reason.template, reason.numbers)


def _allocations(jobs: Jobs, rates: Scaling, chosen: Ints, free: int) -> dict[str, Allocation]:
    """The size, the batch size and the reason of each job that runs; `chosen` indexes the sizes."""
    sizes = rates.sizes
    row = sizes.job[chosen]
    larger = np.minimum(chosen + 1, sizes.offset[row + 1] - 1)
    columns = {
        "row": row,
        "before": jobs.workers[row],
        "workers": rates.workers[chosen],
        "batch_before": jobs.batch_size[row],
        "batch": rates.batch_size[chosen],
        "factor_before": _present_factors(jobs, rates)[row],
        "factor": sizes.value[chosen],
        "more": sizes.gpus[larger] - sizes.gpus[chosen],
        "gain": sizes.value[larger] - sizes.value[chosen],
    }
    allocations = {}
    for values in zip(*(column.tolist() for column in columns.values()), strict=True):
        numbers = dict(zip(columns, values, strict=True)) | {"free": free}
        job = jobs.ids[numbers.pop("row")]
        reason = Reason(_change(numbers) + _limit(numbers), numbers)
        allocations[job] = Allocation(numbers["workers"], reason, batch_size=numbers["batch"])
    return allocations


def _present_factors(jobs: Jobs, rates: Scaling) -> Floats:
    """[jobs] The scaling factor at the standing size and batch size (waiting: at the minimum)."""
    standing = np.maximum(jobs.workers, jobs.min_workers)
    epoch_s = jobs.curves.epoch_s[curve_start(jobs) + standing - jobs.min_workers]
    factors: Floats = rates.gpu_s / epoch_s
    return factors


def _change(numbers: dict[str, Any]) -> str:
    """The first half of a reason: what happens to a job that runs."""
    before, workers = numbers["before"], numbers["workers"]
    rate = "{factor:.2f} times the rate of one GPU"
    if before == 0:
        return "starts on {workers} workers, batch size {batch}: " + rate + "; "
    if before != workers:
        verb = "grows" if workers > before else "shrinks"
        size = verb + " from {before} to {workers} workers, batch size {batch}: "
    elif numbers["batch"] == numbers["batch_before"]:
        return "keeps its {workers} workers, batch size {batch}: " + rate + "; "
    else:
        size = "keeps its {workers} workers, batch size {batch} after {batch_before}: "
    return size + rate + ", not {factor_before:.2f}; "


def _limit(numbers: dict[str, Any]) -> str:
    """The second half: why it does not get more."""
    if numbers["more"] == 0:
        return "it can use no more"
    if numbers["gain"] > 0 and numbers["more"] > numbers["free"]:
        return "{more} more GPUs would add {gain:.2f}, {free} are free and other jobs gain more"
    return "{more} more GPUs would add {gain:.2f}"
