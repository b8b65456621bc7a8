"""The live jobs as columns, kept up to date as events come (ruling 5).

Turning ten thousand objects into columns costs more than most decisions, so a row is rewritten
only when its job changed. Rows stand in (submit time, id) order because jobs are only appended.
"""

from __future__ import annotations

from collections.abc import Iterable
from itertools import accumulate, chain

import numpy as np
from numpy.typing import NDArray

from policies.problem import Curves, Jobs
from raysched.performance import predicted_epoch_s
from raysched.state import Job, State

_ROW = np.dtype(
    [
        ("submitted_s", np.float64),
        ("deadline_s", np.float64),
        ("priority", np.int64),
        ("min_workers", np.int64),
        ("max_workers", np.int64),
        ("requested_workers", np.int64),
        ("gpus_per_worker", np.int64),
        ("workers", np.int64),
        ("batch_size", np.int64),
        ("remaining_epochs", np.float64),
        ("attained_gpu_s", np.float64),
        ("worth", np.float64),
        ("steepness_per_s", np.float64),
        ("target_s", np.float64),
        ("mixes_gpus", np.bool_),
        ("checkpoints", np.bool_),
        ("gpu_memory_gib", np.float64),
    ]
)


class JobColumns:
    """Rows of live jobs. `touch` a job when it changed; `jobs()` rewrites just those."""

    def __init__(self) -> None:
        self._rows = np.zeros(64, dtype=_ROW)
        self._ids: list[str] = []  # one per row; "" where the job has ended
        self._row_of: dict[str, int] = {}
        self._gpu_types: list[str] = []
        self._curves: list[NDArray[np.float64]] = []
        self._batch_sizes: list[tuple[int, ...]] = []
        self._touched: dict[str, None] = {}  # in the order of submission for new jobs

    def touch(self, jobs: Iterable[str]) -> None:
        """Note that these jobs changed."""
        self._touched.update(dict.fromkeys(jobs))

    def jobs(self, state: State) -> Jobs:
        """All live jobs as columns: copies, safe to hand to another thread."""
        for job_id in self._touched:
            self._write(state, job_id)
        self._touched.clear()
        self._compact()
        rows = self._rows[: len(self._ids)]
        columns = {name: rows[name].copy() for name in _ROW.names or ()}
        return Jobs(
            ids=tuple(self._ids),
            gpu_type=tuple(self._gpu_types),
            curves=self._joined_curves(),
            **columns,
        )

    def _write(self, state: State, job_id: str) -> None:
        job = state.live.get(job_id)
        if job is None or (job.trained and job.running is None):  # nothing is left to give it
            gone = self._row_of.pop(job_id, None)
            if gone is not None:
                self._ids[gone] = ""
            return
        row = self._row_of.get(job.id, len(self._ids))
        if row == len(self._ids):
            self._append(job)
        self._rows[row] = _row_of(job)
        self._curves[row] = predicted_epoch_s(job.spec, job.times, state.history)

    def _append(self, job: Job) -> None:
        if len(self._ids) == len(self._rows):
            self._rows = np.concatenate([self._rows, np.zeros_like(self._rows)])
        self._row_of[job.id] = len(self._ids)
        self._ids.append(job.id)
        self._gpu_types.append(job.spec.gpu_type)
        self._curves.append(np.zeros((0, 0)))
        self._batch_sizes.append(job.spec.admissible)

    def _compact(self) -> None:
        """Close the gaps that ended jobs left."""
        kept = [row for row, job_id in enumerate(self._ids) if job_id]
        if len(kept) == len(self._ids):
            return
        self._rows[: len(kept)] = self._rows[kept]
        self._curves = [self._curves[row] for row in kept]
        self._batch_sizes = [self._batch_sizes[row] for row in kept]
        self._gpu_types = [self._gpu_types[row] for row in kept]
        self._ids = [self._ids[row] for row in kept]
        self._row_of = {job_id: row for row, job_id in enumerate(self._ids)}

    def _joined_curves(self) -> Curves:
        curves, batch_sizes = self._curves, self._batch_sizes
        return Curves(
            epoch_s=np.concatenate(curves, axis=None) if curves else np.zeros(0),
            offset=_offset(curve.size for curve in curves),
            batch_size=np.fromiter(chain.from_iterable(batch_sizes), np.int64),
            batch_offset=_offset(map(len, batch_sizes)),
        )


def _offset(lengths: Iterable[int]) -> NDArray[np.int64]:
    """Where ragged rows of these lengths begin, and the last one ends."""
    return np.fromiter(accumulate(lengths, initial=0), np.int64)


def _row_of(job: Job) -> tuple[float | int, ...]:
    spec = job.spec
    deadline_s = np.inf if spec.deadline_s is None else job.submitted_s + spec.deadline_s
    utility = spec.utility
    worth = (utility.worth, utility.steepness_per_s, utility.target_s) if utility else (np.nan,) * 3
    return (
        job.submitted_s,
        deadline_s,
        spec.priority,
        spec.min_workers,
        spec.max_workers,
        spec.requested_workers or spec.min_workers,
        spec.gpus_per_worker,
        job.workers,
        job.batch_size,
        spec.epochs - job.epochs_done,
        job.attained_gpu_s,
        *worth,
        spec.mixes_gpus,
        spec.checkpoints,
        np.nan,  # nobody measures it yet
    )
