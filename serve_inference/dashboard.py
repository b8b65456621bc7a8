"""Serve's public REST interface, reached through the dashboard on the head.

Two calls are needed: the details of every replica and proxy (GET, about 10 ms), and the external
scaler (POST). The rest of Serve's REST interface is left alone. Blocking, with bounded waits: call
from a thread. How Ray 2.60 keeps the dashboard's address and its token is private to Ray, and
stands here alone.
"""

from __future__ import annotations

import time
from collections.abc import Mapping
from typing import Any

import httpx
from ray._private.authentication.http_token_authentication import get_auth_headers_if_auth_enabled
from ray._private.ray_constants import DASHBOARD_ADDRESS, KV_NAMESPACE_DASHBOARD
from ray.experimental.internal_kv import _internal_kv_get

from serve_inference.errors import InferenceError

TIMEOUT_S = 5.0
ATTEMPTS = 3
PAUSE_S = 0.3  # between attempts: a Serve controller that died is back within two seconds


def dashboard_url() -> str:
    """Where the dashboard of the connected Ray cluster listens; raises where there is none."""
    address = _internal_kv_get(DASHBOARD_ADDRESS, namespace=KV_NAMESPACE_DASHBOARD)
    if not address:
        raise InferenceError(
            "this Ray cluster has no dashboard, through which Serve is scaled and read: "
            "start the head with --include-dashboard=true"
        )
    return f"http://{address.decode()}"


class ServeRest:
    """Serve as the dashboard shows it. One connection is kept; safe to share between threads."""

    def __init__(self, url: str | None = None) -> None:
        self.url = url or dashboard_url()
        # The dashboard is inside the cluster: no proxy of the environment leads there.
        self._http = httpx.Client(
            base_url=self.url,
            headers=get_auth_headers_if_auth_enabled({}),
            timeout=TIMEOUT_S,
            trust_env=False,
        )

    def details(self) -> Mapping[str, Any]:
        """`ServeInstanceDetails` as JSON: applications with their replicas, and the proxies."""
        details: Mapping[str, Any] = self._ask("GET", "/api/serve/applications/").json()
        return details

    def scale(self, app: str, deployment: str, replicas: int) -> None:
        """Have the external scaler set the number of replicas; safe to repeat.

        Serve answers at once and acts later: what became of it, `observer` tells. Replicas that
        stay are not touched, and one that leaves first answers what it has accepted.
        """
        path = f"/api/v1/applications/{app}/deployments/{deployment}/scale"
        self._ask("POST", path, json={"target_num_replicas": replicas})

    def close(self) -> None:
        """Close the connection."""
        self._http.close()

    def _ask(self, method: str, path: str, **content: Any) -> httpx.Response:
        """One answer, or an `InferenceError`. Both calls are safe to repeat, so failures are."""
        problem = ""
        for attempt in range(ATTEMPTS):
            time.sleep(PAUSE_S if attempt else 0)
            try:
                answer = self._http.request(method, path, **content)
            except httpx.TransportError as error:
                problem = f"{type(error).__name__}: {error} (does it run? --include-dashboard=true)"
                continue
            if answer.is_success:
                return answer
            problem = f"HTTP {answer.status_code}: {answer.text.strip()[:300]}"
            if answer.is_client_error:  # asking again would not help
                break
        raise InferenceError(
            f"the Ray dashboard at {self.url} did not do {method} {path}: {problem}"
        )
