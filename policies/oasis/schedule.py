"""The best schedule of one arrival, and its admission: Algorithms 1 and 2 of 002 §IV."""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np
from numba import njit, types

from policies.oasis.market import Cluster, Market
from policies.oasis.model import NEVER, ROUNDING, Request
from policies.problem import Floats, Ints

_FLOATS_1D = types.Array(types.float64, 1, "C", readonly=True)
_FLOATS_2D = types.Array(types.float64, 2, "C", readonly=True)
_FLOATS_3D = types.Array(types.float64, 3, "C", readonly=True)
_INTS_2D = types.Array(types.int64, 2, "C", readonly=True)
_CHOICES = types.Array(types.int32, 2, "C", readonly=True)


@dataclass(frozen=True, slots=True)
class Schedule:
    """Workers and parameter servers by slot of the span and server, until `completion_slot`."""

    workers: Ints  # [slots, servers for workers] y
    ps: Ints  # [slots, servers for parameter servers] z
    completion_slot: int
    utility: float
    cost: float  # of all resources at the prices of its arrival

    @property
    def payoff(self) -> float:
        """mu_i of (21): admitted if positive."""
        return self.utility - self.cost


def offer(request: Request, cluster: Cluster) -> tuple[Schedule | None, Cluster]:
    """Algorithm 1 for one arrival: its best schedule, and the cluster, booked if that is admitted.

    None: no schedule completes it within the span. Admitted is exactly a positive payoff.
    """
    schedule = best_schedule(request, cluster)
    if schedule is None or schedule.payoff <= 0:
        return schedule, cluster
    return schedule, book(request, schedule, cluster)


def book(request: Request, schedule: Schedule, cluster: Cluster) -> Cluster:
    """Lines 8-13 of Algorithm 1: amounts and prices after the schedule is taken in."""
    return Cluster(
        cluster.workers.book(schedule.workers, request.worker),
        cluster.ps.book(schedule.ps, request.ps),
    )


def best_schedule(request: Request, cluster: Cluster) -> Schedule | None:
    """Algorithm 2: the schedule of greatest payoff, of equal ones the earliest to complete.

    Instead of a dynamic program over chunks for each end time: F_t(d), the least cost of d units
    of work by slot t, is F_t(d) = min_w F_{t-1}(d - progress(w)) + COST_t(w) in worker-slots
    (chunks are trained evenly, so (2) needs no finer unit), and the one forward pass over t holds
    the answer for every end time.
    """
    if int(request.progress.max(axis=1).sum()) < request.work:
        return None
    first = request.arrival_slot
    most = request.most_workers
    workers = _Supply.of(cluster.workers, first, request.worker, most)
    ps = _Supply.of(cluster.ps, first, request.ps, int(request.ps_of.max()))
    cost = workers.cost + np.where(request.ps_of == NEVER, np.inf, ps.cost[:, request.ps_of])
    end, paid, choice = _pass_forward(cost, request.progress, request.utility, request.work)
    if end < 0:
        return None
    count = _way_back(choice, request.progress, end, request.work)
    return Schedule(
        workers=workers.place(count, first),
        ps=ps.place(request.ps_of[count], first),
        completion_slot=first + end,
        utility=float(request.utility[end]),
        cost=paid,
    )


@dataclass(frozen=True, slots=True)
class _Supply:
    """What servers of one kind offer to one job, in the slots from its arrival on."""

    server: Ints  # [slots, n] servers, cheapest first: as many as `most` instances may need
    room: Ints  # [slots, n] instances that fit there
    cost: Floats  # [slots, most + 1] of so many instances on the cheapest servers; inf: no room
    servers: int  # of this kind

    @classmethod
    def of(cls, market: Market, first_slot: int, demand: Floats, most: int) -> _Supply:
        """COST_t for 0 to `most` instances (lines 23-46): cheapest servers first, then full."""
        used, price = market.used[first_slot:], market.price[first_slot:]
        server, unit, room = _cheapest(market.capacity, used, price, demand, most)
        return cls(server, room, _pile_up(unit, room, most), len(market.capacity))

    def place(self, count: Ints, first_slot: int) -> Ints:
        """[slots of the span, servers] `count` [slots from arrival] instances, cheapest first."""
        before = np.cumsum(self.room, axis=1) - self.room
        taken = np.clip(count[:, None] - before, 0, self.room)
        placed = np.zeros((first_slot + len(count), self.servers), dtype=np.int64)
        slot, nth = np.nonzero(taken)
        placed[first_slot + slot, self.server[slot, nth]] = taken[slot, nth]
        return placed


@njit(
    types.Tuple((types.int64[:, ::1], types.float64[:, ::1], types.int64[:, ::1]))(
        _FLOATS_2D, _FLOATS_3D, _FLOATS_3D, _FLOATS_1D, types.int64
    ),
    cache=True,
)
def _cheapest(capacity, used, price, demand, most):  # type: ignore[no-untyped-def]
    """Servers in the order of price, what one instance costs, and how many fit: (4), (5).

    Each [slots, n]: the cheapest servers that together have room for `most`, of equal ones the
    first. An insertion each instead of sorting all: most servers of a large cluster are left out
    by one comparison.
    """
    slots, servers, resources = used.shape
    width = min(most, servers)
    server = np.zeros((slots, width), np.int64)
    unit = np.zeros((slots, width))
    room = np.zeros((slots, width), np.int64)
    for t in range(slots):
        count, total = 0, 0
        for h in range(servers):
            cost, fitting = 0.0, float(most)
            for r in range(resources):
                if demand[r] > 0:
                    cost += price[t, h, r] * demand[r]
                    free = (capacity[h, r] - used[t, h, r]) / demand[r] + ROUNDING
                    fitting = min(fitting, free)
            fits = int(fitting)
            if fits <= 0 or (total >= most and cost >= unit[t, count - 1]):
                continue
            while count > 0 and cost < unit[t, count - 1]:
                if total - room[t, count - 1] + fits < most:
                    break  # the most expensive is still needed
                count -= 1
                total -= room[t, count]
                room[t, count] = 0
            nth = count
            while nth > 0 and cost < unit[t, nth - 1]:
                server[t, nth] = server[t, nth - 1]
                unit[t, nth] = unit[t, nth - 1]
                room[t, nth] = room[t, nth - 1]
                nth -= 1
            server[t, nth], unit[t, nth], room[t, nth] = h, cost, fits
            count += 1
            total += fits
    return server, unit, room


@njit(types.float64[:, ::1](_FLOATS_2D, _INTS_2D, types.int64), cache=True)
def _pile_up(unit, room, most):  # type: ignore[no-untyped-def]
    """[slots, most + 1] The cost of n instances on servers that stand in the order of price."""
    slots, servers = unit.shape
    cost = np.full((slots, most + 1), np.inf)
    for t in range(slots):
        n, paid = 0, 0.0
        cost[t, 0] = 0.0
        for h in range(servers):
            for _ in range(min(room[t, h], most - n)):
                n += 1
                paid += unit[t, h]
                cost[t, n] = paid
    return cost


@njit(
    types.Tuple((types.int64, types.float64, types.int32[:, ::1]))(
        _FLOATS_2D, _INTS_2D, _FLOATS_1D, types.int64
    ),
    cache=True,
)
def _pass_forward(cost, progress, utility, work):  # type: ignore[no-untyped-def]
    """Best slot to end in (-1: none), its cost, and the workers chosen for [slot, units done].

    Ends once no later slot can pay more: utility never rises, and no schedule costs less than
    the cheapest unit of any slot for all of the work.
    """
    slots, sizes = cost.shape
    cheapest = np.inf
    for t in range(slots):
        for w in range(1, sizes):
            if progress[t, w] > 0 and cost[t, w] < np.inf:
                cheapest = min(cheapest, cost[t, w] / progress[t, w])

    least = np.full(work + 1, np.inf)  # F_t
    least[0] = 0.0
    choice = np.zeros((slots, work + 1), np.int32)
    best, end, paid, reach = -np.inf, -1, np.inf, 0
    for t in range(slots):
        if end >= 0 and utility[t] - work * cheapest <= best:
            break
        before = least.copy()
        further = reach
        for w in range(1, sizes):
            step, price = progress[t, w], cost[t, w]
            if step == 0 or price == np.inf:
                continue
            further = max(further, min(reach + step, work))
            for d in range(1, min(step, work + 1)):
                if price < least[d]:
                    least[d] = price
                    choice[t, d] = w
            for d in range(step, min(reach + step, work) + 1):
                if before[d - step] + price < least[d]:
                    least[d] = before[d - step] + price
                    choice[t, d] = w
        reach = further
        payoff = utility[t] - least[work]
        if payoff > best + ROUNDING * utility[t]:  # sums of equal prices differ by rounding
            best, end, paid = payoff, t, least[work]
    return end, paid, choice


@njit(types.int64[::1](_CHOICES, _INTS_2D, types.int64, types.int64), cache=True)
def _way_back(choice, progress, end, work):  # type: ignore[no-untyped-def]
    """[slots] The workers of each slot that do all the work by `end`."""
    count = np.zeros(len(choice), np.int64)
    for t in range(end, -1, -1):
        count[t] = choice[t, work]
        work = max(work - progress[t, count[t]], 0)
    return count
