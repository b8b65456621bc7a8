"""Lending in the corners: what is carried out of a loaning decision, and what the next one sees."""

from __future__ import annotations

import pytest

from loaning.problem import LoanDecision
from policies.reason import because
from raysched import lending
from raysched.actions import ScaleReplicas
from raysched.events import InferenceConfigured, LoanRefused, ReplicasObserved
from raysched.state import State
from tests.pretend_cluster import EPOCH_S, PretendCluster, spec

WHY = because("the test wants it")
REFILL_S = 2.0
RESTART_S = 2.0


@pytest.fixture
def cluster() -> PretendCluster:
    """One training server and four inference servers of 4 GPUs, two replicas on each of the latter.

    Under fifo, with a loaning that sees no demand: only what a test asks for is lent.
    """
    made = PretendCluster()
    made.switch("fifo", "aryl")
    made.add_server("t1")
    for number in range(1, 5):
        made.add_server(f"i{number}", "inference")
    made.tell(InferenceConfigured(0.0, "app", 2, 20.0, REFILL_S))
    see(made, 4)
    made.settle()
    return made


def see(cluster: PretendCluster, servers: int) -> None:
    """Replicas on the first few inference servers, none on the others."""
    replicas = {f"i{number}": 2 for number in range(1, servers + 1)}
    cluster.tell(ReplicasObserved(cluster.now_s, replicas, replicas))


def decided(state: State, needed: int, lend: int = 0, reclaim: tuple[str, ...] = ()) -> list[int]:
    """Carry a decision out: to how many replicas the deployment is scaled, if it is."""
    decision = LoanDecision(lend, reclaim, needed, (), WHY)
    actions = lending.apply(state, decision)
    return [action.replicas for action in actions if isinstance(action, ScaleReplicas)]


def on_loan(cluster: PretendCluster, servers: int) -> State:
    """The state once the last few inference servers are on loan."""
    state = cluster.engine.state
    assert decided(state, 4 - servers, lend=servers) == [2 * (4 - servers)]
    see(cluster, 4 - servers)
    cluster.settle()
    return state


def test_of_the_servers_that_vacate_as_many_turn_back_as_are_needed(cluster):
    state = cluster.engine.state
    assert decided(state, needed=1, lend=3) == [2]
    assert decided(state, needed=2) == [4]
    see(cluster, 2)
    cluster.settle()
    assert cluster.fenced == {"i3", "i4"}


def test_where_a_replica_came_first_another_server_empties(cluster):
    state = cluster.engine.state
    decided(state, needed=3, lend=1)
    see(cluster, 3)
    assert cluster.opening.pop() == "i4"
    replicas = {"i1": 2, "i2": 2, "i4": 2}
    cluster.tell(ReplicasObserved(cluster.now_s, replicas, replicas))
    cluster.tell(LoanRefused(cluster.now_s, "i4"))
    cluster.tell(ReplicasObserved(cluster.now_s, replicas, replicas))
    assert cluster.opening == ["i3"]
    assert state.servers["i4"].loan == "none"


def test_a_reclaim_that_breaks_a_gang_takes_it_off_all_its_servers(cluster):
    state = on_loan(cluster, 1)
    cluster.submit("gang", spec(workers=(6, 6)))
    cluster.settle()
    assert dict(state.live["gang"].target) == {"t1": 4, "i4": 2}
    assert decided(state, needed=4, reclaim=("i4",)) == [8]
    assert dict(state.live["gang"].target) == {}


def test_what_stands_on_a_server_that_is_reclaimed_is_nowhere_else(cluster):
    """Else the next reclaim would count on workers that are about to leave."""
    state = on_loan(cluster, 2)
    cluster.submit("job", spec(workers=(12, 12)))
    cluster.settle()
    state.servers["i3"].loan = "reclaiming"
    posed = lending.problem(state)
    assert posed is not None
    assert (posed.on_loan.servers, posed.on_loan.workers.tolist()) == (("i4",), [[4]])
    assert posed.on_loan.elsewhere.tolist() == [4]  # on t1 alone


def test_the_lead_is_the_longest_epoch_under_way_a_restart_and_the_refill(cluster):
    cluster.switch("aryl")
    cluster.submit("wide", spec(workers=(1, 2)))  # an epoch takes twice as long on its minimum
    cluster.submit("slow", spec(workers=(2, 2)))
    cluster.submit("unseen", spec("other", workers=(8, 8)))
    cluster.settle()
    cluster.finish_epoch("wide")
    cluster.finish_epoch("slow")
    posed = lending.problem(cluster.engine.state)
    assert posed is not None
    assert posed.lead_s == EPOCH_S / 2 + RESTART_S + REFILL_S
