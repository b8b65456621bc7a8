"""The brain on GPUs of several types, and jobs that start over when their workers stop."""

from __future__ import annotations

import pytest

from raysched import lending
from tests.pretend_cluster import EPOCH_S, PretendCluster, spec


@pytest.fixture
def cluster() -> PretendCluster:
    """A training server of 4 V100s, and one of 4 T4s at a quarter of the speed, under aryl."""
    made = PretendCluster()
    made.switch("aryl")
    made.add_server("v1", gpu_type="V100")
    made.add_server("t1", gpu_type="T4", gpu_rate=0.25)
    made.decide_all()
    return made


def standing(cluster):
    return {job.id: dict(job.standing) for job in cluster.engine.state.live_jobs()}


def test_jobs_stand_on_the_types_that_they_may_use(cluster):
    cluster.submit("any", spec(workers=(3, 3)))
    cluster.submit("typed", spec(workers=(2, 3), gpu_type="T4"))
    cluster.submit("too large", spec(workers=(2, 2)))
    cluster.submit("mixes", spec(workers=(2, 2), mixes_gpus=True))
    cluster.settle()
    assert standing(cluster) == {
        "any": {"v1": 3},
        "typed": {"t1": 2},
        "too large": {"t1": 2},
        "mixes": {},
    }


def test_a_job_that_mixes_types_gets_what_is_left_of_both(cluster):
    cluster.submit("any", spec(workers=(3, 3)))
    cluster.submit("mixes", spec(workers=(2, 2), mixes_gpus=True))
    cluster.settle()
    assert standing(cluster) == {"any": {"v1": 3}, "mixes": {"v1": 1, "t1": 1}}


def test_epochs_on_slow_gpus_are_learned_for_fast_ones(cluster):
    cluster.submit("a", spec(workers=(2, 2), gpu_type="T4"))
    cluster.settle()
    before_s = cluster.now_s
    cluster.finish_epoch("a")
    assert cluster.now_s - before_s == pytest.approx(4 * EPOCH_S / 2)
    job = cluster.engine.state.jobs["a"]
    assert job.times[job.batch_size].mean_s == {2: pytest.approx(EPOCH_S / 2)}
    assert cluster.engine.state.predicted_s(job) == pytest.approx(4 * EPOCH_S / 2)


def test_a_reclaim_waits_for_an_epoch_at_the_speed_of_where_it_runs():
    cluster = PretendCluster()
    cluster.switch("aryl")
    cluster.add_server("t1", gpu_type="T4", gpu_rate=0.25)
    cluster.serve()
    cluster.submit("a", spec(workers=(1, 1)))
    cluster.settle()
    cluster.finish_epoch("a")
    state = cluster.engine.state
    assert state.inference is not None
    assert lending.lead_s(state, state.inference) == pytest.approx(4 * EPOCH_S + 2.0 + 2.0)


def test_a_job_moves_to_another_type_when_its_server_is_lost(cluster):
    cluster.submit("a", spec(workers=(2, 2)))
    cluster.settle()
    assert standing(cluster) == {"a": {"v1": 2}}
    cluster.lose_server("v1")
    cluster.stop_workers("a", lost=True)
    cluster.settle()
    assert standing(cluster) == {"a": {"t1": 2}}


class TestWithoutCheckpoints:
    def test_a_loss_costs_all_epochs(self, cluster):
        cluster.submit("a", spec(workers=(2, 2), checkpoints=False))
        cluster.settle()
        for _ in range(3):
            cluster.finish_epoch("a")
        job = cluster.engine.state.jobs["a"]
        cluster.stop_workers("a", lost=True)
        assert (job.epochs_done, job.epochs_repeated) == (0, 3 + 1)  # and the one under way
        cluster.run_to_the_end()
        assert (job.outcome, job.epochs_done, job.epochs_repeated) == ("finished", 4, 4)

    def test_with_them_it_costs_the_one_under_way(self, cluster):
        cluster.submit("a", spec(workers=(2, 2)))
        cluster.settle()
        cluster.finish_epoch("a")
        cluster.stop_workers("a", lost=True)
        job = cluster.engine.state.jobs["a"]
        assert (job.epochs_done, job.epochs_repeated) == (1, 1)

    def test_workers_that_stop_at_the_end_cost_nothing(self, cluster):
        cluster.submit("a", spec(workers=(2, 2), epochs=1, checkpoints=False))
        cluster.settle()
        cluster.finish_epoch("a")
        job = cluster.engine.state.jobs["a"]
        assert (job.outcome, job.epochs_done, job.epochs_repeated) == ("finished", 1, 0)

    def test_the_policy_sees_all_its_epochs_again(self, cluster):
        cluster.submit("a", spec(workers=(2, 2), checkpoints=False))
        cluster.settle()
        cluster.finish_epoch("a")
        cluster.stop_workers("a", lost=True)
        assert cluster.engine.problem([]).jobs.remaining_epochs.tolist() == [4.0]
