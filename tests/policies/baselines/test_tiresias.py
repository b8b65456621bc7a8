"""tiresias by hand, who goes first, promotion against starvation, and what always holds."""

from dataclasses import replace

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from policies.baselines.tiresias import Tiresias
from policies.problem import NO_MEMORY, Policy, PolicyError
from tests.builders import job, problem, training
from tests.policies.baselines.sound import assert_sound, busy
from tests.policies.baselines.virtual import run


def served(jobs, servers, attained_gpu_s, **kwargs):
    """A problem whose jobs have had so much service."""
    case = problem(jobs, servers, **kwargs)
    return replace(case, jobs=replace(case.jobs, attained_gpu_s=np.array(attained_gpu_s, float)))


def decide(case, policy=None, memory=NO_MEMORY):
    return (policy or Tiresias()).decide(case, memory)[0]


def sizes(decision):
    return {name: allocation.workers for name, allocation in decision.allocations.items()}


def why(decision, name):
    return str(decision.allocations[name].reason)


def test_is_a_policy():
    assert isinstance(Tiresias(), Policy)
    policy = Tiresias()
    assert (policy.name, policy.default_loaning, policy.interval_s) == ("tiresias", "off", None)


@pytest.mark.parametrize(
    ("attained_gpu_s", "first"),
    [((3249, 0), "old"), ((3250, 0), "new"), ((7199, 3250), "old"), ((7200, 3250), "new")],
)
def test_a_running_job_gives_way_once_it_reaches_a_limit(attained_gpu_s, first):
    case = served([job("old", running=1), job("new")], [training(1)], attained_gpu_s)
    assert {name for name, workers in sizes(decide(case)).items() if workers} == {first}


def test_service_counts_gpus_and_time():
    """On 4 GPUs the limit of 3250 is reached after 812.5 s."""
    case = served([job("a", 4, running=4), job("b")], [training(4)], [250, 0])
    assert decide(case).review_at_s == 1000 + 750
    assert decide(replace(case, now_s=1750.0)).review_at_s == 1750 + 750  # as told, not as guessed


def test_reviews_are_not_asked_for_too_often_nor_where_nobody_waits():
    case = served([job("a", running=1), job("b")], [training(1)], [3200, 0])
    assert decide(case).review_at_s == 1240
    assert decide(served([job("a", running=1)], [training(1)], [3200])).review_at_s is None
    assert (
        decide(served([job("a", running=1), job("b")], [training(1)], [9e9, 9e9])).review_at_s
        is None
    )


def test_jobs_take_what_they_asked_for_and_small_ones_are_filled_in():
    jobs = [job("a", (1, 8), requested=3), job("big", 4), job("c", (1, 2), running=2)]
    decision = decide(served(jobs, [training(4)], [0, 0, 9999]))
    assert sizes(decision) == {"a": 3, "big": 0, "c": 1}
    assert why(decision, "big") == (
        "waits; 0 GPU-seconds of service put it in queue 0, where 1 GPUs were left in its turn; "
        "it asked for 4"
    )
    assert why(decision, "c") == (
        "shrinks from 2 to 1 workers; 9999 GPU-seconds of service put it in queue 2, where 1 GPUs "
        "were left in its turn; it asked for 1"
    )


def test_equals_do_not_preempt_each_other():
    jobs = [job("earlier"), job("runs", running=1)]
    assert sizes(decide(served(jobs, [training(1)], [0, 3000]))) == {"earlier": 0, "runs": 1}


def test_two_queues():
    policy = Tiresias(first_limit_gpu_s=57_600, second_limit_gpu_s=None)
    case = served([job("a"), job("b", running=1)], [training(1)], [1e9, 57_600])
    assert sizes(decide(case, policy)) == {"a": 0, "b": 1}


def last_end_s(promote_after, old):
    """Of the old jobs, beside 2000 s of two new ones every 100 s, of 1 GPU and 100 s each."""
    policy = Tiresias(100.1, None, promote_after, review_s=9)  # the new ones never sink
    stream = [job(f"new{n:02}", epoch_s=1, epochs=100) for n in range(40)]
    arrives_s = {one.id: n // 2 * 100.0 for n, one in enumerate(stream)}
    ended_s = run(policy, [*old, *stream], [training(2)], arrives_s=arrives_s).ended_s
    return max(ended_s[one.id] for one in old)


def test_without_promotion_a_job_may_starve():
    assert last_end_s(None, [job("old", epoch_s=1, epochs=150)]) > 2000


@given(st.lists(st.tuples(st.integers(1, 2), st.integers(101, 150)), min_size=1, max_size=3))
def test_with_promotion_none_does(drawn):
    old = [job(f"old{n}", gpus, epoch_s=1, epochs=s) for n, (gpus, s) in enumerate(drawn)]
    assert last_end_s(1, old) < 2000


def test_a_promoted_job_goes_to_the_head_and_its_service_is_forgotten():
    policy = Tiresias(promote_after=2)
    jobs = [job("old"), job("a", running=1)]
    case = served(jobs, [training(1)], [4000, 100])
    decision, memory = policy.decide(case, NO_MEMORY)
    assert (sizes(decision)["old"], decision.review_at_s) == (0, 1000 + 3150)  # a sinks
    assert sizes(decide(replace(case, now_s=8999.0), policy, memory))["old"] == 0
    assert sizes(decide(replace(case, now_s=9000.0), policy, memory)) == {"old": 1, "a": 0}
    memory = policy.decide(replace(case, now_s=9000.0), memory)[1]
    runs = served([job("old", running=1), job("a")], [training(1)], [4000 + 3249, 100], now_s=9500)
    assert sizes(decide(runs, policy, memory)) == {"old": 1, "a": 0}
    sinks = served([job("old", running=1), job("a")], [training(1)], [4000 + 3250, 100], now_s=9500)
    assert sizes(decide(sinks, policy, memory)) == {"old": 0, "a": 1}


@given(busy(), busy(lost_servers=True), st.sampled_from([None, 0.5]))
def test_always_holds(before, after, promote_after):
    assert_sound(Tiresias(promote_after=promote_after), before, after)


@given(busy())
def test_no_job_waits_for_one_of_more_service_whose_gpus_it_could_use(case):
    """Least attained service first: what higher queues leave does not hold the job that waits."""
    jobs, workers = case.jobs, sizes(decide(case))
    queue = np.searchsorted([3250, 7200], jobs.attained_gpu_s, side="right")
    gpus = jobs.requested_workers * jobs.gpus_per_worker
    runs = np.array([workers[name] > 0 for name in jobs.ids], dtype=bool)
    for row in np.flatnonzero(~runs):
        assert gpus[row] + gpus[runs & (queue <= queue[row])].sum() > case.servers.total_gpus


@pytest.mark.parametrize(
    ("parameters", "error"),
    [
        ({"first_limit_gpu_s": 0}, "first_limit_gpu_s is 0; use a positive number"),
        ({"second_limit_gpu_s": 3250}, "second_limit_gpu_s is 3250; use more than the first"),
        ({"promote_after": 0}, "promote_after is 0; use a positive number, or None"),
        ({"review_s": 0}, "review_s is 0; use a positive number of seconds"),
    ],
)
def test_parameters_make_sense(parameters, error):
    with pytest.raises(PolicyError, match=error):
        Tiresias(**parameters)


def published(case, memory=NO_MEMORY):
    return Tiresias(reading="published").decide(case, memory)


def test_as_published_who_sinks_goes_behind_those_that_wait_below():
    case = served([job("a", running=1), job("b"), job("c")], [training(1)], [3249, 4000, 0])
    decision, memory = published(case, {"version": "published 1", "queues": [["a", "c"], ["b"]]})
    assert sizes(decision) == {"a": 1, "b": 0, "c": 0}
    assert decision.review_at_s == case.now_s + 240
    sunk = served([job("a", running=1), job("b")], [training(1)], [3250, 4000])
    decision, memory = published(sunk, {"version": "published 1", "queues": [["a"], ["b"]]})
    assert sizes(decision) == {"a": 0, "b": 1}
    assert memory["queues"] == [[], ["b", "a"], []]
    assert sizes(decide(sunk)) == {"a": 1, "b": 0}


def test_as_published_seconds_are_taken_off_the_limit():
    """After 100 s on 4 GPUs, 400 GPU-seconds: the limit comes in 712.5 s, the review in 788."""
    case = served([job("a", 4, running=4)], [training(4)], [400])
    assert published(case)[0].review_at_s == case.now_s + 788
    with pytest.raises(PolicyError, match="promote_after"):
        Tiresias(reading="published", promote_after=2.0)
