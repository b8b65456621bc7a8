"""What OASiS answers on the contract: allocations with their promises, and reasons."""

from __future__ import annotations

from collections.abc import Mapping

from policies.oasis.reservations import Reservations, Site
from policies.oasis.schedule import Schedule
from policies.oasis.translate import Calendar
from policies.problem import Allocation, Jobs, Promise, parameter_servers_for
from policies.reason import Reason, because

FOLLOWS = "follows its schedule"
ADMITTED = "admitted"
AGAIN = "planned again, admitted before"


def allocations(
    jobs: Jobs, standing: Reservations, how: Mapping[int, str], calendar: Calendar, site: Site
) -> dict[str, Allocation]:
    """What the schedules say for the present slot, with what comes after as a promise; and beside
    the workers of a job that has them, as many parameter servers as (6) asks for.

    `how` (row of a job -> words) the others than those that follow an earlier schedule came
    about. Jobs that are not `standing` wait.
    """
    slot = calendar.span.start
    wait = Allocation(0, because("waits: the training pool has no GPUs to plan on"))
    answers = dict.fromkeys(jobs.ids, wait)
    columns = (
        standing.job.tolist(),
        standing.utility.tolist(),
        standing.cost.tolist(),
        standing.promises(slot, calendar.slot_s),
        standing.servers_in(slot, site.servers),
    )
    for row, utility, cost, promise, servers in zip(*columns, strict=True):
        if not promise.plan:
            answers[jobs.ids[row]] = Allocation(0, _no_room(calendar, site))
            continue
        workers = sum(servers.values())
        reason = _scheduled(how.get(row, FOLLOWS), workers, promise, utility, cost)
        answers[jobs.ids[row]] = Allocation(
            workers,
            reason,
            servers=servers,
            parameter_servers=parameter_servers_for(
                workers, int(jobs.workers_per_parameter_server[row])
            ),
            plan=promise.plan,
            promise=promise,
        )
    return answers


def rejected(schedule: Schedule | None, calendar: Calendar, site: Site) -> Reason:
    """Why a job is not admitted: there is no schedule, or the best one costs too much."""
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


def _scheduled(how: str, workers: int, promise: Promise, utility: float, cost: float) -> Reason:
    return because(
        how + ": {workers} workers in this slot, ends by {end_s:.0f} s; "
        "worth {utility:.3g}, its GPUs {cost:.3g}: payoff {payoff:.3g}",
        workers=workers,
        end_s=promise.until_s,
        utility=utility,
        cost=cost,
        payoff=utility - cost,
    )


def _no_room(calendar: Calendar, site: Site) -> Reason:
    return because(
        "waits: admitted, but no schedule ends it within {slots} slots of {slot_s:.0f} s "
        "on {gpus} GPUs",
        slots=calendar.slots,
        slot_s=calendar.slot_s,
        gpus=site.total_gpus,
    )
