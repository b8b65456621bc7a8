"""oasis on the contract: decided once, then kept; exhausted, lost and rolled spans."""

import json
from dataclasses import replace

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from policies.problem import NO_MEMORY, PlanStep, Policy
from tests.builders import job, on_loan, problem, training
from tests.policies.oasis_decisions import (
    NOW,
    OASIS,
    decide,
    ends_s,
    number,
    remembered,
    sizes,
    why,
    with_column,
)
from tests.strategies import problems


def test_it_is_a_policy():
    assert isinstance(OASIS, Policy)
    assert (OASIS.name, OASIS.default_loaning, OASIS.interval_s) == ("oasis", "off", None)


def test_an_empty_cluster_admits_with_a_plan_a_promise_and_numbers():
    decision, memory = decide([job("a", (1, 4), epoch_s=10, epochs=10)], [training(4)])
    allocation = decision.allocations["a"]
    assert (allocation.workers, allocation.servers) == (4, {"t1": 4})
    assert allocation.plan == (PlanStep(0.0, 4), PlanStep(20.0, 2))
    assert ends_s(allocation) == 30.0 and allocation.promise.plan == allocation.plan
    payoff, utility, cost = (number(allocation.reason, n) for n in ("payoff", "utility", "cost"))
    assert payoff == pytest.approx(utility - cost) and payoff > 0
    assert why(decision, "a").startswith("admitted: 4 workers in this slot, ends by 30 s; worth ")
    assert decision.review_at_s == 10.0
    assert decision.objective == utility
    assert remembered(memory) == {"a": [(0, 2, "t1", 4), (2, 3, "t1", 2)]}


@pytest.mark.parametrize(("per_server", "servers"), [(0, 0), (1, 4), (3, 2), (8, 1)])
def test_parameter_servers_match_the_bandwidth_of_the_workers(per_server, servers):
    jobs = [job("a", 4, workers_per_parameter_server=per_server)]
    decision, _ = decide(jobs, [training(4)])
    assert decision.allocations["a"].parameter_servers == servers


def test_a_full_cluster_refuses_for_good():
    jobs = [job("a", 4, epoch_s=200), job("b", 1)]
    decision, memory = decide(jobs, [training(4)])
    assert sizes(decision) == {"a": 4}
    assert str(decision.rejected["b"]) == (
        "rejected: no schedule ends it within 20 slots of 10 s on what is left of 4 GPUs"
    )
    assert remembered(memory).keys() == {"a"}


def test_what_is_not_worth_its_price_is_refused_with_the_numbers():
    """Behind a long job there is room only where the deadline has long passed."""
    case = problem([job("a", 4, epoch_s=100), job("b", 4)], [training(4)], **NOW)
    case = with_column(case, deadline_s=[np.inf, 15.0])
    decision, _ = OASIS.decide(case, NO_MEMORY)
    reason = decision.rejected["b"]
    assert number(reason, "payoff") < 0 and number(reason, "end_s") > 100
    assert str(reason).startswith("rejected: at best it ends by ")


def test_it_follows_the_schedule_slot_by_slot():
    a = job("a", (1, 4), epoch_s=10, epochs=10)
    first, memory = decide([a], [training(4)])
    now_s = 20.0
    later, after = decide([replace(a, epochs=2, running=4)], [training(4)], memory, now_s=now_s)
    assert sizes(later) == {"a": 2} and later.allocations["a"].plan == (PlanStep(20.0, 2),)
    assert why(later, "a").startswith("follows its schedule: 2 workers in this slot, ends by 30 s")
    assert remembered(after) == {"a": [(2, 3, "t1", 2)]}  # what is past is forgotten
    assert later.objective == first.objective


def test_room_between_schedules_is_used_and_idle_slots_are_in_the_plan():
    """b is worth more, but a was admitted first and keeps what it has."""
    _, memory = decide([job("a", 4, epoch_s=20)], [training(4)])
    jobs = [job("a", 4, epoch_s=20, running=4), job("b", 4, epoch_s=20)]
    decision, _ = decide(jobs, [training(4)], memory)
    assert sizes(decision) == {"a": 4, "b": 0}
    assert decision.allocations["b"].plan == (PlanStep(0.0, 0), PlanStep(20.0, 4))
    assert ends_s(decision.allocations["b"]) == 40.0


def test_a_job_that_ends_early_frees_its_slots():
    _, memory = decide([job("a", 4, epoch_s=200)], [training(4)])
    decision, memory = decide([job("b", 4)], [training(4)], memory)
    assert sizes(decision) == {"b": 4} and remembered(memory).keys() == {"b"}


def test_a_schedule_that_ran_out_is_made_anew():
    slow = job("a", 4, epoch_s=20)
    _, memory = decide([slow], [training(4)])
    decision, _ = decide([replace(slow, epochs=0.1, running=4)], [training(4)], memory, now_s=20.0)
    assert why(decision, "a").startswith("planned again, admitted before: 4 workers in this slot")


def test_where_servers_were_lost_later_jobs_are_planned_again_and_stay():
    jobs = [job("a", 4, epoch_s=20), job("b", 4, epoch_s=20)]
    decision, memory = decide(jobs, [training(4), training(4)])
    assert sizes(decision) == {"a": 4, "b": 4}
    decision, memory = decide(jobs, [training(4)], memory)
    assert sizes(decision) == {"a": 4, "b": 0}
    assert why(decision, "a").startswith("follows")
    assert decision.allocations["b"].plan[-1] == PlanStep(20.0, 4)
    decision, memory = decide(jobs, [training(3)], memory)
    assert sizes(decision) == {"a": 0, "b": 0} and not decision.rejected
    assert why(decision, "a") == (
        "waits: admitted, but no schedule ends it within 20 slots of 10 s on 3 GPUs"
    )
    decision, _ = decide(jobs, [training(4), training(4)], memory)
    assert sizes(decision) == {"a": 4, "b": 4}


def test_what_stood_on_a_lost_server_is_planned_again_where_there_is_room():
    jobs = [job(name, 4, epoch_s=20) for name in "abc"]
    _, memory = decide(jobs, [training(4), training(4), training(4)])
    decision, _ = decide(jobs, [training(4), training(8)], memory)
    assert [why(decision, name).split()[0] for name in "abc"] == ["follows", "follows", "planned"]


def test_the_earlier_submitted_stays_even_if_it_was_planned_again_later():
    jobs = [job("a", 4, epoch_s=20), job("b", 4, epoch_s=100)]
    _, memory = decide(jobs, [training(8)])
    jobs = [replace(jobs[0], epochs=0.5, running=4), replace(jobs[1], epochs=0.8, running=4)]
    decision, memory = decide(jobs, [training(8)], memory, now_s=20.0)
    assert [why(decision, name).split()[0] for name in "ab"] == ["planned", "follows"]
    decision, _ = decide(jobs, [training(4)], memory, now_s=20.0)
    assert [why(decision, name).split()[0] for name in "ab"] == ["follows", "planned"]


def test_a_memory_of_another_version_is_none():
    """Jobs that run are planned again; those that wait are decided."""
    old = {"version": 1, "slot_s": 10.0, "admitted": {"a": {"runs": [], "utility": 1, "cost": 0}}}
    decision, _ = decide([job("a", 4, running=4), job("b", 4)], [training(8)], old)
    assert [why(decision, name).split()[0] for name in "ab"] == ["planned", "admitted:"]


def test_servers_on_loan_carry_no_promises():
    decision, memory = decide([job("a", 4)], [on_loan(8)])
    assert why(decision, "a") == "waits: the training pool has no GPUs to plan on"
    assert not decision.rejected and decision.review_at_s is None
    decision, _ = decide([job("a", 4)], [on_loan(8), training(4)], memory)
    assert decision.allocations["a"].servers == {"t1": 4}


def test_jobs_that_another_policy_started_stay_whatever_the_payoff():
    jobs = [job("good", 4, epoch_s=100, running=4), job("late", 4, epoch_s=100, running=4)]
    case = with_column(problem(jobs, [training(8)], **NOW), deadline_s=[np.inf, 1.0])
    decision, _ = OASIS.decide(case, NO_MEMORY)
    late = decision.allocations["late"]
    assert number(late.reason, "payoff") < 0
    assert late.plan[-1].workers == 4 and ends_s(late) <= 200
    preempted = with_column(case, workers=[4, 0], attained_gpu_s=[0.0, 5.0])
    assert OASIS.decide(preempted, NO_MEMORY)[0] == decision
    new = with_column(case, workers=[4, 0])
    assert OASIS.decide(new, NO_MEMORY)[0].rejected.keys() == {"late"}


def test_slots_of_another_length_are_planned_again():
    _, memory = decide([job("a", 4, epoch_s=20)], [training(4)])
    decision, after = decide(
        [job("a", 4, epoch_s=20)], [training(4)], memory, policy=replace(OASIS, slot_s=7.0)
    )
    assert why(decision, "a").startswith("planned again") and after["slot_s"] == 7.0


def test_each_slot_pays_a_resize():
    fixed = [job("a", 4, epoch_s=19)]
    assert ends_s(decide(fixed, [training(4)])[0].allocations["a"]) == 20
    decision, _ = decide(fixed, [training(4)], resize_s=1.0)
    assert ends_s(decision.allocations["a"]) == 30


def test_the_present_slot_counts_for_what_is_left_of_it():
    decision, _ = decide([job("a", 4, epoch_s=20)], [training(4)], now_s=5.0)
    assert ends_s(decision.allocations["a"]) == 30


def test_gangs_stand_whole_on_servers():
    """Two workers of 3 GPUs do not fit 4 + 2 GPUs, though the sum does."""
    decision, _ = decide([job("a", 2, gpus=3)], [training(4), training(2)])
    assert "a" in decision.rejected
    decision, _ = decide([job("a", 2, gpus=3)], [training(4), training(3)])
    assert decision.allocations["a"].servers == {"t1": 1, "t2": 1}


def test_a_curve_that_falls_off_is_not_climbed():
    decision, _ = decide([job("a", (1, 3), epoch_s=[20, 10, 15])], [training(4)])
    assert sizes(decision) == {"a": 2}


def test_priority_and_deadline_make_the_utility():
    case = problem([job("a", 4), job("b", 4)], [training(8)], **NOW)
    case = with_column(case, deadline_s=[np.inf, 100.0], priority=[0, 3])
    decision, _ = OASIS.decide(case, NO_MEMORY)
    worth = [number(decision.allocations[name].reason, "utility") for name in "ab"]
    assert worth[0] < 1 and worth[1] == pytest.approx(8)


def test_without_a_deadline_a_long_wait_costs_nothing():
    """Another policy may have let it queue: what counts is the time from now."""
    jobs, servers = [job("a", (1, 4), epoch_s=10, epochs=10)], [training(4)]
    now, later = (decide(jobs, servers, now_s=now_s)[0] for now_s in (0.0, 1e6))
    assert number(later.allocations["a"].reason, "utility") == pytest.approx(now.objective)


def test_a_job_s_own_utility_wins_over_priority_and_deadline():
    """It counts from the submission, 100 s ago: 5 / (1 + exp(0.1 (120 - 90)))."""
    case = problem([job("a", 4, epoch_s=20, utility=(5.0, 0.1, 90.0))], [training(4)], now_s=100.0)
    decision, _ = OASIS.decide(case, NO_MEMORY)
    worth = number(decision.allocations["a"].reason, "utility")
    assert worth == pytest.approx(5 / (1 + np.exp(3)))
    told = with_column(case, deadline_s=[50.0], priority=[5000])
    assert OASIS.decide(told, NO_MEMORY)[0] == decision


@pytest.mark.parametrize(
    ("steepness_per_s", "admitted"), [(0.0, True), (0.002, True), (0.5, False)]
)
def test_the_three_kinds_of_jobs_behind_another(steepness_per_s, admitted):
    """Time-insensitive and -sensitive ones wait 100 s; a critical one would be worth nothing."""
    b = job("b", 4, utility=(10.0, steepness_per_s, 30.0))
    decision, _ = decide([job("a", 4, epoch_s=100, utility=(10.0, 0.0, 30.0)), b], [training(4)])
    assert ("b" in decision.allocations) == admitted
    if admitted:
        assert decision.allocations["b"].plan == (PlanStep(0.0, 0), PlanStep(100.0, 4))


def test_of_two_jobs_with_their_own_utility_the_one_that_pays_gets_in():
    """a takes half of the GPUs, and what is left costs more than a job of small worth has."""
    a = job("a", 2, epoch_s=200, utility=(100.0, 0.0, 0.0))
    for worth, admitted in ((1.0, False), (100.0, True)):
        decision, _ = decide([a, job("b", 2, epoch_s=40, utility=(worth, 0.0, 0.0))], [training(4)])
        assert ("b" in decision.allocations) == admitted


def test_a_cluster_without_jobs():
    decision, memory = decide([], [training(4)])
    assert (decision.allocations, decision.objective, decision.review_at_s) == ({}, 0, None)
    assert remembered(memory) == {} and memory["slot_s"] == 10.0 and "seen" not in memory


@given(problems(lost_servers=True))
def test_no_server_is_overfull_and_each_job_within_its_range(case):
    decision, _ = replace(OASIS, slot_s=500.0).decide(case, NO_MEMORY)
    jobs, taken = case.jobs, dict.fromkeys(case.servers.ids, 0)
    for row, name in enumerate(jobs.ids):
        if name in decision.rejected:
            assert jobs.workers[row] == 0
            continue
        allocation = decision.allocations[name]
        assert sum((allocation.servers or {}).values()) == allocation.workers
        assert allocation.workers == 0 or (
            jobs.min_workers[row] <= allocation.workers <= jobs.max_workers[row]
        )
        for server, workers in (allocation.servers or {}).items():
            taken[server] += workers * int(jobs.gpus_per_worker[row])
        assert str(allocation.reason)
    owned = zip(case.servers.ids, case.servers.gpus, case.servers.on_loan, strict=True)
    assert all(taken[name] <= (0 if loan else gpus) for name, gpus, loan in owned)


@given(problems())
def test_a_decision_taken_twice_is_the_same_and_its_memory_is_json(case):
    policy = replace(OASIS, slot_s=500.0)
    decision, memory = policy.decide(case, NO_MEMORY)
    assert policy.decide(case, NO_MEMORY) == (decision, memory)
    assert json.loads(json.dumps(memory)) == memory


@given(problems())
def test_asked_again_in_the_same_slot_it_says_the_same(case):
    policy = replace(OASIS, slot_s=500.0)
    decision, memory = policy.decide(case, NO_MEMORY)
    again, after = policy.decide(case, memory)
    assert remembered(after) == remembered(memory)
    assert sizes(again) | sizes(decision) == sizes(again)


@given(st.data())
def test_under_an_exact_model_every_promise_is_kept(data):
    """Jobs run exactly as predicted: each ends by the time promised at its admission."""
    arrivals = {
        f"j{number}": (
            data.draw(st.integers(0, 6)) * 5.0,
            job(
                f"j{number}",
                (low := data.draw(st.integers(1, 2)), low + data.draw(st.integers(0, 3))),
                epoch_s=data.draw(st.floats(1, 30)),
                epochs=data.draw(st.floats(0.1, 8)),
                gpus=data.draw(st.integers(1, 2)),
            ),
        )
        for number in range(5)
    }
    servers = [training(4), training(3)]
    left = {name: spec.epochs for name, (_, spec) in arrivals.items()}
    promised: dict[str, float] = {}
    memory, gone = NO_MEMORY, set()
    for step in range(60):
        now_s = step * 5.0
        live = [
            replace(spec, epochs=left[name])
            for name, (arrival_s, spec) in sorted(arrivals.items(), key=lambda item: item[1][0])
            if arrival_s <= now_s and name not in gone
        ]
        decision, memory = decide(live, servers, memory, now_s=now_s)
        gone |= decision.rejected.keys()
        for spec in live:
            if spec.id in gone:
                continue
            allocation = decision.allocations[spec.id]
            promised.setdefault(spec.id, ends_s(allocation))
            assert ends_s(allocation) == promised[spec.id]
            if allocation.workers:
                left[spec.id] -= 5.0 / spec.epoch_s[allocation.workers - spec.workers[0]]
            if left[spec.id] <= 1e-6:
                gone.add(spec.id)
                assert now_s + 5.0 <= promised[spec.id] + 1e-6
    assert gone == arrivals.keys()
