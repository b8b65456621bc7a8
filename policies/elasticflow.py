"""ElasticFlow (paper 001): admit what can meet its deadline, give the rest where it saves most."""

from __future__ import annotations

from dataclasses import dataclass, replace
from functools import cache
from typing import ClassVar, Literal

import numpy as np

from policies.checks import check, check_interval, check_seconds
from policies.elasticflow_reasons import Outcome
from policies.marginal_return import Spare, marginal_return
from policies.problem import (
    Bools,
    Decision,
    Ints,
    Memory,
    PlacementRule,
    PlanStep,
    PolicyError,
    Problem,
)
from policies.reason import Number, Reason
from policies.share import SATISFIED, Claims, Filled, Plans, kept, minimum_shares
from policies.sizes import Sizes
from policies.timeline import Steps, Timeline

_ROUNDING_EPOCHS = 1e-6  # by which work may seem to be left of a plan that did all of it


@dataclass(frozen=True)
class ElasticFlow:
    """001 §4: admission control (Algorithm 1), resource allocation (Algorithm 2), §4.4.

    A job with a deadline is admitted if all admitted ones and it can be filled into the GPUs of
    the training pool, earliest deadline first, each with its minimum satisfactory share; else it
    is rejected. The GPUs that minimum shares leave, and those on loan, go to who saves the most
    GPU time by them. Jobs without a deadline take part in this after the minimum shares (§4.4).
    T(x), epochs a second at x GPUs, is the job's curve at its present batch size. It holds for
    compact placements. A size that is a power of two has one of these, the smallest subtree, and
    `PlacementRule.BUDDY` always finds it: so the curve by size is the throughput by placement
    (§4.3, Fig. 2b). The user fixes the global batch (§3.1), hence a size fixes the local one; that
    it fits the GPU's memory is what the smallest number of workers stands for (§6.6).

    The guarantee: an admitted deadline is not broken by a later decision. Filling anew may fail
    for a job that was admitted; then the plans that are in memory stand, and what arrives is
    filled in around them. Promises are these plans of minimum shares. They never count on
    a GPU on loan, nor on the growth that marginal return gives.

    What time and accidents take is reserved when a plan is made, and may be missing from it later:
    `spare_resizes` times `problem.resize_s` at full speed; `boundary_epochs` of work, since a
    change waits for the end of an epoch, and work done is known at that end (one epoch is what
    a doubled job loses by waiting for one); `reserve_gpus` for servers that fail (§4.4). A job
    whose plan has no room left for two resizes keeps to it. Where a loss is larger than that,
    other promises stay, and the job gets all that is left until its deadline, and best effort
    from then on: soft deadlines (§4.4).

    Departures from print, where not in `policies.share`:
    - time is cut at multiples of `slot_s`; a deadline within a slot counts up to itself;
    - sizes are numbers of workers from min to max, powers of two unless `powers_of_two` is off;
    - curves need not be concave: no promise rests on it, only the optimality of Theorem 2 does;
    - jobs that arrive together are tried together, and in halves where that fails;
    - where plans in memory stand, an arrival is tried around them: printed, all would be dropped;
    - a deadline in the past is one that cannot be met: the job is rejected;
    - a running job that cannot be admitted (another policy started it) goes on as best effort.
    """

    slot_s: float = 300.0  # grid on which plans change
    horizon_slots: int = 2016  # one week; where deadlines lie farther off, slots are doubled
    interval_s: float | None = None  # seconds between decisions beyond those that plans ask for
    powers_of_two: bool = True  # numbers of workers: §4.3, so that placement never fragments
    reserve_gpus: int = 0  # of the training pool, kept out of new promises
    spare_resizes: int = 2  # of each admitted job
    boundary_epochs: float = 1.0  # of each admitted job, at most as many as it has left
    unadmitted: Literal["reject", "best_effort"] = "reject"  # best_effort: deadlines are soft

    name: ClassVar[str] = "elasticflow"
    source: ClassVar[str] = "001 §4, Algorithms 1 and 2"
    default_loaning: ClassVar[str] = "off"

    def __post_init__(self) -> None:
        check_interval(self.interval_s)
        check_seconds("slot_s", self.slot_s)
        if self.horizon_slots < 1:
            raise PolicyError(f"horizon_slots is {self.horizon_slots}; use at least 1")
        for field in ("reserve_gpus", "spare_resizes", "boundary_epochs"):
            if not 0 <= getattr(self, field) < np.inf:
                raise PolicyError(f"{field} is {getattr(self, field)}; use a number from 0")

    def objection(self, problem: Problem, row: int, share_gpu_s: float) -> Reason | None:
        """Why a job that could be admitted is not: quotas or prices (§4.4, before line 9).

        For subclasses. `share_gpu_s`: GPU-seconds of the job's minimum share. Must be pure: it
        may be asked of the same job more than once.
        """
        return None

    def decide(self, problem: Problem, memory: Memory) -> tuple[Decision, Memory]:
        """Allocations with promises; asks to be called again when one of these needs more."""
        check(problem)
        book = _Book(self, problem, memory)
        book.admit(book.arrived)
        return book.answer()


class _Book:
    """Who is admitted with which plan, while a decision is being made."""

    def __init__(self, policy: ElasticFlow, problem: Problem, memory: Memory) -> None:
        jobs, now_s = problem.jobs, problem.now_s
        self.policy, self.problem, self.jobs = policy, problem, jobs
        self.incumbents = Steps.remembered(memory, jobs)
        due = np.isfinite(jobs.deadline_s)
        promised = np.zeros(len(jobs), dtype=bool)
        promised[self.incumbents.rows] = True
        known_soft = frozenset(memory.get("soft", ()))
        self.soft = np.array([job in known_soft for job in jobs.ids], dtype=bool)
        self.soft |= promised & (jobs.deadline_s <= now_s)
        self.admitted = np.flatnonzero(promised & ~self.soft)
        self.arrived = np.flatnonzero(due & ~promised & ~self.soft)
        self.rejected: dict[int, Reason] = {}
        self.filled: Filled | None = None  # None: not filled yet for those who are admitted
        self.held = False  # whether `filled` are plans from memory, as filling anew failed

        deadline_s = np.where(due & ~self.soft, jobs.deadline_s, np.inf)
        self.timeline = Timeline.until(
            now_s,
            float(deadline_s[np.isfinite(deadline_s)].max(initial=now_s)),
            policy.slot_s,
            policy.horizon_slots,
            self.incumbents.start_s,
        )
        self.sizes = Sizes.of(jobs, policy.powers_of_two)
        self.resize_epochs = problem.resize_s * self.sizes.fastest
        reserve = policy.spare_resizes * self.resize_epochs
        reserve += np.minimum(policy.boundary_epochs, jobs.remaining_epochs)
        needed = jobs.remaining_epochs + np.where(jobs.remaining_epochs > 0, reserve, 0.0)
        self.claims = self.timeline.claims(self.sizes, deadline_s, needed)

    def admit(self, rows: Ints) -> None:
        """Admit what can be (Algorithm 1), in the order of arrival; refuse the others."""
        if not len(rows):
            return
        trial, held = self._fill_anew(np.concatenate((self.admitted, rows))), False
        if trial.failed != SATISFIED:
            standing = self._standing()
            if self.held:
                trial, held = self._fill_around(standing, rows), True
        refused = self._refusals(trial, rows.tolist())
        if not refused:
            self.filled, self.held = trial, held
            self.admitted = np.concatenate((self.admitted, rows))
        elif len(rows) == 1:
            self._refuse(*refused.popitem())
        else:
            self.admit(rows[: len(rows) // 2])
            self.admit(rows[len(rows) // 2 :])

    def _standing(self) -> Filled:
        """The plans of who is admitted: filled anew, or held."""
        if self.filled is None:
            self.filled = self._fill_anew(self.admitted)
            if self.filled.failed != SATISFIED:
                self.filled, self.held = self._hold(), True
        return self.filled

    def _fill_anew(self, rows: Ints) -> Filled:
        """All these jobs filled anew, within the reserves."""
        return self._fill(self._nothing(self.policy.reserve_gpus), rows)

    def _fill_around(self, standing: Filled, rows: Ints) -> Filled:
        """Arrivals in what the standing plans leave, within the reserves."""
        reserve = self.policy.reserve_gpus
        begun = replace(standing, free_gpus=standing.free_gpus - reserve)
        filled = self._fill(begun, rows)
        return replace(filled, free_gpus=filled.free_gpus + reserve)

    def _fill(self, begun: Filled, rows: Ints) -> Filled:
        length_s = self.timeline.length_s
        return minimum_shares(length_s, begun, self._by_deadline(rows), self.claims)

    def _hold(self) -> Filled:
        """The plans in memory where they do what is left; the other admitted jobs around them.

        The reserves are there to be used now.
        """
        length_s, pieces = self.timeline.length_s, self.claims.pieces
        plans = self.incumbents.plans(self.timeline, self.jobs, self.sizes, pieces)
        order, free_gpus = self._by_deadline(self.admitted), self._nothing(0).free_gpus
        enough = replace(self.claims, needed=self.jobs.remaining_epochs - _ROUNDING_EPOCHS)
        standing, missed = kept(length_s, free_gpus, order, enough, plans)
        left = replace(self.claims, needed=self.jobs.remaining_epochs)
        filled = minimum_shares(length_s, standing, missed, left, late=True)
        return replace(filled, failed=SATISFIED)

    def _by_deadline(self, rows: Ints) -> Ints:
        return rows[np.lexsort((rows, self.jobs.deadline_s[rows]))]

    def _nothing(self, reserve_gpus: int) -> Filled:
        """No plan, and what promises may rest on: owned GPUs, never those on loan."""
        gpus = max(self.problem.servers.owned_gpus - reserve_gpus, 0)
        return Filled(Plans.empty(len(self.jobs)), np.full(len(self.timeline.length_s), gpus))

    def _refusals(self, trial: Filled, rows: list[int]) -> dict[int, Reason]:
        """Why these arrivals cannot all be admitted."""
        if trial.failed != SATISFIED:
            return {row: self._cannot(trial, row) for row in rows}
        objections = {row: self._objection(trial.plans, row) for row in rows}
        return {row: why for row, why in objections.items() if why is not None}

    def _objection(self, plans: Plans, row: int) -> Reason | None:
        share_gpu_s = self.timeline.gpu_s(self.claims, plans, row)
        return self.policy.objection(self.problem, row, share_gpu_s)

    def _cannot(self, trial: Filled, row: int) -> Reason:
        jobs = self.jobs
        numbers: dict[str, Number] = {
            "left_s": float(jobs.deadline_s[row] - self.problem.now_s),
            "epochs": float(jobs.remaining_epochs[row]),
            "reserve": float(self.claims.needed[row] - jobs.remaining_epochs[row]),
            "gpus": max(self.problem.servers.owned_gpus - self.policy.reserve_gpus, 0),
            "admitted": len(self.admitted),
            "done": float(trial.plans.done[row]),
            "broken": jobs.ids[trial.failed],
        }
        why = "{done:.1f} can be done"
        if trial.failed != row:
            why = "the deadline of {broken} could not be met any more"
        return Reason(
            "needs {epochs:.1f} epochs, and {reserve:.1f} in reserve, within the {left_s:.0f} s "
            "to its deadline: on the {gpus} GPUs of the training pool, beside {admitted} admitted "
            "jobs, " + why,
            numbers,
        )

    def _refuse(self, row: int, why: Reason) -> None:
        """Reject a job; one that already runs, or whose deadline may be soft, is best effort."""
        if self.jobs.workers[row] > 0 or self.policy.unadmitted == "best_effort":
            self.soft[row] = True
        else:
            self.rejected[row] = why

    def answer(self) -> tuple[Decision, Memory]:
        """Spare GPUs given out, and everything told."""
        jobs, filled = self.jobs, self._standing()
        late = filled.plans.done < jobs.remaining_epochs - _ROUNDING_EPOCHS
        first, grown = self._grow(filled, late)
        rows = np.sort(self.admitted)
        promised = self._steps(filled.plans, rows)
        changed = rows[grown.begin[rows] != filled.plans.begin[rows]]
        gpus = self.sizes.gpus[self.sizes.offset[:-1] + first]
        promised_by_row = promised.by_row()

        @cache
        def ahead() -> dict[int, tuple[PlanStep, ...]]:
            return {**promised_by_row, **self._steps(grown, changed).by_row()}

        outcome = Outcome(
            problem=self.problem,
            placement=PlacementRule.BUDDY if self.policy.powers_of_two else PlacementRule.PACK,
            promised=promised_by_row,
            ahead=ahead,
            rejected=self.rejected,
            workers=gpus // jobs.gpus_per_worker,
            free_gpus=self.problem.servers.total_gpus - int(gpus.sum()),
            done=filled.plans.done,
            late=late,
            smallest_gpus=self.sizes.gpus[self.sizes.offset[:-1] + 1],
        )
        review_at_s = _review_at_s(promised, outcome.workers)
        rejected = {jobs.ids[row]: why for row, why in self.rejected.items()}
        decision = Decision(outcome.allocations(), rejected, review_at_s)
        soft = [jobs.ids[row] for row in np.flatnonzero(self.soft).tolist()]
        return decision, {"version": 2, **promised.to_memory(jobs), "soft": soft}

    def _steps(self, plans: Plans, rows: Ints) -> Steps:
        return Steps.of(self.timeline, self.jobs, self.sizes, plans, rows)

    def _grow(self, filled: Filled, late: Bools) -> tuple[Ints, Plans]:
        """What each job has now, by Algorithm 2, and the rest of the plans as it would be then."""
        jobs, sizes, plans = self.jobs, self.sizes, filled.plans
        promised = np.zeros(len(jobs), dtype=bool)
        promised[self.admitted] = True
        room = plans.done - jobs.remaining_epochs >= 2 * self.resize_epochs - _ROUNDING_EPOCHS
        may_grow = ~promised | room | late
        may_grow[list(self.rejected)] = False
        taken = int(sizes.gpus[sizes.offset[:-1] + plans.first].sum())
        spare = Spare(
            gpus=self.problem.servers.total_gpus - taken,
            free_gpus=filled.free_gpus,
            resize_s=self.problem.resize_s,
            standing=sizes.standing(jobs),
            rank=self._rank(promised),
            may_grow=may_grow,
        )
        claims = Claims(
            sizes,
            np.where(promised, self.claims.pieces, 0),
            self.claims.last_s,
            np.where(promised, self.claims.needed, jobs.remaining_epochs),
        )
        return marginal_return(self.timeline.length_s, spare, claims, plans)

    def _rank(self, promised: Bools) -> Ints:
        """[jobs] Promised ones by deadline, then those that run, then by GPU time to the end."""
        jobs = self.jobs
        left_gpu_s = jobs.remaining_epochs * self.sizes.smallest_gpu_s
        deadline_s = np.where(promised, jobs.deadline_s, np.inf)
        rank = np.empty(len(jobs), dtype=np.int64)
        rank[np.lexsort((left_gpu_s, jobs.workers == 0, deadline_s))] = np.arange(len(jobs))
        return rank


def _review_at_s(promised: Steps, workers: Ints) -> float | None:
    """When a promise first asks for more than its job has now."""
    more = promised.workers > np.repeat(workers[promised.rows], promised.counts)
    return float(promised.start_s[more].min()) if more.any() else None
