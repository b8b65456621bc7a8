"""FfDL's experiments: small runs of what they measure, and reports of numbers made by hand."""

from typing import Any

import pytest
from matplotlib.figure import Figure

from raysched.simulator.reproductions.experiment import (
    Effort,
    Experiment,
    Measured,
    Report,
    Results,
)
from raysched.simulator.reproductions.ffdl import EXPERIMENTS, scenes
from raysched.simulator.reproductions.ffdl.scenes import Scene, measure, measure_alone
from raysched.simulator.workloads.ffdl import Workload

BY_NAME = {experiment.name: experiment for experiment in EXPERIMENTS}

CURVE = {"minutes": [0.0, 10.0], "arrived": [0, 5], "completed": [0, 4]}

WORSE = {"completed": 0.5, "drop_ratio": 2.0, "sjs_efficiency": 0.5, "jct_min": 6.0}
"""What a fixed batch has of ffdl's, as the paper has it."""


def made_up(experiment: Experiment, worse: dict[str, float]) -> Results:
    """ffdl always the same, the others worse by these factors."""

    def found(parameters: dict[str, Any]) -> Measured:
        factor = {} if parameters["method"] == "elastic" else worse
        numbers = {"completed": 100, "drop_ratio": 0.1, "sjs_efficiency": 0.8, "jct_min": 20.0}
        of = {name: value * factor.get(name, 1.0) for name, value in numbers.items()}
        span_min = 700.0 if parameters["method"] == "elastic" else 1400.0
        gpus = 5 if parameters["method"] == "elastic" else 2
        return {**of, "makespan_min": span_min, "curve": CURVE, "gpus": gpus}

    runs = list(experiment.runs(Effort(quick=True)))
    return Results(runs, [found(dict(run.parameters)) for run in runs])


def reported(name: str, worse: dict[str, float]) -> Report:
    experiment = BY_NAME[name]
    return experiment.report(made_up(experiment, worse))


def ours(report: Report, what: str) -> tuple[float, ...]:
    (row,) = (row for row in report.rows if row.what == what)
    return row.ours


def held(report: Report) -> list[bool]:
    return [claim.holds for claim in report.claims]


@pytest.fixture
def small(monkeypatch):
    """An hour of jobs on 12 GPUs, more than these can do at once."""
    monkeypatch.setitem(scenes.SCENES, "small", Scene(12, Workload(50, 60, phase_min=20), 1.0))


@pytest.mark.parametrize("method", list(scenes.METHODS))
def test_a_small_run_drops_or_completes_every_job(small, method):
    found = measure("small", method, "drop", seed=0)
    dropped = found["drop_ratio"] * found["jobs"]
    assert found["completed"] + dropped == pytest.approx(found["jobs"], abs=0.01)
    assert dropped > 0
    curve = found["curve"]
    assert (curve["arrived"][-1], curve["completed"][-1]) == (found["jobs"], found["completed"])
    assert all(a <= b for a, b in zip(curve["completed"], curve["arrived"], strict=True))


def test_where_jobs_queue_all_complete_and_fixed_batches_take_longer(small):
    elastic, fixed = (measure("small", m, "queue", seed=0) for m in ("elastic", "random"))
    assert elastic["completed"] == fixed["completed"] == elastic["jobs"]
    assert elastic["jct_min"] < fixed["jct_min"]
    assert elastic["sjs_efficiency"] > fixed["sjs_efficiency"]
    assert elastic == measure("small", "elastic", "queue", seed=0)


def test_a_job_alone_grows_with_its_batch():
    elastic, smallest = measure_alone("elastic"), measure_alone("min")
    assert (elastic["gpus"], smallest["gpus"]) == (5, 2)
    assert smallest["jct_min"] / elastic["jct_min"] == pytest.approx(1.6)


def test_the_headline():
    report = reported("fig7", WORSE)
    assert ours(report, "more jobs completed, dropping") == pytest.approx([100, 100])
    assert ours(report, "JCT of the baseline over ffdl's, queuing") == pytest.approx([6, 6])
    assert held(report) == [True, True, True]
    assert held(reported("fig7", {"completed": 0.8, "jct_min": 4.0})) == [False, False, True]


def test_the_tables_have_a_row_for_each_number_printed():
    report = reported("table3", WORSE)
    assert len(report.rows) == 11
    assert ours(report, "SJS efficiency, baseline, queuing") == pytest.approx([40, 40])
    assert ours(report, "drop ratio of the baseline over ffdl's") == pytest.approx([2, 2])
    assert all(held(report))
    assert not any(held(reported("table4", {"drop_ratio": 0.5, "jct_min": 0.5})))


def test_categories_gain_and_the_one_that_is_not_elastic_does_not():
    report = reported("fig5", WORSE)
    assert ours(report, "more jobs completed, category 2") == pytest.approx([100, 100])
    assert held(report) == [True, False]  # made by hand, category 4 gains as well
    assert held(reported("fig5", {})) == [False, True]


def test_against_the_largest_and_the_smallest_batch():
    ten_times = {"completed": 0.1, "jct_min": 1.25}
    report = reported("fig8", ten_times)
    assert ours(report, "JCT against Min-BS, low arrival (as printed)") == pytest.approx([-20, -20])
    assert held(report) == [True, True, False, True]
    assert held(reported("fig8", {"jct_min": 0.9})) == [False, False, True, False]


@pytest.mark.parametrize("experiment", EXPERIMENTS, ids=lambda e: e.name)
def test_every_experiment_reports_and_draws(experiment):
    results = made_up(experiment, WORSE)
    report = experiment.report(results)
    assert report.rows
    assert report.claims
    assert report.why
    if experiment.draw is not None:
        experiment.draw(results, Figure())


@pytest.mark.parametrize("experiment", EXPERIMENTS, ids=lambda e: e.name)
def test_generated_jobs_are_drawn_by_five_seeds(experiment):
    runs = experiment.runs(Effort())
    seeds = {run.parameters.get("seed") for run in runs}
    assert seeds == ({None} if experiment.name == "alone" else set(range(5)))
