"""What Serve is doing: replicas by server, arrivals and latencies.

Replicas come from Serve's details, not from an application's status: that reads RUNNING while
replicas are pending. Arrivals come from the proxies' counters (`traffic`).
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any

import ray
from ray.exceptions import RayError

from serve_inference import traffic
from serve_inference.dashboard import ServeRest
from serve_inference.deployment import SERVE_NAMESPACE, InferencePool
from serve_inference.errors import InferenceError
from serve_inference.traffic import Reading, percentile_s

PROXY_TIMEOUT_S = 2.0


@dataclass(frozen=True, slots=True)
class Replicas:
    """Replicas of one deployment by server (node id): in any state, and those that answer."""

    present: Mapping[str, int]
    running: Mapping[str, int]
    unplaced: int  # wait for GPUs, on no server yet


@dataclass(frozen=True, slots=True)
class Demand:
    """Requests between two readings. Latencies run from the proxy's receipt to its answer."""

    window_s: float
    rps: float  # arrived per second, queued ones among them
    p50_ms: float | None
    p99_ms: float | None
    arrived: int
    failed: int
    in_flight: int  # at the second reading


def replicas_of(details: Mapping[str, Any], app: str, deployment: str) -> Replicas:
    """Replicas by server, from Serve's details."""
    try:
        replicas = details["applications"][app]["deployments"][deployment]["replicas"]
    except KeyError:
        raise InferenceError(
            f"Serve has no deployment {deployment!r} in application {app!r}"
        ) from None
    placed = [replica for replica in replicas if replica.get("node_id")]
    return Replicas(
        present=dict(Counter(replica["node_id"] for replica in placed)),
        running=dict(Counter(r["node_id"] for r in placed if r["state"] == "RUNNING")),
        unplaced=len(replicas) - len(placed),
    )


def demand_between(before: Mapping[str, Reading], after: Mapping[str, Reading]) -> Demand | None:
    """Traffic over all proxies, by name, between two readings; None where none was read twice.

    A proxy that has started anew counts from its next reading on.
    """
    pairs = [(before[name], now) for name, now in after.items() if name in before]
    pairs = [(then, now) for then, now in pairs if now.proxy == then.proxy]
    if not pairs:
        return None
    buckets = [0] * traffic.BUCKETS
    for then, now in pairs:
        for bucket, count in enumerate(now.latency_buckets):
            buckets[bucket] += count - then.latency_buckets[bucket]
    return Demand(
        window_s=max(now.at_s - then.at_s for then, now in pairs),
        # Each proxy by its own clock: a late answer of one does not bend the rate.
        rps=sum((now.arrived - then.arrived) / (now.at_s - then.at_s) for then, now in pairs),
        p50_ms=_ms(percentile_s(buckets, 0.50)),
        p99_ms=_ms(percentile_s(buckets, 0.99)),
        arrived=sum(now.arrived - then.arrived for then, now in pairs),
        failed=sum(now.failed - then.failed for then, now in pairs),
        in_flight=sum(now.arrived - now.finished for now in after.values()),
    )


def _ms(seconds: float | None) -> float | None:
    return None if seconds is None else 1000 * seconds


class Observer:
    """Reads Serve for one pool. Blocking, with bounded waits: call from one thread at a time.

    Two readings may come at any distance: what arrived between them is counted once.
    """

    def __init__(self, rest: ServeRest, pool: InferencePool) -> None:
        self._rest = rest
        self._pool = pool
        self._proxies: dict[str, Any] = {}  # actors by name
        self._last: dict[str, Reading] = {}

    def read(self) -> tuple[Replicas, Demand | None]:
        """Replicas now, and the demand since the last reading (None the first time)."""
        details = self._rest.details()
        replicas = replicas_of(details, self._pool.app, self._pool.deployment)
        readings = self._read_proxies([p["actor_name"] for p in details["proxies"].values()])
        demand = demand_between(self._last, readings)
        # A proxy that did not answer this time keeps its last reading: nothing is lost.
        self._last |= readings
        return replicas, demand

    def _read_proxies(self, names: list[str]) -> dict[str, Reading]:
        prefix = self._pool.route_prefix
        asked: dict[str, Any] = {}
        for name in names:
            try:
                if name not in self._proxies:
                    self._proxies[name] = ray.get_actor(name, SERVE_NAMESPACE)
                asked[name] = self._proxies[name].__ray_call__.remote(_read_in_proxy, prefix)
            except ValueError:  # on its way up, or down
                continue
        readings: dict[str, Reading] = {}
        for name, answer in asked.items():
            try:
                readings[name] = ray.get(answer, timeout=PROXY_TIMEOUT_S)
            except RayError:
                del self._proxies[name]  # one of the same name may follow it
        return readings


def _read_in_proxy(_proxy: Any, prefix: str) -> Reading:
    return traffic.read(prefix)
