"""Where jobs shall stand by all that is decided, kept up to date as events come.

Most jobs stay as they are at most decisions. This says which, so that placement looks only at the
others, and how many GPUs of each server all of them take.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass
from functools import partial
from itertools import chain

import numpy as np

from policies.problem import Allocation, Ints, PlacementRule, Servers
from raysched.state import Job, State

UNSETTLED = -1
_BUDDY = PlacementRule.BUDDY  # looking an enumeration's member up takes longer than the comparison


@dataclass(frozen=True, slots=True)
class Stand:
    """The standing target of one job."""

    columns: Sequence[int]  # of its servers, those that are there
    workers: Sequence[int]  # on each of them
    gpus_per_worker: int
    settled: int
    """Its workers, where it has or is offered all of them, on servers that training may use and on
    GPUs that it may have; else, and where it has no epochs left, `UNSETTLED`."""
    gpu_type: str  # of all of its workers; "" where it has none, or they differ
    batch_size: int

    def keeps(self, allocation: Allocation) -> bool:
        """Whether the job is to have what it has, if nobody takes the room that it stands on."""
        if self.settled != allocation.workers or allocation.servers is not None:
            return False
        if allocation.batch_size is not None and allocation.batch_size != self.batch_size:
            return False
        return not self.settled or (
            allocation.placement is not _BUDDY and allocation.gpu_type in (None, self.gpu_type)
        )


class Standing:
    """The stands of live jobs. `touch` a job when it changed; `refresh` notes just those."""

    def __init__(self) -> None:
        self.of: dict[str, Stand] = {}
        self._touched: dict[str, None] = {}
        self._servers: Servers | None = None
        self._column: Mapping[str, int] = {}
        self._used_gpus = np.zeros(0, dtype=np.int64)

    def touch(self, jobs: Iterable[str]) -> None:
        """Note that these jobs changed."""
        self._touched.update(dict.fromkeys(jobs))

    def refresh(self, state: State, servers: Servers) -> None:
        """Take in what changed; all of it where the servers are others now."""
        if servers is not self._servers:
            self._servers, self._column = servers, servers.column
            self._used_gpus = np.zeros(len(servers.ids), dtype=np.int64)
            self.of.clear()
            self._touched = dict.fromkeys(state.live)
        for job_id in self._touched:
            before = self.of.pop(job_id, None)
            if before is not None:
                self._use(before, -1)
            job = state.live.get(job_id)
            if job is not None:
                self.of[job_id] = stand = _stand(state, job, servers, self._column)
                self._use(stand, 1)
        self._touched.clear()

    def free_gpus(self, servers: Servers) -> Ints:
        """[servers] GPUs on which no job shall stand; negative where others took some of these."""
        free: Ints = servers.gpus - self._used_gpus
        return free

    def placed(self, jobs: Iterable[str], servers: Servers) -> Callable[[], Ints]:
        """Makes [jobs, servers] workers that stand, or shall stand, there by now."""
        return partial(_placed, [self.of[job] for job in jobs], len(servers.ids))

    def workers_of(self, jobs: Iterable[str]) -> Ints:
        """[servers] Workers of these jobs by server."""
        workers = np.zeros_like(self._used_gpus)
        for job in jobs:
            stand = self.of[job]
            for column, count in zip(stand.columns, stand.workers, strict=True):
                workers[column] += count
        return workers

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


def _placed(stands: Sequence[Stand], servers: int) -> Ints:
    placed = np.zeros((len(stands), servers), dtype=np.int64)
    rows = np.repeat(np.arange(len(stands)), [len(stand.columns) for stand in stands])
    columns = list(chain.from_iterable(stand.columns for stand in stands))
    placed[rows, columns] = list(chain.from_iterable(stand.workers for stand in stands))
    return placed


def _stand(state: State, job: Job, servers: Servers, column: Mapping[str, int]) -> Stand:
    target = job.target
    usable = all(server in column for server in target)
    types = {servers.gpu_type[column[server]] for server in target} if usable else set()
    gpu_type = next(iter(types)) if len(types) == 1 else ""
    one_type = not types or (len(types) == 1 and job.spec.gpu_type in ("", gpu_type))
    suits = job.spec.mixes_gpus or one_type
    settled = job.wanted is None and job.phase != "leaving" and not job.trained
    workers = job.workers
    if workers and not state.fits(job, job.batch_size, workers):
        settled = False  # its batch has to change
    return Stand(
        columns=[column[server] for server in target if server in column],
        workers=[workers for server, workers in target.items() if server in column],
        gpus_per_worker=job.spec.gpus_per_worker,
        settled=workers if settled and usable and suits else UNSETTLED,
        gpu_type=gpu_type,
        batch_size=job.batch_size,
    )
