"""The numbers of a simulation, by hand."""

import csv
import math
from dataclasses import replace

import numpy as np
import pytest

from raysched.jobs import Utility
from raysched.simulator.metrics import metrics, write_jobs
from raysched.simulator.over_time import cluster_efficiency, completed, held_gpus
from raysched.simulator.scenario import Arrival
from tests.simulator.scenes import Costs, ended_s, job, simulate
from tests.simulator.test_lending import two_inference_servers, valley

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
    found = metrics(simulate(jobs, slot_s=60.0, rows_when_told=False))
    assert (found["deadline_ratio"], found["deadline_ratio_slot"]) == (1.0, 1.0)


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


def test_jobs_have_completed_from_the_moment_of_their_end():
    jobs = simulate(JOBS).history.jobs.values()
    at_s = np.array([0.0, 39.9, 40.0, 60.0, 80.0])
    assert completed(jobs, at_s).tolist() == [0, 0, 1, 2, 3]


def test_efficiency_is_the_speedup_over_one_gpu():
    # An epoch takes 10 s on one GPU, 8 on two: a speed-up of 1.25. Both start in 2 s.
    curve = (10.0, 8.0)
    spec = replace(job("a", workers=(1, 2)).spec, profile_epoch_s=curve, requested_workers=2)
    jobs = [Arrival(0.0, "a", spec, curve), job("b", 0.0, epochs=2, epoch_s=7.0, workers=1)]
    outcome = simulate(jobs, costs=Costs(start_s=2.0))
    found = metrics(outcome)
    assert ended_s(outcome) == {"a": 2.0 + 4 * 8.0, "b": 16.0}
    assert found["sjs_efficiency"] == pytest.approx((40 + 14) / (2 * 34 + 16), abs=1e-4)
    useful = 1.25 * 32 + 1.0 * 14
    assert found["cluster_efficiency"] == pytest.approx(useful / (4 * 34), abs=1e-4)
    at_s = np.array([0.0, 2.0, 20.0, 34.0])
    assert cluster_efficiency(outcome, at_s).tolist() == [0.0, 2.25 / 4, 1.25 / 4, 0.0]


def test_jobs_that_need_several_gpus_are_taken_to_use_them_perfectly():
    outcome = simulate([job("a", workers=(2, 2), gpus_per_worker=2)])
    assert metrics(outcome)["sjs_efficiency"] == 1.0
    assert metrics(outcome)["cluster_efficiency"] == 1.0


def test_the_utility_of_a_job_is_that_of_its_completion_time():
    jobs = [
        job("late", 0.0, epochs=1, epoch_s=30.0, utility=Utility(8.0, 0.1, 20.0)),
        job("never", 0.0, workers=9, utility=Utility(100.0, 0.1, 20.0)),
        job("none", 0.0),
    ]
    found = metrics(simulate(jobs))
    assert found["utility"] == pytest.approx(8.0 / (1 + math.e), abs=1e-3)
    assert found["drop_ratio"] == pytest.approx(1 / 3, abs=1e-4)
    assert metrics(simulate(JOBS))["utility"] is None


def test_collateral_damage_is_what_a_reclaim_vacates_elsewhere():
    # i2 has 4 GPUs, of which "wide" holds 2; it has to leave 3 on t1 as well.
    jobs = [job("wide", epochs=900, epoch_s=20.0, workers=5), job("waits", 1.0, workers=3)]
    lent = two_inference_servers(valley)
    outcome = simulate(jobs, (1, 3), outside=lent, policy="aryl", loaning="aryl")
    found = metrics(outcome)
    assert outcome.history.jobs["wide"].stretches[0].servers == {"t1": 3, "i2": 2}
    assert found["collateral_damage"] == 3 / 4
    assert found["preemption_ratio"] == 1 / 2
    assert (found["gpu_use_overall"] or 0) > 0
    elastic = [job("shrinks", epochs=500, epoch_s=4.0, workers=(1, 8))]
    outcome = simulate(elastic, outside=lent, policy="aryl", loaning="aryl")
    assert metrics(outcome)["collateral_damage"] == 0.0
    assert (metrics(outcome)["resizes_per_job"] or 0) >= 2
