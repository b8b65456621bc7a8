"""Minimum satisfactory shares (001 §4.1), on pieces of time.

Time ahead is cut into pieces (the paper's slots; they need not be equally long), and a plan gives
a job one size in each piece that begins before its deadline. Sizes are numbered: a plan holds the
index into the job's list of sizes, which begins with 0 GPUs. So sizes may be powers of two or all
numbers, and a job that has a smallest one has 0 where that does not fit (001 §6.6).
"""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np
from numba import njit, types

from policies.problem import Floats, Ints
from policies.ragged import counted
from policies.segments import (
    BOOL,
    FLOATS,
    INT,
    INTS,
    NEW_FLOATS,
    NEW_INTS,
    ROUNDING_EPOCHS,
    fill,
    segments,
    spread,
    store,
    take,
)
from policies.sizes import Sizes

SATISFIED = -1
"""What stands for the job that misses its deadline where every job can meet its own."""


@dataclass(frozen=True, slots=True)
class Claims:
    """What each job has to do, and by when."""

    sizes: Sizes
    pieces: Ints  # [jobs] pieces of time that begin before the deadline; 0: it has none
    last_s: Floats  # [jobs] seconds of the last of them that lie before it
    needed: Floats  # [jobs] epochs


@dataclass(frozen=True, slots=True)
class Plans:
    """Runs of pieces at one size, from the first piece to the deadline, ragged over jobs."""

    begin: Ints  # [jobs] where a job's runs begin in the columns of runs
    end: Ints  # [jobs] and end
    piece: Ints  # [runs] the first one; ascending within a job
    size: Ints  # [runs] index into the job's sizes, never the same in two runs on end
    done: Floats  # [jobs] epochs that the plan does before the deadline

    @classmethod
    def empty(cls, jobs: int) -> Plans:
        """Nothing for anybody."""
        none = np.zeros(0, np.int64)
        return cls(np.zeros(jobs, np.int64), np.zeros(jobs, np.int64), none, none, np.zeros(jobs))

    @property
    def first(self) -> Ints:
        """[jobs] The size in the first piece; 0 without a plan."""
        size = np.zeros(len(self.begin), np.int64)
        planned = self.end > self.begin
        size[planned] = self.size[self.begin[planned]]
        return size

    def runs(self, rows: Ints) -> tuple[Ints, Ints]:
        """Where the runs of these jobs stand, job after job, and how many each of them has."""
        counts = self.end[rows] - self.begin[rows]
        return counted(self.begin[rows], counts), counts

    def of(self, job: int, pieces: int) -> Ints:
        """[pieces] One job's plan, piece by piece."""
        runs = slice(self.begin[job], self.end[job])
        ends = np.append(self.piece[runs][1:], pieces)
        return np.repeat(self.size[runs], ends - self.piece[runs])


@dataclass(frozen=True, slots=True)
class Filled:
    """Plans, and what they leave."""

    plans: Plans
    free_gpus: Ints  # [pieces]
    failed: int = SATISFIED  # the first job that misses its deadline


def minimum_shares(
    length_s: Floats, begun: Filled, order: Ints, claims: Claims, *, late: bool = False
) -> Filled:
    """Progressive filling (001 Algorithm 1, lines 4-7 and 11-22) for the jobs of `order`.

    `length_s` is [pieces]; what `begun` has free there is taken. With `late` a job that cannot
    meet its deadline takes all it can before it and the others are filled all the same, else
    filling ends there.

    Line 14 runs backwards from the deadline and the test of line 17 stands inside that loop: the
    last pieces have j GPUs, and once these suffice the earlier ones keep what they had at the
    size before. That reading admits the most jobs. A size is cut to the largest one that fits.
    """
    plans, sizes, free_gpus = begun.plans, claims.sizes, begun.free_gpus.copy()
    failed, *filled = _fill_all(
        *(edges_s(length_s), free_gpus, order, claims.pieces, claims.last_s, claims.needed),
        *(sizes.offset, sizes.gpus, sizes.rate),
        *(plans.begin, plans.end, plans.piece, plans.size, plans.done, late),
    )
    return Filled(Plans(*filled), free_gpus, failed)


def kept(
    length_s: Floats, free_gpus: Ints, order: Ints, claims: Claims, plans: Plans
) -> tuple[Filled, Ints]:
    """Those of `plans` that fit, in this order, and do what is needed; the jobs whose do not."""
    sizes, left_gpus, done = claims.sizes, free_gpus.copy(), np.zeros(len(claims.pieces))
    suffices = _keep_all(
        *(edges_s(length_s), left_gpus, order, claims.pieces, claims.last_s, claims.needed),
        *(sizes.offset, sizes.gpus, sizes.rate),
        *(plans.begin, plans.end, plans.piece, plans.size, done),
    )
    stands = np.zeros(len(done), dtype=bool)
    stands[order[suffices]] = True
    end = np.where(stands, plans.end, plans.begin)
    standing = Plans(plans.begin, end, plans.piece, plans.size, done)
    return Filled(standing, left_gpus), order[~suffices]


def edges_s(length_s: Floats) -> Floats:
    """[pieces + 1] Where the pieces begin, from 0, and where the last one ends."""
    edge_s = np.zeros(len(length_s) + 1)
    length_s.cumsum(out=edge_s[1:])
    return edge_s


@njit(
    types.Tuple((INT, NEW_INTS, NEW_INTS, NEW_INTS, NEW_INTS, NEW_FLOATS))(
        *(FLOATS, NEW_INTS, INTS, INTS, FLOATS, FLOATS, INTS, INTS, FLOATS),
        *(INTS, INTS, INTS, INTS, FLOATS, BOOL),
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
    begin,
    end,
    piece,
    size,
    done,
    late,
):
    """Fill job after job; each takes its plan off `free`."""
    failed, used = SATISFIED, len(piece)
    begin, end, done = begin.copy(), end.copy(), done.copy()
    piece, size = piece.copy(), size.copy()
    at, left, count = segments(free)
    fitting, runs = np.empty((2, len(edge_s)), np.int64), np.empty((2, len(edge_s)), np.int64)
    for i in order:
        own_gpus = gpus[offset[i] : offset[i + 1]]
        own_rate = rate[offset[i] : offset[i + 1]]
        enough, done[i], length = fill(
            *(edge_s, at, left, count, piece[:0], size[:0], 0, pieces[i], last_s[i], needed[i]),
            *(own_gpus, own_rate, fitting, runs),
        )
        if not enough or pieces[i] == 0:  # the latter: its deadline is past
            failed = i if failed == SATISFIED else failed
            if not late:
                break
        piece, size = store(piece, size, used, runs, 0, length)
        begin[i], end[i] = used, used + length
        used += length
        count = take(
            *(at, left, count, piece[begin[i] : used], size[begin[i] : used]),
            *(0, pieces[i], own_gpus, 1),
        )
    spread(at, left, count, free)
    return failed, begin, end, piece[:used], size[:used], done


@njit(
    types.boolean[::1](
        *(FLOATS, NEW_INTS, INTS, INTS, FLOATS, FLOATS, INTS, INTS, FLOATS),
        *(INTS, INTS, INTS, INTS, NEW_FLOATS),
    ),
    cache=True,
)
def _keep_all(  # type: ignore[no-untyped-def]
    edge_s,
    free,
    order,
    pieces,
    last_s,
    needed,
    offset,
    gpus,
    rate,
    begin,
    end,
    piece,
    size,
    done,
):
    """[order] Whose plan fits and suffices; these take theirs off `free` and have `done`."""
    suffices = np.zeros(len(order), np.bool_)
    for k, i in enumerate(order):
        own_gpus = gpus[offset[i] : offset[i + 1]]
        own_rate = rate[offset[i] : offset[i + 1]]
        fits, does = True, 0.0
        for run in range(begin[i], end[i]):
            after = piece[run + 1] if run + 1 < end[i] else pieces[i]
            until_s = edge_s[after] if after < pieces[i] else edge_s[after - 1] + last_s[i]
            does += own_rate[size[run]] * (until_s - edge_s[piece[run]])
            for t in range(piece[run], after):
                fits = fits and own_gpus[size[run]] <= free[t]
        suffices[k] = fits and does >= needed[i] - ROUNDING_EPOCHS
        if suffices[k]:
            done[i] = does
            for run in range(begin[i], end[i]):
                after = piece[run + 1] if run + 1 < end[i] else pieces[i]
                free[piece[run] : after] -= own_gpus[size[run]]
    return suffices
