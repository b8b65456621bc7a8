"""The policy contract: what a policy sees and what it answers.

A policy is a pure function `decide(problem, memory) -> (decision, memory')`. The problem is made
of columns (numpy arrays, one row per job or server) because turning ten thousand objects into
columns costs more than most decisions do. The answer is small and sparse: objects.

The contract counts **workers**; a worker is a bundle of `gpus_per_worker` GPUs on one server.
Times are seconds since the scheduler's journal began.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import dataclass, field, fields
from enum import Enum
from functools import cached_property, lru_cache
from typing import Any, ClassVar, Protocol, TypeAlias, runtime_checkable

import numpy as np
from numpy.typing import NDArray

from policies.ragged import counted, lengths_of, offsets
from policies.reason import Reason

Floats: TypeAlias = NDArray[np.float64]
Ints: TypeAlias = NDArray[np.int64]
Bools: TypeAlias = NDArray[np.bool_]

Memory: TypeAlias = Mapping[str, Any]
"""What a policy carries from one decision to the next: a JSON object, journaled with the decision.

It holds `version` where its form may change. Nothing that a policy knows lives anywhere else.
"""

NO_MEMORY: Memory = {}


MIXING = 0.7
"""Speed of a job that mixes GPU types over the mean of its workers (004 §7.1: "at most 70%")."""


class PolicyError(ValueError):
    """A problem or parameter that a policy cannot work with, naming the job and the field."""


@dataclass(frozen=True, slots=True)
class Curves:
    """Predicted seconds of one epoch by number of workers and batch size, ragged over jobs.

    Job i has `len(batch_sizes(i))` rows (its admissible global batch sizes, ascending) and
    `max_workers[i] - min_workers[i] + 1` columns, stored row-major in `epoch_s` from `offset[i]`.
    """

    epoch_s: Floats  # [sum over jobs of batches * sizes]
    offset: Ints  # [jobs + 1], into epoch_s
    batch_size: Ints  # [sum over jobs of batches]
    batch_offset: Ints  # [jobs + 1], into batch_size

    def of(self, job: int) -> Floats:
        """A view [batches, sizes] of one job's curve: seconds an epoch."""
        batches = int(self.batch_offset[job + 1] - self.batch_offset[job])
        return self.epoch_s[self.offset[job] : self.offset[job + 1]].reshape(batches, -1)

    def batch_sizes(self, job: int) -> Ints:
        """The admissible global batch sizes of one job, ascending."""
        return self.batch_size[self.batch_offset[job] : self.batch_offset[job + 1]]

    def take(self, rows: Ints) -> Curves:
        """The curves of these jobs alone."""
        entries, offset = _ragged_rows(self.offset, rows)
        batches, batch_offset = _ragged_rows(self.batch_offset, rows)
        return Curves(self.epoch_s[entries], offset, self.batch_size[batches], batch_offset)

    def then(self, others: Curves) -> Curves:
        """The curves of these jobs, and after them those of others."""
        return Curves(
            np.concatenate((self.epoch_s, others.epoch_s)),
            np.concatenate((self.offset, self.offset[-1] + others.offset[1:])),
            np.concatenate((self.batch_size, others.batch_size)),
            np.concatenate((self.batch_offset, self.batch_offset[-1] + others.batch_offset[1:])),
        )


def _ragged_rows(offset: Ints, rows: Ints) -> tuple[Ints, Ints]:
    """Where the entries of these rows lie, and their own offsets."""
    lengths = lengths_of(offset)[rows]
    return counted(offset[rows], lengths), offsets(lengths)


@dataclass(frozen=True, slots=True)
class Jobs:
    """The live jobs as columns, rows in (submit time, id) order: the order in which ties break."""

    ids: tuple[str, ...]
    submitted_s: Floats
    deadline_s: Floats  # inf: none
    priority: Ints  # larger first, where a policy looks at it
    min_workers: Ints
    max_workers: Ints
    requested_workers: Ints  # the size under a scheduler that never resizes: min … max
    gpus_per_worker: Ints
    workers_per_parameter_server: Ints  # that one's bandwidth carries; 0: it has none
    workers: Ints  # the standing target; 0: queued
    batch_size: Ints  # the standing global batch size
    remaining_epochs: Floats
    attained_gpu_s: Floats  # GPU-seconds received so far
    worth: Floats  # of the sigmoid utility `worth / (1 + exp(steepness (age - target)))`; NaN: none
    steepness_per_s: Floats  # NaN where the job has no utility
    target_s: Floats  # from submission; NaN where the job has no utility
    gpu_type: tuple[str, ...]  # what its workers must run on; "": any type, the same for all
    mixes_gpus: Bools  # its workers may run on GPUs of several types at once
    checkpoints: Bools  # False: a preemption loses all its progress
    gpu_memory_gib: Floats  # of a GPU at `batch_size` on the fewest workers; NaN: unknown
    curves: Curves

    def __len__(self) -> int:
        return len(self.ids)

    def take(self, rows: Ints, curves: Curves | None = None) -> Jobs:
        """These jobs alone, with these curves if any are given; rows ascending, so that their order
        stays."""
        columns: dict[str, Any] = {} if curves is None else {"curves": curves}
        for name in (field_.name for field_ in fields(self) if field_.name not in columns):
            column = getattr(self, name)
            if isinstance(column, tuple):
                columns[name] = tuple(column[row] for row in rows.tolist())
            else:
                columns[name] = column.take(rows)
        return Jobs(**columns)

    @property
    def elastic(self) -> Bools:
        """[jobs] Whether the job can run on more than its minimum."""
        return self.max_workers > self.min_workers

    @property
    def span(self) -> Ints:
        """[jobs] How many numbers of workers each may have, min to max."""
        span: Ints = self.max_workers - self.min_workers + 1
        return span

    @property
    def base_gpus(self) -> Ints:
        """[jobs] GPUs of the base demand: the minimum number of workers."""
        return self.min_workers * self.gpus_per_worker

    @property
    def requested_gpus(self) -> Ints:
        """[jobs] GPUs of the size that the job asked for."""
        return self.requested_workers * self.gpus_per_worker

    def remaining_s(self, job: int, workers: int) -> float:
        """Predicted seconds to the end of one job at a constant size and its present batch."""
        curves = self.curves
        row = int(np.searchsorted(curves.batch_sizes(job), self.batch_size[job]))
        column = workers - int(self.min_workers[job])
        return float(self.remaining_epochs[job] * curves.of(job)[row, column])


@dataclass(frozen=True, slots=True, eq=False)
class Servers:
    """The servers that training may use now: the training pool and what is on loan.

    The same object from one decision to the next, unless they may have changed: what follows from
    it alone may be kept by it (`functools.lru_cache`).
    """

    ids: tuple[str, ...]
    gpus: Ints  # usable by us: those that others occupy are taken off
    on_loan: Bools
    gpu_type: tuple[str, ...]
    gpu_rate: Floats  # speed of one of its GPUs over that for which curves are told
    gpu_memory_gib: Floats  # of one of its GPUs; NaN: unknown

    def take(self, rows: Ints) -> Servers:
        """These servers alone; rows ascending, so that their order stays."""
        return Servers(
            ids=tuple(self.ids[row] for row in rows.tolist()),
            gpus=self.gpus[rows],
            on_loan=self.on_loan[rows],
            gpu_type=tuple(self.gpu_type[row] for row in rows.tolist()),
            gpu_rate=self.gpu_rate[rows],
            gpu_memory_gib=self.gpu_memory_gib[rows],
        )

    @property
    def column(self) -> Mapping[str, int]:
        """Where each server stands in the columns."""
        return _column_of(self.ids)

    @property
    def total_gpus(self) -> int:
        """GPUs that training may use now, on loan ones included."""
        return int(self.gpus.sum())

    @property
    def owned_gpus(self) -> int:
        """GPUs of the training pool alone: what promises may rest on."""
        return int(self.gpus[~self.on_loan].sum())


@lru_cache(maxsize=8)  # servers change far less often than decisions are taken
def _column_of(ids: tuple[str, ...]) -> Mapping[str, int]:
    return {server: at for at, server in enumerate(ids)}


@dataclass(frozen=True)
class Stands:
    """Who stands where, of which few policies read anything: made when it is read."""

    jobs: int
    servers: int
    make: Callable[[], tuple[Ints, Ints, Ints]]
    """[entries] each: row of a job, column of a server, workers there."""

    def __call__(self) -> Ints:
        """[jobs, servers] Workers."""
        table = np.zeros((self.jobs, self.servers), dtype=np.int64)
        job, server, workers = self._entries
        table[job, server] = workers
        return table

    def by(self, group: Ints, groups: int) -> Ints:
        """[jobs, groups] Workers, given the group of each server."""
        job, server, workers = self._entries
        counts = np.bincount(job * groups + group[server], workers, self.jobs * groups)
        return counts.astype(np.int64).reshape(self.jobs, groups)

    @cached_property
    def _entries(self) -> tuple[Ints, Ints, Ints]:
        return self.make()


class _MadeWhenRead:
    """A column that may be given as the function that makes it: few policies read it."""

    def __get__(self, problem: object | None, owner: type) -> Ints:
        if problem is None:
            raise AttributeError("it has no default")
        known = vars(problem)
        if callable(known["placed"]):
            known["placed"] = known["placed"]()
        column: Ints = known["placed"]
        return column

    def __set__(self, problem: object, column: Ints | Callable[[], Ints]) -> None:
        vars(problem)["placed"] = column


@dataclass(frozen=True)
class Problem:
    """Everything that a policy may look at."""

    now_s: float
    jobs: Jobs
    servers: Servers
    placed: _MadeWhenRead = _MadeWhenRead()  # [jobs, servers] workers that stand there now
    resize_s: float = 0.0  # measured cost of one resize
    seed: int = 0  # from the number of the event that asked, for policies that draw

    def placed_by(self, group: Ints, groups: int) -> Ints:
        """[jobs, groups] Workers that stand on servers of each group, given that of each server:
        quicker than `placed`, where jobs stand on few of many servers."""
        stands = vars(self)["placed"]
        if isinstance(stands, Stands):
            return stands.by(group, groups)
        by_group: Ints = self.placed @ np.eye(groups, dtype=np.int64)[group]
        return by_group


class PlacementRule(Enum):
    """How the engine turns a number of workers into servers, where a policy names none itself."""

    PACK = "pack"
    """Best fit decreasing, training servers first, servers on loan only for what is left."""

    APART = "apart"
    """Aryl (004 §5.3): inelastic jobs on training servers first; elastic jobs on loaned servers
    first, their base and flexible workers on separate groups of servers."""

    BUDDY = "buddy"
    """Powers of two GPUs, each in the smallest subtree of the tree of GPUs, servers and pools that
    holds it; others migrate if need be (001 §4.3). What has no subtree is packed."""


@dataclass(frozen=True, slots=True)
class PlanStep:
    """From `start_s` on the job is meant to have this many workers: a forecast, not a grant."""

    start_s: float
    workers: int


@dataclass(frozen=True, slots=True)
class Promise:
    """GPUs that the engine keeps for an admitted job until `until_s`, whatever comes later."""

    plan: tuple[PlanStep, ...]
    until_s: float


@dataclass(frozen=True, slots=True)
class Allocation:
    """What one job shall have. `workers == 0`: it waits, or is preempted if it runs.

    `servers` (server id -> workers) overrules `placement`. `parameter_servers` counts the second
    role of a job that has one, from its next grant on; 0: as many as its workers need
    (`parameter_servers_for`). `batch_size` and `gpu_type` stay as they are where None.
    """

    workers: int
    reason: Reason
    placement: PlacementRule = PlacementRule.PACK
    servers: Mapping[str, int] | None = None
    batch_size: int | None = None
    gpu_type: str | None = None
    parameter_servers: int = 0
    plan: tuple[PlanStep, ...] = ()
    promise: Promise | None = None


def parameter_servers_for(workers: int, workers_per_parameter_server: int) -> int:
    """The fewest parameter servers whose bandwidth is that of the workers, 002 (6): ceil(w b / B).

    Never more than workers, as (7) has it, since one carries a whole number of them; none for jobs
    that have none.
    """
    if not workers_per_parameter_server:
        return 0
    return -(-workers // workers_per_parameter_server)


@dataclass(frozen=True, slots=True)
class Decision:
    """A policy's answer: an allocation for each job of the problem, by id.

    `rejected` jobs leave for good. `review_at_s` asks to be called again by then. `objective` is
    what the policy maximised and `bound` an upper bound on it, where it knows them; `capped` says
    that a wall-clock backstop cut the search, so that a replay may differ.
    """

    allocations: Mapping[str, Allocation]
    rejected: Mapping[str, Reason] = field(default_factory=dict)
    review_at_s: float | None = None
    objective: float | None = None
    bound: float | None = None
    capped: bool = False


@runtime_checkable
class Policy(Protocol):
    """A scheduling policy: a frozen dataclass whose fields are its parameters."""

    name: ClassVar[str]
    source: ClassVar[str]  # paper, section, equation
    default_loaning: ClassVar[str]  # name of the loaning that goes with it: "off", "aryl"

    @property
    def interval_s(self) -> float | None:
        """Seconds between periodic decisions; None: only when something happened."""

    def decide(self, problem: Problem, memory: Memory) -> tuple[Decision, Memory]:
        """The decision on `problem` and the memory to hand back the next time.

        Raises `PolicyError` naming job and field where the problem makes no sense.
        """
