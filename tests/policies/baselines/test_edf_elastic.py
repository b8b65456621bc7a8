"""edf_elastic by hand, what it owes to a job alone, and what always holds."""

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from policies.baselines.edf_elastic import EdfElastic
from policies.problem import NO_MEMORY, Policy, PolicyError
from policies.sizes import Sizes
from tests.builders import job, on_loan, problem, training
from tests.policies.baselines.sound import assert_sound, busy
from tests.policies.baselines.virtual import run

TWO_GPUS = {"epoch_s": [1, 1 / 1.5], "epochs": 3}
"""001 §2.3, Fig. 3: 1.5 times as fast on two GPUs; 3 units of work."""


def due(name, *args, within_s, **kwargs):
    return job(name, *args, deadline_s=1000 + within_s, **kwargs)


def decide(jobs, servers, policy=None):
    return (policy or EdfElastic()).decide(problem(jobs, servers), NO_MEMORY)[0]


def sizes(decision):
    return {name: allocation.workers for name, allocation in decision.allocations.items()}


def why(decision, name):
    return str(decision.allocations[name].reason)


def test_is_a_policy():
    assert isinstance(EdfElastic(), Policy)
    policy = EdfElastic()
    assert (policy.name, policy.default_loaning, policy.interval_s) == ("edf_elastic", "off", None)


def test_figure_3_both_deadlines_are_met_on_a_gpu_each():
    jobs = [due("a", (1, 2), **TWO_GPUS, within_s=3), due("b", (1, 2), **TWO_GPUS, within_s=3.5)]
    decision = decide(jobs, [training(2)])
    assert sizes(decision) == {"a": 1, "b": 1}
    assert why(decision, "b") == (
        "starts on 1 workers; 1 are its minimum share now, due in 4 s; 0 GPUs are free"
    )


def test_gpus_that_shares_leave_are_used():
    jobs = [due("a", (1, 4), epochs=1, within_s=1e4), job("none", (1, 2))]
    assert sizes(decide(jobs, [training(4), on_loan(2)])) == {"a": 4, "none": 2}


def test_who_cannot_meet_its_deadline_takes_all_it_can_and_is_not_refused():
    jobs = [due("late", (1, 4), epochs=9, within_s=10), due("b", (1, 4), within_s=1e4)]
    decision = decide(jobs, [training(5)])
    assert (sizes(decision), decision.rejected) == ({"late": 4, "b": 1}, {})
    assert why(decision, "late") == (
        "starts on 4 workers; it cannot meet its deadline in 10 s: it takes what earlier deadlines "
        "leave, up to 4 GPUs; 0 GPUs are free"
    )


def test_a_missed_deadline_stays_first_and_makes_others_miss_theirs():
    jobs = [
        due("b", 1, epochs=1, within_s=10, running=1),
        due("missed", 1, epochs=9, within_s=-100),
    ]
    decision = decide(jobs, [training(1)])
    assert sizes(decision) == {"b": 0, "missed": 1}
    assert why(decision, "missed").startswith(
        "starts on 1 workers; its deadline was 100 s ago: it takes what earlier deadlines leave"
    )
    assert why(decision, "b").startswith(
        "gives up its 1 workers; it cannot meet its deadline in 10"
    )


def test_what_a_late_job_leaves_at_its_end_counts_for_those_behind_it():
    """It ends within the first 300 s; b needs its GPU too, for the last 100 s."""
    jobs = [
        due("late", (1, 1), epochs=20, within_s=-1),
        due("b", (1, 2), epochs=100, within_s=900),
    ]
    decision = decide(jobs, [training(2)])
    assert sizes(decision) == {"late": 1, "b": 1}
    assert why(decision, "b").startswith("starts on 1 workers; 1 are its minimum share now")
    assert decision.review_at_s == 1800


def test_a_share_that_begins_later_is_asked_for_in_time():
    """All GPUs are a's until 1300 s; b needs them for 500 s, and is due at 2000 s."""
    jobs = [
        due("a", (2, 2), epochs=30, within_s=300),
        due("b", (2, 2), epochs=50, within_s=1000),
    ]
    decision = decide(jobs, [training(2)])
    assert sizes(decision) == {"a": 2, "b": 0}
    assert decision.review_at_s == 1500


@given(st.lists(st.integers(1, 20), min_size=1, max_size=5), st.integers(1, 30), st.floats(0.5, 2))
def test_a_job_alone_meets_every_deadline_that_its_fastest_size_meets(curve, epochs, slack):
    fastest_s = min(curve[size - 1] for size in (1, 2, 4) if size <= len(curve))
    deadline_s = slack * epochs * fastest_s
    jobs = [job("a", (1, len(curve)), epoch_s=curve, epochs=epochs, deadline_s=deadline_s)]
    ended_s = run(EdfElastic(slot_s=7), jobs, [training(8)]).ended_s["a"]
    assert ended_s <= max(deadline_s, epochs * fastest_s) + 1e-6


@given(busy())
def test_no_gpu_stays_idle_that_makes_a_job_faster(case):
    decision, faster = EdfElastic().decide(case, NO_MEMORY)[0], Sizes.of(case.jobs, True)
    workers = np.array([sizes(decision)[name] for name in case.jobs.ids], dtype=int)
    held = workers * case.jobs.gpus_per_worker
    free = case.servers.total_gpus - held.sum()
    for row in range(len(case.jobs)):
        larger = faster.gpus_of(row)[faster.gpus_of(row) > held[row]]
        assert not len(larger) or larger[0] - held[row] > free


@given(busy(), busy(lost_servers=True))
def test_always_holds(before, after):
    assert_sound(EdfElastic(), before, after)


@pytest.mark.parametrize(
    ("parameters", "error"),
    [
        ({"slot_s": 0}, "slot_s is 0; use a positive number of seconds"),
        ({"horizon_slots": 0}, "horizon_slots is 0; use at least 1"),
    ],
)
def test_parameters_make_sense(parameters, error):
    with pytest.raises(PolicyError, match=error):
        EdfElastic(**parameters)
