"""OASiS on the policy contract: arrivals are decided once, and then follow their schedules."""

from __future__ import annotations

import math
from collections.abc import Collection
from dataclasses import dataclass, field
from typing import Any, ClassVar

import numpy as np

from policies.checks import check
from policies.oasis.market import Cluster, Estimate, Market, PriceRange
from policies.oasis.reservations import Reservation, Site, stand
from policies.oasis.schedule import Schedule, best_schedule, book
from policies.oasis.translate import Calendar, Worth, price_range, request
from policies.problem import Allocation, Decision, Floats, Jobs, Memory, PolicyError, Problem
from policies.reason import Reason, because

VERSION = 1  # of the memory


@dataclass(frozen=True)
class Oasis:
    """002 §IV, Algorithms 1 and 2: admission where a job is worth more than its resources.

    Time is cut into slots of `slot_s` seconds; `horizon_slots` of them are planned. A job that
    arrives gets the schedule (workers by slot and server) of greatest payoff: utility at its
    completion minus the price of all GPU-slots. It is admitted exactly if that is positive, and
    then follows the schedule; otherwise it is rejected for good, with the numbers.

    Prices rise from L to U with the GPUs taken (`market`). U and L come from all jobs seen so
    far, scaled by `high_factor` and `low_factor`; `least_share` and `price_floor` keep L from
    vanishing (`market.Estimate`). Jobs that bring no utility get a sigmoid from priority and
    deadline (`translate.Worth`): `worth_per_priority`, `critical`, `sensitive`, `patience`.
    `grain` is the units of work that one slot at a job's minimum size is counted in.

    Departures from print, beside those of the modules:
    - GPUs are the one resource and there are no parameter servers: Ray Train's workers exchange
      gradients among themselves, and the contract counts no other servers;
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
        held = self._held(jobs, memory)
        gpus = dict(zip(jobs.ids, jobs.gpus_per_worker.tolist(), strict=True))
        kept, used = stand(held, gpus, site, calendar.span)
        agenda = _agenda(jobs, held.keys(), kept.keys())
        seen = self._seen(jobs, agenda, calendar, memory)
        plans = _Plans(kept)
        if seen is not None and site.total_gpus:
            self._plan(jobs, agenda, calendar, self._cluster(site, used, seen), site, plans)
        else:
            plans.again |= {jobs.ids[row]: Reservation() for row, stays in agenda if stays}

        standing = plans.standing
        decision = Decision(
            {
                job: _allocation(job, plans, calendar, site)
                for job in jobs.ids
                if job not in plans.rejected
            },
            rejected=plans.rejected,
            review_at_s=float(calendar.ends_s[0]) if standing else None,
            objective=sum(reservation.utility for reservation in standing.values()),
        )
        return decision, self._memory(standing, seen)

    @property
    def _estimate(self) -> Estimate:
        return Estimate(self.high_factor, self.low_factor, self.least_share, self.price_floor)

    @property
    def _worth(self) -> Worth:
        return Worth(self.worth_per_priority, self.critical, self.sensitive, self.patience)

    def _held(self, jobs: Jobs, memory: Memory) -> dict[str, Reservation]:
        """Schedules of the jobs still alive. In slots of another length they mean nothing."""
        admitted = memory.get("admitted", {})
        readable = memory.get("slot_s") == self.slot_s
        return {
            job: Reservation.from_json(admitted[job]) if readable else Reservation()
            for job in jobs.ids
            if job in admitted
        }

    def _memory(self, standing: dict[str, Reservation], seen: PriceRange | None) -> Memory:
        memory: dict[str, Any] = {
            "version": VERSION,
            "slot_s": self.slot_s,
            "admitted": {job: reservation.to_json() for job, reservation in standing.items()},
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
        plans: _Plans,
    ) -> None:
        """Algorithm 1 over the agenda, into `plans`."""
        for row, stays in agenda:
            job, wish = jobs.ids[row], request(jobs, row, self._worth, calendar, self.grain)
            schedule = best_schedule(wish, cluster)
            if schedule is None or not (stays or schedule.payoff > 0):
                if stays:
                    plans.again[job] = Reservation()
                else:
                    plans.rejected[job] = _rejected(schedule, calendar, site)
                continue
            cluster = book(wish, schedule, cluster)
            reservation = Reservation.of(schedule, calendar.span.start, site.servers)
            (plans.again if stays else plans.admitted)[job] = reservation


@dataclass
class _Plans:
    """Whose schedule stands, by how it came about; a job in none of these waits undecided."""

    kept: dict[str, Reservation]
    again: dict[str, Reservation] = field(default_factory=dict)
    admitted: dict[str, Reservation] = field(default_factory=dict)
    rejected: dict[str, Reason] = field(default_factory=dict)

    @property
    def standing(self) -> dict[str, Reservation]:
        """All schedules."""
        return self.kept | self.again | self.admitted


def _agenda(jobs: Jobs, held: Collection[str], kept: Collection[str]) -> list[tuple[int, bool]]:
    """Rows without a schedule, and whether they stay admitted: those first, by arrival each.

    A job that was admitted, or that another policy had started, stays.
    """
    started = (jobs.workers > 0) | (jobs.attained_gpu_s > 0)
    rows = [
        (row, job in held or bool(started[row]))
        for row, job in enumerate(jobs.ids)
        if job not in kept
    ]
    return sorted(rows, key=lambda item: not item[1])


def _allocation(job: str, plans: _Plans, calendar: Calendar, site: Site) -> Allocation:
    """What the job's schedule says for the present slot, with what comes after as a promise."""
    reservation = plans.standing.get(job)
    if reservation is None:
        return Allocation(0, because("waits: the training pool has no GPUs to plan on"))
    if not reservation.runs:
        return Allocation(0, _no_room(calendar, site))
    slot = calendar.span.start
    servers = reservation.servers_in(slot)
    workers = sum(servers.values())
    promise = reservation.promise(slot, calendar.slot_s)
    start = "follows its schedule" if job in plans.kept else "admitted"
    if job in plans.again:
        start = "planned again, admitted before"
    reason = because(
        start + ": {workers} workers in this slot, ends by {end_s:.0f} s; "
        "worth {utility:.3g}, its GPUs {cost:.3g}: payoff {payoff:.3g}",
        workers=workers,
        end_s=promise.until_s,
        utility=reservation.utility,
        cost=reservation.cost,
        payoff=reservation.utility - reservation.cost,
    )
    return Allocation(workers, reason, servers=servers, plan=promise.plan, promise=promise)


def _no_room(calendar: Calendar, site: Site) -> Reason:
    return because(
        "waits: admitted, but no schedule ends it within {slots} slots of {slot_s:.0f} s "
        "on {gpus} GPUs",
        slots=calendar.slots,
        slot_s=calendar.slot_s,
        gpus=site.total_gpus,
    )


def _rejected(schedule: Schedule | None, calendar: Calendar, site: Site) -> Reason:
    if schedule is None:
        return because(
            "rejected: no schedule ends it within {slots} slots of {slot_s:.0f} s on what is "
            "left of {gpus} GPUs",
            slots=calendar.slots,
            slot_s=calendar.slot_s,
            gpus=site.total_gpus,
        )
    return because(
        "rejected: at best it ends by {end_s:.0f} s, worth {utility:.3g}, its GPUs {cost:.3g}: "
        "payoff {payoff:.3g}",
        end_s=float(calendar.ends_s[schedule.completion_slot]),
        utility=schedule.utility,
        cost=schedule.cost,
        payoff=schedule.payoff,
    )
