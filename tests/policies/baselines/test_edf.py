"""edf by hand, its optimality on one GPU, and what always holds."""

import math
from itertools import permutations
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from policies.baselines.edf import Edf
from policies.problem import NO_MEMORY, Policy, PolicyError
from tests.builders import job, on_loan, problem, training
from tests.policies.baselines.sound import assert_sound, busy
from tests.policies.baselines.virtual import ROUNDING_S, run

FALLING_OFF = [8, 5, 4.5, 4, 5, 5, 5, 5]  # slower on 8 workers than on 4


def decide(jobs, servers, policy=None):
    return (policy or Edf()).decide(problem(jobs, servers), NO_MEMORY)[0]


def sizes(decision):
    return {name: allocation.workers for name, allocation in decision.allocations.items()}


def why(decision, name):
    return str(decision.allocations[name].reason)


def test_is_a_policy():
    assert isinstance(Edf(), Policy)
    assert (Edf().name, Edf().default_loaning, Edf().interval_s) == ("edf", "off", None)


def test_the_earliest_deadline_takes_all_it_can_use():
    jobs = [job("late", (1, 8), deadline_s=3000), job("soon", (1, 4), deadline_s=2000)]
    assert sizes(decide(jobs, [training(8)])) == {"soon": 4, "late": 4}


def test_what_is_left_goes_in_powers_of_two():
    jobs = [job("a", (1, 4), deadline_s=2000), job("b", (1, 8), deadline_s=3000), job("c", 1)]
    assert sizes(decide(jobs, [training(5), on_loan(2)])) == {"a": 4, "b": 2, "c": 1}


def test_a_job_that_needs_more_than_is_left_is_passed_over():
    jobs = [job("a", 2, deadline_s=2000), job("big", 4, deadline_s=3000), job("c", 1)]
    decision = decide(jobs, [training(4)])
    assert sizes(decision) == {"a": 2, "big": 0, "c": 1}
    assert why(decision, "big") == (
        "waits; 2 GPUs are left by 1 earlier deadlines, it can use 4 to 4; due in 2000 s"
    )


def test_jobs_without_a_deadline_come_last():
    jobs = [job("none", 1), job("due", 1, deadline_s=9e9)]
    assert sizes(decide(jobs, [training(1)])) == {"none": 0, "due": 1}


def test_a_missed_deadline_stays_first():
    jobs = [job("due", 1, running=1, deadline_s=1500), job("missed", 1, deadline_s=900)]
    decision = decide(jobs, [training(1)])
    assert sizes(decision) == {"due": 0, "missed": 1}
    assert why(decision, "missed") == (
        "starts on 1 workers; 1 GPUs are left by 0 earlier deadlines, it can use 1 to 1; "
        "its deadline was 100 s ago"
    )
    assert why(decision, "due").startswith("gives up its 1 workers; 0 GPUs are left by 1 earlier")


def test_a_size_that_is_slower_is_not_taken():
    jobs = [job("a", (1, 8), epoch_s=FALLING_OFF)]
    assert sizes(decide(jobs, [training(8)])) == {"a": 4}


def test_in_the_published_reading_it_is():
    jobs = [job("a", (1, 8), epoch_s=FALLING_OFF)]
    assert sizes(decide(jobs, [training(8)], Edf(reading="published"))) == {"a": 8}


def test_there_is_no_other_reading():
    parameters: dict[str, Any] = {"reading": "exact"}
    with pytest.raises(PolicyError, match="reading is 'exact'; use 'clean' or 'published'"):
        Edf(**parameters)


def test_sizes_count_in_workers_and_fit_in_gpus():
    jobs = [job("a", (1, 8), gpus=3, deadline_s=2000), job("odd", (3, 3), deadline_s=3000)]
    assert sizes(decide(jobs, [training(16)])) == {"a": 4, "odd": 3}


def test_figure_3_edf_misses_what_one_gpu_each_would_meet():
    """001 §2.3: on 2 workers 1.5 times as fast as on 1; deadlines at 3 and 3.5, 3 units each."""
    jobs = [
        job("a", (1, 2), epoch_s=[1, 1 / 1.5], epochs=3, deadline_s=3),
        job("b", (1, 2), epoch_s=[1, 1 / 1.5], epochs=3, deadline_s=3.5),
    ]
    assert run(Edf(), jobs, [training(2)]).ended_s == pytest.approx({"a": 2, "b": 4})


lengths = st.lists(st.tuples(st.integers(1, 9), st.integers(1, 30)), min_size=1, max_size=5)


@given(lengths)
def test_on_one_gpu_it_meets_all_deadlines_that_any_order_meets(drawn):
    jobs = [job(str(n), epoch_s=s, deadline_s=due) for n, (s, due) in enumerate(drawn)]
    feasible = any(
        all(sum(s for s, _ in order[: n + 1]) <= due for n, (_, due) in enumerate(order))
        for order in permutations(drawn)
    )
    ended_s = run(Edf(), jobs, [training(1)]).ended_s
    met = all(ended_s[job.id] <= job.deadline_s + ROUNDING_S for job in jobs)
    assert met == feasible


@given(lengths, st.lists(st.integers(0, 20), min_size=5, max_size=5))
def test_on_one_gpu_so_too_where_jobs_arrive_later(drawn, arrivals):
    """Feasible exactly if in each interval the work that must be done within it fits (Horn)."""
    jobs = [job(str(n), epoch_s=s, deadline_s=due) for n, (s, due) in enumerate(drawn)]
    work = [(at, due, s) for at, (s, due) in zip(arrivals, drawn, strict=False)]
    feasible = all(
        sum(s for at, by, s in work if at >= begin and by <= end) <= max(end - begin, 0)
        for begin, _, _ in work
        for _, end, _ in work
    )
    arrives_s = {job.id: float(at) for job, at in zip(jobs, arrivals, strict=False)}
    ended_s = run(Edf(), jobs, [training(1)], arrives_s=arrives_s).ended_s
    assert all(ended_s[job.id] <= job.deadline_s + ROUNDING_S for job in jobs) == feasible


@given(busy(), busy(lost_servers=True), st.sampled_from(["clean", "published"]))
def test_always_holds(before, after, reading):
    assert_sound(Edf(reading=reading), before, after)


def test_bad_problems_are_refused_by_job_and_field():
    with pytest.raises(PolicyError, match="job a: deadline_s is nan"):
        decide([job("a", deadline_s=math.nan)], [training(1)])
