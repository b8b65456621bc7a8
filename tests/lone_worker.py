"""Training functions in bare processes: what the scheduler answers is given, Ray is not there."""

import shutil
from collections.abc import Callable, Iterator
from concurrent.futures import ProcessPoolExecutor
from contextlib import contextmanager
from dataclasses import dataclass, field
from multiprocessing import get_context
from pathlib import Path
from typing import Any, TypeVar
from unittest.mock import patch

import ray.train
import torch.distributed as dist

from raysched.runtime import link, loop, parallel
from raysched.runtime.assignment import Assignment, assign
from raysched.runtime.pace import Pace

Found = TypeVar("Found")


@dataclass
class Worker:
    """One worker of a job; `batch_sizes` are chosen for the epochs from these on."""

    assignment: Assignment
    batch_sizes: dict[int, int] = field(default_factory=dict)
    rank: int = 0
    workers: int = 1
    saved: Path | None = None
    """Where the newest checkpoint is kept, and gone on from."""
    reports: list[dict[str, Any]] = field(default_factory=list)

    @contextmanager
    def here(self, meeting: Path) -> Iterator[None]:
        """Have this process be the worker. All workers of a job meet at one new file."""
        assign(self.assignment)
        parallel._replicated.clear()
        loop._Running.pace = Pace()
        dist.init_process_group(
            "gloo", f"file://{meeting}", rank=self.rank, world_size=self.workers
        )
        try:
            with (
                patch.object(link, "say", lambda *_: None),
                patch.object(link, "call", self._answer),
                patch.object(ray.train, "get_checkpoint", self._saved),
                patch.object(ray.train, "report", self._take),
            ):
                yield
        finally:
            parallel.leave_group()
            dist.destroy_process_group()

    def _answer(self, _, report):
        chosen = self.batch_sizes.get(report.epoch + 1)
        self._batch_size = chosen or getattr(self, "_batch_size", self.assignment.batch_size)
        return self.assignment.grant, self._batch_size

    def _take(self, metrics, checkpoint=None):
        self.reports.append(metrics)
        if self.saved is not None:
            shutil.copytree(checkpoint.path, self.saved, dirs_exist_ok=True)

    def _saved(self):
        if self.saved is not None and self.saved.exists():
            return ray.train.Checkpoint.from_directory(self.saved)
        return None


def processes(number: int) -> ProcessPoolExecutor:
    """So many bare processes, for `in_processes`."""
    return ProcessPoolExecutor(number, mp_context=get_context("spawn"))


def in_processes(
    pool: ProcessPoolExecutor,
    function: Callable[..., Found],
    workers: list[Worker],
    meeting: Path,
    *arguments: Any,
) -> list[Found]:
    """What `function` returns as each of these workers, in a process each."""
    running = [pool.submit(_as_worker, worker, meeting, function, *arguments) for worker in workers]
    return [each.result() for each in running]


def _as_worker(worker, meeting, function, *arguments):
    with worker.here(meeting):
        return function(*arguments)
