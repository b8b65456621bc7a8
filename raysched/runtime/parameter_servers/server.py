"""A parameter server: holds a range of the parameters, and steps at each gradient (002 §III-B)."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from itertools import chain
from typing import TYPE_CHECKING, Any

import numpy as np

from raysched.runtime.parameter_servers import checkpoints
from raysched.runtime.parameter_servers.protocol import Saved
from raysched.runtime.parameter_servers.shards import Layout, Numbers, Piece, Range, cut, fresh

if TYPE_CHECKING:  # whoever starts servers must stay small
    import torch


class ParameterServer:
    """The actor. One call at a time: gradients are applied in the order of their arrival."""

    def __init__(self) -> None:
        self._loaded = -1
        self._pieces: list[tuple[Piece, torch.Tensor]] = []
        self._optimizer: Any = None

    def ping(self) -> None:
        """Answer when it is up: torch, and what it imports at a first step only, is there."""
        import torch

        torch.optim.SGD([torch.nn.Parameter(torch.zeros(1))]).step()

    def load_first(self, loaded: int, layout: Layout, held: Range, values: Numbers) -> None:
        """Hold a range of parameters that nobody has trained yet."""
        self._hold(loaded, layout, fresh(values, layout, held))

    def load_saved(self, loaded: int, layout: Layout, held: Range, saved: Saved) -> None:
        """Hold a range as it was at the boundary of a checkpoint."""
        self._hold(loaded, layout, cut(checkpoints.read_pieces(saved, layout), held))

    def load(self, loaded: int, layout: Layout, held: Range, *exported: tuple[Piece, ...]) -> None:
        """Hold a range of what all servers held before."""
        self._hold(loaded, layout, cut(chain(*exported), held))

    def push(
        self, loaded: int, gradient: Numbers, settings: Sequence[Mapping[str, Any]] | None
    ) -> Numbers | None:
        """Step with a worker's gradient of the held range; the parameters after that. None where
        the gradient was of parameters before the last loading: it is dropped.

        `settings`: of the optimizer's groups, where the worker's are others than at its last step.
        """
        import torch

        if loaded != self._loaded:
            return None
        if self._optimizer is not None:
            if settings is not None:
                self._set(settings)
            at = 0
            for _, tensor in self._pieces:
                tensor.grad = torch.from_numpy(gradient[at : at + len(tensor)].copy())
                at += len(tensor)
            self._optimizer.step()
        return self._values()

    def pull(self, loaded: int) -> Numbers | None:
        """The parameters of the held range; None where others were loaded since."""
        return self._values() if loaded == self._loaded else None

    def export(self) -> tuple[Piece, ...]:
        """All that it holds."""
        return tuple(self._exported(piece, tensor) for piece, tensor in self._pieces)

    def carried(self, saved: Saved, layout: Layout) -> bytes:
        """What workers kept for themselves at the boundary of a checkpoint."""
        return checkpoints.read_carried(saved, layout)

    def save(
        self, saved: Saved, layout: Layout, carried: bytes, *exported: tuple[Piece, ...]
    ) -> None:
        """Write what all servers hold as the checkpoint of a boundary."""
        checkpoints.write(saved, layout, carried, list(chain(*exported)))

    def _hold(self, loaded: int, layout: Layout, pieces: tuple[Piece, ...]) -> None:
        import torch

        self._loaded, self._optimizer = loaded, None
        self._pieces = [(p, torch.nn.Parameter(torch.from_numpy(p.values.copy()))) for p in pieces]
        if not pieces:
            return
        self._optimizer = getattr(torch.optim, layout.optimizer)(
            [{**layout.settings[p.group], "params": [tensor]} for p, tensor in self._pieces]
        )
        for piece, tensor in self._pieces:
            kept = {name: torch.from_numpy(kept.copy()) for name, kept in piece.kept.items()}
            counts = {name: torch.tensor(count) for name, count in piece.counts.items()}
            if kept or counts:
                self._optimizer.state[tensor] = kept | counts

    def _set(self, settings: Sequence[Mapping[str, Any]]) -> None:
        for group, (piece, _) in zip(self._optimizer.param_groups, self._pieces, strict=True):
            group.update(settings[piece.group])

    def _values(self) -> Numbers:
        parts = [tensor.detach().numpy() for _, tensor in self._pieces]
        return np.concatenate(parts) if parts else np.zeros(0, np.float32)

    def _exported(self, piece: Piece, tensor: torch.Tensor) -> Piece:
        state = {k: v for k, v in self._optimizer.state[tensor].items() if v is not None}
        return Piece(
            piece.group,
            piece.start,
            tensor.detach().numpy().copy(),
            {name: kept.numpy().copy() for name, kept in state.items() if kept.ndim},
            {name: float(count) for name, count in state.items() if not count.ndim},
        )
