"""Reclaims that come within an epoch: left at a safe point, or cut short when their time is up."""

from __future__ import annotations

from typing import Any

import pytest

from raysched import lending
from raysched.actions import EndWorkers
from raysched.events import SafePointReached
from raysched.history import History
from raysched.jobs import InvalidJob
from raysched.summary import summarise
from tests.pretend_cluster import EPOCH_S, PretendCluster, spec

GRACE_S = 1.5
EVERY_S = 0.5


@pytest.fixture
def lent() -> PretendCluster:
    """`job` trains on t1 and on i1, which is on loan; workers have `GRACE_S` to leave it."""
    cluster = PretendCluster()
    cluster.switch("fifo", "aryl")
    cluster.add_server("t1")
    cluster.serve(1, grace_s=GRACE_S)
    cluster.engine.state.servers["i1"].loan = "open"
    cluster.fenced.add("i1")
    cluster.replicas.clear()
    return cluster


def train(cluster: PretendCluster, workers: tuple[int, int], **wishes: Any) -> None:
    """Under aryl an elastic job takes everything; under fifo a rigid one what it asks for."""
    cluster.switch("aryl" if workers[0] < workers[1] else "fifo", "aryl")
    cluster.submit("job", spec(workers=workers, **wishes))
    cluster.settle()
    job = cluster.engine.state.live["job"]
    assert (job.phase, dict(job.standing)) == ("running", {"t1": 4, "i1": workers[1] - 4})


def reclaim(cluster: PretendCluster) -> None:
    """Demand rises, and i1 is asked back."""
    cluster.demand(35.0, 12)
    assert cluster.engine.state.servers["i1"].loan == "reclaiming"


def test_a_job_leaves_a_reclaimed_server_at_a_safe_point(lent):
    train(lent, (1, 8))
    reclaim(lent)
    lent.reach_safe_point("job")
    job = lent.engine.state.live["job"]
    assert (job.phase, job.running, job.part) == ("queued", None, 0.5)
    lent.settle()
    assert dict(job.standing) == {"t1": 4}
    assert lent.engine.state.servers["i1"].loan == "none"
    lent.run_to_the_end()
    assert (job.outcome, job.epochs_done, job.epochs_repeated) == ("finished", 4, 0)


def test_it_goes_on_in_place_where_others_can_join_and_leave(lent):
    lent.joinable.add("job")
    train(lent, (1, 8))
    reclaim(lent)
    lent.reach_safe_point("job")
    job = lent.engine.state.live["job"]
    assert (job.phase, dict(job.standing), job.in_place) == ("running", {"t1": 4}, True)


def test_for_a_larger_grant_alone_a_job_does_not_leave_within_an_epoch(lent):
    lent.engine.state.servers["i1"].loan = "none"
    lent.switch("aryl")
    lent.submit("job", spec(workers=(1, 8)))
    lent.settle()
    lent.add_server("t2")
    lent.settle()
    job = lent.engine.state.live["job"]
    assert job.offer is not None
    lent.reach_safe_point("job")
    assert (job.phase, dict(job.standing)) == ("running", {"t1": 4})
    lent.finish_epoch("job")
    lent.settle()
    assert job.workers_now == 8


def test_whoever_is_still_there_when_the_time_is_up_is_ended(lent):
    train(lent, (1, 8))
    lent.reach_safe_point("job")
    reclaim(lent)
    due_s = lent.engine.next_due_s()
    assert due_s == lent.engine.state.servers["i1"].leave_by_s
    lent.pass_time(due_s - lent.now_s)
    job = lent.engine.state.live["job"]
    ends = [action for action in lent.log[-1][1] if isinstance(action, EndWorkers)]
    assert ends == [EndWorkers("job", job.running.grant)]
    assert (job.phase, dict(job.offer.servers)) == ("running", {"t1": 4})
    lent.settle()
    assert dict(job.standing) == {"t1": 4}
    assert (job.part, job.epochs_repeated, job.cut_short) == (0.5, 0.5, False)
    lent.run_to_the_end()
    assert job.epochs_repeated == 0.5


def test_one_that_reaches_a_boundary_before_it_is_ended_repeats_nothing(lent):
    train(lent, (1, 8))
    reclaim(lent)
    lent.pass_time(GRACE_S)
    assert lent.ending
    lent.finish_epoch("job")
    lent.run_to_the_end()
    assert lent.engine.state.jobs["job"].epochs_repeated == 0
    assert summarised(lent)["epochs_repeated"] == 0


def test_a_loss_redoes_what_came_after_the_safe_point(lent):
    train(lent, (1, 8))
    lent.finish_epoch("job")
    lent.reach_safe_point("job")
    lent.stop_workers("job", lost=True)
    lent.settle()
    lent.reach_safe_point("job")
    lent.stop_workers("job", lost=True)
    lent.run_to_the_end()
    assert lent.engine.state.jobs["job"].epochs_repeated == 0.5 + 0.25
    assert summarised(lent)["epochs_repeated"] == 0.5 + 0.25


def test_gpu_time_is_counted_once_on_the_workers_that_trained(lent):
    train(lent, (1, 8))
    reclaim(lent)
    lent.reach_safe_point("job")  # half an epoch on 8
    lent.settle()
    lent.finish_epoch("job")  # half on 4
    assert lent.engine.state.live["job"].attained_gpu_s == pytest.approx(EPOCH_S)


def test_a_safe_point_that_was_told_but_not_saved_counts_as_redone(lent):
    train(lent, (1, 8))
    job = lent.engine.state.live["job"]
    for part in (0.5, 0.25):
        lent.tell(SafePointReached(lent.now_s, "job", job.running.grant, 0, part, 1.0))
    assert (job.part, job.epochs_repeated) == (0.25, 0.25)


def test_the_lead_is_no_longer_than_what_jobs_and_the_operator_allow(lent):
    train(lent, (1, 8))
    lent.finish_epoch("job")
    state = lent.engine.state
    state.live["job"].times[64].observe(8, 1000.0)
    restart_refill_s = state.restart_s + state.inference.config.refill_s
    assert lending.lead_s(state, state.inference) == GRACE_S + restart_refill_s
    lent.switch("fifo", "aryl")
    lent.end("job", "cancelled")
    train(lent, (1, 8), every_s=EVERY_S)
    lent.finish_epoch("job")
    assert lending.lead_s(state, state.inference) == EVERY_S + restart_refill_s


@pytest.mark.parametrize(
    ("wishes", "error"),
    [
        ({"every_s": 0.0}, "every: 0.0 s is not a time to come"),
        ({"every_s": 1.0, "checkpoints": False}, "every: a safe point is a checkpoint"),
    ],
)
def test_what_cannot_be_is_refused(wishes, error):
    with pytest.raises(InvalidJob, match=error):
        spec(workers=(1, 1), **wishes)


def summarised(cluster: PretendCluster) -> dict[str, float]:
    history = History()
    for event, actions in cluster.log:
        history.take(event, actions)
    return summarise(history)
