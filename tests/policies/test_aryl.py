"""aryl: the paper's tables and Figure 6 as exact cases, resizes, reasons, what always holds."""

import json
from dataclasses import replace

import numpy as np
import pytest
from hypothesis import given

from policies.aryl import Aryl
from policies.aryl_objectives import WORTH, knapsack_groups
from policies.problem import NO_MEMORY, PlacementRule, Policy, PolicyError
from tests.builders import job, on_loan, problem, training
from tests.strategies import problems

# Table 2 gives running times on the maximum; epoch_s is on the minimum, under linear scaling.
A = job("A", (2, 6), epoch_s=50 * 6 / 2)
B = job("B", (2, 6), epoch_s=20 * 6 / 2)
A_OF_TABLE_4 = job("A", (2, 3), epoch_s=100 * 3 / 2)


def decide(*args, **kwargs):
    return Aryl().decide(problem(*args, **kwargs), NO_MEMORY)[0]


def sizes(decision):
    return {name: allocation.workers for name, allocation in decision.allocations.items()}


def why(decision, name):
    return str(decision.allocations[name].reason)


def completion_s(jobs, gpus, first=None, policy=Aryl()):  # noqa: B008 - frozen
    """When each job ends if the policy decides at each completion (at first: as told)."""
    now_s = 0.0
    ended: dict[str, float] = {}
    while jobs:
        given = first or sizes(policy.decide(problem(jobs, [training(gpus)]), NO_MEMORY)[0])
        first = None
        left_s = {j.id: j.epochs * j.epoch_s[given[j.id] - j.workers[0]] for j in jobs}
        step_s = min(left_s.values())
        now_s += step_s
        ended |= {name: now_s for name, seconds in left_s.items() if seconds == step_s}
        jobs = [
            replace(j, epochs=j.epochs * (1 - step_s / left_s[j.id]), running=given[j.id])
            for j in jobs
            if j.id not in ended
        ]
    return ended


def test_is_a_policy():
    assert isinstance(Aryl(), Policy)
    assert (Aryl().name, Aryl().default_loaning, Aryl().interval_s) == ("aryl", "aryl", 60.0)


def test_table_2_the_knapsack_gives_5_and_3():
    decision = decide([A, B], [training(8)])
    assert sizes(decision) == {"A": 5, "B": 3}
    assert decision.objective == decision.bound == pytest.approx(150 * 3 / 5 + 60 * 1 / 3)
    ended = completion_s([A, B], 8)
    assert ended == pytest.approx({"A": 170 / 3, "B": 40})
    assert sum(ended.values()) / 2 == pytest.approx(48.33, abs=0.005)


@pytest.mark.parametrize(
    ("first", "a_s", "b_s", "mean_s"),
    [
        ({"A": 6, "B": 2}, 50, 53.33, 51.67),
        ({"A": 2, "B": 6}, 63.33, 20, 41.67),
        ({"A": 4, "B": 4}, 60, 30, 45),
    ],
)
def test_table_3(first, a_s, b_s, mean_s):
    ended = completion_s([A, B], 8, first)
    assert ended == pytest.approx({"A": a_s, "B": b_s}, abs=0.005)
    assert sum(ended.values()) / 2 == pytest.approx(mean_s, abs=0.005)


@pytest.mark.parametrize(
    ("first", "a_s", "b_s", "mean_s"),
    [({"A": 3, "B": 5}, 100, 24, 62), ({"A": 2, "B": 6}, 106.67, 20, 63.33)],
)
def test_table_4(first, a_s, b_s, mean_s):
    ended = completion_s([A_OF_TABLE_4, B], 8, first)
    assert ended == pytest.approx({"A": a_s, "B": b_s}, abs=0.005)
    assert sum(ended.values()) / 2 == pytest.approx(mean_s, abs=0.005)


def test_table_4_the_knapsack_favours_a_as_the_paper_does():
    assert sizes(decide([A_OF_TABLE_4, B], [training(8)])) == {"A": 3, "B": 5}


def test_figure_6_weights_and_values():
    """The jobs of Table 4, A with 2 GPUs a worker: weights of the extra workers alone."""
    jobs = [replace(A_OF_TABLE_4, gpus=2), B]
    groups, extra = knapsack_groups(problem(jobs, [training(16)]), np.arange(2), WORTH["mckp"])
    assert groups.offset.tolist() == [0, 1, 5]
    assert groups.weight.tolist() == [2, 1, 2, 3, 4]
    assert groups.value.tolist() == pytest.approx([50, 20, 30, 36, 40])
    assert extra.tolist() == [1, 1, 2, 3, 4]


def test_shortest_first_and_what_does_not_fit_is_skipped():
    jobs = [
        job("long", 2, epoch_s=90),
        job("medium", 4, epoch_s=50),
        job("short", 1, epoch_s=10),
    ]
    decision = decide(jobs, [training(4)])
    assert sizes(decision) == {"long": 2, "medium": 0, "short": 1}
    assert why(decision, "medium") == (
        "waits: needs 4 GPUs, 3 are left by the base demands of running jobs "
        "and of 1 shorter ones; 50 s to go at its minimum"
    )


@given(problems())
def test_who_waits_is_told_of_the_shorter_ones_and_of_what_they_left(case):
    jobs = case.jobs
    answers = Aryl().decide(case, NO_MEMORY)[0].allocations
    queue = np.flatnonzero(jobs.workers == 0).tolist()
    left_s = {row: jobs.remaining_s(row, int(jobs.min_workers[row])) for row in queue}
    running = int(jobs.base_gpus[jobs.workers > 0].sum())
    for row in (row for row in queue if not answers[jobs.ids[row]].workers):
        before = [
            other
            for other in queue
            if answers[jobs.ids[other]].workers and (left_s[other], other) < (left_s[row], row)
        ]
        told = answers[jobs.ids[row]].reason.numbers
        assert told["started"] == len(before)
        assert told["free"] == case.servers.total_gpus - running - jobs.base_gpus[before].sum()


def test_elastic_jobs_queue_by_their_time_at_base_demand():
    jobs = [job("elastic", (1, 4), epoch_s=100), job("fixed", 4, epoch_s=99)]
    assert sizes(decide(jobs, [training(4)])) == {"elastic": 0, "fixed": 4}


def test_equally_short_jobs_start_in_the_order_of_arrival():
    assert sizes(decide([job("a", 3), job("b", 3)], [training(4)])) == {"a": 3, "b": 0}


def test_base_demand_comes_before_what_is_flexible():
    jobs = [job("big", (1, 8), epoch_s=9000, running=8), job("new", 4, epoch_s=1)]
    decision = decide(jobs, [training(4), on_loan(4)])
    assert sizes(decision) == {"big": 4, "new": 4}
    assert why(decision, "big") == (
        "shrinks from 8 to 4 workers: 2250 s to go, not 1125 s; one more would save 450.0 s "
        "for 1 GPUs, 0 are free and the others save more where they are"
    )


def test_running_jobs_are_not_preempted_for_shorter_ones():
    jobs = [job("old", 4, epoch_s=1000, running=4), job("new", 4, epoch_s=1)]
    assert sizes(decide(jobs, [training(4)])) == {"old": 4, "new": 0}


def test_a_curve_that_falls_off_is_not_climbed():
    decision = decide([job("a", (1, 3), epoch_s=[10, 6, 7])], [training(4)])
    assert sizes(decision) == {"a": 2}
    assert why(decision, "a") == (
        "starts on 2 workers, 6 s to go; "
        "one more would save -1.0 s, too little where a resize costs 0.0 s"
    )


@pytest.mark.parametrize(("resize_s", "workers"), [(4.9, 2), (5.1, 1)])
def test_a_running_job_grows_only_if_it_saves_more_than_a_resize(resize_s, workers):
    jobs = [job("a", (1, 2), epoch_s=10, running=1)]
    assert sizes(decide(jobs, [training(2)], resize_s=resize_s)) == {"a": workers}


@pytest.mark.parametrize(("resize_s", "winner"), [(0, "b"), (1, "a")])
def test_keeping_a_size_costs_nothing(resize_s, winner):
    """b gains 0.5 s more from the GPU, but a has it and giving it up is a resize of its own."""
    jobs = [job("a", (1, 2), epoch_s=10, running=2), job("b", (1, 2), epoch_s=11, running=1)]
    assert sizes(decide(jobs, [training(3)], resize_s=resize_s))[winner] == 2


def test_a_job_that_starts_pays_no_resize():
    assert sizes(decide([job("a", (1, 2))], [training(2)], resize_s=1e6)) == {"a": 2}


def test_the_objective_counts_a_shrink_to_the_minimum():
    jobs = [job("a", (1, 2), epoch_s=10, running=2), job("b", 1)]
    assert decide(jobs, [training(2)], resize_s=3.0).objective == -3.0


def test_where_servers_were_lost_the_latest_submitted_go():
    jobs = [job("a", 2, running=2), job("b", 4, running=4), job("c", 1, running=1)]
    decision = decide(jobs, [training(4)])
    assert sizes(decision) == {"a": 2, "b": 0, "c": 1}
    assert why(decision, "b") == (
        "gives up its 4 workers: of 4 GPUs left, 3 go to the base demands of other running jobs, "
        "it needs 4"
    )


def test_jobs_are_placed_apart():
    decision = decide([A, job("huge", 99)], [training(8)])
    assert {a.placement for a in decision.allocations.values()} == {PlacementRule.APART}


def test_reasons_carry_their_numbers():
    reason = decide([job("a", (1, 4), running=1)], [training(3)]).allocations["a"].reason
    assert str(reason) == (
        "grows from 1 to 3 workers: 3 s to go, not 10 s; one more would save 0.8 s for 1 GPUs, "
        "0 are free and the others save more where they are"
    )
    assert reason.numbers["before"] == 1 and reason.numbers["left_s"] == pytest.approx(10 / 3)


def test_an_empty_cluster_and_no_jobs():
    assert sizes(decide([A], [])) == {"A": 0}
    assert sizes(decide([], [training(4)])) == {}


def test_the_interval_is_a_time():
    with pytest.raises(PolicyError, match="interval_s is 0; use a positive number of seconds"):
        Aryl(interval_s=0)


@given(problems(lost_servers=True))
def test_within_the_capacity_and_each_job_within_its_range(case):
    jobs, decision = case.jobs, Aryl().decide(case, NO_MEMORY)[0]
    workers = np.array([decision.allocations[name].workers for name in jobs.ids], dtype=int)
    assert (workers * jobs.gpus_per_worker).sum() <= case.servers.total_gpus
    runs = workers > 0
    assert (workers[runs] >= jobs.min_workers[runs]).all()
    assert (workers <= jobs.max_workers).all()
    assert decision.objective == pytest.approx(decision.bound)
    assert all(str(allocation.reason) for allocation in decision.allocations.values())


@given(problems())
def test_who_runs_goes_on_running(case):
    decision = Aryl().decide(case, NO_MEMORY)[0]
    running = [
        name for name, workers in zip(case.jobs.ids, case.jobs.workers, strict=True) if workers
    ]
    assert all(decision.allocations[name].workers for name in running)


@given(problems())
def test_a_decision_taken_twice_is_the_same_and_its_memory_is_json(case):
    decision, memory = Aryl().decide(case, NO_MEMORY)
    assert Aryl().decide(case, json.loads(json.dumps(memory))) == (decision, memory)
