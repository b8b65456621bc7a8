"""Reports of a training function that walks its epochs by itself, as written for Ray Train alone.

Each of its reports that carries a checkpoint is an epoch boundary: rank 0 asks the scheduler, the
others hear the answer where all ranks meet to report anyway, and where other workers are granted
none returns from the report: they are stopped once the checkpoint is registered. New ones start
from it.
"""

from __future__ import annotations

import time
from collections.abc import Mapping
from dataclasses import fields
from typing import Any

from ray.exceptions import RayError
from ray.train.v2._internal.execution.context import TrainContext

from raysched.errors import CheckpointError
from raysched.runtime import gate, link
from raysched.runtime.assignment import current, walks_epochs
from raysched.runtime.protocol import EPOCHS_DONE, NEXT_GRANT, BoundaryReport, numbers

_NO_BOUNDARY = 0  # grants count from 1


class JobContext(TrainContext):
    """What `ray.train` knows and does on one worker."""

    _next_grant = _NO_BOUNDARY  # that stands from the last report on
    _epochs_done: int | None = None  # None: nothing was heard of the function yet
    _from_s = 0.0  # since when it is in its epoch

    def get_checkpoint(self) -> Any:
        """The last one; whoever asks for it is about to train."""
        self._begin()
        return super().get_checkpoint()  # type: ignore[no-untyped-call]

    def report(
        self, metrics: dict[str, Any], checkpoint: Any = None, *rest: Any, **named: Any
    ) -> None:
        """Report, and return if this worker is to train on."""
        self._next_grant = _NO_BOUNDARY
        if checkpoint is not None and not walks_epochs() and self.get_world_rank() == 0:
            metrics = {**metrics, **self._reach_boundary(metrics)}
        try:
            super().report(metrics, checkpoint, *rest, **named)
        except (OSError, RuntimeError) as error:
            if checkpoint is None or isinstance(error, RayError):  # a peer is lost, not the disk
                raise
            raise CheckpointError(self.storage_context.experiment_fs_path, error) from error
        if self._next_grant not in (_NO_BOUNDARY, current().grant):
            gate.wait()
        self._from_s = time.perf_counter()

    def _begin(self) -> None:
        """Say that the workers train: others cannot join a function that walks its own epochs."""
        if self._epochs_done is not None or walks_epochs() or self.get_world_rank() != 0:
            return
        told = current()
        self._epochs_done, self._from_s = told.epochs_done, time.perf_counter()
        start_s = time.time() - told.granted_at_s
        link.say("workers_started", told.job, told.grant, start_s, False)

    def _reach_boundary(self, metrics: Mapping[str, Any]) -> dict[str, int]:
        """Ask the scheduler; what it answered, for the controller. A function that has run all its
        epochs, and still reports, is left alone."""
        self._begin()
        told, epoch = current(), self._epochs_done or 0
        epoch_s = time.perf_counter() - self._from_s
        self._next_grant, self._epochs_done = told.grant, epoch + 1
        if epoch < told.epochs:
            report = BoundaryReport(told.job, told.grant, epoch, epoch_s, numbers(metrics))
            next_grant, _ = link.call("boundary", report)
            if epoch + 1 < told.epochs:
                self._next_grant = next_grant
        return {NEXT_GRANT: self._next_grant, EPOCHS_DONE: self._epochs_done}

    def _sync_checkpoint_dir_name_across_ranks(self, checkpoint_dir_name: str | None = None) -> str:
        name = checkpoint_dir_name or self.storage_context.make_default_checkpoint_dir_name()
        agreed = super()._sync_checkpoint_dir_name_across_ranks(f"{self._next_grant}/{name}")
        next_grant, _, name = agreed.partition("/")
        self._next_grant = int(next_grant)
        return name


def job_context(context: TrainContext) -> JobContext:
    """The same context, whose reports may be boundaries."""
    return JobContext(**{field.name: getattr(context, field.name) for field in fields(context)})
