"""optimus by hand, and against every allocation where curves bend one way."""

from itertools import product

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from policies.baselines.optimus import Optimus
from policies.problem import Policy, PolicyError
from tests.builders import job, problem, training
from tests.policies.baselines.laws import decided, sizes, why
from tests.strategies import problems


def test_is_a_policy():
    assert isinstance(Optimus(), Policy)
    assert (Optimus().name, Optimus().default_loaning, Optimus().interval_s) == (
        "optimus",
        "off",
        60.0,
    )


@pytest.mark.parametrize("interval_s", [0, -1, float("nan")])
def test_the_interval_is_positive(interval_s):
    with pytest.raises(PolicyError, match=f"interval_s is {interval_s}; use a positive number"):
        Optimus(interval_s=interval_s)


def test_bad_problems_are_refused_by_job_and_field():
    with pytest.raises(PolicyError, match="job a: epoch_s at 1 workers is nan"):
        Optimus().decide(problem([job("a", epoch_s=float("nan"))], [training(1)]), {})


def test_each_gpu_goes_to_the_largest_gain():
    """Remaining 60, 30, 20, 15 s and 100, 50, 33.3 s: gains 30, 10, 5 and 50, 16.7."""
    jobs = [job("a", (1, 4), epoch_s=60), job("b", (1, 3), epoch_s=100)]
    expected = [(1, 0), (1, 1), (1, 2), (2, 2), (2, 3), (3, 3), (4, 3), (4, 3)]
    for gpus, (a, b) in enumerate(expected, 1):
        decision = decided(Optimus(), problem(jobs, [training(gpus)]))
        assert sizes(decision) == {"a": a, "b": b}
    decision = decided(Optimus(), problem(jobs, [training(4)]))
    assert why(decision, "b") == (
        "starts on 2 workers: one more worker would save 16.7 s for each of its GPUs; "
        "it needs 1 GPUs, 0 are free"
    )


def test_remaining_work_weighs():
    jobs = [job("short", (1, 4)), job("long", (1, 4), epochs=100)]
    assert sizes(decided(Optimus(), problem(jobs, [training(5)]))) == {"short": 1, "long": 4}


def test_gains_count_by_gpu():
    """A worker of 3 GPUs that saves 12 s loses to one of 1 GPU that saves 5 s."""
    jobs = [job("wide", (1, 2), gpus=3, epoch_s=24), job("b", (1, 2), epoch_s=10)]
    assert sizes(decided(Optimus(), problem(jobs, [training(7)]))) == {"wide": 1, "b": 2}


def test_nobody_is_slowed_down_by_more_workers():
    decision = decided(Optimus(), problem([job("a", (1, 3), epoch_s=[8, 5, 6])], [training(3)]))
    assert sizes(decision) == {"a": 2}
    assert why(decision, "a") == (
        "starts on 2 workers: one more worker would save -1.0 s for each of its GPUs"
    )


def test_minima_go_in_the_order_of_arrival_whoever_runs():
    jobs = [job("a", (2, 4)), job("big", 4), job("runs", 2, running=2)]
    decision = decided(Optimus(), problem(jobs, [training(3)]))
    assert sizes(decision) == {"a": 3, "big": 0, "runs": 0}
    assert why(decision, "runs") == (
        "gives up its 2 workers: its minimum does not fit beside those of earlier jobs; "
        "it needs 2 GPUs, 0 are free"
    )


@given(st.lists(st.tuples(st.integers(1, 4), st.integers(1, 50)), max_size=4), st.integers(4, 12))
def test_where_gains_fall_the_sum_of_remaining_times_is_least(shapes, gpus):
    """Remaining times that fall as 1 / workers: no allocation has a smaller sum."""
    jobs = [job(str(row), (1, n), epochs=epochs) for row, (n, epochs) in enumerate(shapes)]
    case = problem(jobs, [training(gpus)])

    def total_s(workers):
        return sum(case.jobs.remaining_s(row, n) for row, n in enumerate(workers))

    possible = product(*(range(1, n + 1) for n, _ in shapes))
    least_s = min(total_s(workers) for workers in possible if sum(workers) <= gpus)
    found = decided(Optimus(), case)
    assert total_s(sizes(found).values()) == pytest.approx(least_s)


@given(problems(lost_servers=True))
def test_no_gpu_idles_that_a_job_with_work_left_could_use(case):
    jobs = case.jobs
    workers = np.array([*sizes(decided(Optimus(), case)).values()], dtype=int)
    free = case.servers.total_gpus - (workers * jobs.gpus_per_worker).sum()
    step = np.where(workers > 0, 1, jobs.min_workers) * jobs.gpus_per_worker
    wants = (workers < jobs.max_workers) & ((workers == 0) | (jobs.remaining_epochs > 0))
    assert (step > free)[wants].all()
