"""oasis, the model and the market: work, utilities, prices by hand, and bad input (002 §III-IV)."""

import math

import numpy as np
import pytest

from policies.oasis.market import Estimate, PriceRange, empty_cluster
from policies.oasis.model import NEVER, sigmoid
from policies.oasis.schedule import best_schedule
from policies.problem import PolicyError
from tests.policies.oasis_cases import LITERAL, ps_jobs


def test_the_work_counts_gradients_both_ways():
    jobs = ps_jobs(
        epochs=3, chunks=4, minibatches=5, minibatch_slots=0.02, gradient=0.01, worker=(1.0, 0.5)
    )
    assert jobs.work_slots == [4]  # 3 * 4 * 5 * (0.02 + 2 * 0.01 / 0.5) = 3.6
    assert jobs.fastest_slots == [1]


def test_parameter_servers_match_the_bandwidth_and_are_no_more_than_workers():
    jobs = ps_jobs(chunks=4, worker=(1.0, 1.0), ps=(0.0, 2.0))
    assert jobs.request(0, 1).ps_of.tolist() == [0, 1, 1, 2, 2]
    narrow = ps_jobs(chunks=2, worker=(1.0, 1.0), ps=(0.0, 0.6))
    assert narrow.request(0, 1).ps_of.tolist() == [0, NEVER, NEVER]


@pytest.mark.parametrize(
    ("steepness", "early", "late"),
    [
        (0.0, 5.0, 5.0),  # time-insensitive: the same whenever it ends
        (0.01, 5.05, 4.95),  # time-sensitive, from
        (1.0, 8.81, 1.19),  # to
        (4.0, 10.0, 0.0),  # time-critical, from
        (6.0, 10.0, 0.0),  # to
    ],
)
def test_the_sigmoid_of_the_three_kinds_of_jobs(steepness, early, late):
    """Two slots before its target, then two after; half at the target (002 §V-A)."""
    assert sigmoid(10.0, steepness, 3.0, 3.0) == 5.0
    assert sigmoid(10.0, steepness, 3.0, 1.0) == pytest.approx(early, abs=0.01)
    assert sigmoid(10.0, steepness, 3.0, 5.0) == pytest.approx(late, abs=0.01)
    assert sigmoid(10.0, steepness, 3.0, 3e5) >= 0.0


def test_prices_of_an_empty_a_half_full_and_an_exhausted_server():
    """U = max f / w = 10 / 2; need = 4 worker-slots * 3; 1 / eta = 12 / (2 slots * 8)."""
    jobs = ps_jobs(epochs=4, worth=20.0, worker=(2.0, 1.0), ps=(0.0, 2.0))
    market = empty_cluster(jobs, np.array([[4.0, 4.0]]), np.array([[0.0, 9.0]]), 2).workers
    low = 10 / 12 * (12 / 16) / 4
    assert market.price[0, 0] == pytest.approx([low, low])
    half = market.book(np.array([[1], [0]]), jobs.worker[0])
    assert half.price[0, 0, 0] == pytest.approx(math.sqrt(low * 5))
    assert half.book(np.array([[1], [0]]), jobs.worker[0]).price[0, 0, 0] == pytest.approx(5)
    assert half.price[1, 0] == pytest.approx([low, low])
    assert market.price[0, 0, 0] == pytest.approx(low)  # a value: booking makes another


def test_estimates_scale_u_and_l_and_keep_l_up():
    jobs = ps_jobs({"steepness": 5.0, "target_slots": 1.0}, {"epochs": 5})
    capacity = np.array([[4.0, 4.0]])

    def ends(**parameters):
        market = empty_cluster(jobs, capacity, capacity, 300, Estimate(**parameters)).workers
        return market.low[0], market.high[0]

    low, high = ends(least_share=0.0)
    assert low < 1e-200
    assert ends(least_share=0.0, low_factor=2.0, high_factor=3.0) == pytest.approx(
        (2 * low, 3 * high)
    )
    assert ends(least_share=0.0, price_floor=1e-3)[0] == pytest.approx(high / 1000)
    assert low < ends(least_share=0.1)[0] < ends(least_share=1.0)[0]


def test_the_range_over_more_jobs_is_wider_whichever_came_first():
    one = PriceRange(np.array([1.0, 4.0]), low=0.1, need=9.0)
    other = PriceRange(np.array([2.0, 3.0]), low=0.2, need=5.0)
    for both in (one.widened(other), other.widened(one)):
        assert (both.high.tolist(), both.low, both.need) == ([2.0, 4.0], 0.1, 5.0)


def test_an_empty_population_has_prices_too():
    none = np.zeros((0, 2))
    low, high = PriceRange.of(none[:, 0], none[:, 0], none, none[:, 0]).ends(9.0, Estimate())
    assert (low == high).all()


@pytest.mark.filterwarnings("error")
def test_a_job_worth_nothing_that_wants_nothing_of_a_resource_sets_no_price():
    prices = PriceRange.of(np.zeros(1), np.zeros(1), np.array([[1.0, 0.0]]), np.ones(1))
    assert prices.high.tolist() == [0.0, 0.0]


@pytest.mark.parametrize("reading", ["work", "fewest"])
def test_the_readings_of_the_parameter_servers_price(reading):
    jobs = ps_jobs(epochs=8, chunks=1, ps=(0.0, 4.0))
    market = empty_cluster(jobs, np.ones((1, 2)), np.ones((1, 2)) * 9, 1, LITERAL, reading).ps
    slots = {"work": 8, "fewest": 2}[reading]
    need = slots * 4
    assert market.low[1] == pytest.approx(5 / need * min(1, need / 18) / 4)


@pytest.mark.parametrize(
    ("column", "message"),
    [
        ({"arrival_slot": -1}, "job 1: arrival_slot must be from 0"),
        ({"epochs": 0}, "job 1: epochs must be from 1"),
        ({"minibatch_slots": math.nan}, "job 1: minibatch_slots must be finite and positive"),
        ({"worth": -1.0}, "job 1: worth must be finite and positive"),
        ({"steepness": math.inf}, "job 1: steepness must be finite and from 0"),
        ({"target_slots": math.inf}, "job 1: target_slots must be finite"),
        ({"worker": (-1.0, 1.0)}, "job 1: worker must be finite and from 0"),
        (
            {"worker": (1.0, 0.0), "gradient": 1.0},
            "job 1: bandwidth of a worker must be positive where there are gradients to send",
        ),
        (
            {"ps": (1.0, 0.0)},
            "job 1: bandwidth of a parameter server must be positive where its workers' is",
        ),
    ],
)
def test_jobs_that_make_no_sense_are_refused(column, message):
    with pytest.raises(PolicyError, match=f"^{message}$"):
        ps_jobs({}, column)


@pytest.mark.parametrize(
    ("parameters", "message"),
    [
        ({"high_factor": 0.0}, "high_factor is 0.0; use a positive number"),
        ({"least_share": 1.5}, "least_share is 1.5; use 0 to 1"),
        ({"price_floor": math.nan}, "price_floor is nan; use 0 to 1"),
    ],
)
def test_estimates_that_make_no_sense_are_refused(parameters, message):
    with pytest.raises(PolicyError, match=message):
        Estimate(**parameters)


def test_clusters_and_spans_that_make_no_sense_are_refused():
    jobs, fine = ps_jobs({}, {"arrival_slot": 2}), np.ones((2, 2))
    with pytest.raises(PolicyError, match=r"^slots is 0; use 1 or more$"):
        empty_cluster(jobs, fine, fine, 0)
    for amount in (math.nan, math.inf, -1.0):
        bad = np.array([[1.0, 1.0], [1.0, amount]])
        with pytest.raises(PolicyError, match=r"^server 1: worker_capacity must be finite and "):
            empty_cluster(jobs, bad, fine, 3)
        with pytest.raises(PolicyError, match=r"^server 1: ps_capacity must be finite and from 0$"):
            empty_cluster(jobs, fine, bad, 3)
    with pytest.raises(PolicyError, match=r"^job 1: arrival_slot is 2; the span has 2 slots$"):
        jobs.request(1, 2)


def test_work_beyond_all_measure_finds_no_schedule():
    jobs = ps_jobs(minibatch_slots=1e300)
    assert jobs.work_slots == jobs.fastest_slots == [2**53]
    cluster = empty_cluster(jobs, np.ones((1, 2)), np.ones((1, 2)), 3)
    assert best_schedule(jobs.request(0, 3), cluster) is None


def test_a_hopeless_job_does_not_push_l_down():
    """It cannot end before it is worthless, whatever it gets."""
    hopeless = {"epochs": 9, "steepness": 50.0, "target_slots": 0.0}
    capacity = np.full((1, 2), 4.0)
    market = empty_cluster(ps_jobs({}, hopeless), capacity, capacity, 300).workers
    assert (market.low > 1e-7).all()
