"""A worker: runs the training function beside the parameter servers."""

from __future__ import annotations

from typing import Any

import ray

from raysched.runtime.assignment import Assignment, assign

_loop: Any = None


def current_loop() -> Any:
    """This worker's `loop.Loop`, None in a process that is no worker beside parameter servers."""
    return _loop


class PsWorker:
    """The actor. Two threads: one trains, the other is asked what the worker carries."""

    def __init__(self, worker: int, assignment: Assignment, chunks: int, coordinator: Any) -> None:
        global _loop  # noqa: PLW0603 - one worker process, one loop
        from raysched.runtime.parameter_servers.loop import Loop

        assign(assignment)
        _loop = Loop(worker, assignment, chunks, coordinator)

    def run(self, function: bytes) -> None:
        """Run the training function to its end."""
        ray.cloudpickle.loads(function)()

    def carried(self) -> bytes:
        """What this worker keeps for itself, at a boundary."""
        carried: bytes = _loop.carried()
        return carried
