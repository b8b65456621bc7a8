"""How workers share a batch by their speed."""

import math
from itertools import pairwise

import pytest
from hypothesis import given
from hypothesis import strategies as st

from raysched.runtime import shares

SPEEDS = st.lists(st.floats(1e-3, 1e6), min_size=1, max_size=40).map(tuple)
BATCHES = st.integers(0, 100_000)


@given(BATCHES, SPEEDS)
def test_shares_are_the_proportion_to_less_than_a_sample(batch, speeds):
    samples = shares.split(batch, speeds)
    assert sum(samples) == batch
    exact = [batch * speed / math.fsum(speeds) for speed in speeds]
    assert all(abs(own - ideal) < 1 + 1e-6 for own, ideal in zip(samples, exact, strict=True))


@given(BATCHES, SPEEDS)
def test_nobody_has_more_than_one_that_is_faster(batch, speeds):
    samples = shares.split(batch, speeds)
    exact = [batch * speed / math.fsum(speeds) for speed in speeds]
    ranks = sorted(range(len(speeds)), key=lambda rank: exact[rank])
    for slow, fast in pairwise(ranks):
        assert samples[slow] <= samples[fast] or exact[slow] == exact[fast]


@given(BATCHES, SPEEDS)
def test_ranges_are_the_batch_one_after_the_other(batch, speeds):
    ranges = [shares.own_range(batch, speeds, rank) for rank in range(len(speeds))]
    assert [begin for begin, _ in ranges] == [0, *(end for _, end in ranges[:-1])]
    assert ranges[-1][1] == batch


@given(BATCHES, st.integers(1, 40))
def test_equal_workers_have_what_a_deal_of_cards_gives(batch, workers):
    dealt = tuple(len(range(rank, batch, workers)) for rank in range(workers))
    assert shares.split(batch, (1.0,) * workers) == dealt


@given(
    st.lists(st.floats(0.1, 1.0), min_size=2, max_size=8).map(tuple),
    st.floats(0.0, 0.4),
)
def test_steps_take_all_workers_equally_long_after_a_few_epochs(rates, fixed_s):
    """Where a step takes some time whatever its share, which nobody tells."""
    batch = 4096
    known: list[float | None] = [None] * len(rates)
    per_sample_s = [1 / (batch * rate) for rate in rates]
    for _ in range(24):
        speeds = shares.completed(known, (1.0,) * len(rates))
        samples = shares.split(batch, speeds)
        step_s = [fixed_s + own * s for own, s in zip(samples, per_sample_s, strict=True)]
        known = [
            shares.smoothed(before, own / seconds)
            for before, own, seconds in zip(known, samples, step_s, strict=True)
        ]
    ideal_s = fixed_s + 1 / sum(rates)
    assert max(step_s) == pytest.approx(ideal_s, rel=0.02)


def test_who_was_not_seen_yet_is_as_fast_as_its_gpus_say_beside_the_others():
    assert shares.completed([None, None], [1.0, 0.25]) == (1.0, 0.25)
    assert shares.completed([80.0, None, 40.0], [1.0, 0.25, 0.5]) == (80.0, 20.0, 40.0)
    assert shares.smoothed(None, 8.0) == 8.0
    assert shares.smoothed(4.0, 8.0) == 6.0
