"""The live jobs and the servers as columns, kept up to date as events come (ruling 5).

Turning ten thousand objects into columns costs more than most decisions, so a row is rewritten
only when its job changed, and servers are read anew only after an event that may change them. Rows
of jobs stand in (submit time, id) order because jobs are only appended.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, replace
from itertools import accumulate, chain
from typing import Any

import numpy as np
from numpy.typing import NDArray

from policies.problem import Curves, Floats, Ints, Jobs, Servers
from raysched.performance import predicted_epoch_s, seen_epoch_s
from raysched.profile import Profile, Ring
from raysched.state import Job, State

_DESCRIBED = {
    "submitted_s": np.float64,
    "deadline_s": np.float64,
    "priority": np.int64,
    "min_workers": np.int64,
    "max_workers": np.int64,
    "requested_workers": np.int64,
    "gpus_per_worker": np.int64,
    "workers_per_parameter_server": np.int64,
    "worth": np.float64,
    "steepness_per_s": np.float64,
    "target_s": np.float64,
    "mixes_gpus": np.bool_,
    "checkpoints": np.bool_,
    "gpu_memory_gib": np.float64,
}
"""What a job is submitted with: written once."""

_CHANGING = {
    "workers": np.int64,
    "batch_size": np.int64,
    "remaining_epochs": np.float64,
    "attained_gpu_s": np.float64,
}


_NAMES: dict[type[np.generic], list[str]] = {
    dtype: [name for name, of in (_DESCRIBED | _CHANGING).items() if of is dtype]
    for dtype in (np.int64, np.float64, np.bool_)
}
"""One table for all columns of a type: a copy of three is quicker than one of each column."""


class ServerColumns:
    """The servers that training may use now. `change` says that they may be others now."""

    def __init__(self) -> None:
        self.changes = 0
        """How often they may have changed so far."""
        self._servers: Servers | None = None

    def change(self) -> None:
        """Have them read anew the next time."""
        self._servers = None
        self.changes += 1

    def servers(self, state: State) -> Servers:
        """As columns; nobody may write to them."""
        if self._servers is None:
            self._servers = servers_of(state)
        return self._servers


def servers_of(state: State) -> Servers:
    """The servers that training may use now, as columns."""
    usable = [s for s in state.servers.values() if state.trainable(s.id)]
    accounts = [state.ledger.accounts[s.id] for s in usable]
    return Servers(
        ids=tuple(s.id for s in usable),
        gpus=np.array([account.usable for account in accounts], dtype=np.int64),
        on_loan=np.array([s.pool == "inference" for s in usable], dtype=np.bool_),
        gpu_type=tuple(s.gpu_type for s in usable),
        gpu_rate=np.array([s.gpu_rate for s in usable], dtype=np.float64),
        gpu_memory_gib=np.full(len(usable), np.nan),  # nobody tells it yet
    )


@dataclass(slots=True)
class _Curve:
    """Of one job and its batch sizes, and the measured epochs and profile that it rests on."""

    seen_s: Mapping[int, Mapping[int, float]]  # by batch size and workers
    profile: tuple[Profile, Ring] | None
    epoch_s: Floats  # [batch sizes, sizes]
    batch_sizes: tuple[int, ...]


class JobColumns:
    """Rows of live jobs. `touch` a job when it changed; `jobs()` rewrites just those."""

    def __init__(self) -> None:
        self._tables = {dtype: np.zeros((len(names), 64), dtype) for dtype, names in _NAMES.items()}
        self._columns = _columns(self._tables)
        self._ids: list[str] = []  # one per row
        self._gone: list[int] = []  # rows of jobs that have ended
        self._row_of: dict[str, int] = {}
        self._gpu_types: list[str] = []
        self._curves: list[_Curve] = []
        self._joined = _joined([])  # of the first rows; shared by questions: nobody may write to it
        self._learned: set[int] = set()  # rows whose curves are others than those joined
        self._touched: dict[str, None] = {}  # in the order of submission for new jobs

    def touch(self, jobs: Iterable[str]) -> None:
        """Note that these jobs changed."""
        for job in jobs:
            self._touched[job] = None

    def jobs(self, state: State) -> Jobs:
        """All live jobs as columns: copies, safe to hand to another thread."""
        self._rewrite(state)
        self._join_curves()
        if self._gone:
            self._compact()
        tables = {dtype: table[:, : len(self._ids)].copy() for dtype, table in self._tables.items()}
        return Jobs(
            ids=tuple(self._ids),
            gpu_type=tuple(self._gpu_types),
            curves=self._joined,
            **_columns(tables),
        )

    def _rewrite(self, state: State) -> None:
        """Write what changed of the jobs that were touched."""
        rows: list[int] = []
        values = []
        for job_id in self._touched:
            job = state.live.get(job_id)
            if job is None or (job.trained and job.running is None):  # nothing is left to give it
                self._remove(job_id)
                continue
            row = self._row_of.get(job_id)
            if row is None:
                row = self._append(job)
            self._note_curve(row, job, state)
            left = job.spec.epochs - job.epochs_done
            rows.append(row)
            values.append((job.workers, job.batch_size, left, job.attained_gpu_s))
        self._touched.clear()
        if rows:
            for name, column in zip(_CHANGING, zip(*values, strict=True), strict=True):
                self._columns[name][rows] = column

    def _note_curve(self, row: int, job: Job, state: State) -> None:
        """Predict a job's epochs again where others were measured since, or its model profiled."""
        known, seen_s = self._curves[row], seen_epoch_s(job.spec, job.times, state.history)
        profile = state.profiles.of(job.spec)
        rests_on = None if profile is None else (profile, state.profiles.ring)
        if seen_s != known.seen_s or rests_on != known.profile:
            known.seen_s = {batch: dict(by_workers) for batch, by_workers in seen_s.items()}
            known.profile = rests_on
            profiled_s = state.profiles.epoch_s(job.spec)
            known.epoch_s = predicted_epoch_s(job.spec, job.times, state.history, profiled_s)
            self._learned.add(row)

    def _append(self, job: Job) -> int:
        row = len(self._ids)
        if row == len(self._columns["workers"]):
            self._tables = {
                dtype: np.concatenate([table, np.zeros_like(table)], axis=1)
                for dtype, table in self._tables.items()
            }
            self._columns = _columns(self._tables)
        for name, value in zip(_DESCRIBED, _described(job), strict=True):
            self._columns[name][row] = value
        self._row_of[job.id] = row
        self._ids.append(job.id)
        self._gpu_types.append(job.spec.gpu_type)
        self._curves.append(_Curve({}, None, np.zeros((0, 0)), job.spec.admissible))
        return row

    def _remove(self, job_id: str) -> None:
        gone = self._row_of.pop(job_id, None)
        if gone is not None:
            self._gone.append(gone)

    def _compact(self) -> None:
        """Close the gaps that ended jobs left."""
        kept = np.delete(np.arange(len(self._ids)), self._gone)
        for table in self._tables.values():
            table[:, : len(kept)] = table[:, kept]
        for gone in sorted(self._gone, reverse=True):
            del self._ids[gone], self._gpu_types[gone], self._curves[gone]
        self._gone.clear()
        self._row_of = dict(zip(self._ids, range(len(kept)), strict=True))
        self._joined = self._joined.take(kept)

    def _join_curves(self) -> None:
        """Take in the curves of new rows, and what was learned of others."""
        joined = len(self._joined.offset) - 1
        learned = [row for row in self._learned if row < joined]
        if learned:
            epoch_s = self._joined.epoch_s.copy()
            for row in learned:
                at = self._joined.offset[row]
                curve = self._curves[row].epoch_s
                epoch_s[at : at + curve.size] = curve.ravel()
            self._joined = replace(self._joined, epoch_s=epoch_s)
        self._learned.clear()
        if joined < len(self._curves):
            self._joined = self._joined.then(_joined(self._curves[joined:]))


def _columns(tables: Mapping[type[np.generic], NDArray[Any]]) -> dict[str, NDArray[Any]]:
    """The rows of the tables, by name."""
    return {
        name: column
        for dtype, names in _NAMES.items()
        for name, column in zip(names, tables[dtype], strict=True)
    }


def _joined(curves: Sequence[_Curve]) -> Curves:
    epochs_s = [curve.epoch_s.ravel() for curve in curves]
    batch_sizes = [curve.batch_sizes for curve in curves]
    return Curves(
        epoch_s=np.concatenate([np.zeros(0), *epochs_s]),
        offset=_offset(curve.size for curve in epochs_s),
        batch_size=np.fromiter(chain.from_iterable(batch_sizes), np.int64),
        batch_offset=_offset(map(len, batch_sizes)),
    )


def _offset(lengths: Iterable[int]) -> Ints:
    """Where ragged rows of these lengths begin, and the last one ends."""
    return np.fromiter(accumulate(lengths, initial=0), np.int64)


def _described(job: Job) -> tuple[float | int, ...]:
    """In the order of `_DESCRIBED`."""
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
        spec.workers_per_parameter_server,
        *worth,
        spec.mixes_gpus,
        spec.checkpoints,
        np.nan,  # nobody measures it yet
    )
