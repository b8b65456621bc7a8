"""Training by what is trained alone: no loop, and no number of workers or GPUs (001 §3, Table 1).

raysched.train(
    model=build_model,
    data=load_data,
    loss=torch.nn.functional.cross_entropy,
    optimizer=lambda parameters: torch.optim.Adam(parameters, lr=3e-3),
    epochs=20,
    batch_size=256,
    deadline="2h",
)
"""

from __future__ import annotations

from collections.abc import Callable, Iterator
from dataclasses import dataclass
from typing import Any

import torch
from ray.train import Result
from torch.utils.data import Dataset, TensorDataset, default_collate

from raysched.jobs import InvalidJob
from raysched.runtime import link, loop
from raysched.runtime.parallel import device
from raysched.runtime.trainer import TorchTrainer


@dataclass(frozen=True, slots=True)
class _Job:
    """What is trained: each function runs on every worker."""

    model: Callable[[], torch.nn.Module]
    data: Callable[[], Dataset[Any]]
    loss: Callable[[Any, Any], torch.Tensor]
    optimizer: Callable[[Iterator[torch.nn.Parameter]], torch.optim.Optimizer]


def train(
    *,
    model: Callable[[], torch.nn.Module],
    data: Callable[[], Dataset[Any]],
    loss: Callable[[Any, Any], torch.Tensor],
    optimizer: Callable[[Iterator[torch.nn.Parameter]], torch.optim.Optimizer],
    epochs: int,
    batch_size: int,
    deadline: str | float | None = None,
    name: str = "",
    **wishes: Any,
) -> Result:
    """Train a model on as many workers as the scheduler gives, from one to all of the cluster.

    Args:
        model: Makes the model.
        data: Loads the data set: by index, pairs of an input and a target.
        loss: The mean loss of a batch, of what the model returns and the targets.
        optimizer: Makes the optimizer of these parameters; it has the learning rate.
        epochs: Passes over the data after which it is done.
        batch_size: Samples in a step, of all workers together, at any number of workers.
        deadline: By when it shall be done after submission: `"2h"`, `"90s"`, or seconds.
        name: How it is called in tables; the name of `model` if left out.
        wishes: What else a `TorchTrainer` takes.

    Returns:
        Ray's result: the metric `loss` is the mean of rank 0 over the last epoch, and `state.pt` in
        the checkpoint holds under `"state"` the states of the model and of the optimizer.

    Raises:
        InvalidJob: An argument cannot be, or the cluster can never run it.
        NoScheduler: None runs on this Ray cluster.
        ray.train.TrainingFailedError: One of the functions raised; its traceback is told.
    """
    for argument, function in (("model", model), ("data", data), ("optimizer", optimizer)):
        if isinstance(function, torch.nn.Module) or not callable(function):
            raise InvalidJob(argument, "is made on each worker; give a function that returns it")
    link.join()
    link.scheduler()
    trainer = TorchTrainer(
        _train,
        train_loop_config={"job": _Job(model, data, loss, optimizer)},
        epochs=epochs,
        batch_size=batch_size,
        deadline=deadline,
        name=name or getattr(model, "__name__", "job"),
        **{"workers": (1, _most(batch_size, wishes.get("gpus_per_worker", 1))), **wishes},
    )
    return trainer.fit()


def _most(batch_size: int, gpus_per_worker: int) -> int:
    """Workers that the cluster has GPUs for, and the batch a sample for each."""
    gpus: int = sum(server["gpus"] for server in link.call("status")["servers"])
    return max(1, min(gpus // gpus_per_worker, batch_size))


def _train(config: dict[str, _Job]) -> None:
    job = config["job"]
    data = job.data()
    model = loop.prepare(job.model())
    optimizer = job.optimizer(model.parameters())
    for _epoch in loop.epochs(model, optimizer):
        losses = []
        for indices, weight in loop.batches(len(data)):  # type: ignore[arg-type]
            inputs, targets = (part.to(device()) for part in _batch(data, indices))
            loss = job.loss(model(inputs), targets)
            optimizer.zero_grad()
            (weight * loss).backward()
            optimizer.step()
            losses.append(loss.detach())
        loop.report(loss=float(torch.stack(losses).mean()))


def _batch(data: Dataset[Any], indices: torch.Tensor) -> Any:
    if isinstance(data, TensorDataset):
        return data[indices]
    return default_collate([data[index] for index in indices.tolist()])
