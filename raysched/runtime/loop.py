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
go on with the next epoch. Where that fails all are started anew, from what was saved. With
`every` the same is done between two steps of a long epoch, for a server that is taken back.
"""

from __future__ import annotations

import time
from collections.abc import Iterator
from dataclasses import replace

import torch
import torch.distributed as dist

from raysched.runtime import (
    accumulation,
    boundary,
    device_time,
    gate,
    link,
    parallel,
    process_group,
    profiler,
    safe_points,
    shares,
    state,
)
from raysched.runtime.assignment import assign, current, walk_epochs
from raysched.runtime.learning_rate import FIXED, LearningRate
from raysched.runtime.pace import Pace
from raysched.runtime.parallel import Replicated, device
from raysched.runtime.parameter_servers.worker import current_loop
from raysched.runtime.seeding import seed_all
from raysched.runtime.state import Position, Stateful


class _Running:
    """The epoch that this worker is in."""

    stateful: tuple[Stateful, ...] = ()
    position = Position(seed=0)  # what is saved
    metrics: dict[str, float] = {}  # noqa: RUF012 - replaced as a whole at each epoch
    profiles = False  # whether its first steps are to be timed, and do not count
    passes = 0  # over samples, begun in it
    from_s = 0.0  # since when its workers are these
    from_part = 0.0  # and from which part of it on
    learning_rate = LearningRate(FIXED)
    pace = Pace()
    speeds: tuple[float, ...] = ()
    """Of the workers of a job that mixes GPUs, by rank: in proportion they share each batch."""

    @classmethod
    def begin(cls) -> None:
        """Enter the epoch at the position."""
        _seed(cls.position)
        cls.metrics, cls.passes = {}, 0
        cls.fit_batches()
        cls.from_s, cls.from_part = time.perf_counter(), 0.0

    @classmethod
    def fit_batches(cls) -> None:
        """Train with the batch size, and in the shares, of these workers."""
        cls.learning_rate.aim_at(current().batch_size)
        if current().mixes_gpus:
            cls.speeds = cls.pace.agree(current().gpu_rate)

    @classmethod
    def reach(cls, position: Position, part: float) -> bool:
        """Save this position, with so much of the epoch done; whether other workers train now."""
        reached_s = time.perf_counter()
        epoch_s = (reached_s - cls.from_s) / (part - cls.from_part)
        goes_over = boundary.reach(cls.stateful, position, epoch_s, cls.metrics, part)
        cls.position = position
        if goes_over:
            _go_over(gate.wait(boundary.GATE_S))
            _say_started(time.perf_counter() - reached_s)
        return goes_over


def prepare(model: torch.nn.Module) -> Replicated:
    """Place a model on this worker's device, and average its gradients over the workers.

    The model itself is `.module` of what is returned.
    """
    average = _Running.pace.average if current().mixes_gpus else None
    replicated = parallel.replicate(model.to(device()), average)
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
    if (beside_servers := current_loop()) is not None:
        yield from beside_servers.epochs(*stateful)
        return
    walk_epochs()
    _Running.stateful = (*stateful, _follow_batch_size(stateful))
    if current().joins:
        _go_over(gate.wait())
    else:
        _Running.position = state.restore(_Running.stateful)
        _say_started(time.time() - current().granted_at_s)
        _Running.profiles = bool(current().profiles.local_batches)
    while (epoch := _Running.position.epoch) < current().epochs:
        _Running.begin()
        yield epoch
        _Running.reach(Position(_Running.position.seed, epoch + 1), part=1.0)


def batches(samples: int) -> Iterator[tuple[torch.Tensor, float]]:
    """Yield `(indices, weight)` for each step of the running epoch on this worker.

    The global batch is the same at every number of workers; the order is a permutation seeded by
    the epoch, and every sample of `range(samples)` comes once. Multiply the mean loss over
    `indices` by `weight`: then the averaged gradient is that of the global batch even when it does
    not divide evenly. A worker for which nothing is left of a last small batch gets one sample of
    weight 0, so that all workers take the same number of steps.

    Where a worker's share is above the job's `max_local_batch` it comes in several parts. The loop
    treats each as a step; until the last one, parameters have no gradients when the optimizer
    steps, so that it changes nothing.

    The first pass over samples in an epoch has the safe points of a job that asked for them: it
    begins where the last one was, and workers may change between two of its steps. Of a model that
    is unknown to the scheduler, the first workers take a few steps before all others to be timed;
    what they change of the state that `epochs` was given is put back.
    """
    if (beside_servers := current_loop()) is not None:
        yield from beside_servers.batches(samples)
        return
    epoch = _Running.position.epoch
    order = torch.randperm(samples, generator=torch.Generator().manual_seed(epoch))
    if _Running.profiles:
        _Running.profiles, began_s = False, time.perf_counter()
        yield from profiler.rehearse(_Running.stateful, order, current())
        _Running.from_s += time.perf_counter() - began_s  # no part of the epoch
    _Running.passes += 1
    clock, trained = None, 0
    if _Running.passes == 1 and (every_s := current().every_s) is not None:
        clock, trained = safe_points.SafePointClock(every_s), _Running.position.trained
        _Running.from_part = trained / samples
    while trained < samples:
        batch = order[trained : trained + current().batch_size]
        yield from _step(batch)
        trained += len(batch)
        if clock is not None and trained < samples and clock.is_due():
            _reach_safe_point(trained, samples)
            clock.restart()


def _step(batch: torch.Tensor) -> Iterator[tuple[torch.Tensor, float]]:
    """This worker's share of a global batch."""
    assignment = current()
    rank, workers = dist.get_rank(), dist.get_world_size()
    speeds = _Running.speeds if assignment.mixes_gpus else (1.0,) * workers
    begin, end = shares.own_range(len(batch), speeds, rank)
    own = batch[begin:end] if begin < end else batch[:1]
    for indices in accumulation.in_parts(own, assignment.max_local_batch):
        counted = min(len(indices), end - begin)
        device_time.hold(assignment, counted)
        yield indices, counted * workers / len(batch)
    _Running.learning_rate.advance()
    if assignment.mixes_gpus:
        _Running.pace.step_done(len(own))


def _reach_safe_point(trained: int, samples: int) -> None:
    position, part = replace(_Running.position, trained=trained), trained / samples
    if _Running.reach(position, part):
        _Running.from_s, _Running.from_part = time.perf_counter(), part
    _seed(position)
    _Running.fit_batches()


def report(**metrics: float) -> None:
    """Set metrics of the running epoch: rank 0's count, and the last epoch's are the result's."""
    if (beside_servers := current_loop()) is not None:
        beside_servers.report(metrics)
        return
    _Running.metrics = {**_Running.metrics, **metrics}


def _go_over(ticket: gate.Ticket) -> None:
    """Train on among the workers of another grant, from where they are."""
    parallel.leave_group()
    assign(ticket.assignment)
    process_group.join(ticket.rank, ticket.workers, ticket.address, ticket.port)
    parallel.join_group()
    if ticket.survivors < ticket.workers:
        joins = ticket.rank >= ticket.survivors
        _Running.position = state.share(_Running.stateful, _Running.position, joins=joins)


def _follow_batch_size(stateful: tuple[Stateful, ...]) -> LearningRate:
    """Have the optimizers among `stateful` step with a learning rate that goes with the batch."""
    _Running.learning_rate = LearningRate(current().learning_rate)
    for part in stateful:
        if isinstance(part, torch.optim.Optimizer):
            _Running.learning_rate.drive(part)
    return _Running.learning_rate


def _seed(position: Position) -> None:
    draw = position.seed + 1_000_003 * position.epoch + 7_919 * position.trained + dist.get_rank()
    seed_all(draw)


def _say_started(start_s: float) -> None:
    """Say that the workers of this grant train, and go on: no answer is needed for that."""
    if dist.get_rank() == 0:
        told = current()
        link.say("workers_started", told.job, told.grant, start_s, told.joinable)
