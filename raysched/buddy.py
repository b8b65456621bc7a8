"""Buddy allocation with migration over the tree of GPUs, sockets, servers and racks (001 §4.3).

Pure. Sizes are powers of two, and so are the servers, all alike. Then nothing fragments: where as
many GPUs are idle as a job needs, there is a subtree for it, if need be after smaller jobs moved.

A block of a server's size or less is aligned to its size, so it never straddles two sockets that
it could do without. A larger one is whole servers, of one rack where that can be had.

Departure: the paper's best fit takes the subtree whose idle GPUs are closest to what is needed,
and names no rule for migration. Here the subtree is cleared that holds the fewest GPUs of smaller
jobs, and these are placed again, largest first.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass

import numpy as np

from policies.problem import Ints

_IDLE = -1


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
    """Which GPUs each job has, ascending, and which jobs had to move though their size stayed."""

    gpus: Mapping[str, tuple[int, ...]]
    migrated: tuple[str, ...]


def allot(tree: Tree, held: Mapping[str, Sequence[int]], wanted: Mapping[str, int]) -> Allotment:
    """GPUs for all of `wanted` (job -> GPUs); `held` (job -> GPUs now) is what this made before.

    A job that keeps its size keeps its GPUs unless it is migrated; one that shrinks stays in
    a part of them; one that grows or starts gets a new subtree, the largest first.
    Raises `ValueError` for sizes that are no powers of two or do not fit into the tree together.
    """
    for job, size in wanted.items():
        if not _is_power_of_two(size):
            raise ValueError(f"job {job}: {size} GPUs; buddy allocation needs a power of two")
    if sum(wanted.values()) > tree.gpus:
        raise ValueError(f"{sum(wanted.values())} GPUs wanted; the tree has {tree.gpus}")
    floor = _Floor(tree, wanted)
    for job, gpus in held.items():
        if wanted.get(job, 0) in range(1, len(gpus) + 1):
            floor.take(job, gpus[: wanted[job]])
    for job in sorted(wanted, key=lambda job: -wanted[job]):
        if job not in floor.gpus:
            floor.place(job)
    kept = {job for job in wanted if len(held.get(job, ())) == wanted[job]}
    migrated = tuple(job for job in wanted if job in kept & floor.moved)
    return Allotment({job: tuple(floor.gpus[job]) for job in wanted}, migrated)


class _Floor:
    """Who holds which GPU while jobs are placed."""

    def __init__(self, tree: Tree, sizes: Mapping[str, int]) -> None:
        self.tree, self.sizes = tree, sizes
        self.number = {job: number for number, job in enumerate(sizes)}
        self.jobs = tuple(sizes)
        self.size = np.array([*sizes.values(), 0], dtype=np.int64)  # the last: of an idle GPU
        self.owner = np.full(tree.gpus, _IDLE)
        self.gpus: dict[str, list[int]] = {}
        self.moved: set[str] = set()

    def take(self, job: str, gpus: Sequence[int]) -> None:
        """Give a job these GPUs."""
        self.gpus[job] = list(gpus)
        self.owner[self.gpus[job]] = self.number[job]

    def place(self, job: str) -> None:
        """Find a job its subtree, moving smaller jobs where none is idle."""
        size = self.sizes[job]
        gpus = self._block(size) if size <= self.tree.gpus_per_server else self._servers(size)
        evicted = [self.jobs[number] for number in np.unique(self.owner[gpus]) if number != _IDLE]
        for other in evicted:
            self.owner[self.gpus.pop(other)] = _IDLE
        self.take(job, gpus)
        self.moved.update(evicted)
        for other in sorted(evicted, key=lambda other: -self.sizes[other]):
            self.place(other)

    def _block(self, size: int) -> list[int]:
        """An aligned block within a server: idle by best fit, else the cheapest to clear."""
        busy = self._busy(size)
        tightest = np.zeros(len(busy), dtype=np.int64)  # GPUs idle around it: the fewest fit best
        around = size
        while around < self.tree.gpus_per_server:
            around *= 2
            idle = around - (self.owner.reshape(-1, around) != _IDLE).sum(axis=1)
            tightest += np.repeat(idle, around // size)
        at = int(np.lexsort((tightest, busy))[0])
        return list(range(at * size, (at + 1) * size))

    def _servers(self, size: int) -> list[int]:
        """Whole servers: the cheapest to clear, in one rack if it costs no migration more."""
        per_server = self.tree.gpus_per_server
        count, rack = size // per_server, self.tree.rack
        busy = self._busy(size, per_server)
        cheapest = np.argsort(busy, kind="stable")
        best = cheapest[:count]
        idle = np.bincount(rack[busy == 0], minlength=len(self.tree.servers_per_rack))
        roomy = np.flatnonzero(idle >= count)
        if len(roomy):  # the rack with the fewest idle servers that suffice
            best = cheapest[rack[cheapest] == roomy[idle[roomy].argmin()]][:count]
        return [gpu for at in best for gpu in range(at * per_server, (at + 1) * per_server)]

    def _busy(self, size: int, width: int | None = None) -> Ints:
        """[blocks of `width`] GPUs to clear for a job of `size`; too many where it may not.

        Only smaller jobs move: then each move places less than the one that caused it.
        """
        holds = self.size[self.owner].reshape(-1, width or size)
        busy: Ints = (holds > 0).sum(axis=1)
        busy[holds.max(axis=1) >= size] = self.tree.gpus + 1
        return busy


def _is_power_of_two(number: int) -> bool:
    return number > 0 and number & (number - 1) == 0
