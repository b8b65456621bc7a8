"""A driver's part in the life of its job: it submits the job, says how its controller stands,
and tells how it ended."""

from __future__ import annotations

import uuid
from collections.abc import Iterator
from contextlib import contextmanager
from typing import Any

import ray
from ray._raylet import RAY_NODE_ID_KEY  # type: ignore[attr-defined]

from raysched.errors import JobStopped
from raysched.jobs import JobSpec
from raysched.runtime import link
from raysched.runtime.protocol import NAMESPACE


def submit(spec: JobSpec) -> str:
    """Submit a job in the name of this process, which joins the Ray cluster for it; the job's id.

    Raises:
        NotConnected: There is no Ray cluster, or no scheduler on it.
        InvalidJob: The scheduler cannot ever run it; the message says why.
    """
    link.join()
    link.scheduler()  # fail at once where there is none
    owner, token = str(ray.get_runtime_context().get_job_id()), uuid.uuid4().hex
    job: str = link.call("submit", spec, owner, token)
    return job


def controller_options(job: str) -> dict[str, Any]:
    """Ray's options for the actor that leads a job: it stands beside the driver, and lives and dies
    with it."""
    return {
        "name": f"raysched-controller-{job}",
        "namespace": NAMESPACE,
        "num_cpus": 0,
        "max_restarts": 3,
        "max_task_retries": 3,
        "label_selector": {RAY_NODE_ID_KEY: ray.get_runtime_context().get_node_id()},
    }


@contextmanager
def telling_outcome(job: str) -> Iterator[None]:
    """Train a job within this; the scheduler is told how that ended."""
    try:
        yield
    except (KeyboardInterrupt, JobStopped) as stop:
        link.call("ended", job, "cancelled", str(stop) or "interrupted")
        raise
    except Exception as error:
        link.call("ended", job, "failed", str(error))
        raise
    link.call("ended", job, "finished", "")
