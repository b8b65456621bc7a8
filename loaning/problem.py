"""The loaning contract: what the orchestrator sees and what it answers (004 §4).

`decide(problem, memory) -> (decision, memory')`, pure, like a policy. Requests are counted in
requests per second (rps); capacity in servers, the unit of loaning in the paper.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any, ClassVar, Protocol, TypeAlias, runtime_checkable

import numpy as np
from numpy.typing import NDArray

from policies.reason import Reason

Floats: TypeAlias = NDArray[np.float64]
Ints: TypeAlias = NDArray[np.int64]
Bools: TypeAlias = NDArray[np.bool_]

Memory: TypeAlias = Mapping[str, Any]
NO_MEMORY: Memory = {}


class LoaningError(ValueError):
    """A problem or parameter that a loaning cannot work with, naming the field."""


@dataclass(frozen=True, slots=True)
class OnLoan:
    """Who stands on the servers that are on loan, as columns.

    `workers[j, s]` workers of job j stand on loaned server s, `elsewhere[j]` on other servers.
    A job that keeps at least `min_workers[j]` outside the reclaimed servers shrinks; one that
    cannot is preempted.
    """

    servers: tuple[str, ...]
    jobs: tuple[str, ...]
    workers: Ints  # [jobs, servers]
    elsewhere: Ints  # [jobs]
    min_workers: Ints  # [jobs]
    gpus_per_worker: Ints  # [jobs]
    checkpoints: Bools  # [jobs] False: a preemption loses all its progress


@dataclass(frozen=True, slots=True)
class LoanProblem:
    """Demand so far, and the inference pool by state."""

    now_s: float
    demand_at_s: Floats  # [samples], ascending
    demand_rps: Floats  # [samples] requests per second that arrived
    server_rps: float  # what one server serves at full use, requests per second
    serving: int  # servers that serve, or are on their way back
    vacating: int  # servers asked to empty, not on loan yet
    lead_s: float  # longest epoch + restart + refill: how long a reclaim takes
    on_loan: OnLoan  # servers on loan that are not being reclaimed
    min_serving: int = 1  # servers that always serve, whatever the demand


@dataclass(frozen=True, slots=True)
class LoanDecision:
    """Lend `lend` more servers, or reclaim these ones; never both."""

    lend: int
    reclaim: tuple[str, ...]
    needed: int  # servers that demand needs, headroom included
    preempted: tuple[str, ...]  # jobs that the reclaim cannot but preempt
    reason: Reason
    capped: bool = False  # a wall-clock backstop cut the search, so that a replay may differ


@runtime_checkable
class Loaning(Protocol):
    """A loaning policy: a frozen dataclass whose fields are its parameters."""

    name: ClassVar[str]
    source: ClassVar[str]

    def decide(self, problem: LoanProblem, memory: Memory) -> tuple[LoanDecision, Memory]:
        """What to lend or reclaim now, and the memory to hand back the next time."""
