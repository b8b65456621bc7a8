"""Inference servers on loan in virtual time: lent in the valley, back before the rise."""

from dataclasses import replace

import pytest

from raysched.events import DemandObserved, InferenceConfigured
from raysched.simulator.replicas import Replicas
from raysched.simulator.scenario import ServerSet, pool_of
from raysched.state import Server, State
from tests.simulator.scenes import Costs, job, simulate, simulator

REFILL_S = 2.0


def two_inference_servers(rps, grace_s=None):
    """Servers i1 and i2 of 4 GPUs, 2 replicas and 20 requests/s each, and demand by second."""
    return [*pool_of("inference", ServerSet(2, 4)), *demand_on(rps, grace_s)]


def demand_on(rps, grace_s=None):
    """A deployment on such servers, whatever their GPUs."""
    return [
        InferenceConfigured(0.0, "app", 2, 20.0, REFILL_S, grace_s=grace_s),
        *(DemandObserved(float(at_s), rps(at_s)) for at_s in range(1, 600)),
    ]


def only_loan(outcome):
    (loan,) = outcome.history.loans
    return loan


def look(replicas, at_s):
    """Replicas by server: all of them, and those that answer."""
    seen = replicas.look(at_s)
    return seen.present, seen.running


def valley(at_s):
    """Both servers are needed after 200 s, one is enough before."""
    return 30.0 if at_s > 200 else 6.0


def test_a_server_is_lent_and_comes_back_before_it_is_needed():
    jobs = [job("wide", epochs=500, epoch_s=4.0, workers=(1, 8))]
    body = simulator(jobs, outside=two_inference_servers(valley), policy="aryl", loaning="aryl")
    outcome = body.run()
    loan = only_loan(outcome)
    assert loan.server == "i2"
    assert loan.from_s < loan.reclaimed_s < loan.to_s < loan.serving_s
    assert loan.serving_s == loan.to_s + REFILL_S
    wide = outcome.history.jobs["wide"]
    assert {s.workers for s in wide.stretches} >= {4, 8}
    assert all("i2" not in s.servers for s in wide.stretches if s.from_s >= loan.to_s)
    assert wide.outcome == "finished"
    assert all(server.loan == "none" for server in body.engine.state.servers.values())


def test_workers_leave_a_reclaimed_server_at_their_boundary():
    jobs = [job("fills", epochs=90, workers=4), job("there", epochs=40, epoch_s=40.0, workers=4)]
    outcome = simulate(
        jobs,
        outside=two_inference_servers(valley),
        policy="aryl",
        loaning="aryl",
        costs=Costs(preempted_s=63.0),
    )
    loan = only_loan(outcome)
    there = outcome.history.jobs["there"]
    first = there.stretches[0]
    assert first.servers == {"i2": 4}
    assert (first.to_s - first.from_s) % 10.0 == 0.0  # epochs of 10 s on four workers
    assert loan.reclaimed_s < first.to_s < loan.reclaimed_s + 10.0
    assert there.stretches[1].servers == {"t1": 4}
    assert there.preemptions == 1


@pytest.mark.parametrize("every_s", [None, 7.0])
def test_workers_whose_epoch_is_longer_than_the_grace_are_ended(every_s):
    slow = job("there", epochs=4, epoch_s=440.0, workers=4)  # epochs of 110 s on four workers
    jobs = [
        job("fills", epochs=90, workers=4),
        replace(slow, spec=replace(slow.spec, every_s=every_s)),
    ]
    outcome = simulate(
        jobs, outside=two_inference_servers(valley, 3.0), policy="aryl", loaning="aryl"
    )
    loan, there = only_loan(outcome), outcome.history.jobs["there"]
    first, second = there.stretches
    assert first.servers == {"i2": 4}
    assert first.training_s is not None
    assert second.training_s is not None
    assert first.to_s == loan.reclaimed_s + 3.0
    trained_s = (first.to_s - first.training_s) % 110.0
    kept_s = trained_s // every_s * every_s if every_s else 0.0
    assert trained_s - kept_s > 0
    whole = (first.to_s - first.training_s) // 110.0
    left_s = (4 - whole) * 110.0 - kept_s
    assert second.to_s - second.training_s == pytest.approx(left_s)


def test_workers_that_start_on_a_server_being_reclaimed_leave_it_all_the_same():
    lent_before = []

    def sizes(problem):
        """Once the server is taken back `there` shall have the GPUs of `fills`, which keeps them
        to its far boundary."""
        lent_before.append("i2" in problem.servers.ids)
        if not lent_before[-1] and any(lent_before):
            return {"fills": 0, "there": 4}
        return {"fills": 4, "there": 4 if lent_before[-1] else 0}

    jobs = [
        job("fills", epochs=3, epoch_s=2000.0, workers=4),
        job("there", epochs=40, epoch_s=40.0, workers=4),
    ]
    outcome = simulate(
        jobs,
        outside=two_inference_servers(valley),
        sizes=sizes,
        loaning="aryl",
        costs=Costs(start_s=300.0),
    )
    there, loan = outcome.history.jobs["there"].stretches[0], only_loan(outcome)
    assert there.from_s < loan.reclaimed_s < there.from_s + 300.0
    assert there.to_s == loan.to_s == there.from_s + 300.0 + 10.0


def test_replicas_are_packed_and_new_ones_answer_after_the_refill():
    state = State(servers={name: Server(name, "inference", "GPU") for name in ("i1", "i2")})
    replicas = Replicas(InferenceConfigured(0.0, "app", 2, 20.0, REFILL_S), state)
    assert look(replicas, 0.0) == ({"i1": 2, "i2": 2}, {"i1": 2, "i2": 2})
    assert replicas.look(1.0) is None
    replicas.wanted = 2
    assert look(replicas, 10.0) == ({"i1": 2}, {"i1": 2})
    replicas.wanted = 4
    assert look(replicas, 20.0) == ({"i1": 2, "i2": 2}, {"i1": 2})
    assert look(replicas, 20.0 + REFILL_S) == ({"i1": 2, "i2": 2}, {"i1": 2, "i2": 2})
    state.servers["i1"].loan = "open"
    assert look(replicas, 30.0) == ({"i2": 2}, {"i2": 2})
