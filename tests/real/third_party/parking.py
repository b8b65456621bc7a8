"""A policy of a third party: `aryl`, but the jobs that it is told to park have no workers."""

from __future__ import annotations

from dataclasses import dataclass, replace
from typing import ClassVar

from policies.aryl import Aryl
from policies.problem import Decision, Memory, Problem
from policies.reason import because


@dataclass(frozen=True)
class Parking:
    """Gives `parked`, a job, nothing: if it runs it is preempted."""

    name: ClassVar[str] = "parking"
    source: ClassVar[str] = "the tests"
    default_loaning: ClassVar[str] = "off"

    parked: str = ""
    interval_s: float | None = None

    def decide(self, problem: Problem, memory: Memory) -> tuple[Decision, Memory]:
        """As aryl; nothing for the parked job."""
        decision, memory = Aryl().decide(problem, memory)
        allocations = dict(decision.allocations)
        if self.parked in allocations:
            parked = replace(
                allocations[self.parked], workers=0, reason=because("parked as told, {n}", n=0)
            )
            allocations[self.parked] = parked
        return replace(decision, allocations=allocations), memory
