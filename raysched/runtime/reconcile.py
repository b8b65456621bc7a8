"""After a restart: how what is really there differs from what the journal says.

The engine has its state back; the world went on without it. Before anything is decided the body
looks at servers, placement groups and drivers, and tells every difference as an ordinary event.
"""

from __future__ import annotations

import asyncio

from ray.util.placement_group import PlacementGroup

from raysched.events import (
    LoanClosed,
    LoanOpened,
    Reconciled,
    SchedulerRestarted,
    WorkersStopped,
)
from raysched.runtime import groups, watch
from raysched.runtime.body import Body


async def reconcile(body: Body) -> None:
    """Make what is known what is there, then let decisions go on."""
    await body.tell(SchedulerRestarted(body.now_s()))
    await watch.look_for_servers(body)
    found = await asyncio.to_thread(groups.existing)
    await _reconcile_loans(body, found)
    await _reconcile_grants(body, found)
    await watch.look_for_dead_drivers(body)
    await _remove_leftovers(body, found)
    await body.tell(Reconciled(body.now_s()))


async def _reconcile_loans(body: Body, found: dict[str, PlacementGroup]) -> None:
    for server in list(body.engine.state.servers.values()):
        group = found.get(groups.loan_name(server.id))
        if group is not None and server.loan != "none":
            body.loans[server.id] = group
            if server.loan == "opening":
                await body.tell(LoanOpened(body.now_s(), server.id))
        elif group is None and server.loan in ("open", "reclaiming", "closing"):
            await body.tell(LoanClosed(body.now_s(), server.id))


async def _reconcile_grants(body: Body, found: dict[str, PlacementGroup]) -> None:
    """A grant stands if the placement groups of its slots do, and the loans that it lies in."""
    for job in body.engine.state.live_jobs():
        if not body.slots.adopt(job, found, body.loans) and job.running is not None:
            cause = "a placement group of its workers is gone"
            grant = job.running.grant
            await body.tell(WorkersStopped(body.now_s(), job.id, grant, True, cause))


async def _remove_leftovers(body: Body, found: dict[str, PlacementGroup]) -> None:
    """Groups that nobody is known to use: of jobs that ended while nobody looked."""
    used = body.slots.names() | {groups.loan_name(server) for server in body.loans}
    for name in found.keys() - used:
        await asyncio.to_thread(groups.remove, found[name])
