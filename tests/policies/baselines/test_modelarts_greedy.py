"""modelarts_greedy: the four scenarios and Fig. 4 of paper 000, and what always holds."""

import pytest
from hypothesis import given
from hypothesis import strategies as st

from policies.baselines.modelarts_greedy import ModelArtsGreedy
from policies.problem import NO_MEMORY, Policy, PolicyError
from tests.builders import job, problem, training
from tests.policies.baselines.sound import assert_sound, busy

NODES = (1, 16)


def node(name, running=0, *, left_s=1000.0, **kwargs):
    """A job of 1 to 16 nodes that scales linearly and has `left_s` to go where it stands."""
    return job(name, NODES, epoch_s=left_s * max(running, 1), running=running, **kwargs)


def decide(jobs, nodes, *, policy=None, memory=NO_MEMORY, now_s=1000.0):
    case = problem(jobs, [training(1)] * nodes, now_s=now_s)
    return (policy or ModelArtsGreedy()).decide(case, memory)


def sizes(decision):
    return {name: allocation.workers for name, allocation in decision.allocations.items()}


def why(decision, name):
    return str(decision.allocations[name].reason)


def test_is_a_policy():
    assert isinstance(ModelArtsGreedy(), Policy)
    policy = ModelArtsGreedy()
    assert (policy.name, policy.default_loaning) == ("modelarts_greedy", "off")
    assert policy.interval_s == 300


def test_figure_4_above_idle_nodes_go_to_the_shortest_job():
    jobs = [node("1", 4, left_s=40), node("2", 2, left_s=30), node("3", 4, left_s=20)]
    decision, _ = decide([*jobs, node("4", 2, left_s=10)], 14)
    assert sizes(decision) == {"1": 4, "2": 2, "3": 4, "4": 4}
    assert why(decision, "4") == (
        "grows from 2 to 4 workers; at 10 s its time was shortest, 2 GPUs were idle; sizes change "
        "in 300 s"
    )


def test_figure_4_below_the_longest_job_is_halved_for_the_first_of_the_queue():
    jobs = [node("5", 4, left_s=90), node("6", 4, left_s=80), node("7", 4, left_s=70), node("8")]
    decision, _ = decide(jobs, 12)
    assert sizes(decision) == {"5": 2, "6": 4, "7": 4, "8": 2}
    assert why(decision, "5") == (
        "shrinks from 4 to 2 workers; halved for 8: at 90 s its time was longest; sizes change in "
        "300 s"
    )
    assert why(decision, "8").startswith(
        "starts on 2 workers; first of the queue, 2 GPUs were idle"
    )


def test_scenario_1_the_queue_takes_as_many_nodes_as_possible_in_its_order():
    """The paper's example of unfairness: 99 nodes to job 1 and 1 to job 2."""
    policy = ModelArtsGreedy(max_nodes=99)
    jobs = [job("1", (1, 200)), job("2", (1, 200)), job("3", (1, 200))]
    assert sizes(decide(jobs, 100, policy=policy)[0]) == {"1": 99, "2": 1, "3": 0}
    assert sizes(decide(jobs, 40)[0]) == {"1": 16, "2": 16, "3": 8}


def test_scenario_2_the_next_shortest_takes_what_the_shortest_cannot():
    jobs = [node("a", 1, left_s=30), node("b", 15, left_s=10), node("c", 1, left_s=20)]
    assert sizes(decide(jobs, 20)[0]) == {"a": 1, "b": 16, "c": 3}


def test_scenario_3_is_repeated_for_the_queue_and_ends_where_nobody_can_be_halved():
    jobs = [
        node("long", 4, left_s=90),
        node("short", 2, left_s=10),
        node("x"),
        node("y"),
        node("z"),
    ]
    decision, _ = decide(jobs, 6)  # the long one has 180 s to go on 2, and is halved again
    assert sizes(decision) == {"long": 1, "short": 1, "x": 2, "y": 1, "z": 1}
    decision, _ = decide([*jobs, node("w")], 6)
    assert sizes(decision)["w"] == 0
    assert why(decision, "w") == (
        "waits; 0 jobs are before it in the queue, it needs 1 GPUs, 0 are idle; sizes change in "
        "300 s"
    )


def test_scenario_3_serves_no_more_jobs_than_it_may():
    jobs = [node("long", 4, left_s=90), node("x"), node("y")]
    assert sizes(decide(jobs, 4)[0]) == {"long": 1, "x": 2, "y": 1}
    once = ModelArtsGreedy(halvings=1)
    assert sizes(decide(jobs, 4, policy=once)[0]) == {"long": 2, "x": 2, "y": 0}
    assert sizes(decide(jobs, 5, policy=once)[0]) == {"long": 2, "x": 1, "y": 2}


def test_elapsed_time_takes_no_account_of_what_is_left():
    policy = ModelArtsGreedy(training_time="elapsed")
    jobs = [node("old", 4, left_s=10), node("young", 4, left_s=90)]
    assert sizes(decide(jobs, 12, policy=policy)[0]) == {"old": 4, "young": 8}
    assert sizes(decide([*jobs, node("new")], 8, policy=policy)[0])["old"] == 2
    assert sizes(decide([*jobs, node("new")], 8)[0])["young"] == 2


def test_an_odd_job_keeps_the_smaller_half():
    assert sizes(decide([node("a", 7), node("b")], 7)[0]) == {"a": 3, "b": 4}


def test_as_many_are_halved_as_the_minimum_of_the_first_takes_or_none():
    """On 2 nodes a takes 180 s: it is halved again, then b; the fifth node is idle, for b."""
    jobs = [node("a", 4, left_s=90), node("b", 4, left_s=80), job("wants 4", 4)]
    assert sizes(decide(jobs, 8)[0]) == {"a": 1, "b": 3, "wants 4": 4}
    jobs = [job("a", (4, 8), running=4), node("b", 2, left_s=80), job("wants 4", 4)]
    assert sizes(decide(jobs, 6)[0]) == {"a": 4, "b": 2, "wants 4": 0}


def test_scenario_4_nothing_changes():
    jobs = [node("a", 4), node("b", 2)]
    decision, _ = decide(jobs, 6)
    assert sizes(decision) == {"a": 4, "b": 2}
    assert why(decision, "a") == (
        "keeps its 4 workers; 0 GPUs are idle, 0 jobs wait; sizes change in 300 s"
    )


def test_between_scaling_decisions_jobs_start_and_no_size_changes():
    decision, memory = decide([node("a", 4)], 16)
    assert (sizes(decision), decision.review_at_s) == ({"a": 16}, 1300)
    stands = [node("a", 4), node("new"), node("waits")]
    decision, memory = decide(stands, 6, memory=memory, now_s=1299)
    assert (sizes(decision), decision.review_at_s) == ({"a": 4, "new": 2, "waits": 0}, 1300)
    decision, _ = decide([node("a", 4), node("new", 2)], 8, memory=memory, now_s=1299)
    assert sizes(decision) == {"a": 4, "new": 2}
    decision, _ = decide([node("a", 4), node("b")], 4, memory=memory, now_s=1300)
    assert (sizes(decision), decision.review_at_s) == ({"a": 2, "b": 2}, 1600)


def test_without_an_interval_every_event_is_a_scaling_decision():
    policy = ModelArtsGreedy(interval_s=None)
    _, memory = decide([node("a", 4)], 4, policy=policy)
    decision, _ = decide([node("a", 4), node("b")], 4, policy=policy, memory=memory)
    assert (sizes(decision), decision.review_at_s) == ({"a": 2, "b": 2}, None)


def test_where_a_server_was_lost_it_scales_at_once():
    _, memory = decide([node("a", 4)], 8)
    stands = [node("a", 4), node("b", 4)]
    decision, _ = decide(stands, 4, memory=memory, now_s=1001)
    assert sizes(decision) == {"a": 2, "b": 2}


def test_larger_workers_count_in_gpus():
    case = problem([job("a", NODES, gpus=4), job("b", NODES, gpus=3)], [training(8), training(6)])
    policy = ModelArtsGreedy(max_nodes=2)
    assert sizes(policy.decide(case, NO_MEMORY)[0]) == {"a": 2, "b": 2}


@given(st.lists(st.integers(0, 16), max_size=8), st.integers(0, 9))
def test_no_node_stays_idle_that_a_job_could_use(running, idle):
    jobs = [node(str(n), workers) for n, workers in enumerate(running)]
    nodes = sum(running) + idle
    decision, _ = decide(jobs, nodes)
    assert sum(sizes(decision).values()) == min(nodes, 16 * len(jobs))


@given(busy(), busy(lost_servers=True))
def test_always_holds(before, after):
    assert_sound(ModelArtsGreedy(), before, after)


@pytest.mark.parametrize(
    ("parameters", "error"),
    [
        ({"interval_s": 0}, "interval_s is 0; use a positive number of seconds, or None"),
        ({"max_nodes": 0}, "max_nodes is 0; use a number from 1"),
        ({"halvings": 0}, "halvings is 0; use a number from 1, or None"),
        ({"training_time": "past"}, "training_time is 'past'; use 'remaining' or 'elapsed'"),
    ],
)
def test_parameters_make_sense(parameters, error):
    with pytest.raises(PolicyError, match=error):
        ModelArtsGreedy(**parameters)
