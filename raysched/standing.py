"""Where jobs shall stand by all that is decided, kept up to date as events come.

Most jobs stay as they are at most decisions. This says which, so that placement looks only at the
others, and how many GPUs of each server all of them take.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass
from functools import partial
from itertools import chain

import numpy as np

from policies.problem import Bools, Ints, Servers, Stands
from raysched.state import Job, State
from raysched.wishes import Wishes

UNSETTLED = -1


@dataclass(frozen=True, slots=True)
class Stand:
    """The standing target of one job."""

    row: int  # in the columns of `Standing`
    columns: Sequence[int]  # of its servers, those that are there
    workers: Sequence[int]  # on each of them
    gpus_per_worker: int
    gpu_type: str  # of all of its workers; "" where it has none, or they differ


class Standing:
    """The stands of live jobs. `touch` a job when it changed; `refresh` notes just those."""

    def __init__(self) -> None:
        self._of: dict[str, Stand] = {}
        self._unused_rows: list[int] = []  # in the table
        self._table = np.zeros((3, 64), dtype=np.int64)
        """[3, rows] Settled workers (see `_settled`), batch size and minimum of workers by job."""
        self._touched: dict[str, None] = {}
        self._servers: Servers | None = None
        self._column: Mapping[str, int] = {}
        self._used_gpus = np.zeros(0, dtype=np.int64)

    def touch(self, jobs: Iterable[str]) -> None:
        """Note that these jobs changed."""
        for job in jobs:
            self._touched[job] = None

    def refresh(self, state: State, servers: Servers) -> None:
        """Take in what changed; all of it where the servers are others now."""
        if servers is not self._servers:
            self._servers, self._column = servers, servers.column
            self._used_gpus = np.zeros(len(servers.ids), dtype=np.int64)
            self._of.clear()
            self._unused_rows = [*range(self._table.shape[1])]
            self._touched = dict.fromkeys(state.live)
        for job_id in self._touched:
            before = self._of.pop(job_id, None)
            if before is not None:
                self._use(before, -1)
                self._unused_rows.append(before.row)
            job = state.live.get(job_id)
            if job is not None:
                self._note(state, job, servers)
        self._touched.clear()

    def keeps(self, wishes: Wishes, room: bool) -> Bools:
        """[jobs] Which keep what they have, or go on waiting, wherever the others are placed.

        `room`: no server is taken by more than it has. Then nobody is moved for another's base but
        workers beyond the minimum; by exact servers, and so by subtrees, anyone may be.
        """
        stands = [self._of[job.id] for job in wishes.jobs]
        settled, batch_size, least = self._table[:, [stand.row for stand in stands]]
        waits = wishes.workers == 0
        keeps: Bools = (settled == wishes.workers) & (waits | ~wishes.sought)
        keeps &= (wishes.batch_size == 0) | (wishes.batch_size == batch_size)
        if any(wishes.gpu_type):
            types = zip(wishes.gpu_type, stands, strict=True)
            keeps &= waits | [wish in (None, stand.gpu_type) for wish, stand in types]
        undisturbed = room and not (wishes.sought & ~keeps).any()
        if undisturbed and keeps.all():
            return keeps
        keeps &= waits | (undisturbed & (wishes.workers == least))
        return keeps

    def free_gpus(self, servers: Servers) -> Ints:
        """[servers] GPUs on which no job shall stand; negative where others took some of these."""
        free: Ints = servers.gpus - self._used_gpus
        return free

    def placed(self, jobs: Sequence[str], servers: Servers) -> Stands:
        """The workers of these jobs where they stand, or shall stand, by now."""
        make = partial(_entries, [self._of[job] for job in jobs])
        return Stands(len(jobs), len(servers.ids), make)

    def workers_of(self, jobs: Iterable[str]) -> Ints:
        """[servers] Workers of these jobs by server."""
        workers = np.zeros_like(self._used_gpus)
        _, servers, counts = _entries([self._of[job] for job in jobs])
        np.add.at(workers, servers, counts)
        return workers

    def _note(self, state: State, job: Job, servers: Servers) -> None:
        if not self._unused_rows:
            rows = self._table.shape[1]
            self._table = np.concatenate((self._table, self._table), axis=1)
            self._unused_rows = [*range(rows, 2 * rows)]
        row = self._unused_rows.pop()
        self._of[job.id] = stand = _stand(row, job, servers, self._column)
        self._table[:, row] = _settled(state, job, stand), job.batch_size, job.spec.min_workers
        self._use(stand, 1)

    def _use(self, stand: Stand, times: int) -> None:
        for column, workers in zip(stand.columns, stand.workers, strict=True):
            self._used_gpus[column] += times * workers * stand.gpus_per_worker


def workers_on(stands: Mapping[str, int], servers: Servers) -> Ints:
    """[servers] Workers by server as a column; those on servers that are not there are left out."""
    column, workers = servers.column, np.zeros(len(servers.ids), dtype=np.int64)
    for server, count in stands.items():
        if server in column:
            workers[column[server]] = count
    return workers


def _entries(stands: Sequence[Stand]) -> tuple[Ints, Ints, Ints]:
    """[entries] Row of a stand, column of a server, workers there."""
    lengths = [len(stand.columns) for stand in stands]
    columns = chain.from_iterable(stand.columns for stand in stands)
    workers = chain.from_iterable(stand.workers for stand in stands)
    rows = np.repeat(np.arange(len(stands)), lengths)
    return (
        rows,
        np.fromiter(columns, np.int64, len(rows)),
        np.fromiter(workers, np.int64, len(rows)),
    )


def _stand(row: int, job: Job, servers: Servers, column: Mapping[str, int]) -> Stand:
    there = [(column[server], count) for server, count in job.target.items() if server in column]
    types = {servers.gpu_type[at] for at, _ in there}
    return Stand(
        row=row,
        columns=[at for at, _ in there],
        workers=[count for _, count in there],
        gpus_per_worker=job.spec.gpus_per_worker,
        gpu_type=types.pop() if len(types) == 1 else "",
    )


def _settled(state: State, job: Job, stand: Stand) -> int:
    """A job's workers, where it has or is offered all of them, on servers that training may use and
    on GPUs that it may have; else, and where it has no epochs left, `UNSETTLED`."""
    workers = job.workers
    if job.wanted is not None or job.phase == "leaving" or job.trained:
        return UNSETTLED
    if len(stand.columns) < len(job.target):  # a server is gone
        return UNSETTLED
    one_type = stand.gpu_type and job.spec.gpu_type in ("", stand.gpu_type)
    if workers and not (one_type or job.spec.mixes_gpus):
        return UNSETTLED
    if workers and not state.fits(job, job.batch_size, workers):
        return UNSETTLED  # its batch has to change
    return workers
