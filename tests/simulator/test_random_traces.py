"""Whatever trace comes, under whatever policy: the brain's invariants hold, and so does physics."""

from __future__ import annotations

from dataclasses import replace
from itertools import zip_longest

import pytest
from hypothesis import given
from hypothesis import strategies as st

from policies import registry
from raysched.events import JobEnded, ServerAdded, ServerLost
from raysched.simulator.models import InPlace
from raysched.simulator.scenario import Outside
from tests.simulator.scenes import Costs, job, simulator

GPUS = 4
SERVERS = 2

few_seconds = st.sampled_from([0.0, 0.0, 1.0, 7.5])


@st.composite
def jobs(draw):
    low = draw(st.integers(1, 3))
    high = low + draw(st.integers(0, 5))
    gpus = draw(st.integers(1, 2))
    fits = min(high, SERVERS * (GPUS // gpus))  # fifo never shrinks what was asked for
    return job(
        "",
        draw(st.floats(0.0, 300.0)),
        epochs=draw(st.integers(1, 40)),
        epoch_s=draw(st.floats(0.5, 30.0)),
        workers=(low, high),
        gpus_per_worker=gpus,
        requested_workers=draw(st.integers(low, fits)),
        deadline_s=draw(st.sampled_from([None, 60.0, 900.0])),
    )


@st.composite
def traces(draw):
    drawn = sorted(draw(st.lists(jobs(), min_size=1, max_size=8)), key=lambda j: j.at_s)
    fails = st.sampled_from([None, None, None, 0.3, 2.5])
    return [
        replace(j, job=f"j{n}", spec=replace(j.spec, name=f"j{n}"), fails_epochs=draw(fails))
        for n, j in enumerate(drawn)
    ]


@st.composite
def accidents(draw):
    """A server that is lost for a while, and a job that is cancelled."""
    happened: list[Outside] = []
    if draw(st.booleans()):
        at_s = draw(st.floats(1.0, 200.0))
        happened.append(ServerLost(at_s, "t2"))
        happened.append(ServerAdded(at_s + 50.0, "t2", "training", GPUS))
    if draw(st.booleans()):
        happened.append(JobEnded(draw(st.floats(1.0, 200.0)), "j0", "cancelled"))
    return happened


costs = st.builds(
    Costs,
    start_s=few_seconds,
    resize_s=few_seconds,
    shrink_s=st.sampled_from([None, 0.0, 3.0]),
    move_s=few_seconds,
    preempted_s=few_seconds,
    stop_s=few_seconds,
    free_s=few_seconds,
    in_place=st.one_of(
        st.none(),
        st.builds(InPlace, warm_s=few_seconds, exchange_s=few_seconds, pause_s=few_seconds),
    ),
    ready_s=few_seconds,
    pick_up_s=few_seconds,
    end_s=few_seconds,
    at_boundaries=st.booleans(),
)


def check(engine):
    """The books balance, and no GPU is used by two jobs, whatever the books say."""
    engine.state.check()
    used: dict[str, int] = {}
    for live in engine.state.live_jobs():
        for server, workers in live.standing.items():
            used[server] = used.get(server, 0) + workers * live.spec.gpus_per_worker
    assert all(gpus <= GPUS for gpus in used.values())


@given(
    trace=traces(),
    policy=st.sampled_from(registry.names()),
    outside=accidents(),
    costs=costs,
    slot_s=st.sampled_from([None, None, 60.0]),
)
def test_invariants_hold_and_every_job_comes_to_its_end(trace, policy, outside, costs, slot_s):
    body = simulator(
        trace,
        (SERVERS, GPUS),
        policy=policy,
        outside=outside,
        costs=costs,
        slot_s=slot_s,
        watch=check,
    )
    history = body.run().history
    assert list(history.jobs) == [arrival.job for arrival in trace]
    for found in history.jobs.values():
        assert found.outcome in ("finished", "failed", "rejected", "refused", "cancelled")
    assert not body.engine.state.policy.error
    assert not any(account.in_use for account in body.engine.state.ledger.accounts.values())


@given(trace=traces(), policy=st.sampled_from(registry.names()), costs=costs)
def test_a_job_trains_exactly_the_work_that_it_has(trace, policy, costs):
    outcome = simulator(trace, (SERVERS, GPUS), policy=policy, costs=costs).run()
    for arrival in trace:
        found = outcome.history.jobs[arrival.job]
        if found.outcome != "finished":
            continue
        assert trained(found, arrival, costs) == pytest.approx(arrival.spec.epochs)


def trained(found, arrival, costs):
    """Epochs that fit into the times at which a job trained."""
    spans = []
    for stretch, following in zip_longest(found.stretches, found.stretches[1:]):
        if following is None:
            over_s = costs.end_s
        else:
            over_s = costs.in_place.exchange_s if following.in_place else costs.stop_s
        spans.append((stretch.workers, stretch.to_s - over_s - stretch.training_s))
    return sum(s / arrival.epoch_s[workers - arrival.spec.min_workers] for workers, s in spans)
