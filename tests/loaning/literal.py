"""Algorithm 1 as it reads, over the whole table at every step: what the fast form must equal."""

from __future__ import annotations

import numpy as np

from loaning.problem import OnLoan
from loaning.reclaim import Choice


def choose_literally(on_loan: OnLoan, count: int) -> Choice:
    """Servers that preempt nobody first, fewest workers first; then the lowest preemption cost."""
    workers = on_loan.workers.copy()
    kept = on_loan.elsewhere + workers.sum(axis=1)
    left = set(range(len(on_loan.servers)))
    chosen: list[int] = []
    while left and len(chosen) < count:
        preempting = (workers > 0) & (kept[:, None] - workers < on_loan.min_workers[:, None])
        preempts = preempting.sum(axis=0)
        shares = preempting / np.maximum(1, (workers > 0).sum(axis=1, keepdims=True))
        cost = preempts if len(chosen) == count - 1 else shares.sum(axis=0).round(9)
        free = [s for s in left if preempts[s] == 0]
        if free:
            server = min(free, key=lambda s: (workers[:, s].sum(), s))
        else:
            restarts = preempting[~on_loan.checkpoints].sum(axis=0)
            server = min(left, key=lambda s: (cost[s], restarts[s], s))
        chosen.append(server)
        left.remove(server)
        preempted = preempting[:, server]
        kept -= workers[:, server]
        workers[:, server] = 0
        workers[preempted] = 0
    return Choice(chosen)
