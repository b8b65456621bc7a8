"""The multiple-choice knapsack, exactly: at most one item of each group within a capacity.

Maximise the sum of the values. The upper convex hull of each group gives the linear relaxation
and with it an upper bound; an option whose reduced cost exceeds the gap between that bound and a
greedy solution stands in no optimum; the few groups that still have a choice, the core, are
solved by dynamic programming.
"""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np
from numba import njit, types

from policies.problem import Floats, Ints
from policies.ragged import lengths_of, offsets, rows_of

NONE = -1
"""The choice of no item."""

CORE_CELLS = 32_000_000
"""Cap on the dynamic program's table (core groups x weights, 4 bytes each): a backstop, reached
only where thousands of groups are alike. Beyond it the greedy solution stands, with its bound."""

_ROUNDING = 1e-9  # of the bound: how far off it may be when options are excluded

_INTS = types.Array(types.int64, 1, "C", readonly=True)
_FLOATS = types.Array(types.float64, 1, "C", readonly=True)
_NEW_INTS = types.int64[::1]
_NEW_FLOATS = types.float64[::1]


@dataclass(frozen=True, slots=True)
class Groups:
    """Items by group, ragged: group g holds the items `offset[g]` to `offset[g + 1]`."""

    offset: Ints  # [groups + 1]
    weight: Ints  # [items] at least 1, ascending within a group
    value: Floats  # [items] finite; an item of no positive value is never chosen

    def __post_init__(self) -> None:
        if not np.isfinite(self.value).all():
            raise ValueError("value: each item needs a finite one")
        step = np.diff(self.weight)
        inside = np.diff(self.group) == 0
        if (self.weight < 1).any() or (step[inside] < 0).any():
            raise ValueError("weight: at least 1, and ascending within a group")

    def __len__(self) -> int:
        return len(self.offset) - 1

    @property
    def group(self) -> Ints:
        """[items] The group of each item."""
        return rows_of(lengths_of(self.offset))


@dataclass(frozen=True, slots=True)
class Solution:
    """A choice for each group, its value, and an upper bound on the value of any choice."""

    choice: Ints  # [groups] index of the chosen item, or NONE
    value: float
    bound: float
    optimal: bool


def solve(groups: Groups, capacity: int, core_cells: int = CORE_CELLS) -> Solution:
    """The choice of greatest value whose weights sum to at most `capacity`.

    Of equal values the one of least weight, of those the one that gives most to the earliest
    group (equal: as sums in floating point).
    """
    divisor = max(int(np.gcd.reduce(groups.weight)), 1)  # equal jobs fill the capacity exactly
    weight, capacity = groups.weight // divisor, capacity // divisor
    steps = hull(groups.offset, weight, groups.value, capacity)
    relaxed, price, left = _relax(len(groups), capacity, *steps)
    value = _value(groups, relaxed)
    if price * left == 0:  # the linear relaxation happens to be integral
        return Solution(relaxed, value, value, optimal=True)

    bound = value + price * left
    greedy = _complete(groups.offset, weight, groups.value, relaxed, left)
    lower = _value(groups, greedy)
    core = _core(groups, weight, relaxed, price, bound - lower + _ROUNDING * bound)
    width = int(min(capacity - core.lightest, core.weight[core.offset[1:] - 1].sum())) + 1
    if width * len(core.groups) > core_cells:
        return Solution(greedy, lower, bound, optimal=False)
    option = _best_options(core.offset, core.weight, core.value, width)
    choice = relaxed.copy()
    choice[core.groups] = core.item[core.offset[:-1] + option]
    value = _value(groups, choice)
    return Solution(choice, value, value, optimal=True)


def _value(groups: Groups, choice: Ints) -> float:
    return float(groups.value[choice[choice != NONE]].sum())


def _relax(
    count: int, capacity: int, item: Ints, group: Ints, rise: Ints, efficiency: Floats
) -> tuple[Ints, float, int]:
    """The integral part of the linear relaxation: the most efficient hull steps while they fit.

    Returns the choice per group, the efficiency of the first step that does not fit (the price
    of a unit of weight; 0 if all fit) and the weight left.
    """
    order = np.argsort(-efficiency, kind="stable")  # of equals, the earlier group's first
    filled = np.cumsum(rise[order])
    fits = int(np.searchsorted(filled, capacity, side="right"))
    choice = np.full(count, NONE)
    taken = order[:fits]
    np.maximum.at(choice, group[taken], item[taken])  # a group's last step, its heaviest item
    price = float(efficiency[order[fits]]) if fits < len(order) else 0.0
    return choice, price, capacity - int(filled[fits - 1]) if fits else capacity


@dataclass(frozen=True, slots=True)
class _Core:
    """The groups that still have a choice; weights and values relative to their lightest option."""

    groups: Ints  # [core]
    offset: Ints  # [core + 1] into the options
    item: Ints  # [options] or NONE
    weight: Ints  # [options] ascending within a group, from 0
    value: Floats  # [options]
    lightest: int  # weight of everything fixed, and of the lightest options


def _core(groups: Groups, weight: Ints, relaxed: Ints, price: float, gap: float) -> _Core:
    """Drop every option whose reduced cost exceeds `gap`: no optimal choice holds it."""
    reduced = np.append(groups.value - price * weight, 0.0)  # the last one is NONE's
    best = reduced[relaxed]
    group = groups.group
    kept = np.flatnonzero(best[group] - reduced[:-1] <= gap)
    empty = np.flatnonzero(best <= gap)  # groups that may go without an item
    item = np.concatenate((np.full(len(empty), NONE), kept))
    owner = np.concatenate((empty, group[kept]))
    order = np.lexsort((item, owner))
    item, owner = item[order], owner[order]

    options = np.bincount(owner, minlength=len(groups))
    chooses = options > 1
    item, core = item[chooses[owner]], np.flatnonzero(chooses)
    offset = offsets(options[core])
    item_weight = np.append(weight, 0)[item]
    item_value = np.append(groups.value, 0.0)[item]
    first = np.repeat(offset[:-1], options[core])
    fixed = np.append(weight, 0)[relaxed[~chooses]].sum()
    return _Core(
        groups=core,
        offset=offset,
        item=item,
        weight=item_weight - item_weight[first],
        value=item_value - item_value[first],
        lightest=int(fixed + item_weight[offset[:-1]].sum()),
    )


@njit(
    types.Tuple((_NEW_INTS, _NEW_INTS, _NEW_INTS, _NEW_FLOATS))(_INTS, _INTS, _FLOATS, types.int64),
    cache=True,
)
def hull(offset, weight, value, capacity):  # type: ignore[no-untyped-def]
    """Steps along each group's upper convex hull from (0, 0), over the items that fit at all.

    Returns item reached, group, weight added, value per weight added, falling within a group.
    """
    item = np.empty(len(weight), np.int64)
    group = np.empty(len(weight), np.int64)
    rise = np.empty(len(weight), np.int64)
    efficiency = np.empty(len(weight), np.float64)
    end = 0
    for g in range(len(offset) - 1):
        start = end
        for i in range(offset[g], offset[g + 1]):
            if weight[i] > capacity:
                break
            while True:
                w, v = (weight[item[end - 1]], value[item[end - 1]]) if end > start else (0, 0.0)
                if value[i] <= v:
                    break
                slope = (value[i] - v) / (weight[i] - w) if weight[i] > w else np.inf
                if end > start and slope > efficiency[end - 1]:
                    end -= 1  # the last step lies below the hull
                    continue
                item[end], group[end] = i, g
                rise[end], efficiency[end] = weight[i] - w, slope
                end += 1
                break
    return item[:end], group[:end], rise[:end], efficiency[:end]


@njit(_NEW_INTS(_INTS, _INTS, _FLOATS, _INTS, types.int64), cache=True)
def _complete(offset, weight, value, choice, left):  # type: ignore[no-untyped-def]
    """Change one group at a time to the item that gains most, while any fits: a lower bound."""
    choice = choice.copy()
    while True:
        best, best_group, best_item = 0.0, -1, -1
        for g in range(len(offset) - 1):
            now = choice[g]
            w, v = (weight[now], value[now]) if now >= 0 else (0, 0.0)
            for i in range(offset[g], offset[g + 1]):
                if weight[i] - w > left:
                    break
                if value[i] - v > best:
                    best, best_group, best_item = value[i] - v, g, i
        if best_group < 0:
            return choice
        now = choice[best_group]
        left -= weight[best_item] - (weight[now] if now >= 0 else 0)
        choice[best_group] = best_item


@njit(_NEW_INTS(_INTS, _INTS, _FLOATS, types.int64), cache=True)
def _best_options(offset, weight, value, width):  # type: ignore[no-untyped-def]
    """One option of each group, of greatest value within `width - 1`: dynamic programming.

    best[o]: the greatest value at a weight of exactly o. The groups are taken from the last to
    the first, so that the way back meets the earliest first and can give it the most.
    """
    count = len(offset) - 1
    best = np.full(width, -np.inf)
    best[0] = 0.0
    option = np.zeros((count, width), np.int32)
    reach = 0
    for g in range(count - 1, -1, -1):
        improved = np.full(width, -np.inf)
        for k in range(offset[g], offset[g + 1]):
            w, v = weight[k], value[k]
            for o in range(w, min(reach + w, width - 1) + 1):
                if best[o - w] + v >= improved[o]:
                    improved[o] = best[o - w] + v
                    option[g, o] = k - offset[g]
        best = improved
        reach = min(reach + weight[offset[g + 1] - 1], width - 1)
    chosen = np.empty(count, np.int64)
    o = int(np.argmax(best))
    for g in range(count):
        chosen[g] = option[g, o]
        o -= weight[offset[g] + chosen[g]]
    return chosen
