"""What a training function uses: epochs that survive a change of workers.

    def train(config):
        model = raysched.prepare(build_model())
        optimizer = torch.optim.SGD(model.parameters(), lr=0.1)
        for epoch in raysched.epochs(model, optimizer):
            for indices, weight in raysched.batches(len(images)):
                loss = weight * loss_of(model(images[indices]), labels[indices])
                optimizer.zero_grad()
                loss.backward()
                optimizer.step()
            raysched.report(loss=loss.item())

The end of the loop's body is the epoch boundary: state is saved, the scheduler is asked, and where
it has granted other workers, these stop here and the new ones go on with the next epoch.
"""

from __future__ import annotations

import os
import random
import sys
import tempfile
import threading
import time
from collections.abc import Iterator
from typing import Any, Protocol, TypeVar

import ray.train
import torch
import torch.distributed as dist

from raysched.runtime import device_time, link
from raysched.runtime.assignment import Assignment, current
from raysched.runtime.protocol import NEXT_GRANT, BoundaryReport

GATE_S = 120.0  # for a controller to stop its workers once their boundary is registered
_STATE_FILE = "state.pt"

Model = TypeVar("Model", bound=torch.nn.Module)


class Stateful(Protocol):
    """A model, an optimizer, a learning rate scheduler ..."""

    def state_dict(self) -> dict[str, Any]:
        """Everything that training changes."""

    def load_state_dict(self, state_dict: Any) -> Any:
        """Take such a state over."""


class _Running:
    """The epoch that this worker is in."""

    epoch = 0
    metrics: dict[str, float] = {}  # noqa: RUF012 - replaced as a whole at each epoch


def prepare(model: Model) -> Model | torch.nn.parallel.DistributedDataParallel:
    """Place a model on this worker's device and, with several workers, average its gradients."""
    device = _device()
    model = model.to(device)
    if dist.get_world_size() == 1:
        return model
    return torch.nn.parallel.DistributedDataParallel(
        model, device_ids=[device] if device.type == "cuda" else None
    )


def epochs(*state: Stateful) -> Iterator[int]:
    """Yield the epochs (from 0) that are still to run.

    `state` is what must live on when workers change: model, optimizer, and whatever else has a
    `state_dict`. It is restored before the first epoch and saved after each, unless the job goes
    without checkpoints: then new workers begin at epoch 0. Random numbers are
    seeded for each epoch and rank, so that an epoch which is run again draws the same ones.
    """
    assignment = current()
    first, seed = _restore(state)
    for epoch in range(first, assignment.epochs):
        _seed(seed, epoch)
        _Running.epoch, _Running.metrics = epoch, {}
        if epoch == first:
            _say_started(assignment)
        began_s = time.perf_counter()
        yield epoch
        _boundary(assignment, state, seed, time.perf_counter() - began_s)


def batches(samples: int) -> Iterator[tuple[torch.Tensor, float]]:
    """Yield `(indices, weight)` for each step of the running epoch on this worker.

    The global batch is the same at every number of workers; the order is a permutation seeded by
    the epoch, and every sample of `range(samples)` comes once. Multiply the mean loss over
    `indices` by `weight`: then the averaged gradient is that of the global batch even when it does
    not divide evenly. A worker for which nothing is left of a last small batch gets one sample of
    weight 0, so that all workers take the same number of steps.
    """
    assignment = current()
    rank, workers = dist.get_rank(), dist.get_world_size()
    order = torch.randperm(samples, generator=torch.Generator().manual_seed(_Running.epoch))
    for batch in order.split(assignment.batch_size):
        indices = batch[rank::workers]
        weight = len(indices) * workers / len(batch)
        device_time.hold(assignment, len(indices))
        yield (indices if len(indices) else batch[:1]), weight


def report(**metrics: float) -> None:
    """Set metrics of the running epoch: rank 0's count, and the last epoch's are the result's."""
    _Running.metrics = {**_Running.metrics, **metrics}


def _device() -> torch.device:
    if not torch.cuda.is_available():
        return torch.device("cpu")
    from ray.train.torch import get_device

    device: torch.device = get_device()
    return device


def _unwrapped(stateful: Any) -> Stateful:
    """A model without its data-parallel wrapper: what is saved fits every number of workers."""
    is_wrapped = isinstance(stateful, torch.nn.parallel.DistributedDataParallel)
    inner: Stateful = stateful.module if is_wrapped else stateful
    return inner


def _restore(state: tuple[Stateful, ...]) -> tuple[int, int]:
    """Return the first epoch to run and the seed of the job's random numbers."""
    checkpoint = ray.train.get_checkpoint()
    if checkpoint is None:
        return 0, _from_rank_zero(torch.initial_seed() % 2**31)
    with checkpoint.as_directory() as directory:
        saved = torch.load(
            os.path.join(directory, _STATE_FILE), map_location="cpu", weights_only=False
        )
    for stateful, saved_state in zip(state, saved["state"], strict=True):
        _unwrapped(stateful).load_state_dict(saved_state)
    return saved["epoch"] + 1, saved["seed"]


def _seed(seed: int, epoch: int) -> None:
    draw = seed + 1_000_003 * epoch + dist.get_rank()
    torch.manual_seed(draw)
    random.seed(draw)
    if "numpy" in sys.modules:
        sys.modules["numpy"].random.seed(draw % 2**32)


def _say_started(assignment: Assignment) -> None:
    if dist.get_rank() == 0:
        start_s = time.time() - assignment.granted_at_s
        link.call("workers_started", assignment.job, assignment.grant, start_s)


def _boundary(
    assignment: Assignment, state: tuple[Stateful, ...], seed: int, epoch_s: float
) -> None:
    epoch, metrics = _Running.epoch, _Running.metrics
    next_grant = assignment.grant
    if dist.get_rank() == 0:
        next_grant, _ = link.call(
            "boundary", BoundaryReport(assignment.job, assignment.grant, epoch, epoch_s, metrics)
        )
    next_grant = _from_rank_zero(next_grant)
    if epoch == assignment.epochs - 1:
        next_grant = assignment.grant  # nothing is left that other workers could do
    reported = {
        "epoch": epoch,
        "workers": dist.get_world_size(),
        NEXT_GRANT: next_grant,
        **metrics,
    }
    if dist.get_rank() != 0:
        ray.train.report({})  # all ranks take part
    elif assignment.checkpoints:
        _save({"epoch": epoch, "seed": seed}, state, reported)
    else:
        ray.train.report(reported)
    if next_grant != assignment.grant:
        threading.Event().wait(GATE_S)
        raise RuntimeError(f"waited {GATE_S:.0f} s to be replaced at the end of epoch {epoch}")


def _save(saved: dict[str, Any], state: tuple[Stateful, ...], reported: dict[str, Any]) -> None:
    """Report the boundary with its checkpoint."""
    saved["state"] = [_unwrapped(stateful).state_dict() for stateful in state]
    with tempfile.TemporaryDirectory(prefix="raysched-") as directory:
        torch.save(saved, os.path.join(directory, _STATE_FILE))
        ray.train.report(reported, checkpoint=ray.train.Checkpoint.from_directory(directory))


def _from_rank_zero(value: int) -> int:
    tensor = torch.tensor([value], device=_device())
    if dist.get_world_size() > 1:
        dist.broadcast(tensor, 0)
    return int(tensor)
