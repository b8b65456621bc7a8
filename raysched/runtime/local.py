"""A Ray cluster of several nodes on this machine, with simulated GPUs: for the demo and tests.

Every node is a real raylet with its own workers; only the GPUs are a number.
"""

from __future__ import annotations

import contextlib
import logging
import os
import shutil
import socket
import tempfile
from collections.abc import Mapping
from types import TracebackType
from typing import Any

import psutil

OBJECT_STORE_BYTES = 80 << 20


class LocalCluster:
    """A head without GPUs, and servers of `gpus` GPUs in both pools, named `training-0` and so on.

    A context manager: connects this process to the cluster, and ends exactly what it started.
    `environment` is set for the cluster's processes (and this one) while it runs.
    """

    def __init__(
        self,
        training: int = 2,
        inference: int = 2,
        gpus: int = 4,
        environment: Mapping[str, str] | None = None,
    ) -> None:
        self._pools = {"training": training, "inference": inference}
        self._gpus = gpus
        self._environment = {
            "RAY_AUTH_MODE": "disabled",  # set explicitly: unset, Ray looks for a token
            "RAY_USAGE_STATS_ENABLED": "0",
            **(environment or {}),
        }
        self._saved: dict[str, str | None] = {}
        self._folder = ""
        self.cluster: Any = None
        self.dashboard_url = ""
        self.nodes: dict[str, Any] = {}

    def __enter__(self) -> LocalCluster:
        self._folder = tempfile.mkdtemp(prefix="rs")  # short: sockets' paths are limited
        self._set_environment({**self._environment, "RAY_TMPDIR": self._folder})
        try:
            self._start()
        except BaseException:
            self.close()
            raise
        return self

    def __exit__(
        self,
        kind: type[BaseException] | None,
        error: BaseException | None,
        traceback: TracebackType | None,
    ) -> None:
        self.close()

    def add_server(self, pool: str) -> str:
        """Start one more server of a pool; its name."""
        name = f"{pool}-{sum(n.startswith(pool) for n in self.nodes)}"
        self.nodes[name] = self.cluster.add_node(
            num_cpus=2 * self._gpus,
            num_gpus=self._gpus,
            labels={"pool": pool, "server": name},
            object_store_memory=OBJECT_STORE_BYTES,
        )
        return name

    def remove_server(self, name: str) -> None:
        """End a server at once, with whatever runs on it."""
        self.cluster.remove_node(self.nodes.pop(name), allow_graceful=False)

    def close(self) -> None:
        """End every process of the cluster, and remove its files."""
        import ray

        children = psutil.Process().children(recursive=True)
        with contextlib.suppress(Exception):
            ray.shutdown()
        if self.cluster is not None:
            with contextlib.suppress(Exception):
                self.cluster.shutdown()
        _end(children)
        self._set_environment(self._saved)
        shutil.rmtree(self._folder, ignore_errors=True)

    def _start(self) -> None:
        import ray
        from ray.cluster_utils import Cluster

        self.cluster = Cluster()
        self.cluster.add_node(
            num_cpus=8,
            num_gpus=0,
            labels={"pool": "head"},
            object_store_memory=OBJECT_STORE_BYTES,
            include_dashboard=True,  # Serve is scaled through it
            dashboard_port=free_port(),
        )
        for pool, servers in self._pools.items():
            for _ in range(servers):
                self.add_server(pool)
        connected = ray.init(
            address=self.cluster.address,
            namespace="raysched",
            log_to_driver=False,
            logging_level=logging.WARNING,
        )
        self.dashboard_url = f"http://{connected.dashboard_url}"

    def _set_environment(self, values: Mapping[str, str | None]) -> None:
        self._saved = {name: os.environ.get(name) for name in values}
        for name, value in values.items():
            if value is None:
                os.environ.pop(name, None)
            else:
                os.environ[name] = value


def free_port() -> int:
    """A TCP port of this machine that nobody listens on now."""
    with socket.socket() as probe:
        probe.bind(("127.0.0.1", 0))
        port: int = probe.getsockname()[1]
        return port


def _end(processes: list[psutil.Process]) -> None:
    """Make sure that these processes are gone: ask, wait, insist."""
    for process in processes:
        with contextlib.suppress(psutil.NoSuchProcess):
            process.terminate()
    _, left = psutil.wait_procs(processes, timeout=5)
    for process in left:
        with contextlib.suppress(psutil.NoSuchProcess):
            process.kill()
