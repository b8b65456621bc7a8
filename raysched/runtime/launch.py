"""Starts the scheduler's actor on the head of a cluster, and ends it."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import ray
from ray.exceptions import GetTimeoutError
from ray.util.scheduling_strategies import NodeAffinitySchedulingStrategy

from raysched.errors import NotConnected
from raysched.runtime import link
from raysched.runtime.cluster import session_dir
from raysched.runtime.protocol import NAMESPACE, SCHEDULER_NAME
from raysched.runtime.scheduler import Scheduler

READY_S = 60.0
STOP_S = 10.0


def start(journal_path: Path | str | None = None) -> None:
    """Start the scheduler of this cluster on its head; find it where it runs already.

    Its journal is kept with the Ray session's files unless it is given a place. Returns when it is
    ready to decide. Raises `NotConnected` where it does not get ready.
    """
    journal_path = journal_path or Path(session_dir()) / "raysched" / "journal.db"
    starter = ray.remote(Scheduler).options(
        name=SCHEDULER_NAME,
        namespace=NAMESPACE,
        lifetime="detached",
        get_if_exists=True,
        num_cpus=0,
        max_restarts=-1,
        max_task_retries=-1,
        max_concurrency=1000,
        scheduling_strategy=NodeAffinitySchedulingStrategy(_head_id(), soft=True),
    )
    actor: Any = starter.remote(str(journal_path))
    try:
        ray.get(actor.ping.remote(), timeout=READY_S)
    except GetTimeoutError:
        raise NotConnected(
            f"the scheduler did not get ready in {READY_S:.0f} s; see the log of actor Scheduler"
        ) from None


def stop() -> None:
    """End the scheduler and remove its placement groups, which ends what runs in them."""
    actor = link.scheduler()
    try:
        ray.get(actor.shut_down.remote(), timeout=STOP_S)
    finally:
        ray.kill(actor, no_restart=True)


def _head_id() -> str:
    heads = [n["NodeID"] for n in ray.nodes() if "node:__internal_head__" in n["Resources"]]
    return str(heads[0])
