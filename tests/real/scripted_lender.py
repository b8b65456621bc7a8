"""An inference deployment whose demand a test writes into a file; its servers are real."""

import json
from pathlib import Path

from raysched.runtime import cluster
from raysched.runtime.protocol import InferenceObserved


class ScriptedLender:
    """One replica a server, packed on the first ones, as Serve packs them."""

    def __init__(self, folder: Path) -> None:
        self._demand, self._replicas = folder / "demand.json", folder / "replicas.json"

    def demand(self, rps: float) -> None:
        """From now on so many requests a second arrive."""
        self._demand.write_text(json.dumps(rps))

    def scale(self, replicas: int) -> None:
        self._replicas.write_text(json.dumps(replicas))

    def observe(self) -> InferenceObserved:
        nodes = [node.node_id for node in cluster.pool_nodes() if node.pool == "inference"]
        count = len(nodes)
        if self._replicas.exists():
            count = json.loads(self._replicas.read_text() or "0")
        present = dict.fromkeys(nodes[:count], 1)
        return InferenceObserved(present, present, json.loads(self._demand.read_text()))
