"""Counting in the proxies, and demand as the difference of two readings."""

import asyncio
from dataclasses import replace

import pytest
from hypothesis import given
from hypothesis import strategies as st

from serve_inference import traffic
from serve_inference.errors import InferenceError
from serve_inference.observer import demand_between, replicas_of
from serve_inference.traffic import BUCKETS, CountRequests, Reading, bucket_of, percentile_s


@pytest.fixture(autouse=True)
def nothing_watched(monkeypatch):
    monkeypatch.setattr(traffic, "_watched", {})


def request(app, path, kind="http"):
    async def send(message):
        pass

    async def receive():
        return {"type": "http.request"}

    asyncio.run(CountRequests(app)({"type": kind, "path": path}, receive, send))


def answers(status):
    async def app(scope, receive, send):
        await send({"type": "http.response.start", "status": status})
        await send({"type": "http.response.body"})

    return app


def counts(prefix):
    reading = traffic.read(prefix)
    return reading.arrived, reading.finished, reading.failed


def test_only_what_is_watched_is_counted():
    request(answers(200), "/digits")
    assert counts("/digits") == (0, 0, 0)  # watched from here on
    for path in ("/digits", "/digits/", "/digits/one", "/digitsome", "/-/healthz", "/other"):
        request(answers(200), path)
    request(answers(200), "/digits", kind="websocket")
    assert counts("/digits") == (3, 3, 0)


def test_a_request_arrives_before_it_is_answered():
    traffic.read("/")
    seen = []

    async def app(scope, receive, send):
        seen.append(counts("/"))
        await answers(200)(scope, receive, send)

    request(app, "/any")
    assert seen == [(1, 0, 0)]
    assert counts("/") == (1, 1, 0)


@pytest.mark.parametrize(("status", "failed"), [(200, 0), (404, 0), (500, 1), (503, 1)])
def test_failures_are_those_of_the_server(status, failed):
    traffic.read("/")
    request(answers(status), "/")
    assert counts("/") == (1, 1, failed)


def test_a_request_without_an_answer_has_failed():
    async def app(scope, receive, send):
        raise ConnectionError

    traffic.read("/")
    with pytest.raises(ConnectionError):
        request(app, "/")
    assert counts("/") == (1, 1, 1)


@given(st.lists(st.floats(0.002, 60.0), min_size=1), st.sampled_from([0.5, 0.9, 0.99]))
def test_a_percentile_from_buckets_is_off_by_5_percent_at_most(latencies_s, quantile):
    buckets = [0] * BUCKETS
    for latency_s in latencies_s:
        buckets[bucket_of(latency_s)] += 1
    exact = sorted(latencies_s)[-int(-quantile * len(latencies_s) // 1) - 1]
    assert percentile_s(buckets, quantile) == pytest.approx(exact, rel=0.05)


def test_extreme_latencies_have_a_bucket():
    assert bucket_of(0.0) == 0
    assert bucket_of(1e6) == BUCKETS - 1
    assert percentile_s([0] * BUCKETS, 0.5) is None


def reading(at_s, arrived, finished, latency_s=0.05, proxy="a", failed=0):
    buckets = [0] * BUCKETS
    buckets[bucket_of(latency_s)] = finished
    return Reading(proxy, at_s, arrived, finished, failed, tuple(buckets))


def demand_over(before, after):
    demand = demand_between(before, after)
    assert demand is not None
    return demand


def test_arrivals_are_completions_and_the_growth_of_the_queue():
    demand = demand_over({"p": reading(10.0, 100, 90)}, {"p": reading(12.0, 150, 110)})
    assert demand.rps == 25.0  # though only 10 per second were answered
    assert (demand.arrived, demand.in_flight, demand.window_s) == (50, 40, 2.0)
    assert demand.p50_ms == pytest.approx(50.0, rel=0.05)


def test_proxies_add_up_each_by_its_own_clock():
    before = {"p": reading(10.0, 0, 0), "q": reading(500.0, 0, 0, proxy="b")}
    after = {"p": reading(11.0, 10, 10), "q": reading(502.0, 40, 40, proxy="b")}
    assert demand_over(before, after).rps == 30.0


def test_a_proxy_that_started_anew_does_not_count_backwards():
    before = {"p": reading(10.0, 100, 100)}
    restarted = reading(3.0, 5, 5, proxy="b")
    assert demand_between(before, {"p": restarted}) is None
    after = replace(restarted, at_s=4.0, arrived=7, finished=7)
    assert demand_over({"p": restarted}, {"p": after}).rps == 2.0


def test_nobody_asked_is_no_percentile():
    demand = demand_over({"p": reading(1.0, 4, 4)}, {"p": reading(2.0, 4, 4)})
    assert (demand.rps, demand.p50_ms, demand.p99_ms) == (0.0, None, None)


def details(*replicas):
    return {"applications": {"a": {"deployments": {"d": {"replicas": list(replicas)}}}}}


def test_replicas_are_counted_by_server_and_state():
    replicas = replicas_of(
        details(
            {"state": "RUNNING", "node_id": "n0"},
            {"state": "STOPPING", "node_id": "n0"},
            {"state": "STARTING", "node_id": "n1"},
            {"state": "STARTING"},
        ),
        "a",
        "d",
    )
    assert replicas.present == {"n0": 2, "n1": 1}
    assert replicas.running == {"n0": 1}
    assert replicas.unplaced == 1


def test_an_unknown_deployment_is_named():
    with pytest.raises(InferenceError, match="no deployment 'other' in application 'a'"):
        replicas_of(details(), "a", "other")
