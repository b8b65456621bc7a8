"""Who stands on which server on loan, as a sparse table, and the two moves of reclaiming on it.

A set of returned servers preempts every job that loses more workers to it than its slack. `fill`
returns more servers, those that preempt least first; `spare` keeps servers to spare jobs. Either
starts from any set, so that they can take turns.
"""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np
from numba import njit, types

from loaning.problem import Bools, Floats, Ints, OnLoan

COST_SCALE = 1e9
"""Costs that differ by less than its inverse are equal: 1/3 + 1/3 + 1/3 must tie with 1."""

_INTS = types.Array(types.int64, 1, "C", readonly=True)
_BOOLS = types.Array(types.boolean, 1, "C", readonly=True)
_FLOATS = types.Array(types.float64, 1, "C", readonly=True)
_NEW_INTS = types.int64[::1]
_NEW_BOOLS = types.boolean[::1]
_NEW_FLOATS = types.float64[::1]
_TABLE = types.UniTuple(_INTS, 8)
_COSTS = types.Tuple((_NEW_FLOATS, _NEW_INTS, _NEW_INTS, _NEW_INTS))


@dataclass(frozen=True, slots=True)
class Occupancy:
    """The cells (job, server) that hold workers: job by job, and in a second order by server."""

    job_start: Ints  # [jobs + 1] into the cells
    job: Ints  # [cells]
    server: Ints  # [cells] of one job: most workers first
    workers: Ints  # [cells] at least 1
    server_start: Ints  # [servers + 1] into `cell`
    cell: Ints  # [cells] the cells server by server
    slack: Ints  # [jobs] workers that the job can lose and go on
    restarts: Ints  # [jobs] 1 where a preemption loses all progress, there being no checkpoints

    @classmethod
    def of(cls, on_loan: OnLoan) -> Occupancy:
        """The table of a loan. A job that is below its minimum already has no slack."""
        jobs, servers = len(on_loan.jobs), len(on_loan.servers)
        job, server = np.nonzero(on_loan.workers)
        workers = on_loan.workers[job, server]
        order = np.lexsort((server, -workers, job))
        job, server, workers = job[order], server[order], workers[order]
        total = np.bincount(job, weights=workers, minlength=jobs).astype(np.int64)
        return cls(
            job_start=_starts(job, jobs),
            job=job,
            server=server,
            workers=workers,
            server_start=_starts(server, servers),
            cell=np.argsort(server, kind="stable"),
            slack=np.maximum(0, on_loan.elsewhere + total - on_loan.min_workers),
            restarts=(~on_loan.checkpoints).astype(np.int64),
        )

    @property
    def servers(self) -> int:
        """How many servers there are."""
        return len(self.server_start) - 1

    def costs(self, returned: Bools) -> tuple[Floats, Ints, Ints, Ints]:
        """[servers] each: preemption cost, jobs that returning it too would preempt, workers, and
        of these jobs those without checkpoints.

        All are 0 on servers that are returned, or whose jobs are all preempted.
        """
        return _costs(self._columns, returned, _taken(self._columns, returned))  # type: ignore[no-any-return]

    def preempted(self, returned: Bools) -> Bools:
        """[jobs] Which jobs returning these servers preempts."""
        preempted: Bools = _taken(self._columns, returned) > self.slack
        return preempted

    def harm(self, returned: Bools) -> tuple[int, int]:
        """How many jobs returning these servers preempts, and how many of them start over."""
        preempted = self.preempted(returned)
        return int(preempted.sum()), int(self.restarts[preempted].sum())

    def fill(self, returned: Bools, count: int, weight: Floats | None = None) -> Ints:
        """Servers to return besides these to make `count`, in order (004 Algorithm 1, §5.3).

        1. While a server stands empty or holds flexible workers only: the one with the fewest
           workers, since slack in a job's size is spent where it buys most servers.
        2. Otherwise the one with the lowest cost x `weight[server]` (1 where None). Its jobs
           leave all their servers, which may take step 1 further.

        The last of the `count` is the one that preempts fewest jobs. Step 1 goes on beyond
        `count`: those servers come for nothing. Ties break by how many jobs without checkpoints
        start over, then by index.
        """
        weight = np.ones(self.servers) if weight is None else weight
        added: Ints = _fill(self._columns, returned, count, weight)
        return added

    def spare(self, returned: Bools, count: int, weight: Floats | None = None) -> Bools:
        """[servers] Peeling: of these, keep servers to spare jobs while `count` are returned.

        Always the job that is spared by keeping the fewest servers x `weight[job]` (1 where
        None). Of equals a job without checkpoints, then the first.
        """
        weight = np.ones(len(self.slack)) if weight is None else weight
        spared: Bools = _spare(self._columns, returned, count, weight)
        return spared

    @property
    def _columns(self) -> tuple[Ints, ...]:
        """As the kernels take them."""
        return (
            self.job_start,
            self.job,
            self.server,
            self.workers,
            self.server_start,
            self.cell,
            self.slack,
            self.restarts,
        )


def _starts(index: Ints, count: int) -> Ints:
    """[count + 1] Where each of `count` groups begins once `index` is sorted."""
    starts: Ints = np.concatenate(([0], np.cumsum(np.bincount(index, minlength=count))))
    return starts


@njit(_NEW_INTS(_TABLE, _BOOLS), cache=True)
def _taken(table, returned):  # type: ignore[no-untyped-def]
    """[jobs] Workers that the returned servers take from each job."""
    _, job, server, workers, _, _, slack, _ = table
    taken = np.zeros(len(slack), np.int64)
    for c in range(len(job)):
        if returned[server[c]]:
            taken[job[c]] += workers[c]
    return taken


@njit(types.void(_TABLE, _BOOLS, _INTS, _COSTS, types.int64, types.int64), cache=True)
def _count_job(table, returned, taken, costs, j, sign):  # type: ignore[no-untyped-def]
    """Add to the servers' costs (sign 1), or take away (-1), what job j adds to them."""
    job_start, _, server, workers, _, _, slack, restarts = table
    cost, preempts, occupied, restarted = costs
    if taken[j] > slack[j]:  # preempted: it stands nowhere
        return
    standing = 0
    for c in range(job_start[j], job_start[j + 1]):
        standing += not returned[server[c]]
    for c in range(job_start[j], job_start[j + 1]):
        s = server[c]
        if not returned[s]:
            occupied[s] += sign * workers[c]
            if taken[j] + workers[c] > slack[j]:
                preempts[s] += sign
                restarted[s] += sign * restarts[j]
                cost[s] += sign / standing


@njit(_COSTS(_TABLE, _BOOLS, _INTS), cache=True)
def _costs(table, returned, taken):  # type: ignore[no-untyped-def]
    """See `Occupancy.costs`."""
    servers = len(returned)
    costs = (
        np.zeros(servers),
        np.zeros(servers, np.int64),
        np.zeros(servers, np.int64),
        np.zeros(servers, np.int64),
    )
    for j in range(len(taken)):
        _count_job(table, returned, taken, costs, j, 1)
    return costs


@njit(types.int64(_BOOLS, _COSTS, types.int64, _FLOATS), cache=True)
def _next(returned, costs, left, weight):  # type: ignore[no-untyped-def]
    """The server to return next while `left` are missing; -1: none is needed, or there is none."""
    cost, preempts, occupied, restarted = costs
    free, cheapest = -1, -1
    lowest = np.inf
    for s in range(len(returned)):
        if returned[s]:
            continue
        if preempts[s] == 0:
            if free < 0 or occupied[s] < occupied[free]:
                free = s
            continue
        price = float(preempts[s]) if left == 1 else np.rint(cost[s] * COST_SCALE)
        price *= weight[s]
        ties = price == lowest and restarted[s] < restarted[cheapest]
        if price < lowest or ties:
            lowest, cheapest = price, s
    if free >= 0:
        return free
    return cheapest if left > 0 else -1


@njit(_NEW_INTS(_TABLE, _BOOLS, types.int64, _FLOATS), cache=True)
def _fill(table, returned, count, weight):  # type: ignore[no-untyped-def]
    """See `Occupancy.fill`."""
    _, job, _, workers, server_start, cell, slack, _ = table
    taken = _taken(table, returned)
    costs = _costs(table, returned, taken)
    returned = returned.copy()
    left = count - returned.sum()
    order = np.empty(len(returned), np.int64)
    added = 0
    while True:
        s = _next(returned, costs, left, weight)
        if s < 0:
            return order[:added].copy()
        order[added] = s
        added += 1
        left -= 1
        here = cell[server_start[s] : server_start[s + 1]]
        for c in here:
            _count_job(table, returned, taken, costs, job[c], -1)
        returned[s] = True
        for c in here:
            if taken[job[c]] <= slack[job[c]]:
                taken[job[c]] += workers[c]
                _count_job(table, returned, taken, costs, job[c], 1)


@njit(types.int64(_TABLE, _BOOLS, _INTS, types.int64), cache=True)
def _servers_to_spare(table, returned, taken, j):  # type: ignore[no-untyped-def]
    """The fewest returned servers that must be kept for job j to go on."""
    job_start, _, server, workers, _, _, slack, _ = table
    servers, lost = 0, taken[j]
    for c in range(job_start[j], job_start[j + 1]):
        if lost <= slack[j]:
            break
        if returned[server[c]]:
            servers += 1
            lost -= workers[c]
    return servers


@njit(_NEW_BOOLS(_TABLE, _BOOLS, types.int64, _FLOATS), cache=True)
def _spare(table, returned, count, weight):  # type: ignore[no-untyped-def]
    """See `Occupancy.spare`."""
    job_start, job, server, workers, server_start, cell, slack, restarts = table
    returned = returned.copy()
    taken = _taken(table, returned)
    to_spare = np.zeros(len(slack), np.int64)
    for j in range(len(slack)):
        to_spare[j] = _servers_to_spare(table, returned, taken, j)
    surplus = returned.sum() - count
    while True:
        spared, lowest = -1, np.inf
        for j in range(len(slack)):
            price = to_spare[j] * weight[j]
            ties = price == lowest and restarts[j] > restarts[spared]
            if 0 < to_spare[j] <= surplus and (price < lowest or ties):
                spared, lowest = j, price
        if spared < 0:
            return returned
        for s in server[job_start[spared] : job_start[spared + 1]]:
            if taken[spared] <= slack[spared] or not returned[s]:
                continue
            returned[s] = False
            surplus -= 1
            for c in cell[server_start[s] : server_start[s + 1]]:
                taken[job[c]] -= workers[c]
                to_spare[job[c]] = _servers_to_spare(table, returned, taken, job[c])
