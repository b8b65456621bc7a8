"""The feasible side of the rolling-horizon model: from any plans to good ones that fit."""

from __future__ import annotations

from heapq import heapify, heappop, heappush

import numpy as np
from numba import njit, types

from policies.rolling_horizon_model import MODEL
from policies.rolling_horizon_pricing import served_in, trim

POLISH_ROUNDS = 6
"""Cap on the passes over all jobs in `fit`; each improves the objective, or is the last."""

_INTS = types.int64[::1]
_PLANS = types.int64[:, ::1]
_ENDLESS = 2**62  # GPUs
_IMPROVEMENT = 1e-10  # of a job's objective, below which a change is rounding


@njit(types.float64(MODEL, _INTS, types.int64, types.int64), cache=True)
def _worth(model, plan, step, option):  # type: ignore[no-untyped-def]
    """The objective of one job's plan with `option` in `step`."""
    done, total = 0.0, 0.0
    for t in range(len(plan)):
        after = min(done + served_in(model, option if t == step else plan[t], t), 1.0)
        total += model.worth[t] * (after - done)
        done = after
    return total


@njit(types.float64(MODEL, _INTS, types.int64, types.int64), cache=True)
def _gain_per_gpu(model, plan, step, option):  # type: ignore[no-untyped-def]
    """What one GPU more or less brings or costs if `step` goes to `option`."""
    now = plan[step]
    gain = _worth(model, plan, step, option) - _worth(model, plan, step, now)
    return gain / (model.gpus[option] - model.gpus[now])


@njit(types.void(MODEL, _PLANS, _INTS, types.int64), cache=True)
def _repair(model, plans, room, t):  # type: ignore[no-untyped-def]
    """Take sizes down in step `t` until it fits, the least loss per GPU first.

    A loss may have risen since it was queued: it is looked at again before it is taken.
    """
    queue = [
        (_gain_per_gpu(model, plans[job], t, plans[job, t] - 1), job)
        for job in range(len(plans))
        if plans[job, t] > model.offset[job]
    ]
    heapify(queue)
    while room[t] < 0:
        _, job = heappop(queue)
        smaller = plans[job, t] - 1
        loss = _gain_per_gpu(model, plans[job], t, smaller)
        if len(queue) > 0 and loss > queue[0][0]:
            heappush(queue, (loss, job))
            continue
        room[t] += model.gpus[plans[job, t]] - model.gpus[smaller]
        plans[job, t] = smaller
        if smaller > model.offset[job]:
            heappush(queue, (_gain_per_gpu(model, plans[job], t, smaller - 1), job))


@njit(types.void(MODEL, _PLANS, _INTS), cache=True)
def _fill(model, plans, room):  # type: ignore[no-untyped-def]
    """Take sizes up while GPUs are free, the greatest gain per GPU first.

    A gain may have fallen since it was queued: it is looked at again before it is taken. Room
    only shrinks, so what does not fit never will.
    """
    queue = [
        (-_gain_per_gpu(model, plans[job], t, plans[job, t] + 1), job, t)
        for job in range(len(plans))
        for t in range(plans.shape[1])
        if plans[job, t] + 1 < model.offset[job + 1]
        and model.gpus[plans[job, t] + 1] - model.gpus[plans[job, t]] <= room[t]
    ]
    heapify(queue)
    while len(queue) > 0:
        listed, job, t = heappop(queue)
        if listed > -_IMPROVEMENT:
            break
        larger = plans[job, t] + 1
        extra = model.gpus[larger] - model.gpus[plans[job, t]]
        if extra > room[t]:
            continue
        gain = _gain_per_gpu(model, plans[job], t, larger)
        if -gain > listed:
            heappush(queue, (-gain, job, t))
            continue
        room[t] -= extra
        plans[job, t] = larger
        if larger + 1 < model.offset[job + 1]:
            heappush(queue, (-_gain_per_gpu(model, plans[job], t, larger + 1), job, t))


@njit(types.void(MODEL, types.int64, _INTS, _INTS), cache=True)
def _fastest(model, job, free_gpus, plan):  # type: ignore[no-untyped-def]
    """Write to `plan`: in each step the size that serves most, or the smallest that finishes."""
    done = 0.0
    for t in range(len(plan)):
        best = model.offset[job]
        for option in range(best + 1, model.offset[job + 1]):
            finishes = done + served_in(model, best, t) >= 1
            if finishes or model.gpus[option] > free_gpus[t]:
                break
            if served_in(model, option, t) > served_in(model, best, t):
                best = option
        plan[t] = best
        done += served_in(model, best, t)


@njit(types.void(MODEL, _PLANS), cache=True)
def fastest(model, plans):  # type: ignore[no-untyped-def]
    """Fill `plans` with each job's fastest plan, whatever the others take."""
    free_gpus = np.full(plans.shape[1], _ENDLESS)
    for job in range(len(plans)):
        _fastest(model, job, free_gpus, plans[job])


@njit(types.boolean(MODEL, _PLANS, _INTS), cache=True)
def _polish(model, plans, room):  # type: ignore[no-untyped-def]
    """Give each job the fastest plan that the others leave room for; whether any improved."""
    improved = False
    plan = np.empty(plans.shape[1], np.int64)
    for job in range(len(plans)):
        before = _worth(model, plans[job], 0, plans[job, 0])
        if before >= model.worth[0] - _IMPROVEMENT:
            continue
        free_gpus = room + model.gpus[plans[job]]
        _fastest(model, job, free_gpus, plan)
        if _worth(model, plan, 0, plan[0]) > before + _IMPROVEMENT:
            improved = True
            room[:] = free_gpus - model.gpus[plan]
            plans[job] = plan
    return improved


@njit(_INTS(MODEL, _PLANS), cache=True)
def _trimmed_room(model, plans):  # type: ignore[no-untyped-def]
    """Trim all plans; the GPUs that they leave in each step."""
    room = np.full(plans.shape[1], model.capacity_gpus)
    for job in range(len(plans)):
        trim(model, job, plans[job])
        room -= model.gpus[plans[job]]
    return room


@njit(types.float64(MODEL, _PLANS), cache=True)
def fit(model, plans):  # type: ignore[no-untyped-def]
    """Change `plans` until they fit the capacity and no greedy change improves them; their worth.

    Repair: while a step is overfull, the job that loses least per GPU goes down one size. Fill:
    while GPUs are free, the job that gains most per GPU goes up one. Polish: each job in turn
    takes the fastest plan that the GPUs left by the others allow. The smallest sizes must fit;
    plans that fit never lose.
    """
    room = _trimmed_room(model, plans)
    for t in range(plans.shape[1]):
        if room[t] < 0:
            _repair(model, plans, room, t)
    _fill(model, plans, room)
    room = _trimmed_room(model, plans)
    for _ in range(POLISH_ROUNDS):
        if not _polish(model, plans, room):
            break
    total = 0.0
    for job in range(len(plans)):
        total += _worth(model, plans[job], 0, plans[job, 0])
    return total
