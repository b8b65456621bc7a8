"""OASiS on the policy contract: arrivals are decided once, and then follow their schedules."""

from __future__ import annotations

import math
from dataclasses import dataclass
from typing import Any, ClassVar

import numpy as np

from policies.checks import check
from policies.oasis.answers import ADMITTED, AGAIN, allocations, rejected
from policies.oasis.market import Cluster, Estimate, Market, PriceRange
from policies.oasis.reservations import Reservations, Site
from policies.oasis.schedule import best_schedule, book
from policies.oasis.translate import Calendar, Worth, price_range, request
from policies.problem import NO_MEMORY, Decision, Floats, Jobs, Memory, PolicyError, Problem
from policies.reason import Reason

VERSION = 2
"""Of the memory. One of another version is no memory: jobs that run stay and are planned again."""


@dataclass(frozen=True)
class Oasis:
    """002 §IV, Algorithms 1 and 2: admission where a job is worth more than its resources.

    Time is cut into slots of `slot_s` seconds; `horizon_slots` of them are planned. A job that
    arrives gets the schedule (workers by slot and server) of greatest payoff: utility at its
    completion minus the price of all GPU-slots. It is admitted exactly if that is positive, and
    then follows the schedule; otherwise it is rejected for good, with the numbers.

    Prices rise from L to U with the GPUs taken (`market`). U and L come from all jobs seen so
    far, scaled by `high_factor` and `low_factor`; `least_share` and `price_floor` keep L from
    vanishing (`market.Estimate`). A job's own utility counts (`Jobs.worth`, `steepness_per_s`,
    `target_s`); jobs that bring none get a sigmoid from priority and deadline
    (`translate.Worth`): `worth_per_priority`, `critical`, `sensitive`, `patience`.
    `grain` is the units of work that one slot at a job's minimum size is counted in.

    Departures from print, beside those of the modules:
    - GPUs are the one resource: parameter servers run on CPUs, which the contract does not count,
      and cost nothing. A job that has them gets as many as (6) asks for beside its workers; the
      workers of all other jobs exchange gradients among themselves;
    - a job's progress follows its curve and its minimum of workers, not w worker-slots;
    - each slot gives up `resize_s` to a change of size, the present slot what of it has passed;
    - the span rolls: it is `horizon_slots` from now, where the paper's T is the end of the world;
    - schedules stand on the training pool's own servers only, since they are promises. Servers
      on loan are not used;
    - a job that has started (under another policy), whose servers were lost, or whose schedule
      ends before it does is planned again and stays admitted whatever the payoff. Of schedules
      that no longer fit together those of earlier jobs stay;
    - before the cluster has GPUs of its own nothing is decided: arrivals wait.
    """

    slot_s: float = 300.0
    horizon_slots: int = 288
    high_factor: float = 1.0
    low_factor: float = 1.0
    least_share: float = 1e-3
    price_floor: float = 0.0
    worth_per_priority: float = 2.0
    critical: float = 4.0
    sensitive: float = 0.1
    patience: float = 4.0
    grain: int = 16

    name: ClassVar[str] = "oasis"
    source: ClassVar[str] = "002 §IV, Algorithms 1-2"
    default_loaning: ClassVar[str] = "off"

    def __post_init__(self) -> None:
        for name in ("slot_s", "worth_per_priority", "patience"):
            if not 0 < getattr(self, name) < math.inf:
                raise PolicyError(f"{name} is {getattr(self, name)}; use a positive number")
        for name in ("critical", "sensitive"):
            if not 0 <= getattr(self, name) < math.inf:
                raise PolicyError(f"{name} is {getattr(self, name)}; use a number from 0")
        for name in ("horizon_slots", "grain"):
            if getattr(self, name) < 1:
                raise PolicyError(f"{name} is {getattr(self, name)}; use 1 or more")
        _ = self._estimate  # checks its own

    @property
    def interval_s(self) -> None:
        """`review_at_s` asks for the beginning of each slot, as long as schedules stand."""

    def decide(self, problem: Problem, memory: Memory) -> tuple[Decision, Memory]:
        """Allocations with plans and promises; `objective`: the utility of all schedules."""
        check(problem)
        jobs = problem.jobs
        calendar = Calendar.of(problem, self.slot_s, self.horizon_slots)
        site = Site.of(problem.servers)
        memory = memory if memory.get("version") == VERSION else NO_MEMORY
        held = self._held(jobs, site, memory)
        kept, used = held.standing(jobs.gpus_per_worker, site, calendar.span)
        agenda = _agenda(jobs, held, kept)
        seen = self._seen(jobs, agenda, calendar, memory)
        if seen is not None and site.total_gpus:
            cluster = self._cluster(site, used, seen)
            planned, refused = self._plan(jobs, agenda, calendar, cluster, site)
        else:
            planned, refused = [Reservations.none([row for row, stays in agenda if stays])], {}

        standing = Reservations.joined([kept, *planned])
        how = {row: AGAIN if stays else ADMITTED for row, stays in agenda}
        answers = allocations(jobs, standing, how, calendar, site)
        decision = Decision(
            {job: answer for job, answer in answers.items() if job not in refused},
            rejected=refused,
            review_at_s=float(calendar.ends_s[0]) if len(standing.job) else None,
            objective=float(standing.utility.sum()),
        )
        return decision, self._memory(jobs, site, standing, seen)

    @property
    def _estimate(self) -> Estimate:
        return Estimate(self.high_factor, self.low_factor, self.least_share, self.price_floor)

    @property
    def _worth(self) -> Worth:
        return Worth(self.worth_per_priority, self.critical, self.sensitive, self.patience)

    def _held(self, jobs: Jobs, site: Site, memory: Memory) -> Reservations:
        """Schedules of the jobs still alive. In slots of another length they mean nothing."""
        if not memory:
            return Reservations.none()
        held = Reservations.from_json(
            memory["admitted"],
            {job: row for row, job in enumerate(jobs.ids)},
            {server: column for column, server in enumerate(site.servers)},
        )
        return held if memory["slot_s"] == self.slot_s else Reservations.none(held.job)

    def _memory(
        self, jobs: Jobs, site: Site, standing: Reservations, seen: PriceRange | None
    ) -> Memory:
        memory: dict[str, Any] = {
            "version": VERSION,
            "slot_s": self.slot_s,
            "admitted": standing.to_json(jobs.ids, site.servers),
        }
        if seen is not None:
            memory["seen"] = {"high": seen.high.tolist(), "low": seen.low, "need": seen.need}
        return memory

    def _seen(
        self, jobs: Jobs, agenda: list[tuple[int, bool]], calendar: Calendar, memory: Memory
    ) -> PriceRange | None:
        """What U and L are made of: all jobs that were ever on the agenda. None: none was."""
        seen = None
        if "seen" in memory:
            before = memory["seen"]
            seen = PriceRange(np.array(before["high"]), before["low"], before["need"])
        for row, _ in agenda:
            its = price_range(jobs, row, self._worth, calendar, self.least_share)
            seen = its if seen is None else seen.widened(its)
        return seen

    def _cluster(self, site: Site, used: Floats, seen: PriceRange) -> Cluster:
        """GPUs at their prices; of parameter servers there are none."""
        workers = Market.of(site.gpus[:, None], used[:, :, None], seen, self._estimate)
        nothing = np.zeros((0, 1))
        ps = Market.of(nothing, np.zeros((len(used), 0, 1)), seen, self._estimate)
        return Cluster(workers, ps)

    def _plan(
        self,
        jobs: Jobs,
        agenda: list[tuple[int, bool]],
        calendar: Calendar,
        cluster: Cluster,
        site: Site,
    ) -> tuple[list[Reservations], dict[str, Reason]]:
        """Algorithm 1 over the agenda: the schedules of those admitted, and why others are not."""
        planned, refused = [], {}
        for row, stays in agenda:
            wish = request(jobs, row, self._worth, calendar, self.grain)
            schedule = best_schedule(wish, cluster)
            if schedule is not None and (stays or schedule.payoff > 0):
                cluster = book(wish, schedule, cluster)
                planned.append(Reservations.of(row, schedule, calendar.span.start))
            elif stays:
                planned.append(Reservations.none([row]))
            else:
                refused[jobs.ids[row]] = rejected(schedule, calendar, site)
        return planned, refused


def _agenda(jobs: Jobs, held: Reservations, kept: Reservations) -> list[tuple[int, bool]]:
    """Rows without a schedule, and whether they stay admitted: those first, by arrival each.

    A job that was admitted, or that another policy had started, stays.
    """
    stays = (jobs.workers > 0) | (jobs.attained_gpu_s > 0)
    stays[held.job] = True
    rows = np.setdiff1d(np.arange(len(jobs)), kept.job)
    rows = rows[np.argsort(~stays[rows], kind="stable")]
    return list(zip(rows.tolist(), stays[rows].tolist(), strict=True))
