"""The numbers of a simulation, by hand."""

import csv

import numpy as np
import pytest

from raysched.simulator.metrics import metrics, write_jobs
from raysched.simulator.picture import held_gpus
from tests.simulator.scenes import job, simulate

JOBS = [
    job("first", 0.0, epochs=1, epoch_s=120.0, workers=3, deadline_s=40.0),
    job("waits", 10.0, epochs=1, epoch_s=60.0, workers=2, deadline_s=40.0),
    job("huge", 20.0, workers=9, deadline_s=1000.0),
    job("small", 30.0, epochs=1, epoch_s=20.0),
]


def test_queuing_completion_use_and_deadlines_by_hand():
    # first 0–40 on 3 of 4 GPUs; waits 40–70 on 2, due at 50; small 40–60 on 1; huge never fits.
    found = metrics(simulate(JOBS))
    assert {name: found[name] for name in ("jobs", "completed", "dropped")} == {
        "jobs": 4,
        "completed": 3,
        "dropped": 1,
    }
    assert found["queuing_s_mean"] == pytest.approx((0 + 30 + 10) / 3, abs=1e-3)
    assert found["queuing_s_median"] == 10.0
    assert found["jct_s_mean"] == pytest.approx((40 + 60 + 30) / 3, abs=1e-3)
    assert found["jct_s_p95"] == pytest.approx(58.0)
    assert found["makespan_s"] == 70.0
    assert found["gpu_use"] == pytest.approx((3 * 40 + 2 * 30 + 20) / (4 * 70), abs=1e-4)
    assert found["deadline_ratio"] == pytest.approx(1 / 3, abs=1e-4)
    assert (found["preemption_ratio"], found["resizes"]) == (0.0, 0)
    assert found["decisions"]


def test_with_slots_a_deadline_may_be_met_before_the_scheduler_is_told():
    jobs = [job("a", 0.0, epochs=1, epoch_s=30.0, deadline_s=50.0), job("b", 5.0)]
    found = metrics(simulate(jobs, slot_s=60.0))
    assert (found["deadline_ratio"], found["deadline_ratio_slot"]) == (1.0, 0.0)


def test_nothing_is_counted_where_nothing_happened():
    found = metrics(simulate([]))
    assert found["jobs"] == 0
    assert found["jct_s_mean"] is found["deadline_ratio"] is found["preemption_ratio"] is None


def test_every_job_is_a_row(tmp_path):
    write_jobs(simulate(JOBS), tmp_path / "jobs.csv")
    with (tmp_path / "jobs.csv").open() as file:
        rows = {row["job"]: row for row in csv.DictReader(file)}
    assert list(rows) == ["first", "waits", "huge", "small"]
    waits = {
        name: rows["waits"][name] for name in ("started_s", "ended_s", "met_deadline", "gpu_s")
    }
    assert waits == {
        "started_s": "40.0",
        "ended_s": "70.0",
        "met_deadline": "False",
        "gpu_s": "60.0",
    }
    assert rows["huge"]["outcome"] == "refused"
    assert rows["small"]["met_deadline"] == ""


def test_gpus_are_held_from_the_first_to_the_last_moment_of_a_stretch():
    jobs = list(simulate(JOBS).history.jobs.values())
    at_s = np.array([0.0, 20.0, 45.0, 65.0, 80.0])
    assert held_gpus(jobs, at_s).tolist() == [3.0, 3.0, 3.0, 2.0, 0.0]
