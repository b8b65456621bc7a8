"""The load generator: its arithmetic, and its bounds against a small real server."""

import asyncio
import json
import math
import threading
import time
from contextlib import contextmanager

import numpy as np
import pytest
from aiohttp import web

from serve_inference.digits import LabelledImages
from serve_inference.load import (
    NO_ANSWER,
    DayCurve,
    LoadGenerator,
    Record,
    arrival_times,
    by_window,
    percentile,
    summarise,
)

QUESTIONS = LabelledImages(np.zeros((1, 64)), np.array([7]))


def answered(due_s, latency_s, correct=True):
    return Record(due_s, latency_s, 200, correct)


def test_a_day_is_high_at_both_ends_with_a_valley_between():
    day = DayCurve(low_rps=2.0, high_rps=10.0, day_s=60.0)
    assert day(0.0) == pytest.approx(10.0)
    assert day(30.0) == pytest.approx(2.0)
    assert day(60.0) == pytest.approx(10.0)
    assert day(15.0) == pytest.approx(4.0)


def test_arrivals_follow_the_rate():
    times = list(arrival_times(DayCurve(10.0, 90.0, 100.0), 100.0, seed=1))
    expected = (10.0 + 80.0 * 3 / 8) * 100.0  # 3/8: the mean of the curve's height
    assert abs(len(times) - expected) < 4 * math.sqrt(expected)
    assert times == sorted(times)
    assert times[0] >= 0.0 and times[-1] < 100.0
    in_valley = sum(45.0 <= at_s < 55.0 for at_s in times)
    at_ends = sum(at_s < 5.0 or at_s >= 95.0 for at_s in times)
    assert in_valley < at_ends / 5


def test_gaps_between_arrivals_are_exponential():
    times = np.array(list(arrival_times(lambda _: 50.0, 200.0, seed=3)))
    gaps_s = np.diff(times)
    assert gaps_s.mean() == pytest.approx(1 / 50, rel=0.05)
    assert gaps_s.std() == pytest.approx(gaps_s.mean(), rel=0.05)


def test_a_seed_fixes_the_arrivals():
    def draw(seed):
        return list(arrival_times(lambda _: 20.0, 5.0, seed))

    assert draw(4) == draw(4) != draw(5)


def test_no_arrivals_without_demand():
    assert list(arrival_times(lambda _: 0.0, 10.0, seed=0)) == []


@pytest.mark.parametrize(
    ("values", "quantile", "expected"),
    [([], 0.5, None), ([3.0], 0.99, 3.0), ([1.0, 2.0, 3.0, 4.0], 0.5, 2.0)],
)
def test_percentile_is_the_nearest_rank(values, quantile, expected):
    assert percentile(values, quantile) == expected


def test_percentile_of_a_hundred():
    assert percentile([float(v) for v in range(1, 101)], 0.99) == 99.0


def test_a_summary_counts_failures_apart_from_wrong_answers():
    summary = summarise(
        [
            answered(0.0, 0.1),
            answered(0.1, 0.3, correct=False),
            Record(0.2, 9.0, 503, False),
            Record(0.3, 0.0, NO_ANSWER, False, "dropped"),
        ]
    )
    assert (summary.sent, summary.failed, summary.wrong) == (4, 2, 1)
    assert (summary.p50_ms, summary.p99_ms) == (100.0, 300.0)


def test_windows_go_by_when_requests_were_due():
    first, second = by_window([answered(12.0, 0.2), answered(1.0, 20.0), answered(9.9, 0.1)], 10.0)
    assert (first.begins_s, first.sent, first.p99_ms) == (0.0, 2, 20_000.0)
    assert (second.begins_s, second.sent, second.p99_ms) == (10.0, 1, 200.0)


@contextmanager
def server(answer):
    """An HTTP server on a free port that answers every POST with `await answer(request)`."""
    loop = asyncio.new_event_loop()
    app = web.Application()
    app.router.add_post("/", answer)
    runner = web.AppRunner(app, shutdown_timeout=0.1)
    loop.run_until_complete(runner.setup())
    site = web.TCPSite(runner, "127.0.0.1", 0)
    loop.run_until_complete(site.start())
    thread = threading.Thread(target=loop.run_forever)
    thread.start()
    try:
        host, port = runner.addresses[0]
        yield f"http://{host}:{port}/"
    finally:
        loop.call_soon_threadsafe(loop.stop)
        thread.join()
        loop.run_until_complete(runner.cleanup())
        loop.close()


async def sees_a_seven(request):
    assert len(json.loads(await request.read())) == 64
    return web.json_response({"digit": 7})


def test_requests_are_sent_checked_and_viewed():
    with server(sees_a_seven) as url:
        load = LoadGenerator(url, lambda _: 100.0, 0.6, QUESTIONS, seed=2)
        load.start()
        time.sleep(0.4)
        view = load.view()
        records = load.wait()
    assert view.rate_rps == 100.0
    assert 10 < view.sent <= len(records)
    assert view.p50_ms is not None
    assert len(records) == len(list(arrival_times(lambda _: 100.0, 0.6, seed=2)))
    assert all(record.correct and not record.failed for record in records)
    assert load.view().in_flight == 0


def test_errors_and_wrong_answers_are_told_apart():
    answers = iter([web.Response(status=503, text="full"), web.json_response({"digit": 1})])

    async def answer(_):
        return next(answers)

    with server(answer) as url:
        load = LoadGenerator(url, lambda _: 50.0, 5.0, QUESTIONS, max_requests=2)
        load.start()
        records = load.wait()
    assert sorted((r.status, r.failed, r.correct) for r in records) == [
        (200, False, False),
        (503, True, False),
    ]


def test_what_exceeds_the_bound_in_flight_is_dropped_and_has_failed():
    async def answer(_):
        await asyncio.sleep(0.5)
        return web.json_response({"digit": 7})

    with server(answer) as url:
        load = LoadGenerator(url, lambda _: 50.0, 0.4, QUESTIONS, max_in_flight=3)
        load.start()
        records = load.wait()
    assert sum(not record.failed for record in records) == 3
    assert {record.error for record in records if record.failed} == {"dropped"}


def test_no_server_is_a_failed_request_not_a_crash():
    load = LoadGenerator("http://127.0.0.1:1/", lambda _: 50.0, 1.0, QUESTIONS, max_requests=3)
    load.start()
    assert [record.status for record in load.wait()] == [NO_ANSWER] * 3


def test_stopping_sends_no_more():
    with server(sees_a_seven) as url:
        load = LoadGenerator(url, lambda _: 20.0, 60.0, QUESTIONS)
        load.start()
        time.sleep(0.3)
        assert len(load.stop()) < 50
