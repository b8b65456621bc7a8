"""gandiva_elastic by hand, and what always holds."""

import numpy as np
import pytest
from hypothesis import given

from policies.baselines.gandiva_elastic import GandivaElastic
from policies.problem import NO_MEMORY, Policy, PolicyError
from tests.builders import job, on_loan, problem, training
from tests.policies.baselines.sound import assert_sound, busy


def decide(jobs, servers):
    return GandivaElastic().decide(problem(jobs, servers), NO_MEMORY)[0]


def sizes(decision):
    return {name: allocation.workers for name, allocation in decision.allocations.items()}


def why(decision, name):
    return str(decision.allocations[name].reason)


def test_is_a_policy():
    assert isinstance(GandivaElastic(), Policy)
    policy = GandivaElastic()
    assert (policy.name, policy.default_loaning) == ("gandiva_elastic", "off")
    assert policy.interval_s == 60


def test_jobs_start_on_their_base_demand_in_the_order_of_arrival():
    jobs = [job("a", (2, 8), requested=4), job("big", (4, 8)), job("small")]
    decision = decide(jobs, [training(4)])
    assert sizes(decision) == {"a": 2, "big": 0, "small": 0}
    assert why(decision, "big") == ("waits; its base demand is 4 GPUs, jobs that run leave 2")
    assert why(decision, "small").endswith("leave 2, 1 jobs are before it in the queue")


def test_where_nobody_waits_jobs_grow_in_turn_on_the_servers_that_they_are_on():
    jobs = [job("a", (1, 8), on={"t1": 1}), job("b", (1, 8), on={"t1": 1}), job("c", on={"t2": 1})]
    decision = decide(jobs, [training(5), training(4)])
    assert sizes(decision) == {"a": 3, "b": 2, "c": 1}
    assert decision.allocations["a"].servers == {"t1": 3}
    assert decision.allocations["c"].servers is None
    assert why(decision, "b") == (
        "grows from 1 to 2 workers; nobody waits, it can use 8; 3 GPUs stay free, 0 of them on its "
        "servers"
    )


def test_growth_ends_at_the_maximum_and_goes_on_to_the_next_server():
    jobs = [job("a", (2, 6), on={"t1": 1, "l1": 1}), job("b", (1, 2), gpus=2, on={"t1": 1})]
    decision = decide(jobs, [training(6), on_loan(4)])
    assert decision.allocations["a"].servers == {"t1": 2, "l1": 4}
    assert decision.allocations["b"].servers == {"t1": 2}


def test_as_soon_as_somebody_waits_all_shrink_to_their_base_demand():
    jobs = [job("a", (1, 4), on={"t1": 4}), job("b", (1, 4), on={"t2": 2}), job("new", (2, 4))]
    decision = decide(jobs, [training(4), training(4)])
    assert sizes(decision) == {"a": 1, "b": 1, "new": 2}
    assert why(decision, "a") == (
        "shrinks from 4 to 1 workers; its base demand is 1 GPUs, jobs that run leave 6"
    )


def test_a_job_that_does_not_yet_stand_where_it_shall_does_not_grow():
    jobs = [job("a", (1, 8), running=2, on={"t1": 1}), job("b", (1, 8), on={"t1": 1})]
    decision = decide(jobs, [training(5)])
    assert sizes(decision) == {"a": 2, "b": 3}


def test_where_a_server_was_lost_jobs_shrink_and_the_latest_submitted_wait():
    jobs = [job("a", (1, 2), on={"t1": 2}), job("b", (1, 2), on={"t2": 2}), job("c", on={"t2": 1})]
    assert sizes(decide(jobs, [training(2), training(0)])) == {"a": 1, "b": 1, "c": 0}


@given(busy())
def test_who_runs_is_not_preempted(case):
    decision = GandivaElastic().decide(case, NO_MEMORY)[0]
    assert all(sizes(decision)[case.jobs.ids[row]] for row in np.flatnonzero(case.jobs.workers))


@given(busy())
def test_growth_stays_within_each_server(case):
    for row, allocation in enumerate(
        GandivaElastic().decide(case, NO_MEMORY)[0].allocations.values()
    ):
        for server, workers in (allocation.servers or {}).items():
            at = case.servers.ids.index(server)
            assert case.placed[row, at] > 0
            assert workers * case.jobs.gpus_per_worker[row] <= case.servers.gpus[at]


@given(busy(), busy(lost_servers=True))
def test_always_holds(before, after):
    assert_sound(GandivaElastic(), before, after)


def test_parameters_make_sense():
    with pytest.raises(PolicyError, match="interval_s is 0; use a positive number of seconds"):
        GandivaElastic(interval_s=0)
