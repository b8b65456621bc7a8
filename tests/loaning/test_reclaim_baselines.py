"""The plain ways of choosing servers: by hand on Fig. 5, and what holds of all."""

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from loaning.orchestrator import CHOOSERS, Aryl
from loaning.problem import NO_MEMORY
from loaning.reclaim import reclaim
from loaning.reclaim_baselines import (
    choose_largest_size,
    choose_random,
    choose_smallest_count,
    choose_smallest_size,
    choose_static,
)
from tests.loaning.builders import on_loan, problem

BASELINES = {
    "random": choose_random,
    "smallest_count_first": choose_smallest_count,
    "static": choose_static,
    "smallest_size_first": choose_smallest_size,
    "largest_size_first": choose_largest_size,
}

# 004 Fig. 5 with an empty server and one that is half in use.
LENT = on_loan(
    ("1", "2", "3", "4", "5", "6", "empty", "half"),
    {
        "a": {"1": 8, "2": 8},
        "b": {"3": 8},
        "c": {"4": 8, "5": 2},
        "d": {"5": 2, "6": 8},
        "e": {"half": 2},
    },
    gpus={"e": 2},
)


def servers(choose, count, lent=LENT):
    return reclaim(lent, count, choose).servers


def test_smallest_count_first_is_blind_to_the_other_servers_of_a_job():
    assert servers(choose_smallest_count, 4) == ("empty", "1", "2", "3")
    assert servers(choose_smallest_count, 8)[-1] == "5"


def test_static_goes_by_index():
    assert servers(choose_static, 3) == ("empty", "1", "2")


def test_smallest_size_first_counts_gpus_in_use():
    assert servers(choose_smallest_size, 4) == ("empty", "5", "half", "1")


def test_largest_size_first_is_the_other_way_round_but_for_what_stands_empty():
    assert servers(choose_largest_size, 3) == ("empty", "1", "2")
    assert servers(choose_largest_size, 8)[-2:] == ("5", "half")


def test_random_answers_the_same_question_the_same_way():
    assert servers(choose_random, 8) == servers(choose_random, 8)
    orders = {
        servers(choose_random, 3, on_loan("abc", {"j": {"a": n, "b": 1, "c": 1}}))
        for n in range(1, 50)
    }
    assert len(orders) == 6


@pytest.mark.parametrize("name", BASELINES)
def test_each_is_a_way_of_reclaiming_of_the_loaning_aryl(name):
    assert CHOOSERS[name] is BASELINES[name]
    lent = on_loan(("i1", "i2"), {"j": {"i2": 1}})
    rising = problem([100.0] * 20, serving=1, lent=lent, server_rps=100.0)
    decision, _ = Aryl(reclaim=name).decide(rising, NO_MEMORY)
    assert decision.reclaim == ("i1",)


@st.composite
def loans(draw):
    width = draw(st.integers(0, 6))
    row = st.lists(st.integers(0, 3), min_size=width, max_size=width)
    standing = draw(st.lists(row, max_size=5))
    names = [f"s{number}" for number in range(width)]
    return on_loan(
        names,
        {f"j{number}": dict(zip(names, each, strict=True)) for number, each in enumerate(standing)},
        gpus={f"j{number}": draw(st.integers(1, 4)) for number in range(len(standing))},
    )


@given(loans(), st.integers(-1, 8), st.sampled_from(sorted(BASELINES)))
def test_as_many_as_asked_for_or_all_there_are_and_the_empty_ones_first(lent, count, name):
    chosen = BASELINES[name](lent, count).servers
    assert len(chosen) == len(set(chosen)) == min(max(count, 0), len(lent.servers))
    occupied = lent.workers.any(axis=0)[np.array(chosen, dtype=int)]
    assert (occupied[:-1] <= occupied[1:]).all()
    assert not len(chosen) or occupied.sum() == max(0, len(chosen) - (~lent.workers.any(0)).sum())


def test_aryl_preempts_fewest_and_small_servers_cost_less_than_large_ones():
    """Of the order in Table 12, Static > LSF > SSF > Aryl, what holds wherever jobs stand."""
    draw = np.random.default_rng(1)
    preempted = dict.fromkeys(["aryl", *BASELINES], 0)
    for _ in range(100):
        names = [f"s{number}" for number in range(12)]
        standing = {
            f"j{number}": dict.fromkeys(draw.choice(names, draw.integers(1, 4), replace=False), 1)
            for number in range(10)
        }
        lent = on_loan(names, standing)
        for name in preempted:
            preempted[name] += len(reclaim(lent, 4, CHOOSERS[name]).preempted)
    assert preempted["aryl"] == min(preempted.values())
    assert preempted["smallest_size_first"] < preempted["largest_size_first"]
