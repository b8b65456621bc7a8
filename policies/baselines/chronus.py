"""Chronus: deadlines by leases, the rest for whoever ends soonest."""

from __future__ import annotations

import math
from dataclasses import dataclass
from typing import ClassVar, TypeAlias

import numpy as np

from policies.baselines.filling import take
from policies.baselines.leases import Demands, assign, latest
from policies.checks import check, check_seconds
from policies.curves import remaining_s
from policies.problem import (
    Allocation,
    Decision,
    Floats,
    Ints,
    Jobs,
    Memory,
    PolicyError,
    Problem,
)
from policies.reason import Reason
from policies.sentences import change

VERSION = 1  # of the memory
MOST_LEASES = 10_000
"""How many leases ahead are planned; a deadline beyond them counts as there."""

_Plan: TypeAlias = dict[int, list[int]]
"""The leases that each accepted job holds, by its row; 0 is the present one."""

_NOBODY: _Plan = {}
_ROUNDING = 1e-9  # of a lease


@dataclass(frozen=True)
class Chronus:
    """001 §6.1 (Chronus), after Gao et al. (SoCC 2021): leases for jobs with a deadline.

    Time is cut into leases. A job runs on a fixed number of workers (`requested_workers`). One
    with a deadline needs as many leases as its remaining time fills, with a margin; it is
    accepted on arrival if so many, before its deadline, have room beside those that are planned:
    the latest such. At the start of each lease an integer program assigns leases anew to all
    accepted jobs, so that they use as few GPUs as possible now if a job with a deadline was not
    accepted, else as many as possible. Where it finds nothing, or there are more than 5,000 jobs
    x leases, the plan stands, mended.

    GPUs to spare go, for the rest of the lease, to jobs that are not accepted or have no
    deadline, then to accepted ones ahead of their leases: least remaining GPU time first, those
    passed over that do not fit. Nobody is refused or dropped, and in the midst of a lease nobody
    is preempted, unless servers are lost. A job that overruns what it was planned for is no
    longer accepted.

    Departures: leases count from the first decision. Each gives up `resize_s` to its start.
    Jobs fit by numbers of GPUs alone: the search for servers that Chronus adds changes no speed
    here. An accepted job has no `Promise`: one that overruns loses its leases, not others theirs.
    """

    lease_s: float = 240.0
    """Seconds of a lease."""
    margin: float = 1.1
    """By which predicted times are multiplied, 1 or more."""
    nodes: int = 1_000
    """Most nodes of one search."""

    name: ClassVar[str] = "chronus"
    source: ClassVar[str] = "001 §6.1 (Chronus)"
    default_loaning: ClassVar[str] = "off"

    def __post_init__(self) -> None:
        check_seconds("lease_s", self.lease_s)
        if not 1 <= self.margin < math.inf:
            raise PolicyError(f"margin is {self.margin}; use 1 or more")
        if self.nodes < 1:
            raise PolicyError(f"nodes is {self.nodes}; use 1 or more")

    @property
    def interval_s(self) -> None:
        """`review_at_s` asks for the start of each lease."""

    def decide(self, problem: Problem, memory: Memory) -> tuple[Decision, Memory]:
        """Sizes within the GPUs of the whole cluster; placement best fit decreasing."""
        check(problem)
        jobs = problem.jobs
        known = memory if memory.get("version") == VERSION else {}
        view = self._view(problem, known)
        plan, unaccepted = _recall(view, known)
        capped = False
        if view.starts:
            renewed, capped = self._renew(view, plan, bool(unaccepted))
            unaccepted |= plan.keys() - renewed.keys()
            plan = renewed
        arrived = {*np.flatnonzero(np.isfinite(jobs.deadline_s)).tolist()} - unaccepted - {*plan}
        plan |= _pack(view, sorted(arrived), plan)
        unaccepted |= arrived - plan.keys()
        decision = Decision(
            _allocations(view, plan, unaccepted),
            review_at_s=view.origin_s + (view.lease + 1) * self.lease_s if jobs.ids else None,
            capped=capped,
        )
        return decision, {
            "version": VERSION,
            "origin_s": view.origin_s,
            "lease": view.lease,
            "plan": {jobs.ids[row]: [n + view.lease for n in plan[row]] for row in sorted(plan)},
            "unaccepted": [jobs.ids[row] for row in sorted(unaccepted)],
        }

    def _view(self, problem: Problem, known: Memory) -> _View:
        jobs = problem.jobs
        useful_s = self.lease_s - problem.resize_s
        if useful_s <= 0:
            raise PolicyError(
                f"lease_s is {self.lease_s}; it must exceed resize_s, {problem.resize_s}"
            )
        origin_s = known.get("origin_s", problem.now_s)
        lease = math.floor((problem.now_s - origin_s) / self.lease_s + _ROUNDING)
        workers = np.where(jobs.workers > 0, jobs.workers, jobs.requested_workers)
        left_s = self.margin * remaining_s(jobs, workers)
        needed = np.ceil(np.minimum(left_s / useful_s - _ROUNDING, MOST_LEASES + 1))
        usable = np.floor((jobs.deadline_s - origin_s) / self.lease_s + _ROUNDING) - lease
        return _View(
            jobs=jobs,
            capacity_gpus=problem.servers.total_gpus,
            origin_s=origin_s,
            lease=lease,
            starts=known.get("lease") != lease,
            workers=workers,
            left_s=left_s,
            needed=needed.astype(np.int64),
            usable=np.clip(usable, 0, MOST_LEASES).astype(np.int64),
        )

    def _renew(self, view: _View, plan: _Plan, crowded: bool) -> tuple[_Plan, bool]:
        """The plan for a lease that starts, and whether a backstop cut the search for it."""
        accepted = np.array(sorted(plan), dtype=np.int64)
        rows = accepted[view.needed[accepted] <= view.usable[accepted]]  # the others overran
        demands = Demands(view.gpus[rows], view.needed[rows], view.usable[rows])
        held, capped = assign(demands, view.capacity_gpus, not crowded, self.nodes)
        if held is None:
            return _pack(view, rows.tolist(), {}, preferred=plan), capped
        leases = [np.flatnonzero(each).tolist() for each in held]
        return dict(zip(rows.tolist(), leases, strict=True)), capped


@dataclass(frozen=True, slots=True)
class _View:
    """The jobs as leases see them."""

    jobs: Jobs
    capacity_gpus: int
    origin_s: float
    lease: int  # the present one, from the origin
    starts: bool  # whether it starts now
    workers: Ints  # [jobs] that each one runs on
    left_s: Floats  # [jobs] remaining seconds, with the margin
    needed: Ints  # [jobs] leases
    usable: Ints  # [jobs] whole leases before the deadline

    @property
    def gpus(self) -> Ints:
        """[jobs] GPUs that each one runs on."""
        return self.workers * self.jobs.gpus_per_worker


def _recall(view: _View, known: Memory) -> tuple[_Plan, set[int]]:
    """Plan and unaccepted jobs of the memory, those that are still there."""
    rows = {job: row for row, job in enumerate(view.jobs.ids)}
    plan = {
        rows[job]: [n - view.lease for n in leases if n >= view.lease]
        for job, leases in known.get("plan", {}).items()
        if job in rows
    }
    return plan, {rows[job] for job in known.get("unaccepted", ()) if job in rows}


def _pack(view: _View, rows: list[int], plan: _Plan, preferred: _Plan = _NOBODY) -> _Plan:
    """Leases for these jobs beside a plan, as far as there is room, each in its turn."""
    gpus = view.gpus
    free = np.full(int(view.usable.max(initial=1)), view.capacity_gpus)
    if not view.starts:
        free[0] = 0  # the present lease is given already
    for row, leases in plan.items():
        free[[lease for lease in leases if lease < len(free)]] -= gpus[row]
    packed = {}
    for row in rows:
        needed, usable = int(view.needed[row]), int(view.usable[row])
        found = latest(free, int(gpus[row]), needed, usable, preferred.get(row, ()))
        if found is not None:
            free[found] -= gpus[row]
            packed[row] = found
    return packed


def _allocations(view: _View, plan: _Plan, unaccepted: set[int]) -> dict[str, Allocation]:
    """Who runs until the lease ends: those that hold it, then others as they fit."""
    jobs, gpus = view.jobs, view.gpus

    def turn(row: int) -> tuple[bool, bool, bool, float]:
        holds = 0 in plan.get(row, ())
        stays = not view.starts and bool(jobs.workers[row])
        return not holds, not stays, row in plan, float(view.left_s[row] * gpus[row])

    order = sorted(range(len(jobs)), key=turn)
    runs = take(order, gpus, view.capacity_gpus).runs
    free = view.capacity_gpus - int(gpus[runs].sum())
    allocations = {}
    for row, job in enumerate(jobs.ids):
        leases, before = plan.get(row, []), int(jobs.workers[row])
        workers = int(view.workers[row]) if runs[row] else 0
        numbers = {
            "before": before,
            "workers": workers,
            "gpus": int(gpus[row]),
            "needed": int(view.needed[row]),
            "usable": int(view.usable[row]),
            "later": sum(lease > 0 for lease in leases),
            "free": free,
        }
        why = change(workers, before) + ": " + _role(row, plan, unaccepted)
        if 0 not in leases:
            why += ", it runs on spare GPUs" if workers else ""
        why += "" if workers else "; it needs {gpus} GPUs, {free} are free"
        allocations[job] = Allocation(workers, Reason(why, numbers))
    return allocations


def _role(row: int, plan: _Plan, unaccepted: set[int]) -> str:
    if row in unaccepted:
        return "not accepted, {needed} leases of the {usable} before its deadline had no room"
    if row not in plan:
        return "no deadline"
    if 0 in plan[row]:
        return "holds this lease and {later} more of the {usable} before its deadline"
    return "holds {later} later leases of the {usable} before its deadline"
