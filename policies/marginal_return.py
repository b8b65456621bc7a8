"""Marginal return (001 §4.2): GPUs that minimum shares leave go where they save most GPU time."""

from __future__ import annotations

import heapq
from dataclasses import dataclass

import numpy as np
from numba import njit, types

from policies.problem import Bools, Floats, Ints
from policies.segments import (
    BOOLS,
    FLOAT,
    FLOATS,
    INT,
    INTS,
    NEW_FLOATS,
    NEW_INTS,
    SCRATCH,
    fill,
    segments,
    store,
    take,
)
from policies.share import Claims, Plans, edges_s

TICK_S = 1e-3
"""In which priorities are counted, so that rounding of floating point decides between no equals."""


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
    anew; the runs of a plan that did not change stand where they stood. A job's priority is the
    GPU-seconds saved by its next larger size now, for each GPU that this adds (lines 9 and 22 add
    one at a time; sizes need not). A job without a deadline goes on at its smallest size; it
    comes first while it has none (001 §4.4: best effort after the minimum shares, before these
    grow).

    Lines 10 and 23 ask that the job ends earlier. Filled from the deadline it never does; what is
    meant, that it gets no slower, holds as sizes are strictly faster. A resize of a running job
    does no work for `resize_s` seconds. A priority is computed anew when the job is taken from
    the queue and others grew since: what was free for its later pieces may be gone.
    """
    sizes, first = claims.sizes, plans.first
    if spare.gpus <= 0:
        return first, plans
    needed = np.where(claims.pieces > 0, np.minimum(claims.needed, plans.done), claims.needed)
    begin, end, piece, size = _grow(
        *(edges_s(length_s), spare.free_gpus.copy(), spare.gpus, spare.resize_s),
        *(spare.standing, spare.rank, spare.may_grow),
        *(claims.pieces, claims.last_s, needed, sizes.offset, sizes.gpus, sizes.rate),
        *(first, plans.begin, plans.end, plans.piece, plans.size),
    )
    return first, Plans(begin, end, piece, size, plans.done)


@njit(FLOAT(FLOATS, INTS, INTS, INT, INT, INT, FLOAT, INTS), cache=True)
def _gpu_s(edge_s, piece, size, count, first, pieces, last_s, gpus):  # type: ignore[no-untyped-def]
    """GPU-seconds of the first `count` runs from piece `first` to the deadline."""
    cost = 0.0
    for run in range(count):
        after = piece[run + 1] if run + 1 < count else pieces
        until_s = edge_s[after] if after < pieces else edge_s[pieces - 1] + last_s
        cost += gpus[size[run]] * (until_s - edge_s[max(piece[run], first)])
    return cost


@njit(
    types.Tuple((FLOAT, INT))(
        *(FLOATS, INTS, INTS, INT, INTS, INTS),
        *(INT, INT, FLOAT, FLOAT, FLOAT, INTS, FLOATS, SCRATCH, SCRATCH),
    ),
    cache=True,
)
def _cost(  # type: ignore[no-untyped-def]
    edge_s,
    segment,
    free,
    count,
    piece,
    size,
    now,
    pieces,
    last_s,
    worked_s,
    needed,
    gpus,
    rate,
    fitting,
    runs,
):
    """GPU-seconds of a job that has size `now` in the first piece; the rest goes to `runs`."""
    todo = needed - rate[now] * worked_s
    cost = gpus[now] * (last_s if pieces == 1 else edge_s[1])
    if pieces == 0:
        return cost + max(todo, 0.0) * gpus[1] / rate[1], 0
    _, _, length = fill(
        *(edge_s, segment, free, count, piece, size, 1, pieces, last_s, todo),
        *(gpus, rate, fitting, runs),
    )
    return cost + _gpu_s(edge_s, runs[0], runs[1], length, 1, pieces, last_s, gpus), length


@njit(
    NEW_FLOATS(FLOATS, INTS, FLOATS, INTS, INTS, INTS, INTS, INTS, INTS),
    cache=True,
)
def _costs(edge_s, pieces, last_s, offset, gpus, begin, end, piece, size):  # type: ignore[no-untyped-def]
    """Each plan's GPU-seconds.

    Without a deadline there is no plan, and no end: so such a job comes first in the queue.
    """
    cost = np.full(len(pieces), np.inf)
    for i in range(len(pieces)):
        if pieces[i] > 0:
            own = slice(begin[i], end[i])
            cost[i] = _gpu_s(
                *(edge_s, piece[own], size[own], end[i] - begin[i], 0, pieces[i], last_s[i]),
                gpus[offset[i] : offset[i + 1]],
            )
    return cost


@njit(
    types.Tuple((NEW_INTS, NEW_INTS, INT, INT))(NEW_INTS, NEW_INTS, INT, INT, SCRATCH, INT),
    cache=True,
)
def _planned(piece, size, used, now, runs, count):  # type: ignore[no-untyped-def]
    """A plan that has `now` in the first piece and then these runs: where it is stored."""
    same = 1 if count > 0 and runs[1, 0] == now else 0  # it goes on at the size of the first piece
    first = np.zeros((2, 1), np.int64)
    first[1, 0] = now
    piece, size = store(piece, size, used, first, 0, 1)
    piece, size = store(piece, size, used + 1, runs, same, count - same)
    return piece, size, used, used + 1 + count - same


@njit(
    types.Tuple((NEW_INTS, NEW_INTS, NEW_INTS, NEW_INTS))(
        *(FLOATS, NEW_INTS, INT, FLOAT, INTS, INTS, BOOLS, INTS, FLOATS, FLOATS),
        *(INTS, INTS, FLOATS, NEW_INTS, INTS, INTS, INTS, INTS),
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
    first,
    begin,
    end,
    piece,
    size,
):
    """The queue of Algorithm 2: (-priority, rank, job, number of grants it was computed after)."""
    cost = _costs(edge_s, pieces, last_s, offset, gpus, begin, end, piece, size)
    begin, end, piece, size = begin.copy(), end.copy(), piece.copy(), size.copy()
    used = len(piece)
    segment, left, segment_count = segments(free)
    fitting, runs = np.empty((2, len(edge_s)), np.int64), np.empty((2, len(edge_s)), np.int64)
    queue = [(-np.inf, rank[i], i, -1) for i in range(len(pieces)) if may_grow[i]]
    grants = 0
    heapq.heapify(queue)
    while spare > 0 and len(queue) > 0:
        _, _, i, known = heapq.heappop(queue)
        now = first[i] + 1
        own_gpus = gpus[offset[i] : offset[i + 1]]
        if now == len(own_gpus) or own_gpus[now] - own_gpus[first[i]] > spare:
            continue  # for good: sizes only grow and spare GPUs only shrink
        own_rate = rate[offset[i] : offset[i + 1]]
        own_piece, own_size = piece[begin[i] : end[i]], size[begin[i] : end[i]]
        worked_s = last_s[i] if pieces[i] == 1 else edge_s[1]
        if standing[i] > 0 and now != standing[i]:
            worked_s = max(worked_s - resize_s, 0.0)
        grown_cost, count = _cost(
            *(edge_s, segment, left, segment_count, own_piece, own_size, now, pieces[i]),
            *(last_s[i], worked_s, needed[i], own_gpus, own_rate, fitting, runs),
        )
        added = own_gpus[now] - own_gpus[first[i]]
        priority = np.floor((cost[i] - grown_cost) / added / TICK_S + 0.5)
        if known < grants and len(queue) > 0 and (-priority, rank[i]) > queue[0][:2]:
            heapq.heappush(queue, (-priority, rank[i], i, grants))
            continue
        if pieces[i] > 0:
            segment_count = take(
                *(segment, left, segment_count, own_piece, own_size, 1, pieces[i], own_gpus, -1)
            )
            segment_count = take(
                *(segment, left, segment_count, runs[0, :count], runs[1, :count]),
                *(1, pieces[i], own_gpus, 1),
            )
            piece, size, begin[i], end[i] = _planned(piece, size, used, now, runs, count)
            used = end[i]
        first[i], cost[i] = now, grown_cost
        spare -= added
        grants += 1
        heapq.heappush(queue, (-np.inf, rank[i], i, -1))
    return begin, end, piece[:used], size[:used]
