"""A Serve application on the inference pool, made so that whole servers can be lent.

Replicas stay on servers that carry the pool's label, and are packed, so that fewer replicas empty
a server. Their number belongs to the external scaler. Everything blocks, with bounded waits.
"""

from __future__ import annotations

import os
import socket
import time
from collections.abc import Mapping
from contextlib import closing
from dataclasses import dataclass
from typing import Any

import ray
from ray import serve
from ray.exceptions import RayTaskError

from serve_inference.dashboard import ServeRest
from serve_inference.errors import InferenceError
from serve_inference.traffic import MIDDLEWARE_IMPORT_PATH

SERVE_NAMESPACE = "serve"
SERVE_CONTROLLER = "SERVE_CONTROLLER_ACTOR"
POOL_LABEL = {"pool": "inference"}

SERVE_ENVIRONMENT: Mapping[str, str] = {
    # Fill servers one by one, so that fewer replicas leave a server empty.
    "RAY_SERVE_USE_PACK_SCHEDULING_STRATEGY": "1",
    # The same switch has Serve move replicas together by itself. Only the orchestrator may: never.
    "RAY_SERVE_NODE_COMPACTION_DELAY_S": "1e9",
    # Count requests where they arrive.
    "RAY_SERVE_HTTP_PROXY_CALLBACK_IMPORT_PATH": MIDDLEWARE_IMPORT_PATH,
}
"""What Serve needs. In the environment that starts the cluster, replicas take over idle worker
processes and start about a second sooner; otherwise `deploy` hands it to Serve's controller."""

DRAIN_POLL_S = 0.2  # how often a leaving replica looks whether its requests are answered
POLL_S = 0.1


@dataclass(frozen=True, slots=True)
class InferencePool:
    """One deployment that serves from the inference pool, and what a server of it holds."""

    app: str
    deployment: str
    gpus_per_replica: int
    replicas_per_server: int
    replica_rps: float  # what one replica serves at full use
    http_port: int = 8000
    http_host: str = "127.0.0.1"
    min_servers: int = 1  # always serve
    grace_s: float | None = None  # for training to leave a reclaimed server; None: its own time

    def __post_init__(self) -> None:
        for name in ("gpus_per_replica", "replicas_per_server", "min_servers", "replica_rps"):
            value = getattr(self, name)
            if value <= 0:
                raise InferenceError(f"{name}={value}: must be above zero")
        if self.grace_s is not None and not self.grace_s >= 0:
            raise InferenceError(f"grace_s={self.grace_s}: must be zero or more, or left out")

    @property
    def server_rps(self) -> float:
        """What one server serves at full use."""
        return self.replica_rps * self.replicas_per_server

    @property
    def server_gpus(self) -> int:
        """GPUs that the replicas of one server occupy."""
        return self.gpus_per_replica * self.replicas_per_server

    @property
    def route_prefix(self) -> str:
        """Where requests for this application go."""
        return f"/{self.app}"

    @property
    def url(self) -> str:
        """Where clients send requests."""
        return f"http://{self.http_host}:{self.http_port}{self.route_prefix}"


@dataclass(frozen=True, slots=True)
class Deployed:
    """A deployment that answers on every server of its pool."""

    servers: tuple[str, ...]
    replicas: int
    refill_s: float  # from asking for replicas to one server's worth of them answering


def deploy(
    deployment: serve.Deployment,
    pool: InferencePool,
    *arguments: Any,
    timeout_s: float = 120.0,
    **named_arguments: Any,
) -> Deployed:
    """Serve `deployment` (bound to the arguments) on every server of the pool; wait until it does.

    Starts Serve if it does not run. Deploying again restarts all replicas: it is for a new model,
    not for another number of replicas. CPUs, draining time and the bound on ongoing requests are
    the deployment's own. Call from a driver that is connected to Ray. An application that fails to
    start is left in Serve, with its logs.
    """
    servers = pool_servers(pool)
    replicas = len(servers) * pool.replicas_per_server
    with closing(ServeRest()) as rest:
        _start_serve(rest, pool)
        target = serve.RunTarget(
            _on_pool(deployment, pool, replicas).bind(*arguments, **named_arguments),
            name=pool.app,
            route_prefix=pool.route_prefix,
            external_scaler_enabled=True,
        )
        serve.run_many([target], wait_for_applications_running=False)
        refill_s = _wait_until_all_run(rest, pool, replicas, timeout_s)
    return Deployed(servers, replicas, refill_s)


def pool_servers(pool: InferencePool) -> tuple[str, ...]:
    """Node ids of the living servers that carry the pool's label, in order; one at least."""
    alive = [node for node in ray.nodes() if node["Alive"]]
    servers = [n for n in alive if POOL_LABEL.items() <= n["Labels"].items()]
    if not servers:
        raise InferenceError(
            "no server carries the label pool=inference: start one with "
            "`ray start --address=HEAD --labels pool=inference`"
        )
    for server in servers:
        gpus = int(server["Resources"].get("GPU", 0))
        if gpus < pool.server_gpus:
            raise InferenceError(
                f"server {server['NodeID']} has {gpus} GPUs, but replicas_per_server="
                f"{pool.replicas_per_server} with gpus_per_replica={pool.gpus_per_replica} "
                f"takes {pool.server_gpus}"
            )
    return tuple(sorted(server["NodeID"] for server in servers))


def _on_pool(deployment: serve.Deployment, pool: InferencePool, replicas: int) -> serve.Deployment:
    own: Mapping[str, Any] = deployment.ray_actor_options or {}
    on_pool = {"num_gpus": pool.gpus_per_replica, "label_selector": POOL_LABEL}
    return deployment.options(
        name=pool.deployment,
        num_replicas=replicas,
        ray_actor_options={**own, **on_pool},
        graceful_shutdown_wait_loop_s=DRAIN_POLL_S,
    )


def _start_serve(rest: ServeRest, pool: InferencePool) -> None:
    """Start Serve, or make sure that the one which runs is fit for lending."""
    options = rest.details().get("http_options") if _serve_runs() else None
    if options is not None:
        if options["port"] != pool.http_port:
            raise InferenceError(
                f"http_port={pool.http_port}: Serve already listens on port {options['port']}; "
                "use that one, or run `serve shutdown` first"
            )
    else:
        _refuse_taken_port(pool)
        _start_new_serve(pool)
    _refuse_wrong_environment()


def _start_new_serve(pool: InferencePool) -> None:
    missing = {k: v for k, v in SERVE_ENVIRONMENT.items() if os.environ.get(k) != v}
    try:
        serve.start(
            # One address for the clients, and replicas come and go without proxies doing so.
            proxy_location="HeadOnly",
            http_options={"host": pool.http_host, "port": pool.http_port},
            controller_options={"runtime_env": {"env_vars": missing}} if missing else None,
        )
    except RayTaskError as error:
        serve.shutdown()
        if "Failed to bind" in str(error):
            raise _port_taken(pool) from None
        raise InferenceError(f"Serve did not start: {error.cause}") from error


def _serve_runs() -> bool:
    try:
        ray.get_actor(SERVE_CONTROLLER, SERVE_NAMESPACE)
    except ValueError:
        return False
    return True


def _refuse_taken_port(pool: InferencePool) -> None:
    """Two Serve instances on one machine would share a port in silence (SO_REUSEPORT).

    Only seen from the head, where the proxy will be; elsewhere Serve's own bind has to fail.
    """
    here = ray.get_runtime_context().get_node_id()
    head = [n["NodeID"] for n in ray.nodes() if "node:__internal_head__" in n["Resources"]]
    if here not in head:
        return
    try:
        socket.create_connection((pool.http_host, pool.http_port), timeout=1.0).close()
    except OSError:
        return
    raise _port_taken(pool)


def _port_taken(pool: InferencePool) -> InferenceError:
    return InferenceError(
        f"http_port={pool.http_port} on {pool.http_host} is taken by another process: "
        "choose another port"
    )


def _refuse_wrong_environment() -> None:
    controller: Any = ray.get_actor(SERVE_CONTROLLER, SERVE_NAMESPACE)
    names = tuple(SERVE_ENVIRONMENT)
    found: dict[str, str | None] = ray.get(
        controller.__ray_call__.remote(_environment_of, names), timeout=10.0
    )
    wrong = [name for name, value in SERVE_ENVIRONMENT.items() if found[name] != value]
    if wrong:
        settings = " ".join(f"{name}={SERVE_ENVIRONMENT[name]}" for name in wrong)
        raise InferenceError(
            f"Serve runs without {settings}: set it in the environment that starts the cluster, "
            "or run `serve shutdown` and let raysched start Serve"
        )


def _environment_of(_controller: Any, names: tuple[str, ...]) -> dict[str, str | None]:
    return {name: os.environ.get(name) for name in names}


def _wait_until_all_run(
    rest: ServeRest, pool: InferencePool, replicas: int, timeout_s: float
) -> float:
    """Seconds until one server's worth of replicas ran; returns when all run.

    An application's status reads RUNNING while replicas are pending, so replicas are counted.
    """
    began_s = time.monotonic()
    refill_s, running = 0.0, 0
    while time.monotonic() < began_s + timeout_s:
        running = _running_replicas(rest, pool)
        if running >= pool.replicas_per_server:
            refill_s = refill_s or time.monotonic() - began_s
        if running == replicas:
            return refill_s
        time.sleep(POLL_S)
    raise InferenceError(
        f"only {running} of {replicas} replicas of {pool.deployment} answer after "
        f"{timeout_s:.0f} s: see `ray status` for who holds the pool's GPUs"
    )


def _running_replicas(rest: ServeRest, pool: InferencePool) -> int:
    app = rest.details()["applications"].get(pool.app, {})
    deployment = app.get("deployments", {}).get(pool.deployment, {})
    if app.get("status") == "DEPLOY_FAILED":
        trace = (deployment.get("message") or app["message"]).strip()
        raise InferenceError(f"application {pool.app} failed to start: {trace.splitlines()[-1]}")
    return sum(replica["state"] == "RUNNING" for replica in deployment.get("replicas", []))
