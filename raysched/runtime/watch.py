"""What nobody reports, and has to be looked for: servers, dead drivers, freed GPUs, demand, time.

Each watcher is a loop of its own that looks, compares with what the engine knows, and tells the
difference as events. Looking blocks for milliseconds and runs in threads.
"""

from __future__ import annotations

import asyncio
import logging
from collections.abc import Awaitable, Callable

from raysched.events import (
    DemandObserved,
    ForeignGpusObserved,
    GpusFreed,
    JobEnded,
    ReplicasObserved,
    ServerAdded,
    ServerLost,
    TimePassed,
)
from raysched.runtime import cluster, groups
from raysched.runtime.body import Body

logger = logging.getLogger(__name__)

NODES_EVERY_S = 1.0
DRIVERS_EVERY_S = 1.0
FREED_EVERY_S = 0.1
DEMAND_EVERY_S = 1.0
CLOCK_EVERY_S = 0.5
FOREIGN_LOOKS = 3
"""Others' GPUs count when seen this many times in a row: grants come and go in between."""


def start(body: Body) -> None:
    """Start every watcher."""
    foreign = ForeignWatch(body)
    for look, every_s in (
        (lambda: look_for_servers(body), NODES_EVERY_S),
        (lambda: look_for_dead_drivers(body), DRIVERS_EVERY_S),
        (lambda: look_for_freed_gpus(body), FREED_EVERY_S),
        (foreign.look, NODES_EVERY_S),
        (lambda: look_at_demand(body), DEMAND_EVERY_S),
        (lambda: look_at_clock(body), CLOCK_EVERY_S),
    ):
        body.spawn(_forever(look, every_s))


async def look_for_servers(body: Body) -> None:
    """Servers that joined or left a pool."""
    nodes = {node.name: node for node in await asyncio.to_thread(cluster.pool_nodes)}
    known = body.engine.state.servers
    body.nodes = nodes
    for name in sorted(nodes.keys() - known.keys()):
        node = nodes[name]
        await body.tell(
            ServerAdded(
                body.now_s(), name, node.pool, node.gpus, node.gpu_type, gpu_rate=node.gpu_rate
            )
        )
    for name in sorted(known.keys() - nodes.keys()):
        body.loans.pop(name, None)
        body.slots.forget(name)
        await body.tell(ServerLost(body.now_s(), name))


async def look_for_dead_drivers(body: Body) -> None:
    """Jobs whose driver is gone without a word: what belonged to them is reaped."""
    owned = {job.id: job.owner for job in body.engine.state.live_jobs() if job.owner}
    if not owned:
        return
    dead = await asyncio.to_thread(cluster.dead_drivers)
    for job, owner in owned.items():
        if owner in dead:
            await body.tell(JobEnded(body.now_s(), job, "cancelled", "its driver is gone"))


async def look_for_freed_gpus(body: Body) -> None:
    """GPUs that jobs were giving up, and that Ray now shows as unused."""
    accounts = body.engine.state.ledger.accounts
    releasing = [(server, tuple(a.releasing)) for server, a in accounts.items() if a.releasing]
    if not releasing:
        return
    used = await asyncio.to_thread(_used_by_server, body, [server for server, _ in releasing])
    for server, jobs in releasing:
        taken = body.slots.gpus_on(server) + accounts[server].foreign
        if server in used and used[server] <= taken:
            for job in jobs:
                await body.tell(GpusFreed(body.now_s(), job, server))


def _used_by_server(body: Body, servers: list[str]) -> dict[str, float]:
    """GPUs in use on each server: of the whole server, or inside its loan."""
    whole = cluster.used_gpus()
    used = {}
    for server in servers:
        node, loan = body.nodes.get(server), body.loans.get(server)
        if node is None:
            continue
        if loan is None:
            used[server] = whole.get(node.node_id, 0.0)
        else:
            used[server] = cluster.used_in_group(groups.group_id(loan), node.gpus)
    return used


class ForeignWatch:
    """GPUs of training servers that others occupy."""

    def __init__(self, body: Body) -> None:
        self._body = body
        self._seen: dict[str, list[int]] = {}

    async def look(self) -> None:
        """Compare what is used with what is ours; tell what stays different."""
        body = self._body
        used = await asyncio.to_thread(cluster.used_gpus)
        for server, account in body.engine.state.ledger.accounts.items():
            node = body.nodes.get(server)
            if node is None or node.pool != "training" or account.releasing:
                continue
            ours = body.slots.gpus_on(server)
            others = max(round(used.get(node.node_id, 0.0)) - ours, 0)
            looks = self._seen.setdefault(server, [])
            looks.append(others)
            del looks[:-FOREIGN_LOOKS]
            steady = len(looks) == FOREIGN_LOOKS and len(set(looks)) == 1
            if steady and others != account.foreign:
                await body.tell(ForeignGpusObserved(body.now_s(), server, others))


async def look_at_demand(body: Body) -> None:
    """Requests and replicas of the inference deployment."""
    if body.lender is None or body.engine.state.inference is None:
        return
    seen = await asyncio.to_thread(body.lender.observe)
    names = {node.node_id: name for name, node in body.nodes.items()}
    present = {names[n]: count for n, count in seen.present.items() if n in names}
    running = {names[n]: count for n, count in seen.running.items() if n in names}
    if seen.rps is not None:
        await body.tell(DemandObserved(body.now_s(), seen.rps, seen.p50_ms, seen.p99_ms))
    known = body.engine.state.inference
    if (present, running) != (known.present, known.running):
        await body.tell(ReplicasObserved(body.now_s(), present, running))


async def look_at_clock(body: Body) -> None:
    """A period may be over though nothing happened."""
    due_s = body.engine.next_due_s()
    if due_s is not None and body.now_s() >= due_s:
        await body.tell(TimePassed(body.now_s()))


async def _forever(look: Callable[[], Awaitable[None]], every_s: float) -> None:
    while True:
        try:
            await look()
        except Exception:
            logger.exception("a look at the cluster failed; looking again")
        await asyncio.sleep(every_s)
