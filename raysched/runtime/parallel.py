"""A model on this worker's device whose gradients are averaged over however many workers there are.

`DistributedDataParallel` is bound to the process group that it was made in. Here it is made anew
when the group is, around the same parameters, while whoever holds the model keeps holding it.
"""

from __future__ import annotations

import gc
import weakref
from collections.abc import Callable, Iterator
from contextlib import ExitStack, contextmanager, nullcontext
from typing import Any, TypeAlias

import torch
import torch.distributed as dist
from torch.nn.parallel import DistributedDataParallel

from raysched.runtime.parameter_servers.worker import current_loop


def device() -> torch.device:
    """Where this worker trains."""
    if not torch.cuda.is_available():
        return torch.device("cpu")
    if current_loop() is not None:  # no worker of Ray Train's: its GPU is the only one it sees
        return torch.device("cuda")
    from ray.train.torch import get_device

    found: torch.device = get_device()
    return found


def group_device() -> torch.device:
    """Where the process group moves bytes."""
    return device() if dist.get_backend() == "nccl" else torch.device("cpu")


Average: TypeAlias = Callable[[Any, Any], torch.futures.Future[torch.Tensor]]
"""Starts to average, over a process group, a `torch.distributed.GradBucket`."""


class Replicated(torch.nn.Module):
    """Stands for a model that all workers train; `module` is the model itself.

    `average`, where given, is what averages their gradients.
    """

    def __init__(self, module: torch.nn.Module, average: Average | None = None) -> None:
        super().__init__()
        self.module = module
        self._average = average
        self._parallel = [module]  # in a list: it is no part of the model

    def forward(self, *inputs: Any, **named: Any) -> Any:
        """The model's own; its backward pass averages gradients over the workers."""
        return self._parallel[0](*inputs, **named)

    @contextmanager
    def without_all_reduce(self) -> Iterator[None]:
        """Have each worker keep its gradients to itself."""
        inner = self._parallel[0]
        with inner.no_sync() if isinstance(inner, DistributedDataParallel) else nullcontext():
            yield

    def leave_group(self) -> None:
        """Let go of the process group, before that is destroyed."""
        old = weakref.ref(self._parallel[0])
        self._parallel[0] = self.module
        if old() is not self.module and old() is not None:
            gc.collect()  # its hooks on the parameters must not outlive it

    def join_group(self, group: Any = None) -> None:
        """Take rank 0's parameters and buffers over, and average gradients from now on, among the
        workers of a process group: by default of all that are there now."""
        if dist.get_world_size(group) > 1:
            place = next(self.module.parameters()).device
            wrapped = DistributedDataParallel(
                self.module,
                device_ids=[place] if place.type == "cuda" else None,
                process_group=group,
            )
            if (average := self._average) is not None:
                wrapped.register_comm_hook(None, lambda _, bucket: average(group, bucket))
            self._parallel[0] = wrapped


_replicated: list[Replicated] = []


def replicate(module: torch.nn.Module, average: Average | None = None) -> Replicated:
    """Have a model trained by all workers; those that join get it from the others."""
    made = Replicated(module, average)
    _replicated.append(made)
    return made


def leave_group() -> None:
    """Have every replicated model let go of the process group."""
    for model in _replicated:
        model.leave_group()


def join_group(group: Any = None) -> None:
    """Have every replicated model average over a process group: by default over all workers."""
    for model in _replicated:
        model.join_group(group)


@contextmanager
def without_all_reduce() -> Iterator[None]:
    """Have each worker keep the gradients of every replicated model to itself."""
    with ExitStack() as apart:
        for model in _replicated:
            apart.enter_context(model.without_all_reduce())
        yield


def trained_parameters() -> list[torch.nn.Parameter]:
    """What the gradients of all replicated models are of."""
    return [p for model in _replicated for p in model.parameters() if p.requires_grad]
