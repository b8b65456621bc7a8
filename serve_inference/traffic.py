"""Requests counted where they arrive: inside Serve's HTTP proxies.

Why here. Serve exports its own counters every 10 s, and they count completions; its handles tell
the controller about their queues only under `autoscaling_config`, which the external scaler
excludes; a counting deployment in front of the model would cost each request a hop (about as much
CPU as the request itself). A proxy sees every request before it queues, lives on while replicas
come and go, and knows when the answer left. Serve offers it as a hook: the environment variable
`RAY_SERVE_HTTP_PROXY_CALLBACK_IMPORT_PATH` names a function that returns ASGI middleware.

Counters only grow and are read by difference, so any number of readers may read at any pace. A
prefix is counted from its first reading on; a proxy that starts anew starts from zero under
another `proxy` id.
"""

from __future__ import annotations

import math
import os
import time
from collections.abc import Awaitable, Callable, MutableMapping, Sequence
from dataclasses import dataclass, field
from typing import Any, TypeAlias

MIDDLEWARE_IMPORT_PATH = "serve_inference.traffic:proxy_middleware"

FINEST_S = 0.001
BUCKET_GROWTH = 1.1  # a percentile read from the buckets is off by less than 5 %
BUCKETS = 122  # the last one begins above 100 s

Message: TypeAlias = MutableMapping[str, Any]
Receive: TypeAlias = Callable[[], Awaitable[Message]]
Send: TypeAlias = Callable[[Message], Awaitable[None]]
App: TypeAlias = Callable[[Message, Receive, Send], Awaitable[None]]


@dataclass(frozen=True, slots=True)
class Reading:
    """What one proxy had counted for one route prefix when it was asked."""

    proxy: str  # changes when the proxy starts anew
    at_s: float  # the proxy's monotonic clock
    arrived: int
    finished: int  # answered or given up; the others are in flight
    failed: int  # of the finished: an answer of 500 or above, or none
    latency_buckets: tuple[int, ...]  # finished requests by latency; see `bucket_of`


@dataclass(slots=True)
class _Counter:
    arrived: int = 0
    finished: int = 0
    failed: int = 0
    latency_buckets: list[int] = field(default_factory=lambda: [0] * BUCKETS)


_watched: dict[str, _Counter] = {}
_proxy_id = f"{os.getpid()}-{time.time_ns()}"


def read(prefix: str) -> Reading:
    """Called in the proxy's process: its counts for requests at or below `prefix`."""
    counter = _watched.setdefault(prefix, _Counter())
    return Reading(
        proxy=_proxy_id,
        at_s=time.monotonic(),
        arrived=counter.arrived,
        finished=counter.finished,
        failed=counter.failed,
        latency_buckets=tuple(counter.latency_buckets),
    )


class CountRequests:
    """ASGI middleware that counts requests of the watched prefixes."""

    def __init__(self, app: App) -> None:
        self._app = app

    async def __call__(self, scope: Message, receive: Receive, send: Send) -> None:
        """Pass the request on, and count it if its prefix is watched."""
        counter = _counter_of(scope["path"]) if scope["type"] == "http" else None
        if counter is None:
            await self._app(scope, receive, send)
        else:
            await self._count(counter, scope, receive, send)

    async def _count(self, counter: _Counter, scope: Message, receive: Receive, send: Send) -> None:
        status = 0

        async def watch(message: Message) -> None:
            nonlocal status
            if message["type"] == "http.response.start":
                status = message["status"]
            await send(message)

        began_s = time.monotonic()
        counter.arrived += 1
        try:
            await self._app(scope, receive, watch)
        finally:
            counter.finished += 1
            counter.failed += status == 0 or status >= 500
            counter.latency_buckets[bucket_of(time.monotonic() - began_s)] += 1


def _counter_of(path: str) -> _Counter | None:
    for prefix, counter in _watched.items():
        if prefix == "/" or path == prefix or path.startswith(prefix + "/"):
            return counter
    return None


def proxy_middleware() -> list[Any]:
    """What Serve's proxies call at their start (`MIDDLEWARE_IMPORT_PATH`)."""
    from starlette.middleware import Middleware

    return [Middleware(CountRequests)]


def bucket_of(latency_s: float) -> int:
    """Bucket 0 is below `FINEST_S`, bucket b from `FINEST_S * BUCKET_GROWTH ** (b - 1)` on."""
    if latency_s < FINEST_S:
        return 0
    return min(BUCKETS - 1, 1 + int(math.log(latency_s / FINEST_S, BUCKET_GROWTH)))


def percentile_s(buckets: Sequence[int], quantile: float) -> float | None:
    """The latency below which `quantile` of the requests were answered; None if there are none."""
    total = sum(buckets)
    if not total:
        return None
    seen = 0
    for bucket, count in enumerate(buckets):
        seen += count
        if seen >= quantile * total:
            # The middle of the bucket, on its logarithmic scale.
            return float(FINEST_S * BUCKET_GROWTH ** (bucket - 0.5))
    raise AssertionError("the last bucket completes the total")
