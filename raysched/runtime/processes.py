"""Whether the processes of workers are gone."""

from __future__ import annotations

import os
import socket
import time
from collections.abc import Sequence
from dataclasses import dataclass

import psutil
import ray
from ray._private.state import state as cluster_state
from ray.core.generated import gcs_pb2

KILL_S = 30.0  # for a killed process to be gone


@dataclass(frozen=True, slots=True)
class Process:
    """Names a worker process, so that its end can be seen."""

    worker_id: str
    node_id: str
    hostname: str
    pid: int
    created_at_s: float  # tells the process from a later one of the same pid


def this_process() -> Process:
    """The worker process that this is called in."""
    context = ray.get_runtime_context()
    return Process(
        context.get_worker_id(),
        context.get_node_id(),
        socket.gethostname(),
        os.getpid(),
        psutil.Process().create_time(),
    )


def wait_until_gone(processes: Sequence[Process]) -> None:
    """Return when no process runs any more, or its node is lost.

    Ray calls an actor dead as soon as it was told to die; a GPU is free only when the process is
    gone. Raises `TimeoutError` when a process outlives `KILL_S`.
    """
    deadline_s = time.monotonic() + KILL_S
    while processes := [process for process in processes if _is_alive(process)]:
        live_nodes = {row["NodeID"] for row in ray.nodes() if row["Alive"]}
        processes = [process for process in processes if process.node_id in live_nodes]
        if processes and time.monotonic() > deadline_s:
            raise TimeoutError(f"processes {[process.pid for process in processes]} do not die")
        time.sleep(0.01)


def _is_alive(process: Process) -> bool:
    """Whether a process runs as far as its raylet knows; on this host, whether it really does.

    The raylet is ahead by what the kernel takes to free its memory: 0.2 s for 2 GiB.
    """
    accessor = cluster_state._connect_and_get_accessor()
    row = accessor.get_worker_info(ray.WorkerID.from_hex(process.worker_id))
    if row is not None and gcs_pb2.WorkerTableData.FromString(row).is_alive:  # type: ignore[attr-defined]
        return True
    return process.hostname == socket.gethostname() and _runs_here(process)


def _runs_here(process: Process) -> bool:
    try:
        found = psutil.Process(process.pid)
        is_same = found.create_time() == process.created_at_s
        return is_same and found.status() != psutil.STATUS_ZOMBIE
    except psutil.NoSuchProcess:
        return False
