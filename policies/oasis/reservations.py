"""Schedules of admitted jobs as a policy's memory: columns, since there may be ten thousand."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np
from numba import njit, types

from policies.oasis.schedule import Schedule
from policies.problem import Bools, Floats, Ints, PlanStep, Promise, Servers

GONE = -1  # in place of the column of a server

_INTS = types.Array(types.int64, 1, "C", readonly=True)
_FLOATS = types.Array(types.float64, 1, "C", readonly=True)


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


@dataclass(frozen=True, slots=True)
class Reservations:
    """What admitted jobs were given at the prices of their time.

    A block is the same number of workers on one server from slot `start` until before slot `end`,
    counted from the beginning of the journal. A job without blocks is admitted, but no schedule
    fits. Rows of jobs ascend, and the blocks of each stand together.
    """

    job: Ints  # [jobs held] rows of the problem
    utility: Floats
    cost: Floats
    owner: Ints  # [blocks] into the columns above
    start: Ints
    end: Ints
    server: Ints  # column of the site, or GONE
    workers: Ints

    @classmethod
    def none(cls, job: Ints | Sequence[int] = ()) -> Reservations:
        """These jobs without a schedule."""
        rows = np.array(job, dtype=np.int64)
        nothing = np.zeros(0, dtype=np.int64)
        unpaid = np.zeros(len(rows))
        return cls(rows, unpaid, unpaid, nothing, nothing, nothing, nothing, nothing)

    @classmethod
    def of(cls, job: int, schedule: Schedule, first_slot: int) -> Reservations:
        """One job's schedule of a span that begins with `first_slot`, without its idle slots."""
        used = np.flatnonzero(schedule.workers.any(axis=0))
        workers = schedule.workers[:, used].T
        changes = np.ones((len(used), workers.shape[1] + 1), dtype=bool)
        changes[:, 1:-1] = workers[:, 1:] != workers[:, :-1]
        row, slot = np.nonzero(changes)
        row, start, end = row[:-1], slot[:-1], slot[1:]
        pieces = end > start  # not from the last slot of a server to the first of the next
        row, start, end = row[pieces], start[pieces], end[pieces]
        busy = workers[row, start] > 0
        row, start, end = row[busy], start[busy], end[busy]
        return cls(
            np.array([job]),
            np.array([schedule.utility]),
            np.array([schedule.cost]),
            owner=np.zeros(len(row), dtype=np.int64),
            start=first_slot + start,
            end=first_slot + end,
            server=used[row],
            workers=workers[row, start],
        )

    @classmethod
    def joined(cls, parts: Sequence[Reservations]) -> Reservations:
        """Those of all parts."""
        before = np.cumsum([0, *(len(part.job) for part in parts[:-1])])
        owner = np.concatenate([part.owner + n for part, n in zip(parts, before, strict=True)])
        joined = cls(owner=owner, **{name: _column(parts, name) for name in _BESIDE_OWNER})
        order = np.argsort(joined.job, kind="stable")
        rank = np.empty_like(order)
        rank[order] = np.arange(len(order))
        owner = rank[owner]
        return joined._gathered(order, np.argsort(owner, kind="stable"), owner)

    @classmethod
    def from_json(
        cls, value: Mapping[str, Any], row: Mapping[str, int], column: Mapping[str, int]
    ) -> Reservations:
        """The value of `to_json`, of jobs and servers that are still there."""
        job = np.array([row.get(name, GONE) for name in value["jobs"]], dtype=np.int64)
        at = np.array([column.get(name, GONE) for name in value["servers"]], dtype=np.int64)
        blocks = {name: np.array(value[name], dtype=np.int64) for name in _OF_BLOCKS}
        blocks["server"] = at[blocks["server"]]
        owner = np.repeat(np.arange(len(job)), value["blocks"])
        utility, cost = np.array(value["utility"]), np.array(value["cost"])
        return cls(job, utility, cost, owner, **blocks).chosen(job != GONE)

    def to_json(self, jobs: Sequence[str], servers: Sequence[str]) -> dict[str, Any]:
        """As a JSON value: a list a column, with the number of each job's `blocks`."""
        columns = {name: getattr(self, name).tolist() for name in ("utility", "cost", *_OF_BLOCKS)}
        return {
            "jobs": [jobs[row] for row in self.job.tolist()],
            "servers": list(servers),
            "blocks": np.bincount(self.owner, minlength=len(self.job)).tolist(),
            **columns,
        }

    def chosen(self, which: Bools) -> Reservations:
        """Those of some jobs, [jobs held]."""
        rank = np.cumsum(which) - 1
        return self._gathered(
            np.flatnonzero(which), np.flatnonzero(which[self.owner]), rank[self.owner]
        )

    def standing(self, gpus: Ints, site: Site, span: range) -> tuple[Reservations, Floats]:
        """What still stands, and the GPUs that it takes, [slots, servers]; without what is past.

        `gpus` [jobs of the problem]: of one worker. Schedules that have ended, or name a server
        that is gone, do not stand; of those that no longer fit together the earlier do.
        """
        ahead = self._gathered(
            np.arange(len(self.job)), np.flatnonzero(self.end > span.start), self.owner
        )
        stands, used = _stand(
            np.bincount(ahead.owner, minlength=len(self.job)),
            np.maximum(ahead.start - span.start, 0),
            np.minimum(ahead.end - span.start, len(span)),
            ahead.server,
            (ahead.workers * gpus[ahead.job[ahead.owner]]).astype(np.float64),
            site.gpus,
            len(span),
        )
        return ahead.chosen(stands), used

    def promises(self, slot: int, slot_s: float) -> list[Promise]:
        """[jobs held] The schedules from `slot` on, in seconds. Blocks that have ended are gone."""
        until = np.full(len(self.job), slot)
        np.maximum.at(until, self.owner, self.end)
        row, at, size = _steps(
            np.bincount(self.owner, minlength=len(self.job)),
            np.maximum(self.start, slot) - slot,
            self.end - slot,
            self.workers,
            int(until.max(initial=slot)) - slot,
        )
        steps = list(map(PlanStep, ((slot + at) * slot_s).tolist(), size.tolist()))
        bounds = np.searchsorted(row, np.arange(len(self.job) + 1)).tolist()
        return [
            Promise(tuple(steps[first:last]), until_s)
            for first, last, until_s in zip(
                bounds[:-1], bounds[1:], (until * slot_s).tolist(), strict=True
            )
        ]

    def servers_in(self, slot: int, servers: Sequence[str]) -> list[dict[str, int]]:
        """[jobs held] Workers on each server that a job uses in a slot."""
        placed: list[dict[str, int]] = [{} for _ in self.job]
        now = (self.start <= slot) & (slot < self.end)
        columns = (self.owner[now].tolist(), self.server[now].tolist(), self.workers[now].tolist())
        for owner, server, workers in zip(*columns, strict=True):
            placed[owner][servers[server]] = workers
        return placed

    def _gathered(self, held: Ints, blocks: Ints, owner: Ints) -> Reservations:
        """These rows and blocks, in this order; `owner` [all blocks] is the one they then have."""
        return Reservations(
            self.job[held],
            self.utility[held],
            self.cost[held],
            owner=owner[blocks],
            **{name: getattr(self, name)[blocks] for name in _OF_BLOCKS},
        )


_OF_BLOCKS = ("start", "end", "server", "workers")
_BESIDE_OWNER = ("job", "utility", "cost", *_OF_BLOCKS)


def _column(parts: Sequence[Reservations], name: str) -> Any:
    return np.concatenate([getattr(part, name) for part in parts])


@njit(
    types.Tuple((types.boolean[::1], types.float64[:, ::1]))(
        _INTS, _INTS, _INTS, _INTS, _FLOATS, _FLOATS, types.int64
    ),
    cache=True,
)
def _stand(blocks, start, end, server, gpus, capacity, slots):  # type: ignore[no-untyped-def]
    """[jobs] Whether a job's blocks fit with those of the jobs before it; [slots, servers] GPUs."""
    stands = np.zeros(len(blocks), np.bool_)
    used = np.zeros((slots, len(capacity)))
    first = 0
    for job in range(len(blocks)):
        last = first + blocks[job]
        fits = last > first
        for b in range(first, last):
            fits = fits and server[b] != GONE
            for t in range(start[b], end[b]):
                fits = fits and used[t, server[b]] + gpus[b] <= capacity[server[b]]
        if fits:
            stands[job] = True
            for b in range(first, last):
                for t in range(start[b], end[b]):
                    used[t, server[b]] += gpus[b]
        first = last
    return stands, used


@njit(
    types.UniTuple(types.int64[::1], 3)(_INTS, _INTS, _INTS, _INTS, types.int64),
    cache=True,
)
def _steps(blocks, start, end, workers, slots):  # type: ignore[no-untyped-def]
    """Where a job's number of workers begins or changes: the job, the slot, the new number."""
    most = len(blocks) + 2 * len(start)
    row = np.empty(most, np.int64)
    at = np.empty(most, np.int64)
    size = np.empty(most, np.int64)
    total = np.zeros(slots, np.int64)  # of one job
    found, first = 0, 0
    for job in range(len(blocks)):
        until = 0
        for b in range(first, first + blocks[job]):
            total[start[b] : end[b]] += workers[b]
            until = max(until, end[b])
        for t in range(until):
            if t == 0 or total[t] != total[t - 1]:
                row[found], at[found], size[found] = job, t, total[t]
                found += 1
        total[:until] = 0
        first += blocks[job]
    return row[:found].copy(), at[:found].copy(), size[:found].copy()
