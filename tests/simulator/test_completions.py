"""The order in which jobs complete, by hand."""

import pytest
from hypothesis import given
from hypothesis import strategies as st

from raysched.simulator.completions import completion_order, order_tau, widest_swap_s
from tests.simulator.scenes import job, simulate


def completed(**epoch_s):
    """A history of jobs that start at once, each on a GPU, and take so long."""
    jobs = [job(name, epochs=1, epoch_s=seconds, workers=1) for name, seconds in epoch_s.items()]
    return simulate(jobs, (1, 4)).history


def test_jobs_stand_in_the_order_of_their_ends_ties_in_that_of_submission():
    assert completion_order(completed(a=30.0, b=10.0, c=20.0, d=10.0)) == ("b", "d", "c", "a")


def test_tau_counts_the_pairs_that_completed_in_the_other_order():
    measured = completed(a=10.0, b=20.0, c=30.0, d=40.0)
    assert order_tau(measured, completed(a=1.0, b=2.0, c=3.0, d=400.0)) == 1.0
    assert order_tau(measured, completed(a=20.0, b=10.0, c=30.0, d=40.0)) == pytest.approx(
        (5 - 1) / 6, abs=1e-4
    )
    assert order_tau(measured, completed(a=4.0, b=3.0, c=2.0, d=1.0)) == -1.0


def test_tau_is_over_the_jobs_that_finished_in_both():
    measured = completed(a=10.0, b=20.0, c=30.0)
    assert order_tau(measured, completed(a=10.0, c=5.0, e=1.0)) == -1.0
    assert order_tau(measured, completed(a=10.0, e=1.0)) is None
    assert order_tau(measured, completed(a=10.0, b=10.0, c=10.0)) is None


def test_the_widest_swap_is_between_the_measured_ends_of_jobs_that_changed_places():
    measured = completed(a=10.0, b=20.0, c=35.0, d=40.0)
    assert widest_swap_s(measured, completed(a=1.0, b=2.0, c=3.0, d=400.0)) == 0.0
    assert widest_swap_s(measured, completed(a=10.0, b=20.0, c=41.0, d=40.0)) == 5.0
    assert widest_swap_s(measured, completed(a=20.0, b=10.0, c=41.0, d=40.0)) == 10.0
    assert widest_swap_s(measured, completed(a=30.0, b=20.0, c=25.0, d=40.0)) == 25.0
    assert widest_swap_s(measured, completed(a=10.0)) is None


@given(st.lists(st.tuples(*2 * [st.integers(1, 9)]), min_size=2, max_size=4))
def test_no_pair_that_changed_places_is_wider(ends_s):
    names = "abcd"[: len(ends_s)]
    measured, simulated = (
        completed(**dict(zip(names, map(float, column), strict=True)))
        for column in zip(*ends_s, strict=True)
    )
    swaps = [m - n for m, s in ends_s for n, t in ends_s if m > n and s < t]
    assert widest_swap_s(measured, simulated) == max(swaps, default=0)


def test_jobs_that_never_fit_did_not_complete():
    jobs = [job("huge", workers=9), job("small", workers=1)]
    assert completion_order(simulate(jobs, (1, 4)).history) == ("small",)
