"""Minimum satisfactory shares and marginal return (001 §4.1-4.2), on pieces of time.

Time ahead is cut into pieces (the paper's slots; they need not be equally long), and a plan gives
a job one size in each piece that begins before its deadline. Sizes are numbered: a plan holds the
index into the job's list of sizes, which begins with 0 GPUs. So sizes may be powers of two or all
numbers, and a job that has a smallest one has 0 where that does not fit (001 §6.6).
"""

from __future__ import annotations

import heapq
from dataclasses import dataclass

import numpy as np
from numba import njit, types
from numpy.typing import NDArray

from policies.problem import Bools, Floats, Ints
from policies.sizes import Sizes

SATISFIED = -1
"""What `minimum_shares` answers where every job can meet its deadline."""

_ROUNDING_EPOCHS = 1e-9  # by which a plan may fall short: sums of floating point

_INT = types.int64
_FLOAT = types.float64
_INTS = types.Array(types.int64, 1, "C", readonly=True)
_FLOATS = types.Array(types.float64, 1, "C", readonly=True)
_NEW_INTS = types.int64[::1]
_NEW_FLOATS = types.float64[::1]
_PLAN = types.Array(types.int32, 1, "C", readonly=True)
_NEW_PLAN = types.int32[::1]


@dataclass(frozen=True, slots=True)
class Claims:
    """What each job has to do, and by when."""

    sizes: Sizes
    pieces: Ints  # [jobs] pieces of time that begin before the deadline; 0: it has none
    last_s: Floats  # [jobs] seconds of the last of them that lie before it
    needed: Floats  # [jobs] epochs


@dataclass(frozen=True, slots=True)
class Plans:
    """A size in each piece before the deadline, ragged over jobs; written in place."""

    offset: Ints  # [jobs + 1]
    size: NDArray[np.int32]  # [sum of pieces] index into the job's sizes
    done: Floats  # [jobs] epochs that the plan does before the deadline

    @classmethod
    def empty(cls, claims: Claims) -> Plans:
        """Nothing for anybody."""
        offset = np.concatenate(([0], np.cumsum(claims.pieces)))
        return cls(offset, np.zeros(offset[-1], dtype=np.int32), np.zeros(len(claims.pieces)))

    def copy(self) -> Plans:
        """The same, to be written apart."""
        return Plans(self.offset, self.size.copy(), self.done.copy())

    def of(self, job: int) -> NDArray[np.int32]:
        """A view of one job's plan."""
        return self.size[self.offset[job] : self.offset[job + 1]]


def minimum_shares(
    length_s: Floats, free_gpus: Ints, order: Ints, claims: Claims, plans: Plans, *, late: bool
) -> int:
    """Progressive filling (001 Algorithm 1, lines 4-7 and 11-22) for the jobs of `order`.

    `length_s` and `free_gpus` are [pieces]; the latter loses what the jobs take. Returns
    `SATISFIED`, or the first job that cannot meet its deadline: with `late` it takes all it can
    before it and the others are filled all the same, else filling ends there.

    Line 14 runs backwards from the deadline and the test of line 17 stands inside that loop: the
    last pieces have j GPUs, and once these suffice the earlier ones keep what they had at the
    size before. That reading admits the most jobs. A size is cut to the largest one that fits.
    """
    failed: int = _fill_all(
        _edges_s(length_s),
        free_gpus,
        order,
        claims.pieces,
        claims.last_s,
        claims.needed,
        claims.sizes.offset,
        claims.sizes.gpus,
        claims.sizes.rate,
        plans.offset,
        plans.size,
        plans.done,
        late,
    )
    return failed


@dataclass(frozen=True, slots=True)
class Spare:
    """What marginal return may give out now, and to whom."""

    gpus: int  # of the first piece, beyond what the plans take there
    free_gpus: Ints  # [pieces] beyond the plans; the first piece does not count
    resize_s: float
    standing: Ints  # [jobs] index of the size that stands now; 0: it waits
    rank: Ints  # [jobs] the order of equals
    may_grow: Bools  # [jobs]


def marginal_return(
    length_s: Floats, spare: Spare, claims: Claims, plans: Plans
) -> tuple[Ints, Plans]:
    """Spare GPUs of the first piece to whom they save most (001 Algorithm 2).

    Returns the size of each job in the first piece, and the plans with the rest of each filled
    anew. A job's priority is the GPU-seconds saved by its next larger size now, for each GPU that
    this adds (lines 9 and 22 add one at a time; sizes need not). A job without a deadline goes on
    at its smallest size; it comes first while it has none (001 §4.4: best effort after the
    minimum shares, before these grow).

    Lines 10 and 23 ask that the job ends earlier. Filled from the deadline it never does; what is
    meant, that it gets no slower, holds as sizes are strictly faster. A resize of a running job
    does no work for `resize_s` seconds. A priority is computed anew when the job is taken from
    the queue and others grew since: what was free for its later pieces may be gone.
    """
    first, size = _grow(
        _edges_s(length_s),
        spare.free_gpus.copy(),
        spare.gpus,
        spare.resize_s,
        spare.standing,
        spare.rank,
        spare.may_grow,
        claims.pieces,
        claims.last_s,
        np.where(claims.pieces > 0, np.minimum(claims.needed, plans.done), claims.needed),
        claims.sizes.offset,
        claims.sizes.gpus,
        claims.sizes.rate,
        plans.offset,
        plans.size.copy(),
    )
    return first, Plans(plans.offset, size, plans.done)


def _edges_s(length_s: Floats) -> Floats:
    """[pieces + 1] Where the pieces begin, from 0, and where the last one ends."""
    return np.concatenate(([0.0], np.cumsum(length_s)))


@njit(
    types.Tuple((types.boolean, _FLOAT))(
        _FLOATS, _INTS, _INT, _INT, _FLOAT, _FLOAT, _INTS, _FLOATS, _NEW_PLAN
    ),
    cache=True,
)
def _fill(edge_s, free, first, pieces, last_s, needed, gpus, rate, plan):  # type: ignore[no-untyped-def]
    """One job's plan from piece `first` to its deadline: whether it suffices, and what it does.

    The work at size j depends only on how long each largest size that fits is free, so all sizes
    are tried on a histogram: one pass over the pieces, not one for each size.
    """
    largest = len(gpus) - 1
    seconds = np.zeros(largest + 1)  # for how long so much fits, and no more
    fits, seen = 0, -1
    begun_s = edge_s[first]  # differences of times, since a sum for each piece would take longer
    for t in range(first, pieces):
        if free[t] != seen:
            seen, before = free[t], fits
            while fits < largest and gpus[fits + 1] <= seen:
                fits += 1
            while fits > 0 and gpus[fits] > seen:
                fits -= 1
            if fits != before:
                seconds[before] += edge_s[t] - begun_s
                begun_s = edge_s[t]
        plan[t] = fits
    seconds[fits] += edge_s[pieces - 1] + last_s - begun_s if pieces > first else 0.0
    enough = needed - _ROUNDING_EPOCHS
    below, done, above, size = 0.0, 0.0, seconds.sum(), 0
    while below + rate[size] * above < enough:
        done = below + rate[size] * above
        below += seconds[size] * rate[size]
        above -= seconds[size]
        if size == largest:
            return False, below
        size += 1
    t = pieces
    while done < enough and t > first:
        t -= 1
        high, low = min(size, plan[t]), min(size - 1, plan[t])
        done += (rate[high] - rate[low]) * (edge_s[t + 1] - edge_s[t] if t < pieces - 1 else last_s)
        plan[t] = high
    for earlier in range(first, t):
        plan[earlier] = min(max(size - 1, 0), plan[earlier])
    return True, done


@njit(
    _INT(
        *(_FLOATS, _NEW_INTS, _INTS, _INTS, _FLOATS, _FLOATS, _INTS, _INTS, _FLOATS),
        *(_INTS, _NEW_PLAN, _NEW_FLOATS, types.boolean),
    ),
    cache=True,
)
def _fill_all(  # type: ignore[no-untyped-def]
    edge_s,
    free,
    order,
    pieces,
    last_s,
    needed,
    offset,
    gpus,
    rate,
    plan_offset,
    plan,
    done,
    late,
):
    """Fill job after job; each takes its plan off `free`."""
    failed = SATISFIED
    for i in order:
        own_gpus = gpus[offset[i] : offset[i + 1]]
        own = plan[plan_offset[i] : plan_offset[i + 1]]
        own_rate = rate[offset[i] : offset[i + 1]]
        ok, done[i] = _fill(
            edge_s, free, 0, pieces[i], last_s[i], needed[i], own_gpus, own_rate, own
        )
        if not ok or pieces[i] == 0:  # the latter: its deadline is past
            failed = i if failed == SATISFIED else failed
            if not late:
                return failed
        for t in range(pieces[i]):
            free[t] -= own_gpus[own[t]]
    return failed


@njit(
    _FLOAT(
        *(_FLOATS, _NEW_INTS, _INT, _INT, _FLOAT, _FLOAT, _FLOAT),
        *(_INTS, _FLOATS, _PLAN, _NEW_PLAN),
    ),
    cache=True,
)
def _cost(edge_s, free, size, pieces, last_s, worked_s, needed, gpus, rate, plan, refilled):  # type: ignore[no-untyped-def]
    """GPU-seconds of a job that has `size` in the first piece; the rest goes to `refilled`."""
    todo = needed - rate[size] * worked_s
    cost = gpus[size] * (last_s if pieces == 1 else edge_s[1])
    if pieces == 0:
        return cost + max(todo, 0.0) * gpus[1] / rate[1]
    for t in range(1, pieces):
        free[t] += gpus[plan[t]]
    _fill(edge_s, free, 1, pieces, last_s, todo, gpus, rate, refilled)
    for t in range(1, pieces):
        free[t] -= gpus[plan[t]]
        cost += gpus[refilled[t]] * (edge_s[t + 1] - edge_s[t] if t < pieces - 1 else last_s)
    return cost


@njit(
    types.Tuple((_NEW_INTS, _NEW_FLOATS))(_FLOATS, _INTS, _FLOATS, _INTS, _INTS, _INTS, _PLAN),
    cache=True,
)
def _costs(edge_s, pieces, last_s, offset, gpus, plan_offset, plan):  # type: ignore[no-untyped-def]
    """Each job's size in the first piece by its plan, and the plan's GPU-seconds.

    Without a deadline there is no plan, and no end: so such a job comes first in the queue.
    """
    first = np.zeros(len(pieces), np.int64)
    cost = np.full(len(pieces), np.inf)
    for i in range(len(pieces)):
        if pieces[i] > 0:
            own = plan[plan_offset[i] : plan_offset[i + 1]]
            first[i], cost[i] = own[0], 0.0
            for t in range(pieces[i]):
                length = edge_s[t + 1] - edge_s[t] if t < pieces[i] - 1 else last_s[i]
                cost[i] += gpus[offset[i] + own[t]] * length
    return first, cost


@njit(
    types.Tuple((_NEW_INTS, _NEW_PLAN))(
        *(_FLOATS, _NEW_INTS, _INT, _FLOAT, _INTS, _INTS, types.Array(types.boolean, 1, "C", True)),
        *(_INTS, _FLOATS, _FLOATS, _INTS, _INTS, _FLOATS, _INTS, _NEW_PLAN),
    ),
    cache=True,
)
def _grow(  # type: ignore[no-untyped-def]
    edge_s,
    free,
    spare,
    resize_s,
    standing,
    rank,
    may_grow,
    pieces,
    last_s,
    needed,
    offset,
    gpus,
    rate,
    plan_offset,
    plan,
):
    """The queue of Algorithm 2: (-priority, rank, job, number of grants it was computed after)."""
    first, cost = _costs(edge_s, pieces, last_s, offset, gpus, plan_offset, plan)
    refilled = np.zeros(len(edge_s) - 1, np.int32)
    queue = [(-np.inf, rank[i], i, -1) for i in range(len(pieces)) if may_grow[i]]
    grants = 0
    heapq.heapify(queue)
    while spare > 0 and len(queue) > 0:
        _, _, i, known = heapq.heappop(queue)
        size = first[i] + 1
        own_gpus = gpus[offset[i] : offset[i + 1]]
        if size == len(own_gpus) or own_gpus[size] - own_gpus[first[i]] > spare:
            continue  # for good: sizes only grow and spare GPUs only shrink
        own_rate = rate[offset[i] : offset[i + 1]]
        own = plan[plan_offset[i] : plan_offset[i + 1]]
        worked_s = last_s[i] if pieces[i] == 1 else edge_s[1]
        if standing[i] > 0 and size != standing[i]:
            worked_s = max(worked_s - resize_s, 0.0)
        grown_cost = _cost(
            *(edge_s, free, size, pieces[i], last_s[i], worked_s, needed[i]),
            *(own_gpus, own_rate, own, refilled),
        )
        added = own_gpus[size] - own_gpus[first[i]]
        priority = (cost[i] - grown_cost) / added
        if known < grants and len(queue) > 0 and (-priority, rank[i]) > queue[0][:2]:
            heapq.heappush(queue, (-priority, rank[i], i, grants))
            continue
        for t in range(1, pieces[i]):
            free[t] += own_gpus[own[t]] - own_gpus[refilled[t]]
            own[t] = refilled[t]
        if pieces[i] > 0:
            own[0] = size
        first[i], cost[i] = size, grown_cost
        spare -= added
        grants += 1
        heapq.heappush(queue, (-np.inf, rank[i], i, -1))
    return first, plan
