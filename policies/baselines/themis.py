"""Themis: leases on GPUs to those whose finish is delayed most by sharing."""

from __future__ import annotations

import math
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import ClassVar

import numpy as np

from policies.baselines.deadlines import Reading, check_reading
from policies.baselines.filling import take
from policies.checks import check, check_seconds
from policies.curves import curve_start
from policies.problem import (
    Allocation,
    Bools,
    Decision,
    Floats,
    Ints,
    Jobs,
    Memory,
    Problem,
)
from policies.reason import because
from policies.sentences import change

_VERSION = 2
_NOTHING: Memory = {"lease_ends_s": 0.0, "changed_s": 0.0, "jobs": {}}
_LEAST_S = 1e-3  # that a job has left, so that its rho is a number
_HALVINGS = 100  # of the interval that holds rho: to the last bit of a float


@dataclass(frozen=True)
class Themis:
    """001 §6.1 "Themis" (Mahajan et al., NSDI 2020): finish-time fairness, in Gavel's form.

    rho of a job is its time from submission to its end, over the time that this takes on 1/m of
    the cluster, of m jobs; sharing is fair where rho is 1. A job runs on the size that it asked
    for, for a share of the time. When leases end, the shares are found that make the largest rho
    least (`fair_shares`), and jobs are leased their GPUs by falling share; one that does not fit
    is skipped. The rho of a job that is held back rises, and with it its share, until it is served.
    Within a lease nobody is preempted, and who waits starts on GPUs that fall free.

    The memory is the end of the leases, when jobs last came or went, and of each job the isolated
    time of what it has done, its epochs left, and the part of its size that 1/m of the cluster is.
    NSDI 2020's auction and its partial visibility are left out as in 001, which follows Gavel's
    Themis. In the `published` reading, that of 001's simulator, rho is a job's time over the
    isolated number of its epochs, not of their seconds; 1/m of the cluster is rounded up to whole
    GPUs; and the time since submission counts up to when a job last came or went.
    """

    lease_s: float = 240.0
    reading: Reading = "clean"

    name: ClassVar[str] = "themis"
    source: ClassVar[str] = "001 §6.1 (Themis)"
    default_loaning: ClassVar[str] = "off"

    def __post_init__(self) -> None:
        check_reading(self.reading)
        check_seconds("lease_s", self.lease_s)

    @property
    def interval_s(self) -> None:
        """It asks to be called at the end of leases for which somebody waits."""

    def decide(self, problem: Problem, memory: Memory) -> tuple[Decision, Memory]:
        """Allocations at the sizes that jobs asked for; placement best fit decreasing."""
        check(problem)
        jobs, now_s, capacity = problem.jobs, problem.now_s, problem.servers.total_gpus
        gpus = jobs.requested_gpus
        known: Memory = memory if memory.get("version") == _VERSION else _NOTHING
        changed_s = known["changed_s"] if known["jobs"].keys() == set(jobs.ids) else now_s
        stand = _Stand.of(problem, known["jobs"], changed_s, self.reading)
        shares = fair_shares(stand.fairness, gpus, capacity)

        runs, ends_s = jobs.workers > 0, known["lease_ends_s"]
        if now_s >= ends_s or gpus[runs].sum() > capacity:
            runs, ends_s = np.zeros(len(jobs), dtype=bool), now_s + self.lease_s
        order = np.argsort(-shares, kind="stable")
        runs |= take(order[~runs[order]].tolist(), gpus, capacity - int(gpus[runs].sum())).runs
        hopes = bool((~runs & (gpus <= capacity)).any())
        decision = Decision(
            _allocations(problem, runs, stand.fairness.rho(1.0), shares, ends_s),
            review_at_s=ends_s if hopes else None,
        )
        times: Memory = {"lease_ends_s": ends_s, "changed_s": changed_s}
        return decision, {"version": _VERSION, **times, "jobs": stand.memory(jobs)}


@dataclass(frozen=True, slots=True)
class Fairness:
    """[jobs] each: what finish-time fairness is made of."""

    elapsed_s: Floats  # since submission
    left_s: Floats  # at the size that the job asked for; positive
    isolated_s: Floats  # from submission to end on 1/m of the cluster

    def rho(self, shares: Floats | float) -> Floats:
        """Time from submission to end over the isolated time, at these shares of the time."""
        rho: Floats = (self.elapsed_s + self.left_s / shares) / self.isolated_s
        return rho

    def shares_for(self, rho: float) -> Floats:
        """The smallest shares at which no job has more than this rho; 1 where none is enough."""
        left_s = self.left_s
        shares: Floats = left_s / np.maximum(rho * self.isolated_s - self.elapsed_s, left_s)
        return shares


def fair_shares(fairness: Fairness, gpus: Ints, capacity_gpus: int) -> Floats:
    """[jobs] Shares of the time, 0 to 1, with sum of gpus x share within the capacity.

    They minimise the largest rho, then the second largest, and so on: all jobs have the same rho,
    but for those that have a larger one although they run all the time. A job that asks for more
    GPUs than there are has no share.
    """
    fits = gpus <= capacity_gpus
    wanted_gpus = int(gpus[fits].sum())
    shares = fits.astype(np.float64)
    if wanted_gpus <= capacity_gpus:
        return shares
    # Twice what equal shares need is enough, whatever rounding does.
    low, high = 0.0, 2 * float(fairness.rho(capacity_gpus / wanted_gpus)[fits].max())
    for _ in range(_HALVINGS):
        rho = (low + high) / 2
        trial = np.where(fits, fairness.shares_for(rho), 0.0)
        if gpus @ trial <= capacity_gpus:
            high, shares = rho, trial
        else:
            low = rho
    return shares


@dataclass(frozen=True, slots=True)
class _Stand:
    """[jobs] each: how far jobs have come. In the published reading isolated time is in epochs."""

    isolated_s: Floats  # of what has been done, on the parts that were fair then
    part: Floats  # of the size that a job asked for that is 1/m of the cluster
    fairness: Fairness

    @classmethod
    def of(
        cls,
        problem: Problem,
        known: Mapping[str, Sequence[float]],
        changed_s: float,
        reading: Reading,
    ) -> _Stand:
        jobs = problem.jobs
        at = curve_start(jobs) + jobs.requested_workers - jobs.min_workers
        epoch_s = jobs.curves.epoch_s[at]
        left_s = np.maximum(jobs.remaining_epochs * epoch_s, _LEAST_S)
        until_s, fair_gpus = problem.now_s, max(problem.servers.total_gpus, 1) / max(len(jobs), 1)
        if reading == "published":
            until_s, fair_gpus, epoch_s = changed_s, math.ceil(fair_gpus), np.ones(len(jobs))
        part = np.minimum(1.0, fair_gpus / jobs.requested_gpus)
        isolated_s = _isolated_s(jobs, known, epoch_s)
        ahead_s = np.maximum(jobs.remaining_epochs * epoch_s, _LEAST_S)
        fairness = Fairness(until_s - jobs.submitted_s, left_s, isolated_s + ahead_s / part)
        return cls(isolated_s, part, fairness)

    def memory(self, jobs: Jobs) -> dict[str, list[float]]:
        """What `of` is to know the next time."""
        rows = np.column_stack((self.isolated_s, jobs.remaining_epochs, self.part)).tolist()
        return dict(zip(jobs.ids, rows, strict=True))


def _isolated_s(jobs: Jobs, known: Mapping[str, Sequence[float]], epoch_s: Floats) -> Floats:
    """[jobs] How long what has been done would have taken on the parts that were fair then."""
    unknown = zip(jobs.ids, jobs.remaining_epochs.tolist(), strict=True)
    rows = np.array([known.get(job, (0.0, epochs, 1.0)) for job, epochs in unknown]).reshape(-1, 3)
    done = np.maximum(rows[:, 1] - jobs.remaining_epochs, 0.0)
    isolated_s: Floats = rows[:, 0] + done * epoch_s / rows[:, 2]
    return isolated_s


def _allocations(
    problem: Problem, runs: Bools, rho: Floats, shares: Floats, ends_s: float
) -> dict[str, Allocation]:
    jobs = problem.jobs
    allocations = {}
    for row, job in enumerate(jobs.ids):
        workers = int(jobs.requested_workers[row]) if runs[row] else 0
        before = int(jobs.workers[row])
        reason = because(
            change(workers, before) + ": it asked for {needed} GPUs, its fair share of the time is "
            "{share:.2f}; it ends after {rho:.2f} times its isolated time if it runs from now on; "
            "leases end in {rest_s:.0f} s",
            workers=workers,
            before=before,
            needed=jobs.requested_workers[row] * jobs.gpus_per_worker[row],
            share=shares[row],
            rho=rho[row],
            rest_s=ends_s - problem.now_s,
        )
        allocations[job] = Allocation(workers, reason)
    return allocations
