"""What a training function calls in a worker beside parameter servers.

The words are those of `raysched.runtime.loop`, which sends them here, and so is the function: only
`optimizer.step()` now pushes the gradients to the servers, and takes the parameters that come back.
"""

from __future__ import annotations

import pickle
from collections.abc import Callable, Iterator
from typing import Any

import numpy as np
import ray
import torch
from ray.exceptions import RayActorError

from raysched.jobs import InvalidJob
from raysched.runtime import device_time
from raysched.runtime.assignment import Assignment
from raysched.runtime.parallel import Replicated
from raysched.runtime.parameter_servers.protocol import First, Round, RoundDone
from raysched.runtime.parameter_servers.shards import Layout, Numbers, settings_of
from raysched.runtime.processes import this_process
from raysched.runtime.seeding import seed_all

ELEMENTWISE = (
    torch.optim.SGD,
    torch.optim.Adam,
    torch.optim.AdamW,
    torch.optim.Adamax,
    torch.optim.NAdam,
    torch.optim.RAdam,
    torch.optim.Adagrad,
    torch.optim.Adadelta,
    torch.optim.RMSprop,
)
"""Optimizers that treat each number by itself: what a server holds may begin within a tensor."""


class Loop:
    """The epochs of one worker: `coordinator` deals the chunks, and knows the servers."""

    def __init__(self, worker: int, assignment: Assignment, chunks: int, coordinator: Any) -> None:
        self._worker = worker
        self._assignment = assignment
        self._chunks = chunks
        self._coordinator = coordinator
        self._metrics: dict[str, float] = {}
        self._broken = False  # a server of this round is lost: what is left of it is skipped
        self._told: list[dict[str, Any]] | None = None  # the servers' settings, as far as known

    def report(self, metrics: dict[str, float]) -> None:
        """Set metrics of the running epoch."""
        self._metrics |= metrics

    def epochs(
        self, model: torch.nn.Module, optimizer: torch.optim.Optimizer, *state: Any
    ) -> Iterator[int]:
        """Yield the epochs in which this worker takes part; one is yielded again where a server
        was lost in it."""
        self._model = model.module if isinstance(model, Replicated) else model
        self._optimizer, self._state = optimizer, state
        self._layout = layout_of(self._model, optimizer)
        self._parameters = [p for group in optimizer.param_groups for p in group["params"]]
        optimizer.step = self._step  # type: ignore[method-assign]
        first = None
        if ray.get(self._coordinator.is_new.remote()):
            first = First(_row([p.detach() for p in self._parameters]), self.carried())
        attach = self._coordinator.attach
        ray.get(attach.remote(self._worker, this_process(), self._layout, first))
        done: RoundDone | None = None
        while (running := self._next_round(done)) is not None:
            self._begin(running, done)
            yield running.epoch
            done = RoundDone(running.number, running.epoch, self._metrics)

    def batches(self, samples: int) -> Iterator[tuple[torch.Tensor, float]]:
        """Yield `(indices, 1.0)` for each mini-batch of the chunks that this worker is given."""
        number, epoch = self._round.number, self._round.epoch
        order = torch.randperm(samples, generator=torch.Generator().manual_seed(epoch))
        chunks = order.tensor_split(self._chunks)
        chunk = self._next_chunk(number, None)
        while chunk is not None:
            for indices in chunks[chunk].split(self._assignment.batch_size):
                device_time.hold(self._assignment, len(indices))
                yield indices, 1.0
                if self._broken:
                    return
            chunk = self._next_chunk(number, chunk)

    def carried(self) -> bytes:
        """What this worker keeps for itself: buffers and other state that no server holds."""
        rest = {
            name: value.cpu()
            for name, value in self._model.state_dict().items()
            if name not in self._layout.names
        }
        return pickle.dumps((rest, self._settings(), *(s.state_dict() for s in self._state)))

    def _next_round(self, done: RoundDone | None) -> Round | None:
        running: Round | None = ray.get(self._coordinator.next_round.remote(self._worker, done))
        return running

    def _next_chunk(self, number: int, finished: int | None) -> int | None:
        chunk: int | None = ray.get(
            self._coordinator.next_chunk.remote(self._worker, number, finished)
        )
        return chunk

    def _begin(self, running: Round, done: RoundDone | None) -> None:
        self._round, self._metrics, self._broken, self._told = running, {}, False, None
        if done is None or (done.number + 1, done.epoch + 1) != (running.number, running.epoch):
            self._take_over(ray.get(self._coordinator.carried.remote()))
        self._take([server.pull.remote(running.loaded) for server in running.servers])
        seed_all(running.seed + 1_000_003 * running.epoch + self._worker)

    def _take_over(self, carried: bytes) -> None:
        rest, settings, *states = pickle.loads(carried)
        self._model.load_state_dict(rest, strict=False)
        for group, saved in zip(self._optimizer.param_groups, settings, strict=True):
            group.update(saved)
        for stateful, saved in zip(self._state, states, strict=True):
            stateful.load_state_dict(saved)

    def _step(self, closure: Callable[[], Any] | None = None) -> Any:
        """In place of the optimizer's own: push, and take what comes back."""
        loss = None
        if closure is not None:
            with torch.enable_grad():
                loss = closure()
        if self._broken:
            return loss
        gradient = _row(
            [torch.zeros_like(p) if p.grad is None else p.grad for p in self._parameters]
        )
        settings = self._settings()
        told, self._told = self._told, settings
        news = None if settings == told else settings
        servers = zip(self._round.servers, self._round.ranges, strict=True)
        loaded = self._round.loaded
        self._take([s.push.remote(loaded, gradient[a:b], news) for s, (a, b) in servers])
        return loss

    def _take(self, answers: list[Any]) -> None:
        """Write the servers' parameters into the model."""
        try:
            parts: list[Numbers | None] = ray.get(answers)
        except RayActorError:
            self._broken = True
            ray.get(self._coordinator.server_lost.remote(self._round.number))
            return
        held = [part for part in parts if part is not None]
        if len(held) < len(parts):
            self._broken = True
            return
        row = torch.from_numpy(np.concatenate(held))
        with torch.no_grad():
            for parameter, (start, end) in zip(self._parameters, self._layout.ranges, strict=True):
                parameter.copy_(row[start:end].reshape(parameter.shape))

    def _settings(self) -> list[dict[str, Any]]:
        return settings_of(self._optimizer.param_groups)


def layout_of(model: torch.nn.Module, optimizer: torch.optim.Optimizer) -> Layout:
    """Where the parameters that the optimizer trains stand in one row.

    Raises:
        InvalidJob: The optimizer looks at whole tensors, or trains what is not the model's.
    """
    if type(optimizer) not in ELEMENTWISE:
        raise InvalidJob(
            "optimizer",
            f"{type(optimizer).__name__} cannot be divided among servers; use one of "
            + ", ".join(known.__name__ for known in ELEMENTWISE),
        )
    names = {id(parameter): name for name, parameter in model.named_parameters()}
    groups = [(g, p) for g, group in enumerate(optimizer.param_groups) for p in group["params"]]
    if not all(id(parameter) in names for _, parameter in groups):
        raise InvalidJob("optimizer", "trains parameters that the model does not have")
    return Layout(
        names=tuple(names[id(parameter)] for _, parameter in groups),
        shapes=tuple(tuple(parameter.shape) for _, parameter in groups),
        groups=tuple(group for group, _ in groups),
        settings=tuple(settings_of(optimizer.param_groups)),
        optimizer=type(optimizer).__name__,
    )


def _row(tensors: list[torch.Tensor]) -> Numbers:
    row: Numbers = torch.cat([t.reshape(-1).to("cpu", torch.float32) for t in tensors]).numpy()
    return row
