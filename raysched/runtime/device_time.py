"""Simulated GPUs have simulated device time.

On a machine without accelerators Ray can be told of GPUs that do not exist; more workers then
only share the same CPU cores, and a job never gets faster. With the environment variable
`RAYSCHED_SIMULATED_SAMPLES_PER_S` (samples that one simulated GPU trains in a second) set where a
trainer is created, each step of a worker also holds its GPUs for

    local batch / (samples per second * GPUs of the worker * their rate)

asleep, so that it costs no CPU. Everything else stays real: processes, sockets, all-reduce,
checkpoints, placement. Never active where CUDA is, and said in every summary that used it.
"""

from __future__ import annotations

import os
import sys
import time

from raysched.errors import UserError
from raysched.runtime.assignment import Assignment

VARIABLE = "RAYSCHED_SIMULATED_SAMPLES_PER_S"


def samples_per_s() -> float | None:
    """Return the rate of one simulated GPU that the environment asks for, None for real devices.

    Raises:
        UserError: The variable is set to something that is no rate.
    """
    written = os.environ.get(VARIABLE, "").strip()
    if not written:
        return None
    try:
        rate = float(written)
    except ValueError:
        rate = 0.0
    if not 0 < rate < float("inf"):
        raise UserError(f"{VARIABLE}: {written!r} is not a rate; use a positive number or unset it")
    return rate


def step_s(assignment: Assignment, local_batch: int) -> float:
    """Seconds for which one step of `local_batch` samples holds a worker's simulated GPUs."""
    if assignment.simulated_samples_per_s is None:
        return 0.0
    gpus = assignment.gpus_per_worker * assignment.gpu_rate
    return local_batch / (assignment.simulated_samples_per_s * gpus)


def hold(assignment: Assignment, local_batch: int) -> None:
    """Hold this worker's simulated GPUs for one step."""
    duration_s = step_s(assignment, local_batch)
    if duration_s > 0 and not _has_cuda():
        time.sleep(duration_s)


def _has_cuda() -> bool:
    torch = sys.modules.get("torch")  # whoever trains has imported it
    return torch is not None and torch.cuda.is_available()
