"""Paper 004's experiments: tiny runs of each measure, and reports of results made by hand."""

from __future__ import annotations

import pytest

from raysched.simulator.reproductions.aryl import EXPERIMENTS
from raysched.simulator.reproductions.aryl.measures import PERCENTILES, SHOWN_HOURS
from raysched.simulator.reproductions.aryl.runs import (
    BASELINE,
    BASIC,
    LOANING,
    SCALING,
    on_loan,
    scheme,
    simulate,
)
from raysched.simulator.reproductions.experiment import Effort, Results

BY_NAME = {experiment.name: experiment for experiment in EXPERIMENTS}
TINY = 1 / 256


def found(queuing_s=1000.0, jct_s=10_000.0, **more):
    """A run's result where percentiles are the mean."""
    times: dict[str, float] = {}
    for name, value in (("queuing_s", queuing_s), ("jct_s", jct_s)):
        times |= {f"{name}_{of}": value for of in ("mean", *(f"p{p}" for p in PERCENTILES))}
    plain = {
        "use_training": 0.7,
        "use_overall": 0.6,
        "use_hourly": [0.5] * len(SHOWN_HOURS),
        "on_loan_daily": [None, 0.9],
        "preemption_ratio": 0.1,
        "collateral": 0.2,
    }
    return {**times, **plain, **more}


def report(name, result):
    """The report of an experiment where `result(parameters)` is what each run found."""
    runs = BY_NAME[name].runs(Effort(quick=True))
    return BY_NAME[name].report(Results(runs, [result(run.parameters) for run in runs]))


def held(reported):
    return {claim.text: claim.holds for claim in reported.claims}


@pytest.fixture(scope="module")
def tiny():
    """A run of each of the main schemes on two servers."""
    schemes = {"fifo": BASELINE, "basic": BASIC, "loaning": LOANING, "scaling": SCALING}
    return {name: simulate(seed=0, scale=TINY, **each) for name, each in schemes.items()}


def test_scaling_cuts_the_jct_of_a_tiny_run(tiny):
    assert (
        tiny["scaling"]["jct_s_mean"] < tiny["loaning"]["jct_s_mean"] < tiny["fifo"]["jct_s_mean"]
    )
    assert tiny["scaling"]["resizes"] > 0
    assert tiny["fifo"]["resizes"] == tiny["loaning"]["resizes"] == 0


def test_what_is_measured_is_within_its_bounds(tiny):
    for measured in tiny.values():
        assert measured["queuing_s_p50"] <= measured["queuing_s_p95"] <= measured["queuing_s_p99"]
        assert 0 < measured["use_training"] <= 1
        assert all(0 < use <= 1 for use in measured["use_hourly"])


def test_only_who_lends_has_servers_on_loan(tiny):
    assert set(tiny["fifo"]["on_loan_daily"]) == {None}
    days = [use for use in tiny["basic"]["on_loan_daily"] if use is not None]
    assert days and all(0 <= use <= 1 for use in days)
    assert tiny["basic"]["use_overall"] > tiny["fifo"]["use_overall"] - 0.05


@pytest.mark.parametrize(
    "each",
    [
        scheme("aryl", tuned=True),
        scheme("aryl", "random", mixing=1.0, elastic=1.0, keeps=1.0),
        scheme("aryl", "aryl", apart=False),
        scheme("aryl", imperfect=True, misjudged=0.6),
        scheme("pollux", tuned=True),
    ],
    ids=["tuned", "ideal", "not apart", "imperfect and misjudged", "pollux"],
)
def test_every_kind_of_scheme_runs_to_the_end(each, tiny):
    measured = simulate(seed=0, scale=TINY, **each)
    assert 0 < measured["jct_s_mean"] < 1.5 * tiny["fifo"]["jct_s_mean"]


def test_jobs_on_loan_are_the_same_under_both():
    measured = on_loan(seed=0, scale=1 / 64)  # at smaller ones nobody runs on loan
    assert measured["aryl_queuing_s_mean"] < measured["fifo_queuing_s_mean"]


def test_all_experiments_report_and_draw():
    from matplotlib.figure import Figure

    for experiment in EXPERIMENTS:
        runs = experiment.runs(Effort(quick=True))
        times = found()
        both = {f"{policy}_{k}": v for policy in ("aryl", "fifo") for k, v in times.items()}
        results = Results(runs, [{**times, **both} for _ in runs])
        reported = experiment.report(results)
        assert reported.rows and reported.why
        if experiment.draw is not None:
            experiment.draw(results, Figure())


def test_table_5_tells_gains_and_orders():
    def result(parameters):
        if parameters["policy"] == "fifo":
            return found(queuing_s=3000.0, jct_s=15_000.0)
        return found(queuing_s=2000.0 if parameters["reclaim"] == "aryl" else 2500.0)

    reported = report("table5", result)
    rows = {row.what: row for row in reported.rows}
    assert rows["Baseline over Basic: queuing"].ours == (1.5, 1.5)
    assert rows["Baseline over Basic: JCT"].ours == (1.5, 1.5)
    assert rows["Baseline over Basic: queuing"].paper == "1.53 x"
    assert rows["Baseline: use of the training pool"].ours == pytest.approx((70.0, 70.0))
    claims = held(reported)
    assert claims["Basic cuts queuing 1.3 to 1.8 times"]
    assert claims["loaning: Aryl queues less than Random"]
    assert not claims["loaning: Aryl preempts less than Random"]
    assert not claims["scaling: Aryl queues less than AFS"]


def test_table_6_compares_with_elastic_jobs_apart():
    def result(parameters):
        return found(preemption_ratio=0.1 if parameters["apart"] else 0.2)

    claims = held(report("table6", result))
    assert claims["Basic: more preemptions than with elastic jobs apart"]
    assert not claims["Basic: a longer JCT than with elastic jobs apart"]


def test_fig_10_tells_what_imperfect_scaling_costs():
    def result(parameters):
        more = 1.2 if parameters["imperfect"] else 1.0
        return found(jct_s=10_000.0 * more)

    reported = report("fig10", result)
    rows = {row.what: row.ours for row in reported.rows}
    assert rows["Ideal: JCT longer than with linear scaling"] == pytest.approx((20.0, 20.0))
    assert held(reported)["Basic: JCT suffers more than queuing"]


def test_table_9_tells_gains_by_the_share_of_wrong_estimates():
    def result(parameters):
        if parameters["policy"] == "fifo":
            return found(queuing_s=3000.0)
        return found(queuing_s=1000.0 + 1000.0 * parameters["misjudged"])

    reported = report("table9", result)
    rows = {row.what: row.ours for row in reported.rows}
    assert rows["0% wrong: queuing of Baseline over Aryl's"] == (3.0, 3.0)
    assert held(reported)["queuing gains less with 60 % wrong than with none"]


def test_fig_13_tells_what_is_cut():
    def result(parameters):
        if parameters["policy"] == "fifo":
            return found(queuing_s=4000.0)
        own = parameters["policy"] == "aryl"
        return found(queuing_s=(1000.0 if own else 2000.0) / (1 + parameters["elastic"]))

    reported = report("fig13", result)
    rows = {row.what: row.ours for row in reported.rows}
    assert rows["AFS, 100% elastic: queuing less than Baseline's"] == (75.0, 75.0)
    assert all(held(reported).values())
