"""drf by hand, and max-min fairness against every allocation."""

from itertools import product

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from policies.baselines.drf import Drf
from policies.problem import Policy, PolicyError
from tests.builders import job, on_loan, problem, training
from tests.policies.baselines.laws import decided, sizes, why
from tests.strategies import problems


def test_is_a_policy():
    assert isinstance(Drf(), Policy)
    assert (Drf().name, Drf().default_loaning, Drf().interval_s) == ("drf", "off", None)


def test_bad_problems_are_refused_by_job_and_field():
    with pytest.raises(PolicyError, match="job a: epoch_s at 1 workers is nan"):
        Drf().decide(problem([job("a", epoch_s=float("nan"))], [training(1)]), {})


def test_shares_are_equal_and_what_one_cannot_use_goes_to_the_others():
    jobs = [job("a", (1, 9)), job("b", (1, 2)), job("c", (1, 9), running=8)]
    decision = decided(Drf(), problem(jobs, [training(8), on_loan(2)]))
    assert sizes(decision) == {"a": 4, "b": 2, "c": 4}
    assert why(decision, "b") == "starts on 2 workers: it can use no more"
    assert why(decision, "c") == (
        "shrinks from 8 to 4 workers: 4 of 10 GPUs, a share of 0.400; it needs 1 GPUs, 0 are free"
    )


def test_shares_count_gpus_not_workers():
    jobs = [job("wide", (1, 9), gpus=3), job("b", (1, 9))]
    assert sizes(decided(Drf(), problem(jobs, [training(8)]))) == {"wide": 1, "b": 5}


def test_ties_go_to_the_earliest_submitted():
    jobs = [job(name, (1, 9)) for name in "abc"]
    assert sizes(decided(Drf(), problem(jobs, [training(4)]))) == {"a": 2, "b": 1, "c": 1}


def test_a_job_whose_minimum_does_not_fit_waits_and_the_others_go_on():
    jobs = [job("a", (1, 9)), job("big", 5), job("c", (1, 9))]
    decision = decided(Drf(), problem(jobs, [training(4)]))
    assert sizes(decision) == {"a": 2, "big": 0, "c": 2}
    assert why(decision, "big") == (
        "waits: 0 of 4 GPUs, a share of 0.000; it needs 5 GPUs, 0 are free"
    )


@given(st.lists(st.integers(1, 4), max_size=4), st.integers(0, 10))
def test_is_max_min_fair_on_gpu_counts(most, gpus):
    """Of all allocations the one whose smallest share is largest, then the next smallest, ..."""
    case = problem([job(str(row), (1, n)) for row, n in enumerate(most)], [training(gpus)])
    possible = product(*(range(n + 1) for n in most))
    fairest = max(sorted(workers) for workers in possible if sum(workers) <= gpus)
    assert sorted(sizes(decided(Drf(), case)).values()) == fairest


@given(problems(lost_servers=True))
def test_nobody_envies(case):
    """The last step of a job that has more is of no use to one that has less."""
    jobs = case.jobs
    workers = np.array([*sizes(decided(Drf(), case)).values()], dtype=int)
    gpus = workers * jobs.gpus_per_worker
    last = np.where(workers > jobs.min_workers, 1, workers) * jobs.gpus_per_worker
    step = np.where(workers > 0, 1, jobs.min_workers) * jobs.gpus_per_worker
    free = case.servers.total_gpus - gpus.sum()
    for poor, rich in product(range(len(jobs)), repeat=2):
        less = (gpus[poor], poor) < (gpus[rich] - last[rich], rich)
        if less and workers[poor] < jobs.max_workers[poor]:
            assert last[rich] + free < step[poor]
