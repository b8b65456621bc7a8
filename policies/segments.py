"""Free GPUs over time as segments, and plans as runs: compiled parts of 001's filling.

GPUs become free or taken only where a plan changes. So what is free is told for segments: `begin`
[count + 1], the piece where each begins and the end of time, and `free` [count]; both have room
for a segment a piece. A job's plan is runs: `piece` where each begins and `size`, the index into
the job's sizes that holds from there. Filling a job looks at segments and writes a few runs,
however many pieces there are.
"""

from __future__ import annotations

import numpy as np
from numba import njit, types

INT, FLOAT, BOOL = types.int64, types.float64, types.boolean
INTS = types.Array(INT, 1, "C", readonly=True)
FLOATS = types.Array(FLOAT, 1, "C", readonly=True)
BOOLS = types.Array(BOOL, 1, "C", readonly=True)
NEW_INTS, NEW_FLOATS, NEW_BOOLS = INT[::1], FLOAT[::1], BOOL[::1]
SCRATCH = INT[:, ::1]
"""[2, pieces + 1] Runs: piece and size."""

ROUNDING_EPOCHS = 1e-9  # by which a plan may fall short: sums of floating point


_ALL = np.iinfo(np.int64).max


@njit(types.Tuple((NEW_INTS, NEW_INTS, INT))(INTS), cache=True)
def segments(free_gpus):  # type: ignore[no-untyped-def]
    """`begin`, `free` and their number, from the free GPUs of each piece."""
    begin, free = np.empty(len(free_gpus) + 1, np.int64), np.empty(len(free_gpus), np.int64)
    count = 0
    for t in range(len(free_gpus)):
        if t == 0 or free_gpus[t] != free_gpus[t - 1]:
            begin[count], free[count] = t, free_gpus[t]
            count += 1
    begin[count] = len(free_gpus)
    return begin, free, count


@njit(types.void(INTS, INTS, INT, NEW_INTS), cache=True)
def spread(begin, free, count, free_gpus):  # type: ignore[no-untyped-def]
    """Write the free GPUs of each piece."""
    for at in range(count):
        free_gpus[begin[at] : begin[at + 1]] = free[at]


@njit(types.UniTuple(INT, 2)(NEW_INTS, NEW_INTS, INT, INT), cache=True)
def _split(begin, free, count, piece):  # type: ignore[no-untyped-def]
    """Have a segment begin at a piece: which one it is, and how many there are then."""
    at = np.searchsorted(begin[: count + 1], piece)
    if begin[at] == piece:
        return at, count
    begin[at + 1 : count + 2] = begin[at : count + 1].copy()
    free[at + 1 : count + 1] = free[at:count].copy()
    begin[at], free[at] = piece, free[at - 1]
    return at, count + 1


@njit(INT(NEW_INTS, NEW_INTS, INT, INTS, INTS, INT, INT, INTS, INT), cache=True)
def take(begin, free, count, piece, size, first, pieces, gpus, times):  # type: ignore[no-untyped-def]
    """Take a plan's GPUs from piece `first` on off `free`, `times` 1, or give them back, -1.

    Returns the number of segments.
    """
    for run in range(len(piece)):
        since = max(piece[run], first)
        until = piece[run + 1] if run + 1 < len(piece) else pieces
        taken = times * gpus[size[run]]
        if since < until and taken != 0:
            at, count = _split(begin, free, count, since)
            end, count = _split(begin, free, count, until)
            free[at:end] -= taken
    return count


@njit(INT(SCRATCH, INT, INT, INT), cache=True)
def _append(runs, count, piece, size):  # type: ignore[no-untyped-def]
    """Add a run; one that goes on at the same size is no new one."""
    if count == 0 or runs[1, count - 1] != size:
        runs[0, count], runs[1, count] = piece, size
        count += 1
    return count


@njit(
    types.Tuple((INT, NEW_FLOATS))(
        *(FLOATS, INTS, INTS, INT, INTS, INTS, INT, INT, FLOAT, INTS, SCRATCH)
    ),
    cache=True,
)
def _largest(edge_s, begin, free, count, piece, size, first, pieces, last_s, gpus, fitting):  # type: ignore[no-untyped-def]
    """Runs of the largest sizes that fit; how many runs, and for how long each size fits."""
    seconds = np.zeros(len(gpus))
    largest, fits, own, run, length = len(gpus) - 1, 0, 0, 0, 0
    begun_s, t = edge_s[first], first
    at = np.searchsorted(begin[:count], first, side="right") - 1
    while t < pieces:
        while run < len(piece) and piece[run] <= t:
            own = gpus[size[run]]
            run += 1
        until = piece[run] if run < len(piece) else pieces
        end = np.searchsorted(begin[:count], until)
        before = fits
        while fits < largest and gpus[fits + 1] <= free[at] + own:
            fits += 1
        while fits > 0 and gpus[fits] > free[at] + own:
            fits -= 1
        if fits != before or length == 0:
            seconds[before] += edge_s[t] - begun_s
            begun_s = edge_s[t]
            fitting[0, length], fitting[1, length] = t, fits
            length += 1
        enough = gpus[fits] - own if fits > 0 else -_ALL
        too_much = gpus[fits + 1] - own if fits < largest else _ALL
        at += 1
        while at < end and enough <= free[at] < too_much:
            at += 1
        t = min(begin[at], until)
        at -= begin[at] > t
    if length > 0:
        seconds[fits] += edge_s[pieces - 1] + last_s - begun_s
    return length, seconds


@njit(
    types.Tuple((BOOL, FLOAT, INT))(
        *(FLOATS, INTS, INTS, INT, INTS, INTS),
        *(INT, INT, FLOAT, FLOAT, INTS, FLOATS, SCRATCH, SCRATCH),
    ),
    cache=True,
)
def fill(  # type: ignore[no-untyped-def]
    edge_s,
    begin,
    free,
    count,
    piece,
    size,
    first,
    pieces,
    last_s,
    needed,
    gpus,
    rate,
    fitting,
    runs,
):
    """One job's plan from piece `first` to its deadline, into `runs`.

    Returns whether it suffices, the epochs that it does, and the number of runs. The GPUs of the
    plan that it has now (`piece`, `size`) are free to it. The work at level j depends only on how
    long each largest size that fits is free, so that all levels are tried on a histogram.
    """
    length, seconds = _largest(
        edge_s, begin, free, count, piece, size, first, pieces, last_s, gpus, fitting
    )
    needed -= ROUNDING_EPOCHS
    below, done, above, level = 0.0, 0.0, seconds.sum(), 0
    while level < len(gpus) and below + rate[level] * above < needed:
        done = below + rate[level] * above
        below += seconds[level] * rate[level]
        above -= seconds[level]
        level += 1
    enough = level < len(gpus)
    earlier, switch, at = (max(level - 1, 0), pieces, length) if enough else (level, pieces, 0)
    done = done if enough else below
    end, end_s = pieces, edge_s[max(pieces - 1, 0)] + last_s
    while done < needed and at > 0:
        at -= 1
        since, fits = fitting[0, at], fitting[1, at]
        more = rate[min(level, fits)] - rate[min(earlier, fits)]
        switch = since
        if done + more * (end_s - edge_s[since]) >= needed:
            while end - switch > 1:  # to the last piece from which on the level suffices
                middle = (switch + end) // 2
                if done + more * (end_s - edge_s[middle]) >= needed:
                    switch = middle
                else:
                    end = middle
        done += more * (end_s - edge_s[switch])
        end, end_s = since, edge_s[since]
    written = 0
    for at in range(length):
        since, fits = fitting[0, at], fitting[1, at]
        end = fitting[0, at + 1] if at + 1 < length else pieces
        if since < switch:
            written = _append(runs, written, since, min(earlier, fits))
        if end > switch:
            written = _append(runs, written, max(since, switch), min(level, fits))
    return enough, done, written


@njit(types.Tuple((NEW_INTS, NEW_INTS))(NEW_INTS, NEW_INTS, INT, SCRATCH, INT, INT), cache=True)
def store(piece, size, used, runs, first, count):  # type: ignore[no-untyped-def]
    """Put `count` runs from `first` on behind the `used` ones of these columns, which may grow."""
    if used + count > len(piece):
        room = np.empty(2 * (used + count), np.int64)
        room[:used] = piece[:used]
        piece = room
        room = np.empty(len(piece), np.int64)
        room[:used] = size[:used]
        size = room
    piece[used : used + count] = runs[0, first : first + count]
    size[used : used + count] = runs[1, first : first + count]
    return piece, size
