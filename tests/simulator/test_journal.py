"""A simulation's journal: the same bytes each time, replayed and recovered to the same, and run
again to the same completions."""

import json
from dataclasses import replace
from typing import Any

import pytest

from loaning import registry as loaning_registry
from policies import registry as policy_registry
from raysched import codec
from raysched.events import JobEnded, JobProfiled, PolicySwitched, ServerAdded, ServerLost
from raysched.journal import Journal
from raysched.profile import Profile
from raysched.replay import recover, replay
from raysched.simulator.body import Simulator
from raysched.simulator.models import InPlace
from raysched.simulator.traces import journal as journal_trace
from raysched.simulator.traces.rows import TraceError
from tests.simulator.scenes import Costs, ended_s, job, simulate, simulator
from tests.simulator.test_lending import two_inference_servers, valley

COSTS = Costs(start_s=3.0, resize_s=2.0, move_s=2.0, preempted_s=5.0, stop_s=0.5, free_s=0.25)

IN_PLACE = replace(
    COSTS,
    in_place=InPlace(warm_s=4.0, exchange_s=0.5, pause_s=0.75),
    ready_s=1.5,
    pick_up_s=0.125,
    end_s=0.5,
    vacate_s=1.0,
)

JOBS = [
    job("wide", 0.0, epochs=30, epoch_s=9.0, workers=(1, 8)),
    job("rigid", 7.0, epochs=12, epoch_s=31.0, workers=4),
    job("due", 31.0, epochs=20, epoch_s=7.0, workers=(1, 4), deadline_s=900.0),
    job("late", 90.0, epochs=5, epoch_s=40.0, workers=(2, 3)),
]

OUTSIDE = [
    *two_inference_servers(valley),
    PolicySwitched(60.0, "elasticflow", {}, "aryl"),
    PolicySwitched(120.0, "aryl", {}, "aryl"),
    ServerLost(150.0, "t1"),
    ServerAdded(160.0, "t1", "training", 4),
]


def written(path, **rest):
    """A simulation of a busy day with its journal; the engine as it was in the end."""
    journal = Journal(path)
    settings: dict[str, Any] = {
        "policy": "aryl",
        "loaning": "aryl",
        "costs": COSTS,
        "outside": OUTSIDE,
    } | rest
    body = simulator(JOBS, (2, 4), journal=journal, **settings)
    outcome = body.run()
    return journal, outcome, body.engine


def rows(journal):
    """What is hashed: times of the wall clock are not."""
    query = "SELECT seq, kind, event, actions, hash FROM rows ORDER BY seq"
    return journal._db.execute(query).fetchall()


@pytest.mark.parametrize("policy", ["aryl", "tiresias", "fifo"])
def test_without_a_journal_the_state_comes_out_the_same(tmp_path, policy):
    """Then decisions reach the engine as the policy gave them, and not as they would be read."""
    outside = [event for event in OUTSIDE if not isinstance(event, PolicySwitched)]
    chosen: dict[str, Any] = {"policy": policy, "loaning": "aryl", "costs": COSTS}
    *_, engine = written(tmp_path / "journal.db", outside=outside, **chosen)
    body = simulator(JOBS, (2, 4), outside=outside, **chosen)
    body.run()
    raw, journaled = (codec.state_to_json(e.state) for e in (body.engine, engine))
    assert json.loads(raw) == json.loads(journaled)  # in the journal keys are sorted


@pytest.mark.parametrize("costs", [COSTS, IN_PLACE])
def test_the_same_scene_writes_the_same_bytes(tmp_path, costs):
    once, _, _ = written(tmp_path / "once.db", costs=costs)
    again, _, _ = written(tmp_path / "again.db", costs=costs)
    assert len(once) > 400
    assert rows(once) == rows(again)


def test_a_journal_changes_nothing(tmp_path):
    _, outcome, _ = written(tmp_path / "journal.db")
    without = simulate(JOBS, (2, 4), policy="aryl", loaning="aryl", costs=COSTS, outside=OUTSIDE)
    assert ended_s(without) == ended_s(outcome)


@pytest.mark.parametrize(("slot_s", "costs"), [(None, COSTS), (60.0, COSTS), (None, IN_PLACE)])
def test_a_replay_takes_every_decision_again(tmp_path, slot_s, costs):
    journal, _, engine = written(tmp_path / "journal.db", slot_s=slot_s, costs=costs)
    found = replay(journal, policy_registry.load, loaning_registry.load)
    assert found.identical, found.differences[0]
    assert found.decisions > 20
    recovered = recover(journal, policy_registry.load)
    assert codec.state_to_json(recovered.state) == codec.state_to_json(engine.state)


def run_again(path):
    recorded = journal_trace.read(path)
    return recorded, Simulator(recorded.scenario, recorded.settings).run()


@pytest.mark.parametrize("costs", [COSTS, IN_PLACE])
@pytest.mark.parametrize("policy", ["fifo", "aryl", "elasticflow", "ffdl"])
def test_a_journal_run_again_ends_its_jobs_at_the_same_times(tmp_path, policy, costs):
    outside = [JobEnded(70.0, "late", "cancelled")]
    journal, outcome, _ = written(
        tmp_path / "journal.db", policy=policy, loaning="off", outside=outside, costs=costs
    )
    journal.close()
    recorded, again = run_again(tmp_path / "journal.db")
    assert ended_s(again) == pytest.approx(ended_s(outcome))
    assert recorded.settings.policy == policy
    assert ended_s(again) == pytest.approx(
        {name: job.ended_s for name, job in recorded.history.jobs.items()}
    )


def test_what_changes_of_workers_took_is_measured(tmp_path):
    journal, _, _ = written(tmp_path / "journal.db")
    journal.close()
    measured = journal_trace.read(tmp_path / "journal.db").settings.costs
    for cost in ("start_s", "resize_s", "preempted_s", "stop_s", "free_s"):
        assert getattr(measured, cost) == pytest.approx(getattr(COSTS, cost)), cost
    assert measured.in_place is None


def test_what_resizes_in_place_and_the_ways_around_them_took_is_measured(tmp_path):
    journal, outcome, _ = written(tmp_path / "journal.db", costs=IN_PLACE)
    journal.close()
    assert sum(job.resizes_in_place for job in outcome.history.jobs.values()) > 3
    measured = journal_trace.read(tmp_path / "journal.db").settings.costs
    for cost in ("start_s", "free_s", "ready_s", "pick_up_s", "end_s", "vacate_s"):
        assert getattr(measured, cost) == pytest.approx(getattr(IN_PLACE, cost)), cost
    assert measured.in_place is not None and IN_PLACE.in_place is not None
    for cost in ("warm_s", "exchange_s", "pause_s"):
        truth = getattr(IN_PLACE.in_place, cost)
        assert getattr(measured.in_place, cost) == pytest.approx(truth), cost


def test_each_job_has_the_costs_that_were_measured_of_it(tmp_path):
    quick = replace(IN_PLACE, start_s=1.0, in_place=None)
    jobs = [replace(j, costs=quick) if j.job == "due" else j for j in JOBS]
    journal = Journal(tmp_path / "journal.db")
    simulate(jobs, (2, 4), policy="aryl", costs=IN_PLACE, journal=journal)
    journal.close()
    arrivals = journal_trace.read(tmp_path / "journal.db").scenario.arrivals
    costs = {arrival.job: arrival.costs for arrival in arrivals}
    assert {name: c.start_s for name, c in costs.items() if c} == pytest.approx(
        {"wide": 3.0, "rigid": 3.0, "due": 1.0, "late": 3.0}
    )
    assert {name for name, c in costs.items() if c and c.in_place} == {"wide", "rigid", "late"}


def test_epochs_of_sizes_that_were_seen_are_measured_and_others_predicted(tmp_path):
    journal, _, _ = written(tmp_path / "journal.db", policy="fifo", outside=[])
    journal.close()
    recorded = journal_trace.read(tmp_path / "journal.db")
    for arrival, truth in zip(recorded.scenario.arrivals, JOBS, strict=True):
        assert arrival.epoch_s == pytest.approx(truth.epoch_s)
        assert arrival.spec == truth.spec


def test_what_was_profiled_is_told_again_and_predicts_sizes_that_were_not_seen(tmp_path):
    profile = Profile(samples=640, weights_bytes=0, step_s={16: 0.25, 32: 0.5, 64: 1.0})
    profiled = JobProfiled(0.0, "a", 0, profile)
    jobs = [replace(job("a", workers=(1, 4), profile_epoch_s=None), profiled=profiled)]
    journal = Journal(tmp_path / "journal.db")
    first = simulator(jobs, (1, 2), policy="aryl", costs=IN_PLACE, journal=journal)
    outcome = first.run()
    journal.close()
    assert first.engine.state.profiles.of(jobs[0].spec) == profile
    recorded, again = run_again(tmp_path / "journal.db")
    assert recorded.scenario.arrivals[0].epoch_s == pytest.approx((10.0, 5.0, 3.4375, 2.5))
    assert ended_s(again) == pytest.approx(ended_s(outcome))


def test_a_journal_without_jobs_is_no_trace(tmp_path):
    Journal(tmp_path / "empty.db").close()
    with pytest.raises(TraceError, match=r"empty\.db: no job was ever submitted"):
        journal_trace.read(tmp_path / "empty.db")
