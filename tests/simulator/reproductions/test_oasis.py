"""What is measured of OASiS is what it says, and reports claim what the numbers show."""

import pytest
from matplotlib.figure import Figure

from raysched.simulator.reproductions import experiments
from raysched.simulator.reproductions.experiment import Effort, Results
from raysched.simulator.reproductions.oasis.alone import (
    FACTORS,
    FLOORS,
    NUMBERS,
    estimate_runs,
    ratio_runs,
    report_estimates,
    report_ratio,
)
from raysched.simulator.reproductions.oasis.beside_others import (
    report_lateness,
    report_utility,
    runs,
)
from raysched.simulator.reproductions.oasis.measures import (
    PRICE_FLOOR,
    SCHEMES,
    beside_optimum,
    estimated,
    share_cluster,
)

QUICK = Effort(quick=True)


def found(runs, measure):
    """Results as if each run had measured what `measure` says of its parameters."""
    return Results(runs, [measure(**run.parameters) for run in runs])


def shared(utility, late=lambda scheme: [0.0, 1.0]):
    """Of Fig. 3 and 4, where `utility` gives that of a scheme on so many jobs."""

    def measured(scheme, jobs, seed):
        kinds = {"sensitive": late(scheme), "critical": late(scheme)}
        return {"utility": utility(scheme, jobs) + seed, "lateness": kinds}

    return found(runs(QUICK), measured)


@pytest.mark.parametrize("scheme", SCHEMES)
def test_every_scheme_shares_a_cluster(scheme):
    measured = share_cluster(scheme, jobs=4, seed=0)
    assert measured["completed"] + measured["dropped"] == 4
    assert measured["utility"] > 0
    late = measured["lateness"]["sensitive"] + measured["lateness"]["critical"]
    assert 0 < len(late) <= measured["completed"]


def test_fifo_runs_every_job_however_late_and_oasis_rejects_some():
    fifo, oasis = (share_cluster(scheme, jobs=20, seed=0) for scheme in ("fifo", "oasis"))
    assert fifo["dropped"] == 0
    assert oasis["dropped"] > 0
    latest = [max(it["lateness"]["sensitive"] + it["lateness"]["critical"]) for it in (fifo, oasis)]
    assert latest[1] < latest[0] / 2


def test_nothing_is_worth_more_than_the_optimum():
    measured = beside_optimum(servers_each=2, most_worth=20.0, seed=2)
    assert measured["optimal"]
    assert 0 < measured["utility"] <= measured["bound"] * (1 + 1e-5)
    assert 0 < measured["utility_as_printed"] <= measured["bound"] * (1 + 1e-5)


def test_prices_that_are_estimated_far_too_high_keep_jobs_out():
    exact, high = (estimated(20, factor, PRICE_FLOOR, seed=0) for factor in (1.0, 100.0))
    assert high["admitted"] < exact["admitted"] <= 20
    assert high["utility"] < exact["utility"]


def test_utility_is_claimed_by_the_mean_over_seeds_at_every_number_of_jobs():
    first = report_utility(shared(lambda scheme, jobs: jobs**2 if scheme == "oasis" else jobs))
    assert [claim.holds for claim in first.claims] == [True, True]
    by_name = {row.what: row.ours for row in first.rows}
    assert by_name["total utility, 15 jobs, oasis"] == (225.0, 226.0)
    assert by_name["oasis over the best other, 45 jobs"] == pytest.approx((2025.5 / 45.5,))
    once_behind = shared(lambda scheme, jobs: 20 if scheme == "oasis" else jobs)
    assert [claim.holds for claim in report_utility(once_behind).claims] == [False, False]


def test_l_as_printed_is_not_one_of_the_others():
    results = shared(lambda scheme, jobs: {"oasis": 2, "oasis, L as printed": 9}.get(scheme, 1))
    assert report_utility(results).claims[0].holds


def test_lateness_is_claimed_by_distance_from_0_to_either_side():
    early = shared(lambda *_: 1, lambda name: [-3.0, -1.0] if name == "oasis" else [-9.0, 14.0])
    assert [claim.holds for claim in report_lateness(early).claims] == [True] * 4
    far = shared(lambda *_: 1, lambda name: [-9.0, -9.0] if name == "oasis" else [-3.0, 5.0])
    assert [claim.holds for claim in report_lateness(far).claims] == [False, True] * 2


def test_the_ratio_is_a_median_over_all_cases_and_takes_the_bound_where_that_is_all():
    def measured(optimal):
        return lambda **_: {
            "optimum": 3.0,
            "bound": 4.0,
            "optimal": optimal,
            "utility": 2.0,
            "utility_as_printed": 0.0,
        }

    solved = report_ratio(found(ratio_runs(QUICK), measured(True)))
    by_name = {row.what: row.ours for row in solved.rows}
    assert by_name["median ratio"] == (1.5,) and solved.claims[0].holds
    assert by_name["median ratio, L as printed"] == (float("inf"),)
    bounded = report_ratio(found(ratio_runs(QUICK), measured(False)))
    by_name = {row.what: row.ours for row in bounded.rows}
    assert by_name["median ratio"] == (2.0,) and not bounded.claims[0].holds
    assert by_name["optima that are upper bounds"] == (len(ratio_runs(QUICK)),)


@pytest.mark.parametrize("better", ["low", "high"])
def test_wrong_estimates_are_compared_where_resources_are_scarce(better):
    def measured(jobs, factor, price_floor, seed):
        scarce = jobs == NUMBERS[-1] and price_floor == PRICE_FLOOR
        rising = scarce == (better == "high")
        return {"utility": factor if rising else 1 / factor}

    report = report_estimates(found(estimate_runs(QUICK), measured))
    assert [claim.holds for claim in report.claims] == [better == "low"]
    assert len(report.rows) == len(FACTORS) * len(FLOORS)


def test_all_experiments_draw():
    numbers = {"utility": 2.0, "utility_as_printed": 1.0, "optimum": 3.0, "optimal": True}
    late = {"lateness": {"sensitive": [0.0, 1.0], "critical": [1.0]}}
    for experiment in experiments("oasis"):
        figure = Figure()
        results = found(experiment.runs(QUICK), lambda **_: {**numbers, **late})
        assert experiment.draw is not None
        experiment.draw(results, figure)
        assert figure.axes


def test_more_effort_is_more_runs_within_the_same_experiments():
    for experiment in experiments("oasis"):
        quick, full = experiment.runs(QUICK), experiment.runs(Effort())
        assert len(quick) < len(full)
        assert all(run in full for run in quick)
