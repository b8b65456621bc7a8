"""One step in several parts, where a worker's share of the global batch is more than it can hold.

The training loop treats each part as if it were a step. What its backward pass leaves is set aside
where no optimizer sees it, so that stepping changes nothing; the last part's backward pass adds all
of it up before gradients are averaged over the workers.
"""

from __future__ import annotations

import math
from collections.abc import Iterator
from contextlib import contextmanager
from functools import partial

import torch

from raysched.runtime import parallel


def in_parts(local_batch: torch.Tensor, most: int | None) -> Iterator[torch.Tensor]:
    """Yield a local batch in as many parts, about equal, as hold `most` samples each at the most.

    Gradients that the taker computes between two of them are summed: they are there, and averaged
    over the workers, after the last part's backward pass.
    """
    count = 1 if most is None else math.ceil(len(local_batch) / most)
    if count == 1:
        yield local_batch
        return
    *parts, last = local_batch.tensor_split(count)
    sums: dict[torch.nn.Parameter, torch.Tensor] = {}
    for part in parts:
        with _set_aside(sums), parallel.without_all_reduce():
            yield part
    with _added(sums):
        yield last


@contextmanager
def _set_aside(sums: dict[torch.nn.Parameter, torch.Tensor]) -> Iterator[None]:
    """Move each gradient to `sums` as soon as it is complete."""

    def move(parameter: torch.nn.Parameter) -> None:
        gradient, parameter.grad = parameter.grad, None
        if gradient is not None:
            known = sums.get(parameter)
            sums[parameter] = gradient if known is None else known.add_(gradient)

    trained = parallel.trained_parameters()
    hooks = [parameter.register_post_accumulate_grad_hook(move) for parameter in trained]
    try:
        yield
    finally:
        for hook in hooks:
            hook.remove()


@contextmanager
def _added(sums: dict[torch.nn.Parameter, torch.Tensor]) -> Iterator[None]:
    """Add what was set aside to each gradient, before the all-reduce takes it."""

    def add(parameter: torch.nn.Parameter, gradient: torch.Tensor) -> torch.Tensor:
        known = sums.pop(parameter, None)
        return gradient if known is None else known.add_(gradient)

    hooks = [parameter.register_hook(partial(add, parameter)) for parameter in list(sums)]
    try:
        yield
    finally:
        for hook in hooks:
            hook.remove()
