"""Measuring how a model runs, on its first workers, before they train (003 §III-B).

A few real steps for each local batch, without all-reduce, and all-reduces alone; what training
changes is put back afterwards. `raysched.profile` predicts epochs from it.
"""

from __future__ import annotations

import contextlib
import io
import random
import statistics
import sys
import time
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any

import torch
import torch.distributed as dist

from raysched.profile import Profile
from raysched.runtime import device_time, link, parallel
from raysched.runtime.assignment import Assignment
from raysched.runtime.state import Stateful, integer_from_rank_zero

WARM_UP_STEPS = 1  # not counted: allocates, chooses kernels
STEPS = 3
ALL_REDUCE_BYTES = (1 << 16, 1 << 20, 1 << 24)
MEMORY_SHARE = 0.9
"""Of a device's memory, that a larger batch may be expected to take and still be tried."""


@dataclass(slots=True)
class StepTimer:
    """Times steps of a training loop for each of some local batches, ascending.

    `steps` yields the local batch of each step to whoever takes it; what the taker does until it
    asks for the next one is the step. A local batch that does not fit ends it: one of which the
    device's memory tells so beforehand, or for which the taker said `out_of_memory`.
    """

    local_batches: Sequence[int]
    step_s: dict[int, float] = field(default_factory=dict)
    """Median seconds of a step by local batch."""
    fitting: int | None = None
    """The largest local batch that was run, if a larger one did not fit."""
    _peak_bytes: dict[int, int] = field(default_factory=dict)

    def steps(self) -> Iterator[int]:
        """The local batch of each step that is to be run."""
        for batch in self.local_batches:
            if self._too_large(batch):
                self.out_of_memory()
                return
            took_s = []
            for _ in range(WARM_UP_STEPS + STEPS):
                began_s = _now_s()
                yield batch
                took_s.append(_now_s() - began_s)
            self.step_s[batch] = statistics.median(took_s[WARM_UP_STEPS:])
            if torch.cuda.is_available():
                self._peak_bytes[batch] = torch.cuda.max_memory_allocated()

    def out_of_memory(self) -> None:
        """Note that the local batch after those that were timed does not fit."""
        self.fitting = max(self.step_s, default=1)

    def _too_large(self, batch: int) -> bool:
        if len(self._peak_bytes) < 2:
            return False
        _, total_bytes = torch.cuda.mem_get_info()
        return expected_bytes(self._peak_bytes, batch) > MEMORY_SHARE * total_bytes


def expected_bytes(peak_bytes: Mapping[int, int], batch: int) -> float:
    """What a larger batch is expected to take at its peak, as the last two did: memory grows in
    proportion to the batch, over what the model itself takes."""
    (less, less_bytes), (more, more_bytes) = list(peak_bytes.items())[-2:]
    return more_bytes + (more_bytes - less_bytes) / (more - less) * (batch - more)


def measure(
    stateful: Sequence[Stateful], step: Callable[[int], object], local_batches: Sequence[int]
) -> StepTimer:
    """Time `step` for each local batch, ascending, until one does not fit.

    `stateful`: all that a step changes, the model among it; it is put back.
    """
    timer = StepTimer(local_batches)
    with put_back(stateful), parallel.without_all_reduce():
        try:
            for local_batch in timer.steps():
                step(local_batch)
        except torch.OutOfMemoryError:
            timer.out_of_memory()
    return timer


@contextlib.contextmanager
def put_back(stateful: Sequence[Stateful]) -> Iterator[None]:
    """Put state and random numbers back at the end as they are now.

    The copy is kept off the device, so that batches find as much memory as in training.
    """
    kept = io.BytesIO()
    torch.save([part.state_dict() for part in stateful], kept)
    draws = _draws()
    try:
        yield
    finally:
        kept.seek(0)
        saved = torch.load(kept, map_location="cpu", weights_only=False)
        for part, values in zip(stateful, saved, strict=True):
            part.load_state_dict(values)
            if isinstance(part, torch.nn.Module):
                part.zero_grad(set_to_none=True)
        _draw_again(draws)
        if torch.cuda.is_available():
            torch.cuda.empty_cache()


def rehearse(
    stateful: Sequence[Stateful], order: torch.Tensor, assignment: Assignment
) -> Iterator[tuple[torch.Tensor, float]]:
    """Deal the steps that are to be timed to a training loop, as `raysched.batches` deals those
    that count, and tell the scheduler what they took.

    `order`: the samples of an epoch. All workers rehearse, and all-reduce alone afterwards.
    """
    timer = StepTimer(assignment.profiles.local_batches)
    together_s: dict[int, dict[int, float]] = {}
    with put_back(stateful):
        with parallel.without_all_reduce():
            yield from _dealt(timer, order, assignment)
        if assignment.profiles.sizes:
            fitting = integer_from_rank_zero(timer.fitting or sys.maxsize)
            yield from _pre_run(together_s, fitting, order, assignment)
    reduced = all_reduce_s(assignment.profiles.groups, parallel.group_device())
    if dist.get_rank() == 0:
        models = [part for part in stateful if isinstance(part, torch.nn.Module)]
        size = sum(map(weights_bytes, models))
        profile = Profile(len(order), size, timer.step_s, timer.fitting, together_s)
        link.say("profiled", assignment.job, assignment.grant, profile, reduced)


def _pre_run(
    together_s: dict[int, dict[int, float]],
    fitting: int,
    order: torch.Tensor,
    assignment: Assignment,
) -> Iterator[tuple[torch.Tensor, float]]:
    """Deal steps of the first workers together, of numbers of them one after the other, as far as
    their shares of a global batch fit. Those who are no part of it wait."""
    rank = dist.get_rank()
    for workers in assignment.profiles.sizes:
        group = dist.new_group(list(range(workers)))
        parallel.leave_group()
        if rank < workers:
            parallel.join_group(group)
        for batch_size in assignment.profiles.batch_sizes:
            if -(-batch_size // workers) > fitting:
                continue
            if rank < workers:
                timer = StepTimer((len(range(rank, batch_size, workers)),))
                yield from _dealt(timer, order, assignment)
                (took_s,) = timer.step_s.values()
                together_s.setdefault(batch_size, {})[workers] = took_s
            dist.barrier()
    parallel.leave_group()
    parallel.join_group()


def _dealt(
    timer: StepTimer, order: torch.Tensor, assignment: Assignment
) -> Iterator[tuple[torch.Tensor, float]]:
    for local_batch in timer.steps():
        device_time.hold(assignment, local_batch)
        yield order[torch.arange(local_batch) % len(order)], 1.0


def weights_bytes(model: torch.nn.Module) -> int:
    """Bytes of the gradients that a step averages."""
    return sum(p.numel() * p.element_size() for p in model.parameters() if p.requires_grad)


def all_reduce_s(groups: Sequence[int], device: torch.device) -> dict[int, dict[int, float]]:
    """Median seconds of an all-reduce by workers and bytes, for groups of the first so many.

    All workers of the process group call it; the others' answers lack the groups they are not in.
    """
    found: dict[int, dict[int, float]] = {}
    for count in groups:
        group = dist.new_group(list(range(count)))
        if dist.get_rank() < count:
            found[count] = {size: _all_reduce_s(size, group, device) for size in ALL_REDUCE_BYTES}
            dist.destroy_process_group(group)
    return found


def _all_reduce_s(size_bytes: int, group: Any, device: torch.device) -> float:
    gradients = torch.zeros(size_bytes // 4, device=device)
    took_s = []
    for _ in range(WARM_UP_STEPS + STEPS):
        dist.barrier(group)
        began_s = _now_s()
        dist.all_reduce(gradients, group=group)
        took_s.append(_now_s() - began_s)
    return statistics.median(took_s[WARM_UP_STEPS:])


def _now_s() -> float:
    """The clock once the device has done all it was asked for."""
    if torch.cuda.is_available():
        torch.cuda.synchronize()
    return time.perf_counter()


def _draws() -> tuple[Any, ...]:
    """Where all random numbers are."""
    numpy = sys.modules.get("numpy")
    return (
        torch.get_rng_state(),
        torch.cuda.get_rng_state_all() if torch.cuda.is_available() else [],
        random.getstate(),
        numpy.random.get_state() if numpy else None,
    )


def _draw_again(draws: tuple[Any, ...]) -> None:
    on_cpu, on_devices, of_python, of_numpy = draws
    torch.set_rng_state(on_cpu)
    torch.cuda.set_rng_state_all(on_devices)
    random.setstate(of_python)
    if of_numpy is not None:
        sys.modules["numpy"].random.set_state(of_numpy)
