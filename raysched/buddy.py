"""Buddy allocation with migration over the tree of GPUs, sockets, servers and racks (001 §4.3).

Pure. Sizes are powers of two, and so are the servers, all alike. Then nothing fragments: where as
many GPUs are idle as a job needs, there is a subtree for it, if need be after smaller jobs moved.

A block of a server's size or less is aligned to its size, so it never straddles two sockets that
it could do without. A larger one is whole servers, of one rack where that can be had.

Departures: the paper's best fit takes the subtree whose idle GPUs are closest to what is needed,
and names no rule for migration. Here the subtree is cleared that holds the fewest GPUs of smaller
jobs, and these are placed again, largest first. Of equals, one on a server where the job stands
comes first, then the first rack's, then the best fit: racks come in the order in which they are to
be used. GPUs that are not to be had (`taken`) may fragment the rest: then a job may find no place.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass

import numpy as np
from numba import njit, types

from policies.problem import Bools, Ints

_IDLE, _TAKEN = -1, -2
_INTS = types.Array(types.int64, 1, "C", readonly=True)
_BOOLS = types.Array(types.boolean, 1, "C", readonly=True)


@dataclass(frozen=True, slots=True)
class Tree:
    """Racks of equal servers. GPUs are numbered through; a server's stand together."""

    servers_per_rack: tuple[int, ...]
    gpus_per_server: int  # a power of two, its sockets' GPUs next to each other

    def __post_init__(self) -> None:
        if not _is_power_of_two(self.gpus_per_server):
            raise ValueError(f"gpus_per_server is {self.gpus_per_server}; use a power of two")
        if any(servers < 0 for servers in self.servers_per_rack):
            raise ValueError(f"servers_per_rack is {self.servers_per_rack}; use numbers from 0")

    @property
    def servers(self) -> int:
        """How many there are."""
        return sum(self.servers_per_rack)

    @property
    def gpus(self) -> int:
        """How many there are."""
        return self.servers * self.gpus_per_server

    @property
    def rack(self) -> Ints:
        """[servers] The rack of each."""
        return np.repeat(np.arange(len(self.servers_per_rack)), self.servers_per_rack)


@dataclass(frozen=True, slots=True)
class Allotment:
    """Which GPUs each job that has a place has, ascending; which moved though their size stayed."""

    gpus: Mapping[str, tuple[int, ...]]
    migrated: tuple[str, ...]


def allot(
    tree: Tree,
    held: Mapping[str, Sequence[int]],
    wanted: Mapping[str, int],
    *,
    taken: Sequence[int] = (),
    loose: Mapping[str, Sequence[int]] | None = None,
    settled: bool = False,
) -> Allotment:
    """GPUs for `wanted` (job -> GPUs); `held` (job -> GPUs now) is what this made before.

    A job that keeps its size keeps its GPUs unless it is migrated; one that shrinks stays in
    a part of them; one that grows or starts gets a new subtree, the largest first. What a job
    has `loose` it gets anew. Where no GPU is `taken`, only a job too large for what is idle goes
    without. `settled`: a job stays on its server even where others must leave for that.
    Raises `ValueError` for sizes that are no powers of two.
    """
    for job, size in wanted.items():
        if not _is_power_of_two(size):
            raise ValueError(f"job {job}: {size} GPUs; buddy allocation needs a power of two")
    stays = {job for job, gpus in held.items() if wanted.get(job, 0) in range(1, len(gpus) + 1)}
    grows = {job: gpus for job, gpus in held.items() if job in wanted and job not in stays}
    floor = _Floor(tree, wanted, {**grows, **(loose or {})}, settled)
    floor.owner[list(taken)] = _TAKEN
    for job in held:
        if job in stays:
            floor.take(job, held[job][: wanted[job]])
    for job in sorted(wanted, key=lambda job: -wanted[job]):
        if job not in floor.gpus:
            floor.place_or_leave(job)
    kept = {job for job in stays if len(held[job]) == wanted[job]}
    migrated = tuple(job for job in wanted if job in kept & floor.moved)
    return Allotment({job: tuple(floor.gpus[job]) for job in wanted if job in floor.gpus}, migrated)


class _Floor:
    """Who holds which GPU while jobs are placed."""

    def __init__(
        self,
        tree: Tree,
        sizes: Mapping[str, int],
        leaving: Mapping[str, Sequence[int]],
        settled: bool,
    ) -> None:
        self.tree, self.sizes, self.settled = tree, sizes, settled
        self.rack = tree.rack
        self.number = {job: number for number, job in enumerate(sizes)}
        self.jobs = tuple(sizes)
        # By owner: jobs, what jobs still stand on (gives way to any size), taken, idle.
        size = [*sizes.values(), *(-1 for _ in sizes), 2 * tree.gpus, 0]
        self.size = np.array(size, dtype=np.int64)
        self.owner = np.full(tree.gpus, _IDLE)
        for job, gpus in leaving.items():
            self.owner[list(gpus)] = len(sizes) + self.number[job]
        self.home = {job: list(gpus) for job, gpus in leaving.items()}
        self.gpus: dict[str, list[int]] = {}
        self.moved: set[str] = set()

    def take(self, job: str, gpus: Sequence[int]) -> None:
        """Give a job these GPUs."""
        self.gpus[job] = list(gpus)
        self.owner[self.gpus[job]] = self.number[job]

    def place_or_leave(self, job: str) -> None:
        """Find a job its subtree, or leave everything as it is."""
        owner, gpus, moved = self.owner.copy(), dict(self.gpus), set(self.moved)
        if not self._place(job):
            self.owner, self.gpus, self.moved = owner, gpus, moved

    def _place(self, job: str) -> bool:
        """Find a job its subtree, moving smaller jobs where none is idle; whether all have one."""
        if job in self.home:
            self.owner[self.owner == len(self.jobs) + self.number[job]] = _IDLE
        size = self.sizes[job]
        gpus = (self._block if size <= self.tree.gpus_per_server else self._servers)(job)
        owners = sorted(set(self.owner[gpus].tolist()))
        evicted = [self.jobs[number] for number in owners if 0 <= number < len(self.jobs)]
        for other in evicted:
            self.home[other] = self.gpus.pop(other)
            self.owner[self.home[other]] = _IDLE
        self.take(job, gpus)
        self.moved.update(evicted)
        smaller = sorted(evicted, key=lambda other: -self.sizes[other])
        return bool(gpus) and all(self._place(other) for other in smaller)

    def _block(self, job: str) -> list[int]:
        """An aligned block within a server: idle by best fit, else the cheapest to clear."""
        size, per_server = self.sizes[job], self.tree.gpus_per_server
        at = _best_block(
            *(self.owner, self.size, self._away(job), self.rack),
            *(size, per_server, self.settled),
        )
        return [] if at < 0 else list(range(at * size, (at + 1) * size))

    def _servers(self, job: str) -> list[int]:
        """Whole servers: the cheapest to clear, in one rack if it costs no migration more."""
        size, per_server = self.sizes[job], self.tree.gpus_per_server
        count, rack = size // per_server, self.rack
        busy = self._busy(size)
        cheapest = self._order(busy, self._away(job), rack)
        best = cheapest[:count]
        idle = np.bincount(rack[busy == 0], minlength=len(self.tree.servers_per_rack))
        roomy = np.flatnonzero(idle >= count)
        if len(roomy) and not (self.settled and job in self.home):
            best = cheapest[rack[cheapest] == roomy[0]][:count]
        if len(best) < count:
            return []
        return [gpu for at in sorted(best) for gpu in range(at * per_server, (at + 1) * per_server)]

    def _order(self, busy: Ints, away: Bools, rack: Ints) -> Ints:
        """Servers that can be cleared, the best first."""
        keys = (away, busy) if self.settled else (busy, away)
        order = np.lexsort((rack, *reversed(keys)))
        clear: Ints = order[busy[order] <= self.tree.gpus]
        return clear

    def _away(self, job: str) -> Bools:
        """[servers] On which the job does not stand."""
        away = np.ones(self.tree.servers, dtype=bool)
        home = np.array(self.home.get(job, ()), dtype=np.int64)
        away[home // self.tree.gpus_per_server] = False
        return away

    def _busy(self, size: int) -> Ints:
        """[servers] GPUs to clear for a job of `size`; too many where it may not.

        Only smaller jobs move: then each move places less than the one that caused it.
        """
        holds = self.size[self.owner].reshape(-1, self.tree.gpus_per_server)
        busy: Ints = (holds != 0).sum(axis=1)
        busy[holds.max(axis=1) >= size] = self.tree.gpus + 1
        return busy


@njit(
    types.int64(*(_INTS, _INTS, _BOOLS, _INTS), *(types.int64, types.int64, types.boolean)),
    cache=True,
)
def _best_block(owner, size_of, away, rack, size, per_server, settled):  # type: ignore[no-untyped-def]
    """The block of `size` to clear for a job, or -1: only smaller jobs move.

    With the fewest GPUs of theirs, then on a server where the job stands (`settled`: first that),
    then in the first rack, then with the fewest idle GPUs in the larger blocks around it.
    """
    best, best_key = -1, (0, 0, 0, 0)
    for block in range(len(owner) // size):
        busy = 0
        for gpu in range(block * size, (block + 1) * size):
            there = size_of[owner[gpu]]
            if there >= size:
                busy = -1
                break
            busy += there != 0
        if busy < 0:
            continue
        around, idle = 2 * size, 0
        while around <= per_server:
            begin = block * size // around * around
            idle += (owner[begin : begin + around] == _IDLE).sum()
            around *= 2
        server = block * size // per_server
        first, second = (away[server], busy) if settled else (busy, away[server])
        key = (int(first), int(second), rack[server], idle)
        if best < 0 or key < best_key:
            best, best_key = block, key
    return best


def _is_power_of_two(number: int) -> bool:
    return number > 0 and number & (number - 1) == 0
