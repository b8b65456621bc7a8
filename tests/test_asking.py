"""When the policy is asked, with what, and what becomes of its answer."""

from __future__ import annotations

from dataclasses import replace

import pytest

from policies.problem import Allocation, Decision
from policies.reason import because
from raysched.events import (
    DecisionFailed,
    EpochFinished,
    ForeignGpusObserved,
    JobEnded,
    PolicyDecided,
    PolicySwitched,
    Reconciled,
    SchedulerRestarted,
    TimePassed,
)
from tests.pretend_cluster import EPOCH_S, PretendCluster, spec, two_servers

WHY = because("the test wants it")


@pytest.fixture
def cluster() -> PretendCluster:
    """Under fifo: no period of its own."""
    return two_servers("fifo")


def answer(cluster: PretendCluster, decision: Decision) -> None:
    """Answer the oldest question with this."""
    asked = cluster.questions.pop(0)
    cluster.tell(PolicyDecided(cluster.now_s, asked.ask, decision, {}))


def epoch(cluster: PretendCluster, job: str, epoch_s: float) -> None:
    """A boundary of a running job, after an epoch of this length."""
    record = cluster.engine.state.live[job]
    assert record.running is not None
    done = record.epochs_done
    cluster.tell(EpochFinished(cluster.now_s, job, record.running.grant, done, epoch_s))


def test_a_policy_is_handed_what_it_remembered(cluster):
    cluster.switch("ffdl")
    cluster.decide_all()
    cluster.submit("a", spec())
    remembered = cluster.questions[0].answer(cluster.now_s).memory
    assert remembered["running"] == ["a"]
    cluster.decide()
    cluster.submit("b", spec())
    assert cluster.questions[0].memory == remembered


def test_a_policy_sees_a_job_as_it_stands(cluster):
    """A deadline counts from the submission for the user, from the journal's start for a policy."""
    cluster.now_s = 100.0
    cluster.submit("a", replace(spec(workers=(2, 2), epochs=5), deadline_s=50.0))
    cluster.settle()
    cluster.finish_epoch("a")
    jobs = cluster.engine.problem([]).jobs
    assert (jobs.submitted_s.tolist(), jobs.deadline_s.tolist()) == ([100.0], [150.0])
    assert (jobs.workers.tolist(), jobs.remaining_epochs.tolist()) == ([2], [4.0])
    assert jobs.attained_gpu_s.tolist() == [EPOCH_S]


def test_a_job_that_waits_is_seen_as_earlier_ones_of_its_kind_ran(cluster):
    cluster.submit("first", spec(workers=(8, 8), epochs=1))
    cluster.settle()
    cluster.submit("second", spec(workers=(8, 8)))
    before_s = cluster.engine.problem([]).jobs.curves.epoch_s[-1]
    cluster.finish_epoch("first")
    (after_s,) = cluster.engine.problem([]).jobs.curves.epoch_s
    assert (before_s, after_s) == (60.0, EPOCH_S / 8)


def test_a_job_that_failed_teaches_later_ones_nothing(cluster):
    cluster.submit("a", spec())
    cluster.settle()
    epoch(cluster, "a", 1.0)
    cluster.tell(JobEnded(cluster.now_s, "a", "failed"))
    assert cluster.engine.state.history == {}


@pytest.mark.parametrize(("epoch_s", "asked"), [(48.0, False), (80.0, True)])
def test_an_epoch_that_drifts_from_its_prediction_asks(cluster, epoch_s, asked):
    cluster.submit("a", spec())
    cluster.settle()
    epoch(cluster, "a", 60.0)
    epoch(cluster, "a", epoch_s)  # 20 % and 33 % off
    assert bool(cluster.questions) == asked


def test_gpus_of_others_ask_when_they_change(cluster):
    cluster.tell(ForeignGpusObserved(1.0, "t1", 1))
    cluster.decide_all()
    cluster.tell(ForeignGpusObserved(2.0, "t1", 1))
    assert cluster.questions == []


@pytest.mark.parametrize(("review_at_s", "due_s"), [(90.0, 90.0), (400.0, 110.0), (None, 110.0)])
def test_the_period_and_the_policys_own_wish_whichever_comes_first(cluster, review_at_s, due_s):
    cluster.now_s = 50.0
    cluster.submit("a", spec())
    cluster.tell(PolicySwitched(50.0, "aryl", {"interval_s": 60.0}, "off", {}))
    answer(cluster, Decision({}))  # fifo's, stale
    answer(cluster, Decision({"a": Allocation(1, WHY)}, review_at_s=review_at_s))
    assert cluster.engine.next_due_s() == due_s
    cluster.tell(TimePassed(due_s - 1))
    assert cluster.questions == []
    cluster.tell(TimePassed(due_s))
    assert len(cluster.questions) == 1


def test_the_same_policy_with_other_parameters_is_another(cluster):
    for interval_s in (60.0, 30.0):
        cluster.tell(PolicySwitched(0.0, "aryl", {"interval_s": interval_s}, "off", {}))
        assert cluster.engine.state.policy.parameters == {"interval_s": interval_s}
        assert cluster.engine.policy.interval_s == interval_s


@pytest.mark.parametrize(("workers", "placed"), [(1, 0), (2, 2), (9, 4)])
def test_a_policys_slip_breaks_no_range(cluster, workers, placed):
    cluster.submit("a", spec(workers=(2, 4)))
    answer(cluster, Decision({"a": Allocation(workers, WHY)}))
    assert cluster.engine.state.live["a"].workers == placed


def test_after_a_restart_what_was_asked_is_asked_anew(cluster):
    cluster.submit("a", spec())
    lost = cluster.questions.pop(0)
    cluster.tell(SchedulerRestarted(1.0))
    cluster.submit("b", spec())
    assert cluster.questions == []  # nothing is decided before what is there was looked at
    cluster.tell(Reconciled(2.0))
    assert [asked.ask for asked in cluster.questions] == [lost.ask + 1]


def test_a_decision_that_failed_leaves_the_targets_and_says_why(cluster):
    cluster.submit("a", spec())
    cluster.settle()
    cluster.submit("b", spec())
    asked = cluster.questions.pop(0)
    cluster.tell(DecisionFailed(1.0, asked.ask, "policy", "ValueError: odd"))
    assert cluster.engine.state.policy.error == "ValueError: odd"
    assert cluster.engine.state.live["a"].workers_now == 1
    cluster.submit("c", spec())
    assert len(cluster.questions) == 1


def test_an_event_that_comes_late_does_not_turn_time_back(cluster):
    cluster.tell(TimePassed(10.0))
    cluster.tell(TimePassed(7.0))
    assert cluster.engine.state.now_s == 10.0
