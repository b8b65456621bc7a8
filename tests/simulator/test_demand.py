"""Demand on the inference pool: as tables tell it, as it is drawn, and as a scheduler sees it."""

import gzip
import math
from pathlib import Path

import numpy as np
import pytest

from raysched.durations import DAY_S
from raysched.errors import UserError
from raysched.events import DemandObserved, InferenceConfigured
from raysched.simulator.body import Simulator
from raysched.simulator.demand import Series, inference_pool
from raysched.simulator.models import Settings
from raysched.simulator.scenario import Scenario, ServerSet, pool_of
from raysched.simulator.traces import demand
from raysched.simulator.traces.rows import TraceError
from raysched.simulator.workloads.diurnal import diurnal
from tests.simulator.scenes import job
from tests.simulator.test_traces import table

DATA = Path(__file__).parents[2].parent / "shared" / "data" / "inference"


def samples(*values, step_s=60.0):
    return Series(step_s * np.arange(len(values)), np.array(values, dtype=float))


@pytest.mark.parametrize(
    ("header", "row"),
    [
        ("timestamp,value", "2014-04-10 00:0{},{}"),
        ("period,count", "1998-04-30T21:3{}:00,{}"),
        ("timestamp,value", "{}e2,{}"),
    ],
)
def test_tables_of_times_and_numbers_are_read(tmp_path, header, row):
    rows = [row.format(minute, value) for minute, value in ((5, 7.5), (3, 2), (4, 0))]
    series, skipped = demand.read(table(tmp_path, header + "\n", *rows))
    step_s = 60.0 if "-" in row else 100.0
    assert series.at_s.tolist() == [0.0, step_s, 2 * step_s]
    assert series.value.tolist() == [2.0, 0.0, 7.5]
    assert skipped == 0


def test_bad_rows_are_named_or_skipped(tmp_path):
    path = table(tmp_path, "timestamp,value\n", "1,2", "soon,3", "4,-1", "5,6")
    with pytest.raises(TraceError, match="line 3: timestamp 'soon' is not a time"):
        demand.read(path)
    series, skipped = demand.read(path, skip_bad=True)
    assert (series.value.tolist(), skipped) == ([2.0, 6.0], 2)


@pytest.mark.parametrize(
    ("rows", "named"),
    [
        (("when,what", "1,2"), "known are timestamp and value"),
        (("timestamp,value",), "has no demand"),
        (("timestamp,value\n", "1,0", "2,0"), "has no demand"),
        (("",), "known are"),
    ],
)
def test_what_is_no_demand_is_refused(tmp_path, rows, named):
    with pytest.raises(TraceError, match=named):
        demand.read(table(tmp_path, *rows))


@pytest.mark.parametrize(
    ("name", "count"),
    [
        ("worldcup98_per_minute_88d", 125_300),
        ("nab_elb_request_count_8c0756", 4_032),
        ("nab_nyc_taxi", 10_320),
    ],
)
def test_public_series_are_read(name, count):
    path = DATA / f"{name}.csv.gz"
    if not path.is_file():
        pytest.skip(f"{path} is not here: shared data lies beside the checkout")
    with gzip.open(path, "rt") as file:
        highest = max(float(line.rsplit(",", 1)[1]) for line in file if line[0].isdigit())
    series, _ = demand.read(path)
    assert len(series.at_s) == count
    assert series.value.max() == highest


def test_steps_hold_the_mean_of_finer_samples_and_the_line_between_coarser_ones():
    assert samples(9, 1, 3, 5, 7, step_s=30.0).every(60.0).tolist() == [2.0, 6.0]
    assert samples(0, 4, 2, step_s=60.0).every(30.0).tolist() == [2.0, 4.0, 3.0, 2.0]
    assert samples(8, 4, 2).every(60.0).tolist() == [4.0, 2.0]


def test_demand_keeps_as_many_replicas_busy_as_asked_for_and_starts_over():
    servers = pool_of("inference", ServerSet(2, 4))
    *pool, config, first, second, third = inference_pool(
        servers, samples(0, 10, 5), 180.0, peak_replicas=6.0, every_s=60.0
    )
    assert pool == servers
    assert isinstance(config, InferenceConfigured)
    assert (config.replicas_per_server, config.server_rps) == (4, 4.0)
    seen = [first, second, third]
    assert seen == [DemandObserved(60.0 * n, rps) for n, rps in ((1, 6.0), (2, 3.0), (3, 6.0))]
    (told,) = (
        e for e in inference_pool(servers, samples(0, 1, 1), 60.0) if isinstance(e, DemandObserved)
    )
    assert told.at_s == 300.0
    assert told.rps == pytest.approx(0.8 * 8)


@pytest.mark.parametrize(
    ("servers", "rest", "named"),
    [
        ((), {}, "equal numbers"),
        ((ServerSet(1, 4), ServerSet(1, 8)), {}, "equal numbers"),
        ((ServerSet(1, 4),), {"peak_replicas": 0.0}, "peak"),
    ],
)
def test_pools_that_cannot_serve_are_refused(servers, rest, named):
    with pytest.raises(UserError, match=named):
        inference_pool(pool_of("inference", *servers), samples(1, 2), 60.0, **rest)


def test_a_day_has_its_peak_at_night_and_its_trough_in_the_morning():
    series = diurnal(2.0, ratio=2.2)
    day = series.every(300.0)[:288]
    assert day.max() / day.min() == pytest.approx(2.2, rel=1e-3)
    assert (day.argmax() * 300 / 3600, day.argmin() * 300 / 3600) == pytest.approx((21, 9), abs=0.1)
    assert day.mean() / day.max() == pytest.approx(0.69, abs=0.01)
    assert (day > 0.94 * day.max()).sum() * 300 == pytest.approx(4 * 3600, rel=0.1)


def test_noise_is_drawn_from_the_seed():
    plain, noisy = diurnal(30.0), diurnal(30.0, noise=0.1, seed=1)
    assert np.std(noisy.value / plain.value) == pytest.approx(0.1, rel=0.05)
    assert (noisy.value == diurnal(30.0, noise=0.1, seed=1).value).all()
    assert (noisy.value != diurnal(30.0, noise=0.1, seed=2).value).any()


def test_impossible_days_are_refused():
    with pytest.raises(UserError, match="ratio"):
        diurnal(1.0, ratio=0.5)
    with pytest.raises(UserError, match="noise"):
        diurnal(1.0, noise=-1.0)


def test_servers_are_lent_at_the_trough_of_each_day():
    outside = [
        *pool_of("training", ServerSet(1, 8)),
        *inference_pool(pool_of("inference", ServerSet(8, 8)), diurnal(1.0), 2 * DAY_S),
    ]
    settings = Settings(loaning="aryl", loaning_parameters={"smooth_s": 300.0})
    jobs = [job("long", epochs=48, epoch_s=3600.0)]
    history = Simulator(Scenario(jobs, outside), settings).run().history
    spans_h = [(n.from_s / 3600, (n.to_s or math.inf) / 3600) for n in history.loans]
    on_loan = [sum(from_h <= at_h < to_h for from_h, to_h in spans_h) for at_h in (9, 21, 33, 45)]
    assert on_loan == [4, 0, 4, 0]
