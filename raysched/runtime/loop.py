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
it has granted other workers, those that leave stop here, those that join come in, and the others
go on with the next epoch. Where that fails all are started anew, from what was saved.
"""

from __future__ import annotations

import random
import sys
import time
from collections.abc import Iterator

import torch
import torch.distributed as dist

from raysched.runtime import (
    boundary,
    device_time,
    gate,
    link,
    parallel,
    process_group,
    profiler,
    state,
)
from raysched.runtime.assignment import assign, current
from raysched.runtime.parallel import Replicated, device
from raysched.runtime.state import Stateful


class _Running:
    """The epoch that this worker is in."""

    epoch = 0
    metrics: dict[str, float] = {}  # noqa: RUF012 - replaced as a whole at each epoch
    stateful: tuple[Stateful, ...] = ()
    profiles = False  # whether its first steps are to be timed, and do not count
    profiling_s = 0.0  # of it that this took


def prepare(model: torch.nn.Module) -> Replicated:
    """Place a model on this worker's device, and average its gradients over the workers.

    The model itself is `.module` of what is returned.
    """
    replicated = parallel.replicate(model.to(device()))
    if dist.is_initialized():  # a worker that is to join others prepares before it does
        replicated.join_group()
    return replicated


def epochs(*stateful: Stateful) -> Iterator[int]:
    """Yield the epochs (from 0) that are still to run.

    `stateful` is what must live on when workers change: model, optimizer, and whatever else has a
    `state_dict`. Workers that join get it from those that stay. It is saved after each epoch, and
    restored where all workers were stopped, unless the job goes without checkpoints: then new
    workers begin at epoch 0. Random numbers are seeded for each epoch and rank, so that an epoch
    which is run again draws the same ones.
    """
    if current().joins:
        epoch, seed = _go_over(stateful, 0, 0, gate.wait())
    else:
        epoch, seed = state.restore(stateful)
        _say_started(time.time() - current().granted_at_s)
        _Running.stateful = stateful
        _Running.profiles = bool(current().profiles.local_batches)
    while epoch < current().epochs:
        _seed(seed, epoch)
        _Running.epoch, _Running.metrics, _Running.profiling_s = epoch, {}, 0.0
        began_s = time.perf_counter()
        yield epoch
        done_s = time.perf_counter()
        epoch_s = done_s - began_s - _Running.profiling_s
        goes_over = boundary.reach(stateful, seed, epoch, epoch_s, _Running.metrics)
        epoch += 1
        if goes_over:
            _go_over(stateful, epoch, seed, gate.wait(boundary.GATE_S))
            _say_started(time.perf_counter() - done_s)


def batches(samples: int) -> Iterator[tuple[torch.Tensor, float]]:
    """Yield `(indices, weight)` for each step of the running epoch on this worker.

    The global batch is the same at every number of workers; the order is a permutation seeded by
    the epoch, and every sample of `range(samples)` comes once. Multiply the mean loss over
    `indices` by `weight`: then the averaged gradient is that of the global batch even when it does
    not divide evenly. A worker for which nothing is left of a last small batch gets one sample of
    weight 0, so that all workers take the same number of steps.

    Of a model that is unknown to the scheduler, the first workers take a few steps before all
    others to be timed; what they change of the state that `epochs` was given is put back.
    """
    assignment = current()
    rank, workers = dist.get_rank(), dist.get_world_size()
    order = torch.randperm(samples, generator=torch.Generator().manual_seed(_Running.epoch))
    if _Running.profiles:
        _Running.profiles, began_s = False, time.perf_counter()
        yield from profiler.rehearse(_Running.stateful, order, assignment)
        _Running.profiling_s = time.perf_counter() - began_s
    for batch in order.split(assignment.batch_size):
        indices = batch[rank::workers]
        weight = len(indices) * workers / len(batch)
        device_time.hold(assignment, len(indices))
        yield (indices if len(indices) else batch[:1]), weight


def report(**metrics: float) -> None:
    """Set metrics of the running epoch: rank 0's count, and the last epoch's are the result's."""
    _Running.metrics = {**_Running.metrics, **metrics}


def _go_over(
    stateful: tuple[Stateful, ...], epoch: int, seed: int, ticket: gate.Ticket
) -> tuple[int, int]:
    """Train on among the workers of another grant; the epoch and the seed, as all have them."""
    parallel.leave_group()
    assign(ticket.assignment)
    process_group.join(ticket.rank, ticket.workers, ticket.address, ticket.port)
    parallel.join_group()
    if ticket.survivors < ticket.workers:
        joins = ticket.rank >= ticket.survivors
        return state.share(stateful, epoch, seed, joins=joins)
    return epoch, seed


def _seed(seed: int, epoch: int) -> None:
    draw = seed + 1_000_003 * epoch + dist.get_rank()
    torch.manual_seed(draw)
    random.seed(draw)
    if "numpy" in sys.modules:
        sys.modules["numpy"].random.seed(draw % 2**32)


def _say_started(start_s: float) -> None:
    """Say that the workers of this grant train, and go on: no answer is needed for that."""
    if dist.get_rank() == 0:
        told = current()
        link.say("workers_started", told.job, told.grant, start_s, told.joinable)
