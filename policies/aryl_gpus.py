"""aryl on GPUs of several types (004 §2.1, §5.2, App. A and E): who may stand where, how fast.

Curves are told for GPUs of rate 1. A worker on a GPU of rate r does r times the work: a job wholly
on one type takes 1 / r of the time. One that mixes types works at the mean rate of its workers,
times `mixing` for what unequal workers lose.
"""

from __future__ import annotations

from dataclasses import dataclass
from functools import cached_property, lru_cache

import numpy as np

from policies.aryl_speeds import Speeds, speeds
from policies.problem import Bools, Curves, Floats, Ints, Problem, Servers
from policies.ragged import counted, lengths_of, offsets


@dataclass(frozen=True, slots=True)
class GpuType:
    """The GPUs of one type, and to which pools their servers belong."""

    name: str
    gpus: int
    rate: float  # of the slowest server: workers in step wait for it
    memory_gib: float  # of the smallest GPU; infinite where nothing is known
    training: bool
    on_loan: bool


@lru_cache(maxsize=8)
def gpu_types(servers: Servers) -> tuple[GpuType, ...]:
    """The types that are there, those of the training pool first, then the faster ones."""
    types = []
    for name in sorted(set(servers.gpu_type)):
        of_type = np.array([gpu_type == name for gpu_type in servers.gpu_type])
        types.append(
            GpuType(
                name=name,
                gpus=int(servers.gpus[of_type].sum()),
                rate=float(servers.gpu_rate[of_type].min()),
                memory_gib=float(np.nan_to_num(servers.gpu_memory_gib[of_type], nan=np.inf).min()),
                training=bool((~servers.on_loan[of_type]).any()),
                on_loan=bool(servers.on_loan[of_type].any()),
            )
        )
    return tuple(sorted(types, key=lambda each: (not each.training, -each.rate)))


@lru_cache(maxsize=8)
def _type_of(servers: Servers) -> Ints:
    """[servers] The number of the type of each."""
    number = {each.name: at for at, each in enumerate(gpu_types(servers))}
    return np.array([number[name] for name in servers.gpu_type], dtype=np.int64)


@dataclass(frozen=True)
class Fleet:
    """A problem by GPU type. Types are numbered in the order of `types`."""

    problem: Problem
    types: tuple[GpuType, ...]
    mixing: float
    tuned: bool
    apart: bool

    @classmethod
    def of(cls, problem: Problem, mixing: float, tuned: bool, apart: bool = True) -> Fleet:
        """The servers of the problem, sorted by type."""
        return cls(problem, gpu_types(problem.servers), mixing, tuned, apart)

    @cached_property
    def gpus(self) -> Ints:
        """[types] The capacity."""
        return np.array([each.gpus for each in self.types], dtype=np.int64)

    @cached_property
    def rate(self) -> Floats:
        """[types] Speed of a GPU."""
        return np.array([each.rate for each in self.types], dtype=np.float64)

    @cached_property
    def training_first(self) -> tuple[int, ...]:
        """Types in the order that inelastic jobs prefer, and base demands of mixing jobs."""
        return tuple(range(len(self.types)))

    @cached_property
    def elastic_first(self) -> tuple[int, ...]:
        """Types in the order that elastic jobs prefer, and flexible demands of mixing jobs: on
        loan first, unless they are placed like others."""
        if not self.apart:
            return self.training_first
        return tuple(sorted(self.training_first, key=lambda at: not self.types[at].on_loan))

    def preferred(self, row: int) -> tuple[int, ...]:
        """The types that a job may stand on, best first."""
        order = self.elastic_first if self.problem.jobs.elastic[row] else self.training_first
        usable = self.may_use[row].tolist()
        return tuple(at for at in order if usable[at])

    def first_choice(self, rows: Ints, usable: Bools) -> Ints:
        """[rows] The best of each job's types of those that are [rows, types] usable; -1: none."""
        elastic, first = self.problem.jobs.elastic[rows], np.full(len(rows), -1)
        for order, alike in ((self.elastic_first, elastic), (self.training_first, ~elastic)):
            for at in reversed(order):
                first[alike & usable[:, at]] = at
        return first

    @cached_property
    def may_use(self) -> Bools:
        """[jobs, types] Whether a job's workers may run on GPUs of a type."""
        asked = self.problem.jobs.gpu_type
        if not any(asked):
            return self._fits
        wishes = {wish: [wish in ("", each.name) for each in self.types] for wish in set(asked)}
        may = np.array([wishes[wish] for wish in asked], dtype=np.bool_)
        return may.reshape(self._fits.shape) & self._fits

    @cached_property
    def mixes(self) -> Bools:
        """[jobs] Whether a job may take several of the types that are there."""
        mixes: Bools = self.problem.jobs.mixes_gpus & (len(self.types) > 1)
        return mixes

    @cached_property
    def standing(self) -> Ints:
        """[jobs, types] Workers that stand there now."""
        return self.problem.placed_by(_type_of(self.problem.servers), len(self.types))

    @cached_property
    def home(self) -> Ints:
        """[jobs] The type on which a job stands with most workers; -1: on none that it may use."""
        if len(self.types) == 1:
            alone = (self.problem.jobs.workers > 0) & self.may_use[:, 0]
            return np.where(alone, 0, -1)
        if not self.types:
            return np.full(len(self.problem.jobs), -1)
        standing = self.standing * self.may_use
        return np.where(standing.any(axis=1), standing.argmax(axis=1), -1)

    @cached_property
    def start(self) -> Ints:
        """[jobs + 1] Where the sizes of each job begin in `Speeds`."""
        return offsets(self.problem.jobs.span)

    @cached_property
    def on_type(self) -> tuple[Speeds, ...]:
        """Speeds on each type alone, at rate 1."""
        return tuple(self._speeds[each.memory_gib] for each in self.types)

    @property
    def anywhere(self) -> Speeds:
        """Speeds at rate 1 of jobs that mix types: unequal workers have unequal shares of the
        batch (App. A), and so their memory is taken to suffice."""
        return self._speeds[np.inf]

    @cached_property
    def _speeds(self) -> dict[float, Speeds]:
        """By the memory of a GPU; of types that are alike in this, and where it suffices, once."""
        memories = {np.inf, *(each.memory_gib for each in self.types)}
        return {gib: speeds(self.problem.jobs, self.tuned, gib) for gib in memories}

    def base_s(self, rows: Ints) -> list[Floats]:
        """[rows] Seconds to go on the minimum, on each type, and last on GPUs of rate 1."""
        left, start = self.problem.jobs.remaining_epochs[rows], self.start[rows]
        by_type = zip(self.on_type, self.types, strict=True)
        base_s = [left * alone.epoch_s[start] / each.rate for alone, each in by_type]
        return [*base_s, left * self.anywhere.epoch_s[start]]

    def left_s(self, rows: Ints, workers: Ints, count: Ints | None = None) -> Floats:
        """[rows] Seconds that jobs have to go on `count` workers, from min to max each, shared
        among types as [rows, types] `workers` are; on just these where no count is given."""
        jobs, total = self.problem.jobs, workers.sum(axis=1)
        mixed = (workers > 0).sum(axis=1) > 1
        speed = np.where(mixed, self.mixing, 1.0) * (workers @ self.rate) / total
        more = (total if count is None else count) - jobs.min_workers[rows]
        entry = self.start[rows] + more
        epoch_s = self.anywhere.epoch_s[entry]
        for alone, there in zip(self.on_type, workers.T, strict=True):
            epoch_s = np.where(there == total, alone.epoch_s[entry], epoch_s)
        left: Floats = jobs.remaining_epochs[rows] * epoch_s / speed
        return left

    def batch_sizes(self, workers: Ints) -> Ints:
        """[jobs] The global batch sizes on [jobs, types] workers; as they are where there are
        none."""
        jobs, total = self.problem.jobs, workers.sum(axis=1)
        entry = self.start[:-1] + np.maximum(total - jobs.min_workers, 0)
        batch_size = self.anywhere.batch_size[entry]
        for alone, there in zip(self.on_type, workers.T, strict=True):
            batch_size = np.where(there == total, alone.batch_size[entry], batch_size)
        return np.where(total > 0, batch_size, jobs.batch_size)

    @cached_property
    def _fits(self) -> Bools:
        """[jobs, types] Whether any batch size of a job fits into the memory of a type."""
        fits = [alone.fits for alone in self.on_type]
        return np.array(fits, dtype=np.bool_).reshape(len(fits), len(self.problem.jobs)).T

    def alone(self, gpu_type: int, rows: Ints) -> Problem:
        """These jobs as they are where there are only GPUs of one type: one batch size a job."""
        jobs = self.problem.jobs
        width = lengths_of(self.start)[rows]
        entry = counted(self.start[rows], width)
        curves = Curves(
            epoch_s=self.on_type[gpu_type].epoch_s[entry] / self.types[gpu_type].rate,
            offset=offsets(width),
            batch_size=jobs.batch_size[rows],
            batch_offset=np.arange(len(rows) + 1),
        )
        return Problem(
            now_s=self.problem.now_s,
            jobs=jobs.take(rows, curves),
            servers=self.problem.servers,
            placed=lambda: self.problem.placed[rows],
            resize_s=self.problem.resize_s,
            seed=self.problem.seed,
        )
