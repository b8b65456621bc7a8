"""Speeds by number of workers, as the papers state them."""

import pytest
from hypothesis import given
from hypothesis import strategies as st

from raysched.simulator.models import (
    Linear,
    LossPastMidpoint,
    LossPerDoubling,
    Measured,
    SerialParallel,
    epoch_curve,
)


def test_each_doubling_keeps_four_fifths():
    speeds = [LossPerDoubling().speed(k) for k in (1, 2, 4, 8)]
    assert speeds == pytest.approx([1.0, 1.6, 2.56, 4.096])


def test_the_serial_part_does_not_shrink():
    assert SerialParallel(0.1).speed(1) == 1.0
    assert SerialParallel(0.1).speed(9) == pytest.approx(5.0)


def test_past_its_midpoint_a_job_loses_a_tenth_more_with_each_worker():
    scaling = LossPastMidpoint(2, 6)
    speeds = [scaling.speed(k) for k in (2, 4, 5, 6)]
    assert speeds == pytest.approx([2.0, 4.0, 5 * 0.9, 6 * 0.8])


def test_between_two_measured_sizes_speed_lies_on_the_line():
    measured = Measured((1, 2, 4), (3.0, 5.0, 6.0))
    assert [measured.speed(k) for k in (1, 2, 3, 4, 8)] == [3.0, 5.0, 5.5, 6.0, 6.0]


def test_an_epoch_is_an_equal_part_of_the_work():
    assert epoch_curve(Linear(), 120.0, 4, (1, 3)) == pytest.approx((30.0, 15.0, 10.0))


@given(
    scaling=st.sampled_from(
        [Linear(), LossPerDoubling(), SerialParallel(), LossPastMidpoint(1, 64)]
    ),
    workers=st.integers(1, 64),
)
def test_no_scaling_is_above_linear(scaling, workers):
    assert 0 < scaling.speed(workers) <= workers + 1e-9
