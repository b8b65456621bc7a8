"""The scheduler's hand on a deployment: scale it, look at it."""

from __future__ import annotations

from typing import Any

from raysched.runtime.protocol import InferenceObserved
from serve_inference.dashboard import ServeRest
from serve_inference.deployment import InferencePool
from serve_inference.observer import Observer


class ServeLender:
    """Implements `raysched.runtime.protocol.Lender` over Serve's REST interface.

    Pickles as its pool alone: connections are opened where it is used.
    """

    def __init__(self, pool: InferencePool) -> None:
        self._pool = pool
        self._rest: ServeRest | None = None
        self._observer: Observer | None = None

    def scale(self, replicas: int) -> None:
        """Ask the deployment for this many replicas. Raises `InferenceError`."""
        self._connected().scale(self._pool.app, self._pool.deployment, replicas)

    def observe(self) -> InferenceObserved:
        """Look at demand and replicas. Raises `InferenceError`."""
        rest = self._connected()
        if self._observer is None:
            self._observer = Observer(rest, self._pool)
        replicas, demand = self._observer.read()
        return InferenceObserved(
            present=replicas.present,
            running=replicas.running,
            rps=None if demand is None else demand.rps,
            p50_ms=None if demand is None else demand.p50_ms,
            p99_ms=None if demand is None else demand.p99_ms,
        )

    def _connected(self) -> ServeRest:
        if self._rest is None:
            self._rest = ServeRest()
        return self._rest

    def __reduce__(self) -> tuple[Any, ...]:
        return type(self), (self._pool,)
