"""How fast this worker is beside the others of its job, seen while they train.

Workers wait for each other in the all-reduce of gradients, and would all seem equally fast: what
counts is the time of a step without that wait.
"""

from __future__ import annotations

import math
import time
from typing import Any

import torch
import torch.distributed as dist
from torch.distributed.algorithms.ddp_comm_hooks.default_hooks import allreduce_hook

from raysched.runtime import shares
from raysched.runtime.parallel import group_device

PASSED_OVER_STEPS = 2
"""At the start of an epoch: the first may have to get ready, and in the second one after workers
have changed, `DistributedDataParallel` has them agree on something before gradients are there."""

LOOKED_AT_STEPS = 200
"""After those: enough, and not more to keep."""


class Pace:
    """Measures a worker's speed, and agrees with the others on the speeds of all."""

    def __init__(self) -> None:
        self._speed: float | None = None  # samples a second
        self._look_anew()

    def _look_anew(self) -> None:
        self._marks: list[Any] = []  # the ends of the last step passed over, and the newest
        self._waits: list[tuple[Any, Any]] = []  # where one began and ended
        self._samples = self._steps = 0

    def average(self, group: Any, bucket: Any) -> torch.futures.Future[torch.Tensor]:
        """Start to average a bucket of gradients over the workers of a process group.

        When the last one comes, this worker has computed all that it has to in this step.
        """
        if not bucket.is_last() or self._steps >= PASSED_OVER_STEPS + LOOKED_AT_STEPS:
            return allreduce_hook(group, bucket)
        began = _mark()

        def note(future: torch.futures.Future[torch.Tensor]) -> torch.Tensor:
            self._waits.append((began, _mark()))
            return future.value()

        return allreduce_hook(group, bucket).then(note)

    def step_done(self, samples: int) -> None:
        """The loop has taken another step, with so many samples on this worker."""
        self._steps += 1
        if self._steps <= PASSED_OVER_STEPS:
            self._waits.clear()
            self._marks = [_mark()] * 2
        elif self._steps <= PASSED_OVER_STEPS + LOOKED_AT_STEPS:
            self._samples += samples
            self._marks[1] = _mark()

    def agree(self, gpu_rate: float) -> tuple[float, ...]:
        """The speeds of all workers, by rank and the same on all of them; all call it, between two
        epochs. `gpu_rate` of this worker counts until it was seen."""
        if self._samples:
            waited_s = sum(_seconds(*wait) for wait in self._waits)
            busy_s = _seconds(*self._marks) - waited_s
            self._speed = shares.smoothed(self._speed, self._samples / busy_s)
        self._look_anew()
        own = [math.nan if self._speed is None else self._speed, gpu_rate]
        told = torch.tensor(own, dtype=torch.float64, device=group_device())
        gathered = [torch.empty_like(told) for _ in range(dist.get_world_size())]
        dist.all_gather(gathered, told)
        pairs = [tuple(pair.tolist()) for pair in gathered]
        seen = [None if math.isnan(speed) else speed for speed, _ in pairs]
        return shares.completed(seen, [rate for _, rate in pairs])


def _mark() -> Any:
    """A point in time, of the device's own where kernels run behind the program."""
    if not torch.cuda.is_available():
        return time.perf_counter()
    event = torch.cuda.Event(enable_timing=True)
    event.record()
    return event


def _seconds(earlier: Any, later: Any) -> float:
    if not torch.cuda.is_available():
        return float(later - earlier)
    later.synchronize()
    return float(earlier.elapsed_time(later)) / 1e3
