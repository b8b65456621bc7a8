"""elasticflow: who is admitted, what is promised, and that a promise is kept whatever comes."""

import json
import math
from dataclasses import replace

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from policies.elasticflow import ElasticFlow
from policies.problem import NO_MEMORY, PlacementRule, PlanStep, Policy, PolicyError
from policies.reason import because
from tests.builders import job, on_loan, problem, training
from tests.strategies import problems

EXACT = ElasticFlow(slot_s=1.0, boundary_epochs=0.0)
"""Slots of a second, and nothing in reserve."""

NOW_S = 1000.0
CURVE_OF_FIGURE_3 = (1, 1 / 1.5)
CURVE_OF_FIGURE_4 = (1, 1 / 1.5, 1 / 1.75, 1 / 2)


def due(jobs, servers, within_s, **kwargs):
    """A problem whose jobs have deadlines `within_s` (job -> seconds from now)."""
    case = problem(jobs, servers, now_s=kwargs.pop("now_s", NOW_S), **kwargs)
    deadline_s = [case.now_s + within_s.get(name, math.inf) for name in case.jobs.ids]
    return replace(case, jobs=replace(case.jobs, deadline_s=np.array(deadline_s)))


def decide(case, policy=EXACT, memory=NO_MEMORY):
    return policy.decide(case, memory)


def sizes(decision):
    return {name: allocation.workers for name, allocation in decision.allocations.items()}


def promises(decision):
    """Job -> (seconds from now, workers) of each step of its promise."""
    return {
        name: [(step.start_s - NOW_S, step.workers) for step in allocation.promise.plan]
        for name, allocation in decision.allocations.items()
        if allocation.promise
    }


def remembered(memory):
    """Job -> (seconds from now, workers) of each step of its plan in memory."""
    ends = np.cumsum([0, *memory["steps"]])
    steps = [*zip(memory["start_s"], memory["workers"], strict=True)]
    return {
        name: [(start_s - NOW_S, workers) for start_s, workers in steps[begin:end]]
        for name, begin, end in zip(memory["jobs"], ends, ends[1:], strict=False)
    }


def why(decision, name):
    return str(decision.rejected.get(name) or decision.allocations[name].reason)


def test_is_a_policy():
    policy = ElasticFlow()
    assert isinstance(policy, Policy)
    assert (policy.name, policy.default_loaning, policy.slot_s) == ("elasticflow", "off", 300.0)


def test_figure_3_both_deadlines_are_met_on_a_gpu_each():
    jobs = [job(name, (1, 2), epoch_s=CURVE_OF_FIGURE_3, epochs=3) for name in "AB"]
    decision, _ = decide(due(jobs, [training(2)], {"A": 3, "B": 3.5}))
    assert promises(decision) == {"A": [(0, 1)], "B": [(0, 1)]}
    assert decision.allocations["B"].promise.until_s == NOW_S + 3.5
    assert not decision.rejected


def test_figure_4_the_share_of_c_depends_on_the_others():
    c = job("C", (1, 4), epoch_s=CURVE_OF_FIGURE_4, epochs=3)
    decision, _ = decide(due([c], [training(4)], {"C": 2}))
    assert promises(decision) == {"C": [(0, 2)]}
    others = [job("A", 1, epoch_s=1), job("B", 2, epoch_s=1)]
    decision, _ = decide(due([*others, c], [training(4)], {"A": 1, "B": 1, "C": 2}))
    assert promises(decision) == {"A": [(0, 1)], "B": [(0, 2)], "C": [(0, 1), (1, 4)]}
    assert sizes(decision) == {"A": 1, "B": 2, "C": 1}
    assert decision.review_at_s == NOW_S + 1


def test_who_cannot_meet_its_deadline_is_rejected_with_numbers():
    jobs = [job("old", 2, epoch_s=1, epochs=3), job("new", (1, 2), epoch_s=1, epochs=9)]
    decision, memory = decide(due(jobs, [training(3)], {"old": 3, "new": 4}))
    assert list(decision.rejected) == ["new"] and "new" not in decision.allocations
    assert why(decision, "new") == (
        "needs 9.0 epochs, and 0.0 in reserve, within the 4 s to its deadline: on the 3 GPUs of "
        "the training pool, beside 1 admitted jobs, 5.0 can be done"
    )
    assert memory["jobs"] == ["old"]


def test_an_arrival_that_would_break_an_admitted_deadline_is_rejected():
    jobs = [job("old", 2, epoch_s=1, epochs=3), job("new", 2, epoch_s=1)]
    case = due(jobs, [training(2)], {"old": 3, "new": 2})
    _, memory = decide(due(jobs[:1], [training(2)], {"old": 3}))
    decision, _ = decide(case, memory=memory)
    assert why(decision, "new").endswith("the deadline of old could not be met any more")
    assert promises(decision) == {"old": [(0, 2)]}


def test_of_many_arrivals_the_first_are_admitted():
    jobs = [job(f"j{n}", 1, epoch_s=1, epochs=2) for n in range(5)]
    decision, _ = decide(due(jobs, [training(2)], {f"j{n}": 3 for n in range(5)}))
    assert sorted(decision.rejected) == ["j2", "j3", "j4"]


def test_sizes_of_powers_of_two_stand_on_subtrees():
    case = due([job("a", (1, 4)), job("b", (1, 4))], [training(8)], {"a": 999})
    for powers_of_two, rule in ((True, PlacementRule.BUDDY), (False, PlacementRule.PACK)):
        decision, _ = decide(case, replace(EXACT, powers_of_two=powers_of_two))
        assert {a.placement for a in decision.allocations.values()} == {rule}


@pytest.mark.parametrize(("within_s", "plan"), [(4, [(0, 1), (1, 4)]), (8, [(0, 1), (6, 4)])])
def test_a_curve_that_is_not_concave(within_s, plan):
    """Two GPUs gain nothing and are no size; four are five times as fast: 1 + 3 * 5 = 6 + 2 * 5."""
    a = job("a", (1, 4), epoch_s=[1, 1, 1, 1 / 5], epochs=16)
    decision, _ = decide(due([a], [training(4)], {"a": within_s}))
    assert promises(decision) == {"a": plan}


@pytest.mark.parametrize("epochs", [0, 1])
def test_a_deadline_in_the_past_is_rejected(epochs):
    decision, _ = decide(due([job("a", epochs=epochs)], [training(1)], {"a": -5}))
    assert "within the -5 s to its deadline" in why(decision, "a")


def test_spare_gpus_go_where_they_save_most():
    """Linear a needs no more GPU time on two; b, which gains half as much, does."""
    jobs = [job(n, (1, 2), epoch_s=e, epochs=8) for n, e in (("b", (1, 0.9)), ("a", (1, 0.5)))]
    decision, _ = decide(due(jobs, [training(3)], {"a": 8, "b": 8}))
    assert promises(decision) == {"b": [(0, 1)], "a": [(0, 1)]}
    assert sizes(decision) == {"b": 1, "a": 2}


def test_best_effort_comes_after_minimum_shares_and_before_their_growth():
    jobs = [
        job("due", (1, 4), epoch_s=1, epochs=4),
        job("long", 1, epoch_s=9),
        job("short", 1, epoch_s=2),
    ]
    decision, _ = decide(due(jobs, [training(2)], {"due": 4}))
    assert sizes(decision) == {"due": 1, "long": 0, "short": 1}
    assert why(decision, "long") == (
        "waits; it needs 1 GPUs, 0 are left by minimum shares and by jobs before it"
    )


def test_best_effort_that_runs_is_not_preempted_for_shorter_ones():
    jobs = [job("long", 1, epoch_s=9, running=1), job("short", 1, epoch_s=2)]
    assert sizes(decide(due(jobs, [training(1)], {}))[0]) == {"long": 1, "short": 0}


def test_promises_rest_on_owned_gpus_and_loans_speed_up():
    a = job("a", (1, 4), epoch_s=1, epochs=4)
    decision, _ = decide(due([a], [training(1), on_loan(4)], {"a": 4}))
    assert promises(decision) == {"a": [(0, 1)]} and sizes(decision) == {"a": 4}
    decision, _ = decide(due([a], [on_loan(4)], {"a": 4}))
    assert list(decision.rejected) == ["a"]


def test_a_reserve_for_failures_is_kept_out_of_new_promises_and_used_by_old_ones():
    jobs = [job("a", 2, epoch_s=1, epochs=3), job("b", 1, epoch_s=1, epochs=2)]
    careful = replace(EXACT, reserve_gpus=1)
    decision, _ = decide(due(jobs[:1], [training(2)], {"a": 4}), careful)
    assert list(decision.rejected) == ["a"]
    decision, memory = decide(due(jobs[:1], [training(3)], {"a": 4}), careful)
    assert promises(decision) == {"a": [(0, 0), (1, 2)]}
    decision, _ = decide(due(jobs, [training(2)], {"a": 4, "b": 4}), careful, memory)
    assert promises(decision) == {"a": [(0, 0), (1, 2)]}
    assert list(decision.rejected) == ["b"]
    assert sizes(decision) == {"a": 2}


def test_a_plan_that_filling_anew_would_not_find_is_kept():
    """Filled anew, a takes a GPU of each second, and b never has its two."""
    jobs = [job("a", (1, 2), epoch_s=CURVE_OF_FIGURE_3, epochs=1.5), job("b", 2, epoch_s=1)]
    start_s, workers = [NOW_S, NOW_S + 1] * 2, [0, 2, 2, 0]
    plans = {"jobs": ["a", "b"], "steps": [2, 2], "start_s": start_s, "workers": workers}
    case = due(jobs, [training(2)], {"a": 2, "b": 2})
    decision, memory = decide(case, memory={"version": 2, **plans, "soft": []})
    assert promises(decision) == {"a": [(0, 0), (1, 2)], "b": [(0, 2), (1, 0)]}
    assert remembered(memory) == promises(decision)


def test_around_plans_that_stand_there_may_be_room_for_an_arrival():
    """The reserve was raised, so that nothing can be filled anew; b fits beside it."""
    jobs = [job("a", 3, epoch_s=1, epochs=2), job("b", 1, epoch_s=1, epochs=1)]
    _, memory = decide(due(jobs[:1], [training(3)], {"a": 3}))
    careful = replace(EXACT, reserve_gpus=1)
    decision, _ = decide(due(jobs, [training(3)], {"a": 3, "b": 1}), careful, memory)
    assert promises(decision) == {"a": [(0, 0), (1, 3)], "b": [(0, 1)]}


@pytest.mark.parametrize(
    ("resize_s", "boundary_epochs", "admitted"),
    [(0, 0, True), (0.5, 0, True), (0.6, 0, False), (0, 1, True), (0, 1.1, False)],
)
def test_physics_is_reserved_for(resize_s, boundary_epochs, admitted):
    """5 s for 4 epochs: one epoch is left, for two resizes or for a boundary."""
    policy = ElasticFlow(slot_s=1.0, spare_resizes=2, boundary_epochs=boundary_epochs)
    case = due([job("a", epoch_s=1, epochs=4)], [training(1)], {"a": 5}, resize_s=resize_s)
    assert ("a" in decide(case, policy)[0].allocations) == admitted


def test_a_plan_without_room_for_resizes_is_kept_to():
    a = job("a", (1, 2), epoch_s=1, epochs=4, running=1)
    policy = replace(EXACT, spare_resizes=0)
    case = due([a], [training(2)], {"a": 4}, resize_s=0.1)
    assert sizes(decide(case, policy)[0]) == {"a": 1}
    assert sizes(decide(replace(case, resize_s=0.0), policy)[0]) == {"a": 2}


def test_where_servers_were_lost_other_promises_stay():
    jobs = [job("a", 2, epoch_s=1, epochs=4), job("b", 2, epoch_s=1, epochs=4)]
    within_s = {"a": 4, "b": 5}
    _, memory = decide(due(jobs, [training(2), training(2)], within_s))
    decision, _ = decide(due(jobs, [training(2)], within_s), memory=memory)
    assert sizes(decision) == {"a": 2, "b": 0}
    assert why(decision, "b") == (
        "waits; its deadline in 5 s is at risk: of 4.0 epochs, 1.0 can be done"
    )


def test_after_a_missed_deadline_the_job_is_best_effort():
    _, memory = decide(due([job("a", epochs=0.1)], [training(1)], {"a": 5}))
    decision, memory = decide(
        due([job("a", epochs=0.1)], [training(1)], {"a": -1}, now_s=NOW_S + 6), memory=memory
    )
    assert sizes(decision) == {"a": 1} and not promises(decision)
    assert memory["soft"] == ["a"] and not memory["jobs"]


def test_a_running_job_is_never_rejected():
    jobs = [job("a", 1, epoch_s=9, running=1)]
    decision, memory = decide(due(jobs, [training(1)], {"a": 5}))
    assert sizes(decision) == {"a": 1} and memory["soft"] == ["a"]
    assert why(decision, "a") == (
        "keeps its 1 workers; no deadline is promised to it: it has of the GPUs that minimum "
        "shares leave, 0 are free, 1.0 epochs are to be done"
    )


def test_soft_deadlines():
    policy = replace(EXACT, unadmitted="best_effort")
    decision, memory = decide(due([job("a", epoch_s=9)], [training(1)], {"a": 5}), policy)
    assert sizes(decision) == {"a": 1} and memory["soft"] == ["a"] and not decision.rejected


class Quota(ElasticFlow):
    """At most so many GPU-seconds for each job."""

    def objection(self, problem, row, share_gpu_s):
        if share_gpu_s > 3:
            return because("{asked:.0f} GPU-seconds are over the quota", asked=share_gpu_s)
        return None


def test_an_operator_may_object_before_a_job_is_admitted():
    jobs = [job("a", 1, epoch_s=1, epochs=3), job("b", 2, epoch_s=1, epochs=2)]
    policy = Quota(slot_s=1.0, boundary_epochs=0.0)
    decision, _ = decide(due(jobs, [training(4)], {"a": 4, "b": 4}), policy)
    assert promises(decision) == {"a": [(0, 0), (1, 1)]}
    assert why(decision, "b") == "4 GPU-seconds are over the quota"


def test_reasons_and_plans():
    a = job("a", (1, 4), epoch_s=1, epochs=8, running=4)
    decision, _ = decide(due([a], [training(2)], {"a": 4}))
    allocation = decision.allocations["a"]
    assert str(allocation.reason) == (
        "shrinks from 4 to 2 workers; 2 are its minimum share now and does 8.0 epochs in the 4 s "
        "to its deadline, 8.0 are to be done"
    )
    assert allocation.plan == (PlanStep(NOW_S, 2),) == allocation.promise.plan
    assert allocation.reason.numbers["left_s"] == 4


def test_far_deadlines_have_longer_slots():
    a = job("a", 1, epoch_s=1, epochs=5000)
    policy = replace(EXACT, horizon_slots=10)
    decision, _ = decide(due([a], [training(1)], {"a": 10_000}), policy)
    assert decision.allocations["a"].promise.plan[1].start_s % 1024 == 0


def test_an_empty_cluster_and_no_jobs():
    assert sizes(decide(due([job("a")], [], {}))[0]) == {"a": 0}
    decision, memory = decide(due([job("a")], [training(0)], {"a": 99}))
    assert "on the 0 GPUs of the training pool" in why(decision, "a")
    assert decision.review_at_s is None and memory["jobs"] == []
    assert sizes(decide(due([], [training(4)], {}))[0]) == {}


@pytest.mark.parametrize(
    ("parameters", "message"),
    [
        ({"slot_s": 0}, "slot_s is 0; use a positive number of seconds"),
        ({"slot_s": math.nan}, "slot_s is nan"),
        ({"interval_s": -1}, "interval_s is -1; use a positive number of seconds, or None"),
        ({"horizon_slots": 0}, "horizon_slots is 0; use at least 1"),
        ({"reserve_gpus": -1}, "reserve_gpus is -1; use a number from 0"),
        ({"spare_resizes": -1}, "spare_resizes is -1"),
        ({"boundary_epochs": math.nan}, "boundary_epochs is nan"),
    ],
)
def test_bad_parameters(parameters, message):
    with pytest.raises(PolicyError, match=message):
        ElasticFlow(**parameters)


def test_a_curve_that_makes_no_sense():
    with pytest.raises(PolicyError, match="job a: epoch_s at 2 workers is nan"):
        decide(due([job("a", (1, 2), epoch_s=[1, math.nan])], [training(4)], {"a": 5}))


@given(problems(lost_servers=True), st.data())
def test_within_the_capacity_the_same_again_and_memory_is_json(case, data):
    within_s = st.one_of(st.just(math.inf), st.floats(-10, 1e5))
    deadline_s = np.array([case.now_s + data.draw(within_s) for _ in case.jobs.ids])
    case = replace(case, jobs=replace(case.jobs, deadline_s=deadline_s))
    policy = data.draw(st.sampled_from([ElasticFlow(), EXACT, replace(EXACT, slot_s=50.0)]))
    decision, memory = policy.decide(case, NO_MEMORY)
    assert decision.allocations.keys() | decision.rejected.keys() == set(case.jobs.ids)
    jobs = case.jobs
    workers = np.array([sizes(decision).get(name, 0) for name in jobs.ids], dtype=int)
    assert (workers * jobs.gpus_per_worker).sum() <= case.servers.total_gpus
    runs = workers > 0
    assert (workers[runs] >= jobs.min_workers[runs]).all()
    assert (workers <= jobs.max_workers).all()
    assert all(str(allocation.reason) for allocation in decision.allocations.values())
    assert all(str(reason) for reason in decision.rejected.values())
    remembered = json.loads(json.dumps(memory, allow_nan=False))
    assert remembered == memory
    assert policy.decide(case, memory) == policy.decide(case, remembered)
