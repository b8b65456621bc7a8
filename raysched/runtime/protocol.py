"""What a trainer and the scheduler actor say to each other.

The trainer's side of a job's life:

    submit ─► standing (polled until it is a grant) ─► workers_started ─► profiled (at most once)
                 ▲                                         │ each epoch
                 │                                     boundary ─► same grant: train on
                 └── workers_stopped ◄── another grant: leave ─┘
    ended (finished | failed | cancelled)

Beside it, while workers train that others can join:

    offered (answered when there is a new offer) ─► offer_ready (its joiners are warm)
            (or when the workers must stop at once) ─► workers_stopped
    boundary ─► that grant ─► workers_resized ─► workers_started

Names are those of the scheduler actor's methods. All are safe to repeat.
"""

from __future__ import annotations

import math
from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import Any, Protocol, TypeAlias

from raysched.runtime.assignment import NOTHING, ToProfile

SCHEDULER_NAME = "raysched-scheduler"
NAMESPACE = "raysched"

NEXT_GRANT = "next_grant"
"""The metric of a boundary's report that says which grant stands from there on."""

EPOCHS_DONE = "raysched_epochs_done"
"""The metric of a report that counts epochs where the training function does not say them."""

CURRENT_GRANT = -1
"""In `workers_stopped`: whichever grant the job has. A restarted controller lost its number."""


Place: TypeAlias = tuple[str, int]
"""A server, and the number of a job's slot there."""


@dataclass(frozen=True, slots=True)
class Slot:
    """Where one worker of a job goes: a bundle of one of the scheduler's placement groups.

    A job's slots on a server are numbered from 0 without gaps, so that the same server and number
    in two grants are one place, and a worker that stands there belongs to both.
    """

    placement_group: Any  # ray.util.placement_group.PlacementGroup
    server: str
    number: int
    gpu_rate: float = 1.0  # of the server's GPUs

    @property
    def place(self) -> Place:
        """What it shares with the same slot of another grant."""
        return self.server, self.number


@dataclass(frozen=True, slots=True)
class GrantedSlots:
    """A grant with its placement groups, ranks in order of `slots`."""

    grant: int
    slots: tuple[Slot, ...]
    batch_size: int
    profiles: ToProfile = NOTHING
    parameter_servers: int = 0


@dataclass(frozen=True, slots=True)
class Standing:
    """What a job without workers is told: its grant, or to wait, or that it is over."""

    granted: GrantedSlots | None = None
    ended: str = ""  # why there is nothing to wait for: cancelled, rejected
    must_stop: bool = False  # its workers must be gone now, wherever they are in their epoch


@dataclass(frozen=True, slots=True)
class BoundaryReport:
    """What rank 0 says at an epoch boundary, or at a safe point where `part` of the epoch is done,
    before the checkpoint is registered."""

    job: str
    grant: int
    epoch: int
    epoch_s: float
    metrics: Mapping[str, float] = field(default_factory=dict)
    part: float = 1.0


def numbers(metrics: Mapping[str, Any]) -> dict[str, float]:
    """What a journal can hold of metrics: finite numbers, so not a loss that diverged."""
    known = {name: value for name, value in metrics.items() if isinstance(value, int | float)}
    return {name: float(value) for name, value in known.items() if math.isfinite(value)}


@dataclass(frozen=True, slots=True)
class InferenceObserved:
    """What an inference deployment looks like now.

    `present` and `running` count replicas by node id: in any state, and those that answer.
    `rps` is None at the first look, which has nothing to compare with. Latencies are of the
    requests since the last look; None where there were none.
    """

    present: Mapping[str, int]
    running: Mapping[str, int]
    rps: float | None = None
    p50_ms: float | None = None
    p99_ms: float | None = None


class Lender(Protocol):
    """An inference deployment that can shrink and grow: the scheduler's hand on Serve.

    Picklable: it is kept beside the journal, so that a restarted scheduler has it again. Both
    methods block, and are called in threads.
    """

    def scale(self, replicas: int) -> None:
        """Ask the deployment for this many replicas. Raises where it cannot be asked."""

    def observe(self) -> InferenceObserved:
        """Look at demand and replicas."""
