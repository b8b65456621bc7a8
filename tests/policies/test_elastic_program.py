"""The program of paper 003 (3)-(5): the recurrence, exhaustive search, and what always holds."""

import itertools

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from policies.elastic_program import Sizes, solve, solve_by_recurrence


def sizes(*jobs):
    """One list of (GPUs, value) for each job."""
    flat = [size for job in jobs for size in job]
    return Sizes(
        offset=np.cumsum([0, *map(len, jobs)]),
        gpus=np.array([gpus for gpus, _ in flat], dtype=np.int64),
        value=np.array([value for _, value in flat], dtype=float),
    )


def by_trying_all(jobs, capacity):
    """The greatest value of one size a job within the capacity, or None."""
    values = (
        sum(value for _, value in choice)
        for choice in itertools.product(*jobs)
        if sum(gpus for gpus, _ in choice) <= capacity
    )
    return max(values, default=None)


def curve(values):
    return list(enumerate(values, start=1))


def job_of(values):
    """The sizes of one job: some of 1 to 8 workers of 1 to 3 GPUs each."""
    return st.builds(
        lambda gpus, picked: [(workers * gpus, value) for workers, value in sorted(picked.items())],
        st.integers(1, 3),
        st.dictionaries(st.integers(1, 8), values, min_size=1, max_size=6),
    )


# Whole numbers: sums are exact and ties are many.
programs = st.lists(
    st.one_of(job_of(st.integers(-3, 9).map(float)), job_of(st.floats(0, 10))), max_size=4
)
alike = st.builds(
    lambda job, copies, other: [job] * copies + [other],
    job_of(st.floats(0, 10)),
    st.integers(1, 12),
    job_of(st.floats(0, 10)),
)


def test_the_recurrence_by_hand():
    """P(1, 4) = (1, 3, 3.5, 3.6); P(2, 4) = max(1 + 3.5, 1.9 + 3, 4 + 1) = 5 at g = 3."""
    program = sizes(curve([1, 3, 3.5, 3.6]), curve([1, 1.9, 4, 4.1]))
    assert solve_by_recurrence(program, 4) == ([0, 6], 5.0)
    found = solve(program, 4)
    assert (found.choice.tolist(), found.value, found.optimal) == ([0, 6], 5.0, True)


def test_marginal_selection_would_miss_a_later_step():
    """Of the first GPUs beyond the smallest, job 1's gains more; three for job 2 gain most."""
    program = sizes(curve([1, 1.5]), curve([1, 1, 1, 4]))
    assert solve(program, 5).choice.tolist() == [0, 5]


def test_gpus_that_bring_nothing_are_left_alone():
    assert solve(sizes(curve([1, 0.9, 0.8])), 3).choice.tolist() == [0]


def test_of_equal_values_the_earliest_job_gets_most():
    assert solve(sizes(curve([1, 2]), curve([1, 2])), 3).choice.tolist() == [1, 2]


def test_no_jobs():
    assert solve(sizes(), 4).value == 0.0


@pytest.mark.parametrize("method", [solve, solve_by_recurrence])
def test_smallest_sizes_that_exceed_the_capacity(method):
    with pytest.raises(ValueError, match="smallest sizes"):
        method(sizes([(2, 1.0)], [(3, 1.0)]), 4)


@settings(max_examples=400)
@given(programs, st.integers(0, 40))
def test_agrees_with_the_recurrence_and_with_trying_all(jobs, capacity):
    expected = by_trying_all(jobs, capacity)
    program = sizes(*jobs)
    if expected is None:
        with pytest.raises(ValueError):
            solve(program, capacity)
        return
    found = solve(program, capacity)
    assert found.optimal
    assert found.value == found.bound == pytest.approx(expected)
    assert program.gpus[found.choice].sum() <= capacity
    assert (program.job[found.choice] == np.arange(len(jobs))).all()
    if jobs:
        choice, value = solve_by_recurrence(program, capacity)
        assert value == pytest.approx(expected)
        assert program.value[choice].sum() == pytest.approx(expected)


@settings(max_examples=200)
@given(alike, st.integers(0, 60))
def test_many_jobs_that_are_alike(jobs, beyond):
    program = sizes(*jobs)
    capacity = int(program.smallest_gpus.sum()) + beyond
    assert solve(program, capacity).value == pytest.approx(
        solve_by_recurrence(program, capacity)[1]
    )


@settings(max_examples=20)
@given(st.integers(0, 2**32 - 1))
def test_concave_curves_take_the_best_marginals(seed):
    draw = np.random.default_rng(seed)
    count, most, capacity = 300, 16, 1000
    rates = np.arange(1, most + 1) ** draw.uniform(0.3, 1, count)[:, np.newaxis]
    found = solve(sizes(*map(curve, rates.tolist())), capacity)
    marginals = np.sort(np.diff(rates, axis=1).ravel())[::-1]
    assert found.optimal
    assert found.value == pytest.approx(rates[:, 0].sum() + marginals[: capacity - count].sum())


@settings(max_examples=10)
@given(st.integers(0, 2**32 - 1))
def test_large_programs_of_steps_are_solved_within_their_bound(seed):
    """400 jobs whose rate steps with ceil(b / k), as the paper's does."""
    draw = np.random.default_rng(seed)
    gpus = np.arange(1, 33)
    share = np.ceil(draw.choice([32, 64, 128], 400)[:, np.newaxis] / gpus)
    rates = 1 / (share + draw.uniform(0, 30, 400)[:, np.newaxis] * np.log2(gpus + 1))
    program = sizes(*map(curve, (rates / rates[:, :1]).tolist()))
    found, again = solve(program, 1000), solve(program, 1000)
    assert found.optimal and found.value == found.bound
    assert program.gpus[found.choice].sum() <= 1000
    assert program.value[found.choice].sum() == pytest.approx(found.value)
    assert (found.choice == again.choice).all()
