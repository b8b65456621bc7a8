"""The brain by hand: what happens to jobs, GPUs and servers, event by event."""

from __future__ import annotations

import pytest

from raysched import codec
from raysched.actions import AskPolicy, Offer, ScaleReplicas
from raysched.events import EpochFinished, ReplicasObserved, WorkersStopped
from tests.pretend_cluster import PretendCluster, spec, two_servers


@pytest.fixture
def cluster() -> PretendCluster:
    """Two training servers of 4 GPUs, under aryl without loaning."""
    return two_servers("aryl")


def test_an_elastic_job_gets_what_is_free_and_gives_way_at_its_boundary(cluster):
    cluster.submit("wide", spec(workers=(1, 8)))
    cluster.settle()
    wide = cluster.engine.state.jobs["wide"]
    assert wide.workers_now == 8

    cluster.submit("narrow", spec(workers=(2, 2)))
    cluster.settle()
    narrow = cluster.engine.state.jobs["narrow"]
    assert (wide.workers_now, wide.workers, narrow.workers_now) == (8, 6, 0)  # asked, not seen yet

    cluster.finish_epoch("wide")
    cluster.settle()
    assert (wide.workers_now, narrow.workers_now) == (6, 2)
    assert wide.epochs_done == 1


def test_gpus_are_free_only_when_they_were_seen_free(cluster):
    cluster.submit("wide", spec(workers=(1, 8)))
    cluster.settle()
    cluster.submit("narrow", spec(workers=(2, 2)))
    cluster.decide_all()
    cluster.finish_epoch("wide")  # its workers are gone, but nobody saw the GPUs free
    assert cluster.engine.state.jobs["narrow"].offer is None
    cluster.free()
    cluster.free()
    offer = cluster.engine.state.jobs["narrow"].offer
    assert offer is not None
    assert offer.workers == 2


def test_a_job_alone_takes_every_epoch_once(cluster):
    cluster.submit("a", spec(epochs=5))
    cluster.submit("b", spec(epochs=7, workers=(2, 6)))
    cluster.run_to_the_end()
    for job in cluster.engine.state.jobs.values():
        assert (job.outcome, job.epochs_done) == ("finished", job.spec.epochs)
        assert job.epochs_repeated == 0


def test_epochs_told_of_at_once_all_count(cluster):
    cluster.submit("a", spec(workers=(2, 2), epochs=9))
    cluster.settle()
    job = cluster.engine.state.live["a"]
    cluster.tell(EpochFinished(6.0, "a", job.running.grant, 2, 2.0))
    assert (job.epochs_done, job.attained_gpu_s) == (3, 3 * 2.0 * 2)


def test_a_job_that_has_run_all_its_epochs_is_given_nothing_more(cluster):
    cluster.submit("a", spec(epochs=1))
    cluster.settle()
    job = cluster.engine.state.live["a"]
    assert job.running is not None
    grant = job.running.grant
    cluster.tell(EpochFinished(1.0, "a", grant, 0, 1.0))
    cluster.tell(WorkersStopped(1.0, "a", grant))
    cluster.submit("b", spec(workers=(8, 8)))
    cluster.decide_all()
    assert (job.offer, job.wanted) == (None, None)
    assert cluster.engine.state.live["b"].workers == 8


def test_lost_workers_redo_their_epoch_where_they_stood(cluster):
    cluster.submit("a", spec(workers=(2, 2)))
    cluster.settle()
    stood = dict(cluster.engine.state.jobs["a"].running.servers)
    cluster.stop_workers("a", lost=True)
    job = cluster.engine.state.jobs["a"]
    assert (job.phase, job.epochs_repeated, dict(job.offer.servers)) == ("queued", 1, stood)
    cluster.run_to_the_end()
    assert job.outcome == "finished"


def test_a_lost_server_shrinks_an_elastic_job_and_requeues_a_rigid_one(cluster):
    cluster.submit("rigid", spec(workers=(4, 4)))
    cluster.submit("elastic", spec(workers=(1, 4)))
    cluster.settle()
    state = cluster.engine.state
    lost = next(iter(state.jobs["rigid"].running.servers))
    cluster.lose_server(lost)
    cluster.stop_workers("rigid", lost=True)
    cluster.settle()
    assert state.jobs["rigid"].workers_now == 0
    cluster.add_server("t3")
    cluster.run_to_the_end()
    assert all(job.outcome == "finished" for job in state.jobs.values())


def test_a_cancelled_job_gives_everything_back(cluster):
    cluster.submit("a", spec(workers=(8, 8)))
    cluster.settle()
    cluster.end("a", "cancelled")
    cluster.submit("b", spec(workers=(8, 8)))
    cluster.settle()
    assert cluster.engine.state.jobs["b"].workers_now == 8


def test_a_resize_that_is_overtaken_before_its_boundary_is_withdrawn(cluster):
    cluster.submit("a", spec(workers=(1, 4), epochs=9))
    cluster.submit("b", spec(workers=(4, 4), epochs=1))
    cluster.settle()
    cluster.finish_epoch("b")  # b leaves, so a may grow ...
    cluster.settle()
    cluster.submit("c", spec(workers=(7, 7)))  # ... but c comes first
    cluster.settle()
    cluster.run_to_the_end()
    assert all(job.outcome == "finished" for job in cluster.engine.state.jobs.values())


def test_triggers_coalesce_while_a_decision_is_under_way(cluster):
    cluster.submit("a", spec())
    asked = len(cluster.questions)
    cluster.submit("b", spec())
    cluster.submit("c", spec())
    assert len(cluster.questions) == asked
    actions = cluster.tell(cluster.questions.pop(0).answer(cluster.now_s))
    assert sum(isinstance(action, AskPolicy) for action in actions) == 1  # once more, for b and c


def test_a_stale_answer_is_dropped_after_a_switch(cluster):
    cluster.submit("a", spec(workers=(1, 8)))
    stale = cluster.questions.pop(0)
    cluster.switch("fifo")
    actions = cluster.tell(stale.answer(cluster.now_s))
    assert not any(isinstance(action, Offer) for action in actions)
    cluster.settle()
    assert cluster.engine.state.jobs["a"].workers_now == 1  # fifo's size


def test_every_job_has_a_reason_with_its_numbers(cluster):
    for name, workers in (("a", (1, 8)), ("b", (2, 2)), ("c", (8, 8))):
        cluster.submit(name, spec(workers=workers))
    cluster.settle()
    for job in cluster.engine.state.jobs.values():
        assert job.reason.numbers, job.id
        assert str(job.reason)


class TestLoans:
    """An inference server lent and reclaimed."""

    @pytest.fixture
    def lending(self, cluster: PretendCluster) -> PretendCluster:
        cluster.serve()
        cluster.switch("aryl", "aryl")
        cluster.decide_all()
        return cluster

    def lend(self, cluster: PretendCluster) -> None:
        cluster.demand(4.0, seconds=60)
        cluster.scale()
        cluster.settle()

    def test_an_idle_server_is_emptied_fenced_and_used(self, lending):
        lending.submit("wide", spec(workers=(1, 12), epochs=50))
        lending.settle()
        self.lend(lending)
        assert lending.fenced == {"i2"}
        lending.finish_epoch("wide")
        lending.settle()
        assert lending.engine.state.jobs["wide"].running.servers["i2"] == 4

    def test_a_server_that_is_fenced_after_loaning_was_switched_off_goes_back(self, lending):
        lending.demand(4.0, seconds=60)
        lending.scale()
        lending.switch("aryl", "off")
        lending.decide_all()
        lending.settle()
        assert lending.fenced == set()
        assert lending.engine.state.servers["i2"].loan == "none"

    def test_a_reclaim_shrinks_elastic_jobs_and_asks_for_replicas_first(self, lending):
        lending.submit("wide", spec(workers=(1, 12), epochs=50))
        lending.settle()
        self.lend(lending)
        lending.finish_epoch("wide")
        lending.settle()
        lending.demand(30.0, seconds=10)
        scaled = [a for _, actions in lending.log for a in actions if isinstance(a, ScaleReplicas)]
        assert scaled[-1].replicas == 4
        assert lending.engine.state.jobs["wide"].workers == 8
        lending.finish_epoch("wide")
        lending.settle()
        assert not lending.fenced
        assert lending.engine.state.servers["i2"].loan == "none"

    def test_a_server_is_fenced_once_its_last_replica_is_gone(self, lending):
        lending.demand(4.0, seconds=60)
        lending.tell(ReplicasObserved(lending.now_s, {"i1": 2, "i2": 1}, {"i1": 2}))
        assert lending.opening == []  # one on i2 is on its way up, or down
        lending.tell(ReplicasObserved(lending.now_s, {"i1": 2}, {"i1": 2}))
        assert lending.opening == ["i2"]

    def test_a_fence_stands_until_the_gpus_behind_it_were_seen_free(self, lending):
        lending.submit("wide", spec(workers=(1, 12), epochs=50))
        lending.settle()
        self.lend(lending)
        lending.finish_epoch("wide")
        lending.settle()
        lending.demand(30.0, seconds=10)
        lending.settle()
        assert lending.fenced == {"i2"}  # its workers train on, to their boundary
        lending.finish_epoch("wide")
        assert lending.closing == []  # they are gone, but nobody saw the GPUs free
        lending.free()
        assert lending.closing == ["i2"]

    def test_a_rigid_job_on_a_reclaimed_server_is_preempted_to_the_queue(self, lending):
        lending.submit("big", spec(workers=(8, 8), epochs=50))
        lending.settle()
        self.lend(lending)
        lending.submit("rigid", spec(workers=(4, 4), epochs=20))
        lending.settle()
        rigid = lending.engine.state.jobs["rigid"]
        assert dict(rigid.running.servers) == {"i2": 4}
        lending.finish_epoch("rigid")
        lending.demand(30.0, seconds=10)
        lending.finish_epoch("rigid")
        lending.settle()
        assert (rigid.phase, rigid.workers_now, rigid.epochs_done) == ("queued", 0, 2)
        assert not lending.fenced
        lending.end("big", "cancelled")
        lending.run_to_the_end()
        assert (rigid.outcome, rigid.epochs_repeated) == ("finished", 0)

    def test_switching_loaning_off_returns_every_server(self, lending):
        self.lend(lending)
        assert lending.fenced
        lending.switch("aryl", "off")
        lending.settle()
        assert not lending.fenced
        assert lending.wanted_replicas == 4


def test_the_state_survives_a_snapshot_with_the_order_of_its_jobs(cluster):
    cluster.serve()
    for number in range(12):  # j10 sorts before j2, and was submitted after it
        cluster.submit(f"j{number}", spec(workers=(1, 8)))
    cluster.settle()
    state = cluster.engine.state
    again = codec.state_from_json(codec.state_to_json(state))
    assert again == state
    assert list(again.live) == [f"j{number}" for number in range(12)]
