"""A simulation's journal: the same bytes each time, replayed and recovered to the same, and run
again to the same completions."""

from typing import Any

import pytest

from loaning import registry as loaning_registry
from policies import registry as policy_registry
from raysched import codec
from raysched.events import JobEnded, PolicySwitched, ServerAdded, ServerLost
from raysched.journal import Journal
from raysched.replay import recover, replay
from raysched.simulator.body import Simulator
from raysched.simulator.traces import journal as journal_trace
from raysched.simulator.traces.rows import TraceError
from tests.simulator.scenes import Costs, ended_s, job, simulate, simulator
from tests.simulator.test_lending import two_inference_servers, valley

COSTS = Costs(start_s=3.0, resize_s=2.0, move_s=2.0, preempted_s=5.0, stop_s=0.5, free_s=0.25)

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


def test_the_same_scene_writes_the_same_bytes(tmp_path):
    once, _, _ = written(tmp_path / "once.db")
    again, _, _ = written(tmp_path / "again.db")
    assert len(once) > 400
    assert rows(once) == rows(again)


def test_a_journal_changes_nothing(tmp_path):
    _, outcome, _ = written(tmp_path / "journal.db")
    without = simulate(JOBS, (2, 4), policy="aryl", loaning="aryl", costs=COSTS, outside=OUTSIDE)
    assert ended_s(without) == ended_s(outcome)


@pytest.mark.parametrize("slot_s", [None, 60.0])
def test_a_replay_takes_every_decision_again(tmp_path, slot_s):
    journal, _, engine = written(tmp_path / "journal.db", slot_s=slot_s)
    found = replay(journal, policy_registry.load, loaning_registry.load)
    assert found.identical, found.differences[0]
    assert found.decisions > 20
    recovered = recover(journal, policy_registry.load)
    assert codec.state_to_json(recovered.state) == codec.state_to_json(engine.state)


def run_again(path):
    recorded = journal_trace.read(path)
    return recorded, Simulator(recorded.scenario, recorded.settings).run()


@pytest.mark.parametrize("policy", ["fifo", "aryl", "elasticflow", "ffdl"])
def test_a_journal_run_again_ends_its_jobs_at_the_same_times(tmp_path, policy):
    outside = [JobEnded(70.0, "late", "cancelled")]
    journal, outcome, _ = written(
        tmp_path / "journal.db", policy=policy, loaning="off", outside=outside
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


def test_epochs_of_sizes_that_were_seen_are_measured_and_others_predicted(tmp_path):
    journal, _, _ = written(tmp_path / "journal.db", policy="fifo", outside=[])
    journal.close()
    recorded = journal_trace.read(tmp_path / "journal.db")
    for arrival, truth in zip(recorded.scenario.arrivals, JOBS, strict=True):
        assert arrival.epoch_s == pytest.approx(truth.epoch_s)
        assert arrival.spec == truth.spec


def test_a_journal_without_jobs_is_no_trace(tmp_path):
    Journal(tmp_path / "empty.db").close()
    with pytest.raises(TraceError, match=r"empty\.db: no job was ever submitted"):
        journal_trace.read(tmp_path / "empty.db")
