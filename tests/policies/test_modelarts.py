"""modelarts: Fig. 7 and 8 of 000 as exact cases, admission, plans, memory, what always holds."""

import json
from dataclasses import replace

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from policies.modelarts import ModelArts
from policies.problem import NO_MEMORY, PlanStep, Policy, PolicyError
from policies.rolling_horizon_model import modelarts_speed
from tests.builders import job, on_loan, problem, training
from tests.strategies import problems

POLICY = ModelArts()
NOW_S = 1000.0


def decide(*args, policy=POLICY, memory=NO_MEMORY, **kwargs):
    return policy.decide(problem(*args, **kwargs), memory)[0]


def sizes(decision):
    return {name: allocation.workers for name, allocation in decision.allocations.items()}


def why(decision, name):
    return str(decision.allocations[name].reason)


def certified(decision, gap):
    """Whether the objective is proven to be within `gap` of the optimum."""
    return decision.objective <= decision.bound <= decision.objective * (1 + gap)


def of_node_hours(name, demand_node_h, most=16, **kwargs):
    """A job of the paper: its speed follows Fig. 6, its demand is in node-hours."""
    epoch_s = 3600 / modelarts_speed(np.arange(1, most + 1))
    return job(name, (1, most), epoch_s=epoch_s.tolist(), epochs=demand_node_h, **kwargs)


def standing(jobs, decision):
    """The same jobs, running as decided."""
    return [replace(j, running=decision.allocations[j.id].workers) for j in jobs]


def test_is_a_policy():
    assert isinstance(POLICY, Policy)
    assert (POLICY.name, POLICY.default_loaning, POLICY.interval_s) == ("modelarts", "off", 300)


def test_figure_7_the_plan_gives_the_nodes_back():
    """Two steps on 2 nodes finish it: 2 now, none from the third step on."""
    decision = decide([of_node_hours("a", 2 * 1.6 / 12, most=2)], [training(2)])
    assert sizes(decision) == {"a": 2}
    assert decision.allocations["a"].plan == (PlanStep(NOW_S + 600, 0),)
    assert decision.objective == decision.bound == pytest.approx(4.5)
    assert why(decision, "a") == (
        "starts on 2 workers: 50.0% of what is left is done in 300 s, 100.0% in 1500 s; "
        "it can use no more"
    )


def test_figure_8_between_decisions_a_queued_job_starts_on_the_idle_nodes():
    """Job 1 has ended and left 8 nodes: job 2, queued, takes all of them at once."""
    jobs = [of_node_hours("1", 9, running=8), of_node_hours("3", 9, running=8)]
    _, memory = POLICY.decide(problem(jobs, [training(16)]), NO_MEMORY)
    later = problem([jobs[1], of_node_hours("2", 9)], [training(16)], now_s=NOW_S + 129)
    decision, kept = POLICY.decide(later, memory)
    assert sizes(decision) == {"3": 8, "2": 8}
    assert why(decision, "3") == "keeps its 8 workers: sizes change in 171 s"
    assert why(decision, "2") == (
        "starts on 8 workers, as many as it can use of 8 idle GPUs; sizes change in 171 s"
    )
    assert decision.review_at_s == NOW_S + 300
    assert kept == memory


def test_between_decisions_the_queue_is_served_in_order_and_its_head_blocks():
    jobs = [job("a", (1, 4), running=1)]
    _, memory = POLICY.decide(problem(jobs, [training(7)]), NO_MEMORY)
    queue = [job("b", (1, 4)), job("c", 4), job("d", 1)]
    decision = decide(jobs + queue, [training(7)], memory=memory)
    assert sizes(decision) == {"a": 1, "b": 4, "c": 0, "d": 0}
    assert "of 6 idle GPUs" in why(decision, "b")
    assert why(decision, "c") == "first of the queue: needs 4 GPUs, 2 are idle"
    assert why(decision, "d") == (
        "waits behind 1 in the queue: its first, c, needs 4 GPUs, 2 are idle"
    )


def test_sizes_change_when_the_interval_is_over():
    jobs = [job("a", (1, 4), epochs=1e4, running=1)]
    _, memory = POLICY.decide(problem(jobs, [training(4)]), NO_MEMORY)
    assert sizes(decide(jobs, [training(4)], memory=memory)) == {"a": 1}
    assert sizes(decide(jobs, [training(4)], memory=memory, now_s=NOW_S + 300)) == {"a": 4}


def test_without_an_interval_each_event_is_a_scaling_decision():
    policy = ModelArts(interval_s=None)
    jobs = [job("a", (1, 4), epochs=1e4, running=1)]
    first, memory = policy.decide(problem(jobs, [training(1)]), NO_MEMORY)
    assert first.review_at_s is None
    assert sizes(decide(jobs, [training(4)], policy=policy, memory=memory)) == {"a": 4}


def test_lost_servers_do_not_wait_for_the_interval():
    jobs = [job("a", (1, 4), running=4), job("b", (1, 4), running=4)]
    _, memory = POLICY.decide(problem(jobs, [training(8)]), NO_MEMORY)
    assert sum(sizes(decide(jobs, [training(4)], memory=memory)).values()) == 4


def test_where_the_minima_exceed_the_nodes_the_first_to_come_are_admitted():
    jobs = [job("a", (2, 4)), job("b", 3), job("c", 1, running=1), job("d", 1)]
    decision = decide(jobs, [training(5)])
    assert sizes(decision) == {"a": 4, "b": 0, "c": 1, "d": 0}
    assert why(decision, "b") == (
        "first of the queue: needs 3 GPUs, 2 are left by the smallest sizes of other jobs"
    )
    assert why(decision, "d") == (
        "waits behind 1 in the queue: its first, b, needs 3 GPUs, "
        "2 are left by the smallest sizes of other jobs"
    )


def test_minima_that_fill_the_nodes_exactly_are_admitted():
    assert sizes(decide([job("a", (2, 4)), job("b", (2, 4))], [training(4)])) == {"a": 2, "b": 2}


def test_where_servers_were_lost_the_latest_submitted_go():
    jobs = [job("a", 2, running=2), job("b", 4, running=4), job("c", 1, running=1)]
    decision = decide(jobs, [training(4)])
    assert sizes(decision) == {"a": 2, "b": 0, "c": 1}
    assert why(decision, "b") == (
        "gives up its 4 workers: of 4 GPUs left, 3 go to the smallest sizes of other jobs, "
        "it needs 4"
    )


def test_a_short_job_gets_no_more_than_ends_it_and_the_others_share_the_rest():
    jobs = [of_node_hours("short", 1 / 12), of_node_hours("long", 20)]
    decision = decide(jobs, [training(17)])
    assert sizes(decision) == {"short": 1, "long": 16}
    assert decision.allocations["short"].plan == (PlanStep(NOW_S + 300, 0),)


def test_shares_and_prices_are_told():
    jobs = [of_node_hours("a", 20, running=1), of_node_hours("b", 20, running=8)]
    decision = decide(jobs, [training(8)])
    assert sizes(decision) == {"a": 4, "b": 4}
    assert why(decision, "a").startswith(
        "grows from 1 to 4 workers: 1.1% of what is left is done in 300 s, 5.3% in 1500 s; "
        "8 workers would do 0.6% more in the step, for 4 GPUs of which 0 are free, worth "
    )
    assert why(decision, "b").startswith("shrinks from 8 to 4 workers: ")


def test_sizes_are_powers_of_two_up_to_the_largest():
    jobs = [job("a", (1, 31), epochs=1e4)]
    assert sizes(decide(jobs, [training(31)])) == {"a": 16}
    assert sizes(decide(jobs, [training(31)], policy=ModelArts(max_nodes=4))) == {"a": 4}


def test_a_node_may_be_many_gpus():
    policy = ModelArts(unit_gpus=8)
    jobs = [job("a", (1, 20), gpus=2, epochs=1e4), job("b", (1, 12), epochs=1e4)]
    assert sizes(decide(jobs, [training(48)], policy=policy)) == {"a": 16, "b": 8}


def test_a_job_whose_range_holds_no_power_of_two_runs_on_its_minimum():
    decision = decide([job("a", (5, 7))], [training(7)])
    assert sizes(decision) == {"a": 5}
    assert why(decision, "a").endswith("it has no other size")


def test_a_curve_that_falls_off_is_not_climbed():
    jobs = [job("a", (1, 4), epoch_s=[100, 60, 60, 60], epochs=1e3)]
    assert sizes(decide(jobs, [training(4)])) == {"a": 2}


@pytest.mark.parametrize(("resize_s", "workers"), [(0, 2), (23, 2), (25, 1)])
def test_a_resize_has_to_pay_within_a_step(resize_s, workers):
    """In 300 s, 3 epochs or, less the resize, (300 - resize_s) / 92."""
    jobs = [job("a", (1, 2), epoch_s=[100, 92], epochs=1e3, running=1)]
    assert sizes(decide(jobs, [training(2)], resize_s=resize_s)) == {"a": workers}


def test_the_final_objective_looks_at_the_end_of_the_horizon_alone():
    """a, done in five steps on one node, is pushed by the sum over the steps only."""
    jobs = [of_node_hours("a", 5 / 12, most=2), of_node_hours("b", 3.0, most=2)]
    by_end = decide(jobs, [training(3)], policy=ModelArts(objective="final"))
    assert sizes(decide(jobs, [training(3)])) == {"a": 2, "b": 1}
    assert sizes(by_end) == {"a": 1, "b": 2}
    assert by_end.objective == pytest.approx(1 + 5 * 1.6 / 12 / 3.0)


def test_jobs_that_end_in_the_step_take_idle_gpus_in_the_order_of_arrival():
    jobs = [job("a", (1, 8), epochs=2), job("b", (1, 8), epochs=2), job("c", (1, 8), epochs=2)]
    assert sizes(decide(jobs, [training(8)])) == {"a": 4, "b": 2, "c": 2}


def test_a_job_that_starts_pays_no_resize():
    waiting = [of_node_hours("a", 9)]
    free = decide(waiting, [training(4)])
    assert decide(waiting, [training(4)], resize_s=100).objective == free.objective


def test_ending_sooner_has_to_be_worth_a_resize():
    jobs = [job("a", (1, 2), epoch_s=20, running=1)]
    assert sizes(decide(jobs, [training(2)], resize_s=9)) == {"a": 2}
    assert sizes(decide(jobs, [training(2)], resize_s=11)) == {"a": 1}


def test_servers_on_loan_count():
    assert sizes(decide([job("a", (1, 4), epochs=1e4)], [training(1), on_loan(3)])) == {"a": 4}


def test_an_empty_cluster_and_no_jobs():
    assert sizes(decide([job("a", (1, 4))], [])) == {"a": 0}
    empty = decide([], [training(4)])
    assert (sizes(empty), empty.objective, empty.bound) == ({}, 0, 0)


def test_a_job_with_nothing_left_keeps_its_smallest_size():
    assert sizes(decide([job("a", (1, 4), epochs=0)], [training(4)])) == {"a": 1}


@pytest.mark.parametrize(
    ("parameters", "message"),
    [
        ({"interval_s": 0.0}, "interval_s is 0.0; use a positive number of seconds, or None"),
        ({"step_s": float("nan")}, "step_s is nan; use a positive number of seconds"),
        ({"horizon": 0}, "horizon is 0; use 1 to 8"),
        ({"max_nodes": 3}, "max_nodes is 3; use a power of two"),
        ({"max_nodes": -4}, "max_nodes is -4; use a power of two"),
        ({"unit_gpus": 0}, "unit_gpus is 0; use a positive number of GPUs, or None"),
        ({"objective": "mean"}, "objective is mean; use 'cumulative' or 'final'"),
        ({"gap": 1.0}, "gap is 1.0; use from 0, less than 1"),
        ({"rounds": 0}, "rounds is 0; use from 1"),
        ({"exact_jobs": -1}, "exact_jobs is -1; use from 0"),
        ({"exact_nodes": 0}, "exact_nodes is 0; use from 1"),
    ],
)
def test_parameters_are_checked(parameters, message):
    with pytest.raises(PolicyError) as error:
        ModelArts(**parameters)
    assert str(error.value) == message


def test_bad_input_names_job_and_field():
    with pytest.raises(PolicyError, match="job a: epoch_s at 1 workers is nan"):
        decide([job("a", (1, 2), epoch_s=[float("nan"), 1])], [training(2)])


@given(problems(lost_servers=True), st.sampled_from(["cumulative", "final"]))
def test_within_the_capacity_and_each_job_at_a_legal_size(case, objective):
    jobs, decision = case.jobs, ModelArts(objective=objective).decide(case, NO_MEMORY)[0]
    workers = np.array([decision.allocations[name].workers for name in jobs.ids], dtype=int)
    assert (workers * jobs.gpus_per_worker).sum() <= case.servers.total_gpus
    runs = workers > 0
    assert (workers[runs] >= jobs.min_workers[runs]).all()
    assert (workers <= jobs.max_workers).all()
    power_of_two = workers & (workers - 1) == 0
    assert (power_of_two | (workers == jobs.min_workers))[runs].all()
    assert certified(decision, gap=1e-5)
    assert all(str(allocation.reason) for allocation in decision.allocations.values())


@given(problems(lost_servers=True))
def test_plans_fit_step_by_step(case):
    decision = POLICY.decide(case, NO_MEMORY)[0]
    for step in range(POLICY.horizon):
        at_s = case.now_s + step * POLICY.step_s
        used_gpus = 0
        for row, allocation in enumerate(decision.allocations.values()):
            due = [ahead.workers for ahead in allocation.plan if ahead.start_s <= at_s]
            workers = due[-1] if due else allocation.workers
            used_gpus += workers * int(case.jobs.gpus_per_worker[row])
        assert used_gpus <= case.servers.total_gpus


@given(problems(), st.floats(0, 299))
def test_between_decisions_nobody_is_resized(case, later_s):
    _, memory = POLICY.decide(case, NO_MEMORY)
    decision = POLICY.decide(replace(case, now_s=case.now_s + later_s), memory)[0]
    jobs = case.jobs
    workers = np.array([decision.allocations[name].workers for name in jobs.ids], dtype=int)
    runs = jobs.workers > 0
    assert (workers[runs] == jobs.workers[runs]).all()
    assert (workers * jobs.gpus_per_worker).sum() <= case.servers.total_gpus


@given(problems())
def test_a_decision_taken_twice_is_the_same_and_its_memory_is_json(case):
    decision, memory = POLICY.decide(case, NO_MEMORY)
    again = POLICY.decide(case, json.loads(json.dumps(NO_MEMORY)))
    assert again == (decision, memory)
    due = replace(case, now_s=case.now_s + 300)
    assert POLICY.decide(due, json.loads(json.dumps(memory))) == POLICY.decide(due, memory)


def test_many_jobs_from_the_last_prices():
    """170 jobs and 190 nodes: certified, and again after a step, within the same gap."""
    draws = np.random.default_rng(0)
    jobs = [of_node_hours(str(n), d) for n, d in enumerate(np.exp(draws.normal(0, 1.5, 170)))]
    policy = ModelArts(interval_s=None)
    first, memory = policy.decide(problem(jobs, [training(190)]), NO_MEMORY)
    second, _ = policy.decide(problem(standing(jobs, first), [training(190)]), memory)
    for decision in (first, second):
        assert certified(decision, gap=1e-3)
        assert sum(sizes(decision).values()) <= 190
