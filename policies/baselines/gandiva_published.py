"""Gandiva as in the simulator that ElasticFlow's authors published (001 §6.1), for their figures.

Kept apart from `policies.baselines.gandiva`, which is the idea: this is what a program of others
does. Jobs of one size are in sets of whole servers, and stay in theirs. A set counts the jobs that
it was given, not those that it has; it takes a new one into a free place only if a second one is
free by that count. Turns go round only at times that are whole minutes, which its events hardly
ever hit: here they do not.

Departure: there a decision begins with regrouping, and counts the time since the last one as run by
those who are in front then. Nothing changes in between, so here each decision ends with it, and
those in front do run. Sets that it adds may stay empty, and are given back at the next one.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from dataclasses import dataclass, field
from typing import Any

from policies.problem import Allocation, Decision, Memory, Problem
from policies.reason import because
from policies.sentences import change

_VERSION = "published 2"
_NOTHING: Memory = {"sets": [], "pending": [], "decided_s": None}


def decide_published(problem: Problem, memory: Memory, quantum_s: float) -> tuple[Decision, Memory]:
    """All servers are taken to be as large as the largest one; asked again after `quantum_s`.

    Asked again at the same time, it takes the decision again, on all that is known by then.
    """
    jobs, total_gpus = problem.jobs, problem.servers.total_gpus
    server_gpus = int(problem.servers.gpus.max(initial=0))
    known = memory if memory.get("version") == _VERSION else _NOTHING
    stood = known["before"] if known["decided_s"] == problem.now_s else known
    sets = Sets(server_gpus, total_gpus // server_gpus if server_gpus else 0, stood)
    gpus = dict(zip(jobs.ids, jobs.requested_gpus.tolist(), strict=True))
    runs = frozenset(sets.advance(gpus))
    allocations = {}
    for row, job in enumerate(jobs.ids):
        workers, had = int(jobs.requested_workers[row]) * (job in runs), int(jobs.workers[row])
        reason = because(
            change(workers, had) + ": jobs that asked for {needed} GPUs have {servers} servers, "
            "{pending} jobs have none",
            workers=workers,
            before=had,
            needed=gpus[job],
            servers=sum(each.servers for each in sets.by_size.get(gpus[job], [])),
            pending=len(sets.pending),
        )
        allocations[job] = Allocation(workers, reason)
    review_at_s = problem.now_s + quantum_s if jobs.ids else None  # even if nobody waits
    before = {name: stood[name] for name in ("sets", "pending")}
    decided = {"version": _VERSION, "decided_s": problem.now_s, "before": before}
    return Decision(allocations, review_at_s=review_at_s), sets.memory() | decided


@dataclass(slots=True)
class ServerSet:
    """Servers for jobs of one size, of which the first `places` run."""

    servers: int
    places: int
    load: int = 0  # jobs that it was given
    jobs: list[str] = field(default_factory=list)

    def give(self, job: str) -> None:
        """One more, at the back."""
        self.jobs.append(job)
        self.load += 1


class Sets:
    """All sets, by the GPUs that a job of theirs asks for; the memory as objects."""

    def __init__(self, server_gpus: int, servers: int, memory: Memory) -> None:
        self.server_gpus, self.free = server_gpus, servers
        self.by_size: dict[int, list[ServerSet]] = {}
        self.pending: list[str] = list(memory["pending"])
        for size, load, jobs in memory["sets"]:
            opened = self._open(size)
            if opened is None:  # servers were lost
                self.pending += jobs
            else:
                opened.load, opened.jobs = load, list(jobs)

    def memory(self) -> dict[str, Any]:
        """What `__init__` reads."""
        rows = [[size, each.load, each.jobs] for size, each in self._all()]
        return {"sets": rows, "pending": self.pending}

    def advance(self, sizes: Mapping[str, int]) -> list[str]:
        """One decision over the live jobs (id -> GPUs asked for): those that run."""
        self.pending = [job for job in self.pending if job in sizes]
        released = self._drop_ended(sizes)
        known = {job for _, each in self._all() for job in each.jobs} | set(self.pending)
        arrived = [job for job in sizes if job not in known]
        self.pending += [job for job in arrived if not self._admit(job, sizes[job])]
        if released:
            self._retry(sizes)
        self._regroup()
        return [job for _, each in self._all() for job in each.jobs[: each.places]]

    def _all(self) -> Iterator[tuple[int, ServerSet]]:
        return ((size, each) for size, sets in self.by_size.items() for each in sets)

    def _open(self, size: int) -> ServerSet | None:
        """A new set, where there are servers for it."""
        servers = -(-size // max(self.server_gpus, 1))
        if servers > self.free:
            return None
        self.free -= servers
        opened = ServerSet(servers, servers * self.server_gpus // size)
        self.by_size.setdefault(size, []).append(opened)
        return opened

    def _regroup(self) -> None:
        """Servers to sizes by the GPUs that their jobs ask for."""
        asked = {n: n * sum(len(each.jobs) for each in sets) for n, sets in self.by_size.items()}
        held = sum(each.servers for _, each in self._all()) + self.free
        for size in sorted(size for size in asked if asked[size]):
            sets = self.by_size[size]
            fair = held * self.server_gpus * asked[size] // sum(asked.values())
            target = min(fair, asked[size])
            more = target - self.server_gpus * sum(each.servers for each in sets)
            if more > 0:
                self._grow(size, -(-more // size))
            elif more < 0:
                self._shrink(sets, min(-(more // size), len(sets) - 1))

    def _grow(self, size: int, count: int) -> None:
        """New sets; jobs are dealt again unless the last one opened, and is a single server."""
        opened = None
        for _ in range(count):
            opened = self._open(size)
            if opened is None:
                break
        if opened is not None and opened.servers == 1:
            return
        sets = self.by_size[size]
        jobs = [job for each in sets for job in each.jobs]
        for each in sets:
            each.jobs, each.load = [], 0
        for job in jobs:
            _least_loaded(sets).give(job)

    def _shrink(self, sets: list[ServerSet], count: int) -> None:
        sets.sort(key=_load)
        for _ in range(count):
            closed = sets.pop(0)
            self.free += closed.servers
            for job in closed.jobs:
                _least_loaded(sets).give(job)

    def _drop_ended(self, sizes: Mapping[str, int]) -> bool:
        """Whether a set was closed as it has no jobs any more."""
        before = self.free
        for size, sets in list(self.by_size.items()):
            for each in list(sets):
                each.jobs = [job for job in each.jobs if sizes.get(job) == size]
                if not each.jobs:
                    sets.remove(each)
                    self.free += each.servers
            if not sets:
                del self.by_size[size]
        return self.free > before

    def _admit(self, job: str, size: int) -> bool:
        """Into the least loaded set, if a second place is free there; a new one; any."""
        sets = self.by_size.get(size, [])
        room = [each for each in sets if each.load + 1 < each.places]
        chosen = _least_loaded(room) if room else self._open(size)
        if chosen is None and sets:
            chosen = _least_loaded(sets)
        if chosen is not None:
            chosen.give(job)
        return chosen is not None

    def _retry(self, sizes: Mapping[str, int]) -> None:
        """The pending in their order; after each that gets in the next one is passed over."""
        at = 0
        while at < len(self.pending):
            if self._admit(self.pending[at], sizes[self.pending[at]]):
                del self.pending[at]
            at += 1


def _load(each: ServerSet) -> int:
    return each.load


def _least_loaded(sets: list[ServerSet]) -> ServerSet:
    return min(sets, key=_load)
