"""What Ray says is there: servers of the pools, GPUs in use, drivers that died.

The one module that reads Ray's global state; all of it blocks for milliseconds, so the scheduler
calls it in threads.
"""

from __future__ import annotations

import logging
from collections.abc import Mapping
from dataclasses import dataclass
from functools import cache
from typing import Any

import ray
from ray._private.state import available_resources_per_node
from ray._private.state import state as ray_state
from ray._private.worker import global_worker

from raysched.events import Pool

logger = logging.getLogger(__name__)

POOL_LABEL = "pool"
NODE_ID_LABEL = "ray.io/node-id"
NAME_LABEL = "server"
TYPE_LABEL = "ray.io/accelerator-type"
RATE_LABEL = "gpu_rate"
"""Speed of one of a node's GPUs over that of the training pool's: 0.25 for a T4 beside a V100."""


@dataclass(frozen=True, slots=True)
class Node:
    """A live node of a pool. `name` is how people and the journal call the server."""

    node_id: str
    name: str
    pool: Pool
    gpus: int
    cpus: int
    gpu_type: str
    gpu_rate: float = 1.0


def pool_nodes() -> list[Node]:
    """All live nodes that carry the label of a pool, and a GPU."""
    nodes = []
    for row in ray.nodes():
        pool = row["Labels"].get(POOL_LABEL)
        gpus = int(row["Resources"].get("GPU", 0))
        if row["Alive"] and gpus and pool in ("training", "inference"):
            labels = row["Labels"]
            name = labels.get(NAME_LABEL, f"{pool}-{row['NodeID'][:8]}")
            cpus = int(row["Resources"].get("CPU", 0))
            nodes.append(Node(row["NodeID"], name, pool, gpus, cpus, *gpus_of(name, labels)))
    return sorted(nodes, key=lambda node: node.name)


def gpus_of(name: str, labels: Mapping[str, str]) -> tuple[str, float]:
    """Type and rate of a node's GPUs. Unnamed ones of another speed are a type of their own."""
    rate = _rate(name, labels.get(RATE_LABEL, "1"))
    return labels.get(TYPE_LABEL, "GPU" if rate == 1.0 else f"GPU-{rate:g}"), rate


@cache  # nodes are looked at every second, and what is wrong is said once
def _rate(name: str, written: str) -> float:
    try:
        rate = float(written)
    except ValueError:
        rate = 0.0
    if 0 < rate < float("inf"):
        return rate
    logger.warning(
        "server %s: label %s=%s is not a positive number; 1 is taken", name, RATE_LABEL, written
    )
    return 1.0


def used_gpus() -> dict[str, float]:
    """Node id -> GPUs that anybody occupies, placement groups included.

    Ray reports what is available; a placement group takes its GPUs from that as a whole.
    """
    available = available_resources_per_node()
    return {
        row["NodeID"]: row["Resources"].get("GPU", 0.0)
        - available.get(row["NodeID"], {}).get("GPU", 0.0)
        for row in ray.nodes()
        if row["Alive"]
    }


def used_in_group(group_id: str, gpus: int) -> float:
    """GPUs in use inside a placement group that holds `gpus` GPUs.

    Until Ray has spread the news of a new group, all of it reads as in use.
    """
    return gpus - float(ray.available_resources().get(f"GPU_group_{group_id}", 0.0))


def dead_drivers() -> set[str]:
    """Ids of the Ray jobs (drivers) that are over."""
    return {row["JobID"] for row in ray_state.job_table() if row["IsDead"]}


def this_driver() -> str:
    """The id of the Ray job that this process belongs to."""
    return str(ray.get_runtime_context().get_job_id())


def session_dir() -> str:
    """Where this Ray cluster keeps its files, on this machine."""
    node: Any = global_worker.node
    return str(node.get_session_dir_path())
