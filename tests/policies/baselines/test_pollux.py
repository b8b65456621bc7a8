"""pollux by hand, and its search against every allocation."""

import json
from dataclasses import replace
from itertools import product

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from policies.baselines.pollux import Pollux
from policies.problem import NO_MEMORY, Policy, PolicyError
from tests.builders import job, problem, training
from tests.policies.baselines.laws import decided, sizes, why
from tests.policies.test_ffdl import with_batches
from tests.strategies import problems


def test_is_a_policy():
    assert isinstance(Pollux(), Policy)
    assert (Pollux().name, Pollux().default_loaning, Pollux().interval_s) == (
        "pollux",
        "off",
        60.0,
    )


@pytest.mark.parametrize(
    ("parameters", "error"),
    [
        ({"interval_s": 0}, "interval_s is 0; use a positive number of seconds, or None"),
        ({"generations": 0}, "generations is 0; use 1 or more"),
        ({"population": 1}, "population is 1; use 2 or more"),
    ],
)
def test_parameters_make_sense(parameters, error):
    with pytest.raises(PolicyError, match=error):
        Pollux(**parameters)


def test_bad_problems_are_refused():
    with pytest.raises(PolicyError, match="job a: epoch_s at 1 workers is nan"):
        Pollux().decide(problem([job("a", epoch_s=float("nan"))], [training(1)]), NO_MEMORY)
    crowd = problem([job(f"j{n}") for n in range(300)], [training(1000)])
    with pytest.raises(PolicyError, match="up to 250000 jobs x GPUs, not 300 x 1000; use optimus"):
        Pollux().decide(crowd, NO_MEMORY)


def test_no_jobs_and_no_gpus():
    assert sizes(decided(Pollux(), problem([], [training(4)]))) == {}
    assert sizes(decided(Pollux(), problem([job("a", running=1)], []))) == {"a": 0}


def test_a_job_that_runs_is_paused_for_others_unless_none_may_be():
    waits = {f"w{n}": 0 for n in range(8)}
    case = problem([job("a", (8, 8), running=8), *map(job, waits)], [training(8)])
    assert sizes(decided(Pollux(), case)) == {"a": 0, **dict.fromkeys(waits, 1)}
    assert sizes(decided(Pollux(pauses=False), case)) == {"a": 8, **waits}


@given(problems())
@settings(max_examples=30)
def test_no_other_job_has_what_running_jobs_keep(case):
    policy = Pollux(generations=3, population=8, pauses=False)
    decision = decided(policy, case)
    jobs, total = case.jobs, case.servers.total_gpus
    runs = jobs.workers > 0
    if (jobs.base_gpus[runs]).sum() <= total:
        assert all(decision.allocations[jobs.ids[row]].workers for row in np.flatnonzero(runs))


def running(name, size, epoch_s, **rest):
    return job(name, (1, len(epoch_s)), epoch_s=epoch_s, running=size, **rest)


def test_gpus_go_where_they_speed_up_relative_to_the_fair_share():
    """Fair: 3 of 6 each. a is linear, b gains nothing from its third: 4 + 2 is 4/3 and 1."""
    jobs = [running("a", 3, [12, 6, 4, 3, 2.4]), running("b", 3, [12, 6, 6, 6, 6])]
    decision = decided(Pollux(), problem(jobs, [training(6)]))
    assert sizes(decision) == {"a": 4, "b": 2}
    assert decision.objective == pytest.approx(2 / (1 / (4 / 3 + 0.001) + 1 / 1.001))
    assert why(decision, "a") == (
        "grows from 3 to 4 workers: 1.33 times as fast as on its fair share of 3 workers, "
        "at most 5 for now; of all jobs 1.144 on average"
    )


def test_nobody_is_left_out_for_the_sake_of_the_others():
    jobs = [job(name, (1, 8)) for name in "abc"]
    decision = decided(Pollux(), problem(jobs, [training(3)]))
    assert sizes(decision) == {"a": 1, "b": 1, "c": 1}


def test_none_has_more_than_twice_what_it_ever_had():
    case = problem([job("a", (1, 8))], [training(8)])
    memory = NO_MEMORY
    for expected in (1, 2, 4, 8):
        decision, memory = Pollux().decide(case, memory)
        assert sizes(decision) == {"a": expected}
        assert memory == {"version": 1, "jobs": {"a": [0, expected]}}
    assert sizes(Pollux().decide(case, NO_MEMORY)[0]) == {"a": 1}


def test_a_resize_must_be_worth_its_time():
    """At the age of 1000 s one more of 9 workers gains a ninth; a resize of 200 s loses more."""
    case = problem([running("a", 9, [90 / n for n in range(1, 11)])], [training(10)])
    for resize_s, expected in ((0.0, 10), (200.0, 9)):
        assert sizes(decided(Pollux(), replace(case, resize_s=resize_s))) == {"a": expected}


def test_each_resize_so_far_makes_the_next_one_dearer():
    case = problem([running("a", 4, [4 / n for n in range(1, 6)])], [training(5)], resize_s=50.0)
    once = {"version": 1, "jobs": {"a": [1, 5]}}
    often = {"version": 1, "jobs": {"a": [9, 5], "gone": [1, 1]}}
    decision, memory = Pollux().decide(case, once)
    assert sizes(decision) == {"a": 5}
    assert memory == {"version": 1, "jobs": {"a": [2, 5]}}
    assert sizes(Pollux().decide(case, often)[0]) == {"a": 4}


def test_each_size_runs_at_its_best_batch_size():
    case = with_batches(
        problem([job("a", (1, 2), running=1)], [training(2)]), {64: [10, 9], 128: [12, 7]}
    )
    allocation = decided(Pollux(), case).allocations["a"]
    assert (allocation.workers, allocation.batch_size) == (2, 128)


def test_the_seed_of_the_problem_decides_the_draw():
    jobs = [job(f"j{n}", (1, 9), running=1, epoch_s=10 + n) for n in range(20)]
    quick = Pollux(generations=2, population=4)
    found = {
        json.dumps(sizes(decided(quick, replace(problem(jobs, [training(60)]), seed=seed))))
        for seed in range(5)
    }
    assert len(found) > 1


@settings(max_examples=40)
@given(
    st.lists(
        st.lists(st.integers(1, 9).map(float), min_size=1, max_size=4), min_size=1, max_size=3
    ),
    st.integers(0, 9),
)
def test_finds_the_best_of_small_problems(curves, gpus):
    """Every allocation of jobs that have had their maximum before, and run on no GPU now."""
    jobs = [job(f"j{row}", (1, len(c)), epoch_s=c) for row, c in enumerate(curves)]
    case = problem(jobs, [training(gpus)])
    had = {"version": 1, "jobs": {each.id: [0, 4] for each in jobs}}
    fair = [min(max(-(-gpus // len(jobs)), 1), len(c)) for c in curves]

    def mean(workers):
        each = [
            c[f - 1] / c[n - 1] if n else 0.0 for c, f, n in zip(curves, fair, workers, strict=True)
        ]
        return len(jobs) / sum(1 / (speedup + 0.001) for speedup in each)

    possible = product(*(range(len(c) + 1) for c in curves))
    best = max(mean(workers) for workers in possible if sum(workers) <= gpus)
    assert decided(Pollux(), case, had).objective == pytest.approx(best)


@given(problems(lost_servers=True), st.integers(0, 9))
def test_survives_whatever_it_is_switched_to(case, seed):
    quick = Pollux(generations=5, population=8)
    decided(quick, replace(case, seed=seed))
    memory = quick.decide(case, NO_MEMORY)[1]
    fewer = np.arange(0, len(case.jobs), 2)
    decided(quick, replace(case, jobs=case.jobs.take(fewer), placed=case.placed[fewer]), memory)


@given(problems())
def test_is_never_worse_than_what_stands(case):
    """With one generation of two candidates the present allocation is one of them."""
    decision = decided(Pollux(generations=1, population=2), case)
    jobs = case.jobs
    if not len(jobs) or not case.servers.total_gpus:
        return
    fair_gpus = -(-case.servers.total_gpus // len(jobs))
    fair = np.clip(fair_gpus // jobs.gpus_per_worker, jobs.min_workers, jobs.max_workers)
    standing = np.where(jobs.workers > 0, jobs.workers / fair, 0.0)  # curves are linear
    assert decision.objective >= len(jobs) / (1 / (standing + 0.001)).sum() * (1 - 1e-9)
