"""gandiva by hand, everybody's turn within bounded time, and what always holds."""

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from policies.baselines.gandiva import Gandiva
from policies.problem import NO_MEMORY, Policy, PolicyError
from tests.builders import job, problem, training
from tests.policies.baselines.sound import assert_sound, busy
from tests.policies.baselines.virtual import run


def decide(jobs, servers, memory=NO_MEMORY, now_s=1000.0):
    return Gandiva().decide(problem(jobs, servers, now_s=now_s), memory)


def sizes(decision):
    return {name: allocation.workers for name, allocation in decision.allocations.items()}


def running(decision):
    return {name for name, workers in sizes(decision).items() if workers}


def why(decision, name):
    return str(decision.allocations[name].reason)


def test_is_a_policy():
    assert isinstance(Gandiva(), Policy)
    policy = Gandiva()
    assert (policy.name, policy.default_loaning, policy.interval_s) == ("gandiva", "off", None)


def test_jobs_run_on_the_size_that_they_asked_for():
    jobs = [job("a", (1, 8), requested=3), job("grown", (1, 4), running=4), job("big", 16)]
    decision, _ = decide(jobs, [training(8)])
    assert sizes(decision) == {"a": 3, "grown": 1, "big": 0}
    assert decision.review_at_s is None  # nobody waits who could ever run


def test_servers_go_to_classes_by_the_gpus_that_they_ask_for():
    """Four servers of 4: the class of 4 asks for 24 GPUs, that of 1 for 8, so 3 to 1."""
    jobs = [job(f"small{n}") for n in range(8)] + [job(f"large{n}", 4) for n in range(6)]
    decision, _ = decide(jobs, [training(4)] * 4)
    assert running(decision) == {"small0", "small1", "small2", "small3"} | {
        "large0", "large1", "large2"
    }  # fmt: skip


def test_a_set_for_a_large_class_is_several_servers():
    jobs = [job("two servers", 8), job("small")]
    assert running(decide(jobs, [training(4)] * 3)[0]) == {"two servers", "small"}


def test_what_sets_leave_over_goes_to_whoever_fits():
    jobs = [job("a", 3), job("b", 3), job("c"), job("d")]
    assert running(decide(jobs, [training(4), training(4)])[0]) == {"a", "b", "c", "d"}


def test_turns_go_round_at_the_end_of_a_quantum_and_not_before():
    jobs = [job("a"), job("b"), job("c")]
    first, memory = decide(jobs, [training(2)])
    assert (running(first), first.review_at_s) == ({"a", "b"}, 1060)
    stand = [job("a", running=1), job("b", running=1), job("c")]
    within, memory = decide(stand, [training(2)], memory, now_s=1059)
    assert (running(within), within.review_at_s) == ({"a", "b"}, 1060)
    second, memory = decide(stand, [training(2)], memory, now_s=1060)
    assert (running(second), second.review_at_s) == ({"a", "c"}, 1120)
    assert why(second, "b") == (
        "gives up its 1 workers: it asked for 1 GPUs and is 3 of 3 in the queue for turns; "
        "0 GPUs are free, this turn ends in 60 s"
    )
    assert why(second, "c").startswith("starts on 1 workers: it asked for 1 GPUs and is 1 of 3")
    stand = [job("a", running=1), job("b"), job("c", running=1)]
    assert running(decide(stand, [training(2)], memory, now_s=1120)[0]) == {"b", "c"}


def test_within_a_turn_gpus_that_fall_free_are_used():
    _, memory = decide([job("a"), job("b"), job("c")], [training(2)])
    stand = [job("b", running=1), job("c")]
    assert running(decide(stand, [training(2)], memory, now_s=1001)[0]) == {"b", "c"}


def test_where_a_server_was_lost_a_new_turn_begins():
    _, memory = decide([job("a"), job("b")], [training(1), training(1)])
    stand = [job("a", running=1), job("b", running=1)]
    assert running(decide(stand, [training(1)], memory, now_s=1001)[0]) == {"a"}


@given(
    st.lists(st.integers(1, 10), min_size=1, max_size=8),
    st.lists(st.integers(1, 5), min_size=1, max_size=4),
)
def test_everybody_has_a_turn_within_as_many_turns_as_there_are_jobs(asked, servers):
    jobs = [job(str(n), gpus, epoch_s=1e9) for n, gpus in enumerate(asked)]
    turns_s = 60 * len(jobs)
    done = run(Gandiva(), jobs, [training(gpus) for gpus in servers], until_s=turns_s + 1)
    ran = set().union(*(running(decision) for _, decision in done.decisions))
    assert ran == {job.id for job in jobs if job.workers[0] <= sum(servers)}


@given(st.integers(1, 8), st.integers(1, 10))
def test_equal_jobs_run_equally_often(count, gpus):
    jobs = [job(str(n), epoch_s=1e9) for n in range(count)]
    done = run(Gandiva(), jobs, [training(gpus)], until_s=60 * (2 * count + 1))
    turns = done.decisions[-1][0].jobs.attained_gpu_s / 60
    assert np.ptp(turns) <= 1


# --- the published reading ----------------------------------------------------------------------

PUBLISHED = Gandiva(reading="published")


def published(jobs, servers, memory=NO_MEMORY, now_s=1000.0):
    return PUBLISHED.decide(problem(jobs, servers, now_s=now_s), memory)


def as_it_stood(*sets):
    return {"version": "published 2", "decided_s": 900.0, "pending": [], "sets": list(sets)}


def test_a_set_takes_a_job_into_a_free_place_only_if_a_second_one_is_free():
    """Places for two: the second job opens a set, the third and fourth go where least are."""
    jobs = [job(name) for name in "abcde"]
    decision, memory = published(jobs, [training(2), training(2)])
    assert memory["sets"] == [[1, 3, ["a", "c", "e"]], [1, 2, ["b", "d"]]]
    assert (running(decision), decision.review_at_s) == ({"a", "b", "c", "d"}, 1060)
    assert (
        why(decision, "e") == "waits: jobs that asked for 1 GPUs have 2 servers, 0 jobs have none"
    )


def test_a_size_without_servers_waits_beside_idle_gpus():
    decision, memory = published([job("small"), job("large", 3)], [training(4)])
    assert (running(decision), memory["pending"]) == ({"small"}, ["large"])
    assert why(decision, "large").endswith("have 0 servers, 1 jobs have none")
    decision, memory = published([job("large", 3)], [training(4)], memory, now_s=1060.0)
    assert (running(decision), memory["pending"]) == ({"large"}, [])
    assert decision.review_at_s == 1120  # though nobody waits


def test_a_size_that_asks_for_less_gives_a_set_up_and_keeps_its_jobs():
    """Of 8 GPUs one job of 4 and three of 1 ask for 4 and 3, on one server and two."""
    memory = as_it_stood([1, 1, ["a"]], [1, 2, ["b", "c"]], [4, 1, ["d"]])
    jobs = [job("a"), job("b"), job("c"), job("d", 4)]
    _, memory = published(jobs, [training(4)] * 3, memory)
    assert memory["sets"] == [[1, 3, ["b", "c", "a"]], [4, 1, ["d"]]]


def test_a_decision_ends_with_regrouping_and_those_in_front_then_run():
    """The job that comes has a set of its own, which is more than small jobs should have."""
    memory = as_it_stood([1, 2, ["a", "b"]], [4, 1, ["d"]])
    jobs = [job("a"), job("b"), job("d", 4), job("new")]
    decision, memory = published(jobs, [training(2)] * 4, memory)
    assert memory["sets"] == [[1, 3, ["a", "b", "new"]], [4, 1, ["d"]]]
    assert running(decision) == {"a", "b", "d"}


def test_asked_again_at_one_time_it_decides_again_on_all_that_is_known():
    stood = as_it_stood([1, 2, ["a", "b"]], [4, 1, ["d"]])
    servers, first = [training(2)] * 4, [job("a"), job("b"), job("d", 4), job("e")]
    now = [*first[1:3], job("f", 4)]
    _, memory = published(first, servers, stood)
    assert published(now, servers, memory) == published(now, servers, stood)
    assert published(now, servers, memory, now_s=1060.0)[1]["before"] == {
        name: memory[name] for name in ("sets", "pending")
    }


def test_of_a_reading_the_memory_means_nothing_to_the_other():
    jobs, servers = [job("a"), job("b")], [training(1)]
    for one, other in ((PUBLISHED, Gandiva()), (Gandiva(), PUBLISHED)):
        memory = one.decide(problem(jobs, servers), NO_MEMORY)[1]
        assert other.decide(problem(jobs, servers), memory) == other.decide(
            problem(jobs, servers), NO_MEMORY
        )


# --- what always holds --------------------------------------------------------------------------


@given(busy(), busy(lost_servers=True), st.sampled_from(["clean", "published"]))
def test_always_holds(before, after, reading):
    assert_sound(Gandiva(reading=reading), before, after)


@given(busy())
def test_nobody_waits_whose_gpus_are_free(case):
    decision, _ = Gandiva().decide(case, NO_MEMORY)
    gpus = case.jobs.requested_workers * case.jobs.gpus_per_worker
    runs = np.array([name in running(decision) for name in case.jobs.ids], dtype=bool)
    free = case.servers.total_gpus - gpus[runs].sum()
    assert (gpus[~runs] > free).all()


@pytest.mark.parametrize(
    ("parameters", "error"),
    [
        ({"quantum_s": 0}, "quantum_s is 0; use a positive number of seconds"),
        ({"reading": "exact"}, "reading is 'exact'; use 'clean' or 'published'"),
    ],
)
def test_parameters_make_sense(parameters, error):
    with pytest.raises(PolicyError, match=error):
        Gandiva(**parameters)
