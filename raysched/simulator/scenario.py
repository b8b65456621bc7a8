"""What is simulated: jobs that come, and whatever else happens that no scheduler decides."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass, replace
from typing import TypeAlias

from raysched.events import (
    DemandObserved,
    ForeignGpusObserved,
    InferenceConfigured,
    JobEnded,
    JobProfiled,
    PolicySwitched,
    Pool,
    ServerAdded,
    ServerLost,
)
from raysched.jobs import JobSpec
from raysched.simulator.models import Costs

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


PlacedS: TypeAlias = Callable[[tuple[int, ...], int], float]
"""Seconds of an epoch by workers on each server and global batch size."""


@dataclass(frozen=True, slots=True)
class Arrival:
    """A job of a trace. What the scheduler is told stands in `spec`; `epoch_s` is what an epoch
    really takes on min … max workers, on GPUs of rate 1: of each admissible batch size after the
    other, inf where it does not fit on so many workers; or `placed_s`, where it matters how these
    stand. Once `fails_epochs` are done, part of one among them, its code raises (None: it does
    not). `costs`: what changes of its workers take (None: what they take for all jobs).
    `profiled`: what its first workers tell of its model before they train, if they are to."""

    at_s: float
    job: str
    spec: JobSpec
    epoch_s: tuple[float, ...]
    fails_epochs: float | None = None
    placed_s: PlacedS | None = None
    costs: Costs | None = None
    profiled: JobProfiled | None = None

    def __post_init__(self) -> None:
        needed = self._sizes * len(self.spec.admissible)
        if len(self.epoch_s) != needed or not min(self.epoch_s) > 0:
            raise ValueError(f"job {self.job}: epoch_s needs {needed} positive numbers of seconds")

    @property
    def _sizes(self) -> int:
        return self.spec.max_workers - self.spec.min_workers + 1

    def seconds_on(self, servers: Mapping[str, int], batch_size: int) -> float:
        """What an epoch really takes on workers that stand so (server -> workers)."""
        if self.placed_s is None:
            return self.seconds(sum(servers.values()), batch_size)
        return self.placed_s(tuple(servers.values()), batch_size)

    def seconds(self, workers: int, batch_size: int) -> float:
        """What an epoch really takes on so many workers with this global batch."""
        row = self.spec.admissible.index(batch_size)
        return self.epoch_s[row * self._sizes + workers - self.spec.min_workers]

    @property
    def alone_s(self) -> float:
        """Seconds of training, if it had the workers that its user asked for all the time."""
        asked = self.spec.requested_workers or self.spec.min_workers
        return self.spec.epochs * self.seconds(asked, self.spec.batch_size)


@dataclass(frozen=True, slots=True)
class Scenario:
    """Jobs in the order of arrival, and events from outside in the order of time."""

    arrivals: Sequence[Arrival]
    outside: Sequence[Outside]

    def and_also(self, outside: Iterable[Outside]) -> Scenario:
        """The same, and these events from outside, each after others of its time."""
        both = sorted([*self.outside, *outside], key=lambda event: event.at_s)
        return replace(self, outside=both)


@dataclass(frozen=True, slots=True)
class ServerSet:
    """Equal servers. `gpu_rate`: speed of a GPU over that of the GPUs that curves are told for."""

    servers: int
    gpus: int
    gpu_type: str = "GPU"
    gpu_rate: float = 1.0


def pool_of(pool: Pool, *sets: ServerSet) -> list[ServerAdded]:
    """A pool that is there from the beginning: servers t1, t2, … for training, i1, … for
    inference."""
    each = [of for of in sets for _ in range(of.servers)]
    digits = len(str(len(each)))
    return [
        ServerAdded(
            0.0, f"{pool[0]}{n:0{digits}}", pool, of.gpus, of.gpu_type, gpu_rate=of.gpu_rate
        )
        for n, of in enumerate(each, start=1)
    ]


def training_servers(servers: int, gpus: int) -> list[ServerAdded]:
    """A training pool of equal servers."""
    return pool_of("training", ServerSet(servers, gpus))
