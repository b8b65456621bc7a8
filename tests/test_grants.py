"""Offers in the corners: what comes too late, twice, or while a job has to leave."""

from __future__ import annotations

from dataclasses import replace

import pytest

from policies.problem import Allocation
from policies.reason import because
from raysched import grants
from raysched.actions import Grant, ReleaseGrant, SetBatchSize
from raysched.ledger import Account
from raysched.state import Job, Server, State
from tests.pretend_cluster import spec

WHY = because("the test wants it")

PROFILE_OF_TWO = (9.0, 5.0, 4.0, 3.0, None, 4.0, 3.0, 2.0)
"""Batches of 64 and of 128, which does not fit on one worker."""


@pytest.fixture
def state() -> State:
    """A training server of 4 GPUs and one on loan."""
    made = State()
    for name, pool in (("t1", "training"), ("i1", "inference")):
        made.servers[name] = Server(name, pool, "GPU")  # type: ignore[arg-type]
        made.ledger.accounts[name] = Account(4)
    made.servers["i1"].loan = "open"
    return made


def running(state: State, name: str, servers: dict[str, int], least: int = 1) -> Job:
    """A job (`least` to 4 workers) that trains on these servers."""
    job = Job(name, spec(name, (least, 4)), 0.0, phase="running")
    job.running = Grant(state.next_grant(), name, servers, 64)
    state.live[name] = job
    state.ledger.grant(name, servers)
    return job


def offered(job: Job) -> dict[str, int] | None:
    return None if job.offer is None else dict(job.offer.servers)


def test_a_job_leaves_a_reclaimed_server_though_its_target_is_not_free_yet(state):
    job = running(state, "job", {"t1": 1, "i1": 1})
    other = running(state, "other", {"t1": 3})
    state.servers["i1"].loan = "reclaiming"
    grants.want(state, job, {"t1": 3}, WHY)
    grants.settle(state)
    assert offered(job) is None  # other has the GPUs

    grants.reach_boundary(state, job)
    assert (job.phase, offered(job), job.wanted) == ("leaving", {"t1": 1}, {"t1": 3})
    assert job.running is not None
    grants.stop(state, job, job.running.grant, lost=False)
    state.ledger.freed("job", "i1")
    grants.settle(state)
    state.check()
    assert not state.ledger.accounts["i1"].in_use

    grants.end(state, other, "finished")
    state.ledger.freed("other", "t1")
    grants.settle(state)  # the smaller offer was not taken yet: the target replaces it
    state.check()
    assert (offered(job), job.wanted) == ({"t1": 3}, None)
    assert state.ledger.held("job") == {"t1": 3}


def test_an_offer_that_is_replaced_gives_back_what_the_new_one_does_not_need(state):
    job = running(state, "job", {"t1": 1})
    grants.want(state, job, {"t1": 1, "i1": 3}, WHY)
    grants.settle(state)
    assert offered(job) == {"t1": 1, "i1": 3}
    actions = grants.want(state, job, {"t1": 2}, WHY)
    grants.settle(state)
    state.check()
    assert [a.servers for a in actions if isinstance(a, ReleaseGrant)] == [("i1",)]
    assert state.ledger.held("job") == {"t1": 2}
    assert state.ledger.accounts["i1"].releasing == {"job": 3}


def test_workers_lost_while_an_offer_stands_take_that_offer(state):
    job = running(state, "job", {"t1": 2})
    grants.want(state, job, {"t1": 1, "i1": 1}, WHY)
    grants.settle(state)
    assert job.running is not None
    grants.stop(state, job, job.running.grant, lost=True)
    state.check()
    assert (offered(job), job.epochs_repeated) == ({"t1": 1, "i1": 1}, 1)


def test_workers_lost_before_they_trained_redo_no_epoch(state):
    job = running(state, "job", {"t1": 2})
    job.phase = "starting"
    assert job.running is not None
    grants.stop(state, job, job.running.grant, lost=True)
    assert (offered(job), job.epochs_repeated) == ({"t1": 2}, 0)


def test_what_a_lost_server_leaves_of_a_gang_is_not_offered_again(state):
    job = running(state, "job", {"t1": 2, "i1": 2}, least=3)
    del state.servers["i1"], state.ledger.accounts["i1"]
    assert job.running is not None
    grants.stop(state, job, job.running.grant, lost=True)
    state.check()
    assert (job.phase, offered(job), state.ledger.held("job")) == ("queued", None, {})


def test_what_a_reclaim_leaves_of_a_gang_leaves_too(state):
    job = running(state, "job", {"t1": 2, "i1": 2}, least=3)
    state.servers["i1"].loan = "reclaiming"
    grants.reach_boundary(state, job)
    assert (job.phase, offered(job)) == ("leaving", {})


def test_a_target_on_a_server_whose_loan_is_over_is_void(state):
    job = running(state, "job", {"t1": 1})
    grants.want(state, job, {"t1": 1, "i1": 1}, WHY)
    state.servers["i1"].loan = "none"
    assert grants.settle(state) == []
    assert (offered(job), job.wanted) == (None, None)


def test_a_target_that_a_job_is_leaving_for_already_is_reached(state):
    job = running(state, "job", {"t1": 1})
    grants.want(state, job, {"t1": 2}, WHY)
    grants.settle(state)
    grants.reach_boundary(state, job)
    grants.want(state, job, {"t1": 2}, WHY)
    assert (offered(job), job.wanted) == ({"t1": 2}, None)


def test_what_is_said_of_an_older_grant_changes_nothing(state):
    job = running(state, "job", {"t1": 1})
    assert job.running is not None
    older = job.running.grant
    grants.want(state, job, {"t1": 2}, WHY)
    grants.settle(state)
    grants.reach_boundary(state, job)
    grants.stop(state, job, older, lost=False)
    grants.take(state, job, older)
    assert (job.phase, offered(job)) == ("queued", {"t1": 2})
    assert job.offer is not None
    grants.take(state, job, job.offer.grant)
    assert grants.stop(state, job, older, lost=True) == []
    assert (job.phase, job.standing) == ("starting", {"t1": 2})


def test_a_batch_size_goes_over_at_the_boundary_and_an_offer_comes_with_it(state):
    job = running(state, "job", {"t1": 1})
    job.spec = replace(job.spec, batch_sizes=(64, 128))
    job.batch_size = 64
    grants.want(state, job, {"t1": 2}, WHY)
    grants.settle(state)
    assert grants.set_batch_size(state, job, 128, WHY) == [SetBatchSize("job", 128, WHY)]
    assert grants.set_batch_size(state, job, 128, WHY) == []
    assert job.offer is not None
    assert job.running is not None
    assert (job.running.batch_size, job.offer.batch_size) == (64, 128)
    grants.reach_boundary(state, job)
    assert job.running.batch_size == 128
    grants.stop(state, job, job.running.grant, lost=False)
    grants.set_batch_size(state, job, 64, WHY)
    grants.take(state, job, job.offer.grant)
    assert job.running.batch_size == 64
    state.check()


def test_a_batch_size_that_is_not_the_jobs_own_changes_nothing(state):
    job = running(state, "job", {"t1": 1})
    job.batch_size = 64
    assert grants.set_batch_size(state, job, 96, WHY) == []
    assert grants.set_batch_size(state, job, None, WHY) == []
    assert job.batch_size == 64


def test_a_batch_that_does_not_fit_on_fewer_workers_gives_way_to_the_smallest(state):
    job = running(state, "job", {"t1": 2})
    job.spec = replace(job.spec, batch_sizes=(64, 128), profile_epoch_s=PROFILE_OF_TWO)
    job.batch_size = 128
    grants.want(state, job, {"t1": 1}, WHY)
    assert grants.set_batch_size(state, job, None, WHY) == [SetBatchSize("job", 64, WHY)]
    assert job.batch_size == 64


def test_a_batch_chosen_for_more_workers_waits_for_them(state):
    """Its GPUs are not free yet, and those that are there cannot hold it."""
    job = running(state, "job", {"t1": 1})
    running(state, "other", {"t1": 3})
    job.spec = replace(job.spec, batch_sizes=(64, 128), profile_epoch_s=PROFILE_OF_TWO)
    job.batch_size = 64
    grants.want(state, job, {"t1": 2}, WHY)
    grants.settle(state)
    grants.set_batch_size(state, job, 128, WHY)
    grants.reach_boundary(state, job)
    assert job.running is not None
    assert (job.running.batch_size, job.batch_size, offered(job)) == (64, 128, None)

    state.ledger.release("other", {"t1": 1})
    state.ledger.freed("other", "t1")
    grants.settle(state)
    assert job.offer is not None
    assert job.offer.batch_size == 128


def test_workers_that_are_left_get_a_batch_that_they_can_hold(state):
    job = running(state, "job", {"t1": 1, "i1": 1})
    job.spec = replace(job.spec, batch_sizes=(64, 128), profile_epoch_s=PROFILE_OF_TWO)
    job.batch_size = 128
    state.servers["i1"].loan = "reclaiming"
    grants.reach_boundary(state, job)
    assert job.offer is not None
    assert (offered(job), job.offer.batch_size) == ({"t1": 1}, 64)


def joinable(state: State, servers: dict[str, int], wanted: dict[str, int]) -> Job:
    """A job whose workers can be joined, with an offer of `wanted`."""
    job = running(state, "job", servers)
    job.joinable = True
    grants.want(state, job, wanted, WHY)
    grants.settle(state)
    assert offered(job) == wanted
    return job


def phase_after_boundary(state: State, job: Job) -> str:
    grants.reach_boundary(state, job)
    return job.phase


def test_a_job_trains_on_until_those_who_join_are_warm(state):
    job = joinable(state, {"t1": 1}, {"t1": 3})
    assert phase_after_boundary(state, job) == "running"
    assert job.offer is not None
    job.ready = job.offer.grant
    assert phase_after_boundary(state, job) == "leaving"


@pytest.mark.parametrize("wanted", [{"t1": 1}, {"i1": 2}, {}])
def test_a_job_that_nobody_joins_in_place_leaves_at_once(state, wanted):
    """It shrinks, moves as a whole, or is preempted."""
    job = joinable(state, {"t1": 2}, wanted)
    grants.reach_boundary(state, job)
    assert job.phase == "leaving"


def test_a_job_does_not_wait_for_those_who_join_where_it_must_go(state):
    job = joinable(state, {"t1": 1, "i1": 1}, {"t1": 3})
    state.servers["i1"].loan = "reclaiming"
    grants.reach_boundary(state, job)
    assert job.phase == "leaving"


def test_what_the_old_workers_alone_had_is_given_up_when_a_job_was_resized_in_place(state):
    job = joinable(state, {"t1": 1, "i1": 2}, {"t1": 1, "i1": 1})
    grants.reach_boundary(state, job)
    assert job.offer is not None
    assert job.running is not None
    old, new = job.running.grant, job.offer.grant
    assert grants.resize_in_place(state, job, old) == []  # not what was offered
    assert grants.resize_in_place(state, job, new) == [ReleaseGrant("job", old, ("i1",))]
    assert offered(job) is None
    assert job.standing == {"t1": 1, "i1": 1}
    assert grants.resize_in_place(state, job, new) == []  # said twice
    state.ledger.freed("job", "i1")
    assert state.ledger.held("job") == {"t1": 1, "i1": 1}


def test_an_offer_that_was_withdrawn_is_not_gone_over_to(state):
    job = joinable(state, {"t1": 2}, {"t1": 1})
    grants.reach_boundary(state, job)
    assert job.offer is not None
    withdrawn = job.offer.grant
    grants.withdraw(state, job)
    assert grants.resize_in_place(state, job, withdrawn) == []
    assert job.phase == "leaving"


@pytest.mark.parametrize(("workers", "beside"), [(2, 1), (3, 2), (4, 2)])
def test_parameter_servers_are_as_many_as_the_workers_of_a_grant_need(state, workers, beside):
    job = running(state, "job", {"t1": 1})
    job.spec = replace(job.spec, workers_per_parameter_server=2)
    grants.want(state, job, {"t1": workers}, WHY)
    grants.settle(state)
    assert job.offer is not None
    assert job.offer.parameter_servers == beside


def test_a_policy_may_name_another_number_but_no_more_than_workers(state):
    job = running(state, "job", {"t1": 1})
    job.spec = replace(job.spec, workers_per_parameter_server=2)
    grants.want(state, job, {"t1": 3}, WHY)
    grants.settle(state)
    for named, beside in ((3, 3), (1, 1), (7, 3), (0, 2)):
        grants.set_parameter_servers(job, Allocation(3, WHY, parameter_servers=named))
        assert job.offer is not None
        assert job.offer.parameter_servers == beside


def test_a_job_without_parameter_servers_gets_none_whatever_a_policy_names(state):
    job = running(state, "job", {"t1": 1})
    grants.want(state, job, {"t1": 2}, WHY)
    grants.settle(state)
    grants.set_parameter_servers(job, Allocation(2, WHY, parameter_servers=2))
    assert job.offer is not None
    assert job.offer.parameter_servers == 0
