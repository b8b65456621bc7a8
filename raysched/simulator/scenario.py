"""What is simulated: jobs that come, and whatever else happens that no scheduler decides."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

from raysched.events import (
    DemandObserved,
    ForeignGpusObserved,
    InferenceConfigured,
    JobEnded,
    PolicySwitched,
    ServerAdded,
    ServerLost,
)
from raysched.jobs import JobSpec

Outside = (
    ServerAdded
    | ServerLost
    | ForeignGpusObserved
    | InferenceConfigured
    | DemandObserved
    | JobEnded
    | PolicySwitched
)
"""Servers that come and go, demand as it was seen, jobs that their users cancel, a policy that an
operator chooses."""


@dataclass(frozen=True, slots=True)
class Arrival:
    """A job of a trace. What the scheduler is told stands in `spec`; `epoch_s` is what an epoch
    really takes on min … max workers."""

    at_s: float
    job: str
    spec: JobSpec
    epoch_s: tuple[float, ...]

    def __post_init__(self) -> None:
        sizes = self.spec.max_workers - self.spec.min_workers + 1
        if len(self.epoch_s) != sizes or not min(self.epoch_s) > 0:
            raise ValueError(f"job {self.job}: epoch_s needs {sizes} positive numbers of seconds")


@dataclass(frozen=True, slots=True)
class Scenario:
    """Jobs in the order of arrival, and events from outside in the order of time."""

    arrivals: Sequence[Arrival]
    outside: Sequence[Outside]


def training_servers(servers: int, gpus: int) -> list[Outside]:
    """A training pool of equal servers, there from the beginning."""
    digits = len(str(servers))
    return [ServerAdded(0.0, f"t{n:0{digits}}", "training", gpus) for n in range(1, servers + 1)]
