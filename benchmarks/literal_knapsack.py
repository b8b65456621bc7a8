"""Phase 2 of 004 Algorithm 2 (lines 10-21) as a dynamic program over GPUs, in numpy."""

from __future__ import annotations

import numpy as np

from policies.knapsack import NONE, Groups
from policies.problem import Ints


def best_by_capacity(groups: Groups, capacity: int) -> tuple[Ints, float]:
    """The item of each group (or NONE) of greatest value in total, and that value.

    best[c]: the greatest value of the groups so far within c GPUs. One vector operation for each
    item of each group.
    """
    best = np.zeros(capacity + 1)
    chosen = np.full((len(groups), capacity + 1), NONE, dtype=np.int32)
    weight, value = groups.weight.tolist(), groups.value.tolist()
    for group in range(len(groups)):
        before = best.copy()
        for item in range(groups.offset[group], groups.offset[group + 1]):
            if weight[item] <= capacity:
                tried = before[: capacity + 1 - weight[item]] + value[item]
                better = tried > best[weight[item] :]
                best[weight[item] :][better] = tried[better]
                chosen[group, weight[item] :][better] = item
    choice, left = np.full(len(groups), NONE), capacity
    for group in reversed(range(len(groups))):
        choice[group] = chosen[group, left]
        left -= weight[choice[group]] if choice[group] != NONE else 0
    return choice, float(best[-1])
