"""What of a training function lives on when its workers change, saved and shared.

Models that are trained by all workers are told apart: their data-parallel wrapper has them equal
on all ranks whenever a process group is joined.
"""

from __future__ import annotations

import os
import tempfile
from dataclasses import asdict, dataclass
from typing import Any, Protocol

import ray.train
import torch
import torch.distributed as dist

from raysched.errors import CheckpointError
from raysched.runtime import broadcast
from raysched.runtime.parallel import Replicated, group_device

_FILE = "state.pt"


class Stateful(Protocol):
    """A model, an optimizer, a learning rate scheduler ..."""

    def state_dict(self) -> dict[str, Any]:
        """Everything that training changes."""

    def load_state_dict(self, state_dict: Any) -> Any:
        """Take such a state over."""


@dataclass(frozen=True, slots=True)
class Position:
    """Where the training of a job stands: so many samples into an epoch. `seed` is that of its
    random numbers."""

    seed: int
    epoch: int = 0
    trained: int = 0


def restore(stateful: tuple[Stateful, ...]) -> Position:
    """Load what was saved last, and go on from there."""
    checkpoint = ray.train.get_checkpoint()
    if checkpoint is None:
        return Position(integer_from_rank_zero(torch.initial_seed() % 2**31))
    with checkpoint.as_directory() as directory:
        saved = torch.load(os.path.join(directory, _FILE), map_location="cpu", weights_only=False)
    for part, saved_state in zip(stateful, saved["state"], strict=True):
        _unwrapped(part).load_state_dict(saved_state)
    return Position(saved["seed"], saved["epoch"], saved["trained"])


def save(stateful: tuple[Stateful, ...], position: Position, reported: dict[str, Any]) -> None:
    """Report a boundary or a safe point with its checkpoint."""
    saved = {
        **asdict(position),
        "state": [_unwrapped(part).state_dict() for part in stateful],
    }
    with tempfile.TemporaryDirectory(prefix="raysched-") as directory:
        try:
            torch.save(saved, os.path.join(directory, _FILE))
        except (OSError, RuntimeError) as error:  # the latter is torch's own for a full disk
            raise CheckpointError(directory, error) from error
        ray.train.report(reported, checkpoint=ray.train.Checkpoint.from_directory(directory))


def share(stateful: tuple[Stateful, ...], position: Position, *, joins: bool) -> Position:
    """Bring rank 0's state to those that join; the position, as all have it then."""
    parts = [part for part in stateful if not isinstance(part, Replicated)]
    device = group_device()
    if dist.get_rank() == 0:
        broadcast.send((position, [part.state_dict() for part in parts]), device)
    elif not joins:
        broadcast.pass_by(device)
    else:
        position, states = broadcast.receive(device)
        for part, state in zip(parts, states, strict=True):
            part.load_state_dict(state)
    return position


def integer_from_rank_zero(value: int) -> int:
    """Rank 0's `value`, on every rank."""
    return integers_from_rank_zero(value)[0]


def integers_from_rank_zero(*values: int) -> list[int]:
    """Rank 0's `values`, on every rank."""
    tensor = torch.tensor(values, device=group_device())
    if dist.get_world_size() > 1:
        dist.broadcast(tensor, 0)
    return tensor.tolist()


def _unwrapped(part: Stateful) -> Stateful:
    """A model without its data-parallel wrapper: what is saved fits every number of workers."""
    return part.module if isinstance(part, Replicated) else part
