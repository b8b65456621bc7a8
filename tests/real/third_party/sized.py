"""A policy of a third party: every job has the workers, and stands on the servers, that it says."""

from __future__ import annotations

from dataclasses import dataclass
from typing import ClassVar

from policies.problem import Allocation, Decision, Memory, Problem
from policies.reason import because


@dataclass(frozen=True)
class Sized:
    """Gives each job `workers` and `batch_size`; on `servers` ("a=2,b=1"), those that there are,
    where they are named."""

    name: ClassVar[str] = "sized"
    source: ClassVar[str] = "the tests and benchmarks"
    default_loaning: ClassVar[str] = "off"

    workers: int = 1
    servers: str = ""
    batch_size: int | None = None
    interval_s: float | None = None

    def decide(self, problem: Problem, memory: Memory) -> tuple[Decision, Memory]:
        """The same for all."""
        named = dict(part.split("=") for part in self.servers.split(",") if part)
        present = {s: int(n) for s, n in named.items() if s in problem.servers.ids}
        servers = present if named else None
        workers = self.workers if servers is None else sum(servers.values())
        why = because("{workers} workers, as told", workers=workers)
        told = Allocation(workers, why, batch_size=self.batch_size, servers=servers)
        return Decision(dict.fromkeys(problem.jobs.ids, told)), memory
