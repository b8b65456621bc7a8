"""What a journal tells: numbers by hand, and a picture that can be drawn."""

from __future__ import annotations

import pytest

from raysched.demo.picture import draw
from raysched.history import History
from raysched.journal import Row
from raysched.summary import summarise
from tests.pretend_cluster import EPOCH_S, PretendCluster, spec


def history_of(cluster: PretendCluster) -> History:
    return History(
        Row(seq, event, actions, 0.0) for seq, (event, actions) in enumerate(cluster.log, 1)
    )


@pytest.fixture
def cluster() -> PretendCluster:
    made = PretendCluster()
    made.switch("fifo")
    made.add_server("t1")
    return made


def test_two_jobs_one_after_the_other(cluster):
    cluster.submit("a", spec(workers=(4, 4), epochs=2))  # 1 s an epoch
    cluster.submit("b", spec(workers=(2, 2), epochs=2))  # 2 s an epoch
    cluster.run_to_the_end()
    told = summarise(history_of(cluster))
    assert (EPOCH_S, told["makespan_s"]) == (4.0, 2 * 1.0 + 2 * 2.0)
    assert told["queuing_s_mean"] == pytest.approx((0.0 + 2.0) / 2)
    assert told["jct_s_mean"] == pytest.approx((2.0 + 6.0) / 2)
    assert told["gpu_use_training"] == pytest.approx((4 * 2.0 + 2 * 4.0) / (4 * 6.0), abs=1e-4)
    assert (told["epochs_expected"], told["epochs_run"], told["epochs_repeated"]) == (4, 4, 0)
    assert (told["resizes"], told["preemptions"], told["jobs_completed"]) == (0, 0, 2)


def test_resizes_losses_and_failures_are_counted(cluster):
    cluster.switch("aryl")
    cluster.submit("elastic", spec(workers=(1, 4), epochs=6))
    cluster.settle()
    cluster.submit("rigid", spec(workers=(2, 2), epochs=3))
    cluster.settle()
    cluster.finish_epoch("elastic")  # shrinks here
    cluster.settle()
    cluster.stop_workers("elastic", lost=True)
    cluster.settle()
    cluster.end("rigid", "failed")
    cluster.run_to_the_end()
    history = history_of(cluster)
    assert history.jobs["elastic"].losses == 1
    assert history.jobs["elastic"].resizes >= 1
    told = summarise(history)
    assert (told["jobs_submitted"], told["jobs_completed"]) == (2, 1)
    assert told["epochs_repeated"] == 1


def lending_day() -> PretendCluster:
    """A server is lent in the valley, used, and reclaimed ahead of the rise."""
    made = PretendCluster()
    made.switch("aryl", "aryl")
    made.add_server("t1")
    made.serve()
    made.submit("rigid", spec(workers=(4, 4), epochs=60))
    made.settle()
    made.demand(4.0, seconds=60)
    made.scale()
    made.settle()
    made.submit("guest", spec(workers=(4, 4), epochs=60))
    made.settle()
    made.finish_epoch("guest")
    made.demand(30.0, seconds=10)
    made.finish_epoch("guest")
    made.settle()
    made.scale()
    return made


def test_a_loan_and_its_reclaim_are_told():
    history = history_of(lending_day())
    told = summarise(history)
    assert (told["loans"], told["reclaims"], told["preemptions"]) == (1, 1, 1)
    (loan,) = history.loans
    assert loan.reclaimed_s is not None
    assert loan.to_s is not None
    assert loan.serving_s is not None
    assert loan.from_s < loan.reclaimed_s <= loan.to_s <= loan.serving_s
    assert told["reclaim_s"] == [round(loan.serving_s - loan.reclaimed_s, 2)]
    assert 0 < told["gpu_use_overall"] <= 1


def test_the_picture_of_a_day_can_be_drawn(tmp_path):
    history = history_of(lending_day())
    draw(history, summarise(history), tmp_path / "gpus.png")
    assert (tmp_path / "gpus.png").read_bytes().startswith(b"\x89PNG")


def test_an_empty_journal_is_an_empty_summary():
    told = summarise(History([]))
    assert (told["jobs_submitted"], told["makespan_s"], told["jct_s_mean"]) == (0, 0.0, None)


def test_resizes_in_place_and_their_pauses_are_told(cluster):
    cluster.switch("aryl")
    cluster.joinable.add("elastic")
    cluster.submit("elastic", spec("elastic", (1, 4), epochs=6))
    cluster.settle()
    cluster.submit("other", spec("other", (2, 2), epochs=2))
    cluster.run_to_the_end()
    told = summarise(history_of(cluster))
    assert told["resizes_in_place"] == told["resizes"] >= 1
    assert told["resize_pause_s_median"] == 0.5
    assert told["restart_s_mean"] == 0.0  # the pretended cluster starts workers at once
