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
        """Whether it would not fit by what the last two have taken: memory is linear in batch."""
        if len(self._peak_bytes) < 2:
            return False
        (least, least_bytes), (most, most_bytes) = list(self._peak_bytes.items())[-2:]
        a_sample = (most_bytes - least_bytes) / (most - least)
        _, total_bytes = torch.cuda.mem_get_info()
        return most_bytes + a_sample * (batch - most) > MEMORY_SHARE * total_bytes


def measure(
    model: torch.nn.Module,
    state: Sequence[Any],
    step: Callable[[int], object],
    local_batches: Sequence[int],
) -> StepTimer:
    """Time `step` for each local batch, ascending, until one does not fit.

    `state`: all that a step changes and has a `state_dict`, the model among it; it is put back.
    """
    timer = StepTimer(local_batches)
    with put_back(state), without_all_reduce(model):
        try:
            for local_batch in timer.steps():
                step(local_batch)
        except torch.OutOfMemoryError:
            timer.out_of_memory()
    return timer


@contextlib.contextmanager
def put_back(state: Sequence[Any]) -> Iterator[None]:
    """Put state and random numbers back at the end as they are now.

    The copy is kept off the device, so that batches find as much memory as in training.
    """
    kept = io.BytesIO()
    torch.save([stateful.state_dict() for stateful in state], kept)
    draws = _draws()
    try:
        yield
    finally:
        kept.seek(0)
        saved = torch.load(kept, map_location="cpu", weights_only=False)
        for stateful, values in zip(state, saved, strict=True):
            stateful.load_state_dict(values)
            if isinstance(stateful, torch.nn.Module):
                stateful.zero_grad(set_to_none=True)
        _draw_again(draws)
        if torch.cuda.is_available():
            torch.cuda.empty_cache()


@contextlib.contextmanager
def without_all_reduce(model: torch.nn.Module) -> Iterator[None]:
    """Have each worker keep its gradients to itself."""
    if isinstance(model, torch.nn.parallel.DistributedDataParallel):
        with model.no_sync():
            yield
    else:
        yield


def weights_bytes(model: torch.nn.Module) -> int:
    """Bytes of the gradients that a step averages."""
    return sum(p.numel() * p.element_size() for p in model.parameters() if p.requires_grad)


def all_reduce_s(workers: Sequence[int], device: torch.device) -> dict[int, dict[int, float]]:
    """Median seconds of an all-reduce by workers and bytes, for groups of the first so many.

    All workers of the process group call it; the others' answers lack the groups they are not in.
    """
    found: dict[int, dict[int, float]] = {}
    for count in workers:
        group = dist.new_group(list(range(count)))
        if dist.get_rank() < count:
            found[count] = {size: _all_reduce_s(size, group, device) for size in ALL_REDUCE_BYTES}
            dist.destroy_process_group(group)
    return found


def groups_to_measure(known: Mapping[int, object], workers: int) -> tuple[int, ...]:
    """Sizes of the groups whose all-reduces a job of so many workers is to measure: powers of two,
    and all of it, without those that are known of the cluster."""
    doubled = [2**power for power in range(1, workers.bit_length()) if 2**power < workers]
    return tuple(size for size in [*doubled, workers] if size > 1 and size not in known)


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
