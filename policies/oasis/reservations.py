"""Schedules of admitted jobs as a policy's memory: runs of slots on named servers."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any, TypeAlias

import numpy as np

from policies.oasis.schedule import Schedule
from policies.problem import Floats, PlanStep, Promise, Servers

NOWHERE: Mapping[str, int] = {}
GONE = -1  # in place of the column of a server


@dataclass(frozen=True, slots=True)
class Run:
    """The same workers on the same servers from slot `start` until before slot `end`.

    Slots are counted from the beginning of the journal.
    """

    start: int
    end: int
    servers: Mapping[str, int]

    @property
    def workers(self) -> int:
        """Workers on all servers."""
        return sum(self.servers.values())


@dataclass(frozen=True, slots=True)
class Reservation:
    """What an admitted job was given at the prices of that time. No runs: no schedule fits."""

    runs: tuple[Run, ...] = ()
    utility: float = 0.0
    cost: float = 0.0

    @classmethod
    def of(cls, schedule: Schedule, first_slot: int, servers: Sequence[str]) -> Reservation:
        """The schedule of a span that begins with `first_slot`, without its idle slots."""
        workers = schedule.workers
        changes = np.flatnonzero((workers[1:] != workers[:-1]).any(axis=1)) + 1
        ends = np.concatenate((changes, [len(workers)]))
        runs = []
        for start, end in zip((0, *changes.tolist()), ends.tolist(), strict=True):
            used = np.flatnonzero(workers[start]).tolist()
            if used:
                placed = {servers[server]: int(workers[start, server]) for server in used}
                runs.append(Run(first_slot + start, first_slot + end, placed))
        return cls(tuple(runs), schedule.utility, schedule.cost)

    @classmethod
    def from_json(cls, value: Mapping[str, Any]) -> Reservation:
        """The value of `to_json`."""
        return cls(tuple(Run(*run) for run in value["runs"]), value["utility"], value["cost"])

    def to_json(self) -> dict[str, Any]:
        """As a JSON value."""
        runs = [[run.start, run.end, dict(run.servers)] for run in self.runs]
        return {"runs": runs, "utility": self.utility, "cost": self.cost}

    @property
    def end(self) -> int:
        """The slot after the last one; 0 without a schedule."""
        return self.runs[-1].end if self.runs else 0

    def servers_in(self, slot: int) -> Mapping[str, int]:
        """Server id -> workers."""
        return next((r.servers for r in self.runs if r.start <= slot < r.end), NOWHERE)

    def promise(self, slot: int, slot_s: float) -> Promise:
        """The schedule from `slot` on."""
        steps, until = [], slot
        for run in self.runs:
            if run.end > slot:
                start = max(run.start, slot)
                if start > until:
                    steps.append(PlanStep(until * slot_s, 0))
                if not steps or steps[-1].workers != run.workers:
                    steps.append(PlanStep(start * slot_s, run.workers))
                until = run.end
        return Promise(tuple(steps), until * slot_s)


@dataclass(frozen=True, slots=True)
class Site:
    """The servers that schedules may stand on: those of the training pool, not those on loan."""

    servers: tuple[str, ...]
    gpus: Floats  # [servers]

    @classmethod
    def of(cls, servers: Servers) -> Site:
        """Promises rest on what we own."""
        owned = np.flatnonzero(~servers.on_loan).tolist()
        ids = tuple(servers.ids[server] for server in owned)
        return cls(ids, servers.gpus[owned].astype(np.float64))

    @property
    def total_gpus(self) -> int:
        """GPUs of all servers."""
        return int(self.gpus.sum())


def stand(
    held: Mapping[str, Reservation], gpus: Mapping[str, int], site: Site, span: range
) -> tuple[dict[str, Reservation], Floats]:
    """The reservations that still stand, and the GPUs they take, [slots, servers].

    `gpus`: of one worker of each job. Those that have ended, or name a server that is gone, do
    not stand; of those that no longer fit together, the earlier in `held` do.
    """
    column = {server: index for index, server in enumerate(site.servers)}
    blocks = {
        job: _blocks(reservation, gpus[job], column, span)
        for job, reservation in held.items()
        if reservation.end > span.start
    }
    blocks = {
        job: its for job, its in blocks.items() if all(server != GONE for _, _, server, _ in its)
    }
    used = _load([block for its in blocks.values() for block in its], len(span), len(column))
    if (used > site.gpus).any():
        used = np.zeros_like(used)
        blocks = {job: its for job, its in blocks.items() if _take(used, its, site.gpus)}
    return {job: held[job] for job in blocks}, used


_Block: TypeAlias = tuple[int, int, int, int]
"""First slot of the span, slot after the last, column of a server (or GONE), GPUs there."""


def _blocks(
    reservation: Reservation, gpus: int, column: Mapping[str, int], span: range
) -> list[_Block]:
    """What a reservation takes from the beginning of the span on."""
    first, slots = span.start, len(span)
    blocks = []
    for run in reservation.runs:
        if run.end > first and run.start < span.stop:
            start, end = max(run.start - first, 0), min(run.end - first, slots)
            for server, workers in run.servers.items():
                blocks.append((start, end, column.get(server, GONE), workers * gpus))
    return blocks


def _load(blocks: list[_Block], slots: int, servers: int) -> Floats:
    """[slots, servers] GPUs that all blocks take together."""
    start, end, server, gpus = np.array(blocks, dtype=np.int64).reshape(-1, 4).T
    change = np.zeros((slots + 1, servers))
    np.add.at(change, (start, server), gpus)
    np.add.at(change, (end, server), -gpus)
    used: Floats = np.cumsum(change, axis=0)[:-1]
    return used


def _take(used: Floats, blocks: list[_Block], capacity: Floats) -> bool:
    """Add the blocks to `used` if all of them fit; whether they do."""
    if any((used[a:b, server] + gpus > capacity[server]).any() for a, b, server, gpus in blocks):
        return False
    for start, end, server, gpus in blocks:
        used[start:end, server] += gpus
    return True
