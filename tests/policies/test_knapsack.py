"""The multiple-choice knapsack against exhaustive search and the plain dynamic program."""

import itertools

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from policies.knapsack import NONE, Groups, solve


def groups(*items):
    """One list of (weight, value) for each group."""
    flat = [item for group in items for item in group]
    return Groups(
        offset=np.cumsum([0, *map(len, items)]),
        weight=np.array([weight for weight, _ in flat], dtype=np.int64),
        value=np.array([value for _, value in flat], dtype=float),
    )


def chosen(items, solution):
    """The (weight, value) chosen in each group, (0, 0) for none."""
    flat = [item for group in items for item in group]
    return [flat[i] if i != NONE else (0, 0.0) for i in solution.choice]


def by_trying_all(items, capacity):
    """The best choice by value, then least weight, then most for the earliest group."""
    fitting = (
        choice
        for choice in itertools.product(*([(0, 0.0), *group] for group in items))
        if sum(weight for weight, _ in choice) <= capacity
    )
    return list(
        max(
            fitting,
            key=lambda choice: (
                sum(value for _, value in choice),
                -sum(weight for weight, _ in choice),
                [weight for weight, _ in choice],
            ),
        )
    )


def by_plain_program(items, capacity):
    """The best value: the textbook dynamic program over all weights."""
    best = np.zeros(capacity + 1)
    for group in items:
        before = best.copy()
        for weight, value in group:
            if weight <= capacity:
                best[weight:] = np.maximum(best[weight:], before[: capacity + 1 - weight] + value)
    return best[-1]


def ascending(items):
    return sorted(items, key=lambda item: item[0])


weights = st.integers(1, 12)
# Whole numbers: sums are exact and ties are many.
whole = st.lists(st.tuples(weights, st.integers(-3, 9).map(float)), max_size=5).map(ascending)
# Concave gains, as linear scaling makes them: T w / (w + w_min), w workers of D GPUs.
concave = st.builds(
    lambda time, low, span, gpus: [(w * gpus, time * w / (w + low)) for w in range(1, span + 1)],
    st.floats(1, 1e5),
    st.integers(1, 8),
    st.integers(1, 20),
    st.sampled_from([1, 2, 3, 4, 8]),
)


def test_takes_at_most_one_item_of_a_group():
    items = [[(1, 5.0), (2, 6.0)], [(1, 4.0)]]
    assert chosen(items, solve(groups(*items), 2)) == [(1, 5.0), (1, 4.0)]


def test_an_item_inside_the_hull_can_be_the_best():
    items = [[(2, 1.0), (5, 10.0)]]
    assert chosen(items, solve(groups(*items), 4)) == [(2, 1.0)]


def test_leaves_alone_what_has_no_positive_value():
    items = [[(1, 0.0), (2, -1.0)]]
    assert chosen(items, solve(groups(*items), 9)) == [(0, 0.0)]


@pytest.mark.parametrize("capacity", [0, -2])
def test_no_capacity_takes_nothing(capacity):
    assert solve(groups([(1, 5.0)]), capacity).choice.tolist() == [NONE]


def test_no_groups_are_worth_nothing():
    assert solve(groups(), 5).value == 0.0


def test_of_equal_values_the_lighter_then_the_earlier_group():
    lighter = [[(3, 5.0)], [(2, 5.0)]]
    assert chosen(lighter, solve(groups(*lighter), 3)) == [(0, 0.0), (2, 5.0)]
    alike = [[(2, 5.0)], [(2, 5.0)], [(2, 5.0)]]
    assert chosen(alike, solve(groups(*alike), 5)) == [(2, 5.0), (2, 5.0), (0, 0.0)]


@pytest.mark.parametrize(
    ("items", "message"),
    [
        ([(1, float("nan"))], "value: each item needs a finite one"),
        ([(0, 1.0)], "weight: at least 1, and ascending within a group"),
        ([(2, 1.0), (1, 1.0)], "weight: at least 1, and ascending within a group"),
    ],
)
def test_refuses_items_that_make_no_sense(items, message):
    with pytest.raises(ValueError, match=message):
        groups(items)


def test_beyond_its_cap_it_says_how_far_off_it_may_be():
    items = [[(3, 3.0), (5, 6.0)], [(3, 3.0), (5, 6.0)], [(2, 1.5)]]
    capped = solve(groups(*items), 9, core_cells=1)
    exact = solve(groups(*items), 9)
    assert not capped.optimal and capped.value <= exact.value <= capped.bound
    assert exact.optimal and exact.value == exact.bound


@settings(max_examples=400)
@given(st.lists(whole, max_size=4), st.integers(0, 40))
def test_equals_exhaustive_search_ties_included(items, capacity):
    solution = solve(groups(*items), capacity)
    best = by_trying_all(items, capacity)
    assert [weight for weight, _ in chosen(items, solution)] == [weight for weight, _ in best]
    assert solution.value == sum(value for _, value in best)


@settings(max_examples=200)
@given(st.lists(concave, min_size=1, max_size=30), st.integers(0, 400))
def test_equals_the_plain_program_on_scaling_jobs(items, capacity):
    solution = solve(groups(*items), capacity)
    assert sum(weight for weight, _ in chosen(items, solution)) <= capacity
    assert solution.value == pytest.approx(by_plain_program(items, capacity), rel=1e-9)
    assert solution.optimal


@given(st.lists(whole, max_size=40), st.integers(0, 100))
def test_equals_the_plain_program_on_any_values(items, capacity):
    assert solve(groups(*items), capacity).value == by_plain_program(items, capacity)
