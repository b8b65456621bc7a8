"""What placement is asked and answers: jobs with their sizes, servers with room for them."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field

import numpy as np

from policies.problem import Ints, PlacementRule, Servers
from policies.reason import Reason


@dataclass(frozen=True, slots=True)
class Rooms:
    """The servers as placement sees them: columns [servers]."""

    servers: Servers
    free_gpus: Ints  # free beyond what the jobs to be placed stand on
    settled_workers: Ints  # base workers there of jobs that stay, and so are not to be placed

    def owned(self) -> Rooms:
        """Those of the training pool alone."""
        rows = np.flatnonzero(~self.servers.on_loan)
        return Rooms(self.servers.take(rows), self.free_gpus[rows], self.settled_workers[rows])


@dataclass(frozen=True, slots=True)
class Wanted:
    """What one job shall have: 0 workers, or at least its minimum.

    `servers`, where a policy names them, overrules `rule`. Without a `gpu_type` a job keeps the
    type that it stands on; one that starts gets the fastest on which it fits whole, those of the
    training pool first. A job that `mixes_gpus` takes any.
    """

    job: str
    workers: int
    min_workers: int
    gpus_per_worker: int
    elastic: bool = False
    rule: PlacementRule = PlacementRule.PACK
    standing: Mapping[str, int] = field(default_factory=dict)  # server -> workers there now
    servers: Mapping[str, int] | None = None
    gpu_type: str | None = None
    mixes_gpus: bool = False


@dataclass(frozen=True, slots=True)
class Placed:
    """Where a job's workers go (server -> workers), and why they are fewer than wanted."""

    servers: Mapping[str, int]
    shortfall: Reason | None = None

    @property
    def workers(self) -> int:
        """How many workers could be placed."""
        return sum(self.servers.values())
