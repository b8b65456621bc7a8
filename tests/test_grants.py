"""Offers in the corners: targets that wait while a job has to leave."""

from __future__ import annotations

import pytest

from policies.reason import because
from raysched import grants
from raysched.actions import Grant, ReleaseGrant
from raysched.ledger import Account
from raysched.state import Job, Server, State
from tests.pretend_cluster import spec

WHY = because("the test wants it")


@pytest.fixture
def state() -> State:
    """A training server of 4 GPUs and one on loan."""
    made = State()
    for name, pool in (("t1", "training"), ("i1", "inference")):
        made.servers[name] = Server(name, pool, "GPU")  # type: ignore[arg-type]
        made.ledger.accounts[name] = Account(4)
    made.servers["i1"].loan = "open"
    return made


def running(state: State, name: str, servers: dict[str, int]) -> Job:
    """A job (1 to 4 workers) that trains on these servers."""
    job = Job(name, spec(name), 0.0, phase="running")
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
