"""State from rank 0 to the workers that joined: any object, its tensors in their own types.

The object is pickled without its tensors; these follow in chunks, so that no more than one chunk
is held twice, however large an optimizer is.
"""

from __future__ import annotations

import io
import pickle
from collections.abc import Iterator
from typing import Any

import torch
import torch.distributed as dist

CHUNK_BYTES = 64 << 20


class _Pickler(pickle.Pickler):
    """Leaves tensors out, and says where each belongs and what it is like."""

    def __init__(self, file: io.BytesIO) -> None:
        super().__init__(file)
        self.tensors: list[torch.Tensor] = []

    def persistent_id(self, value: Any) -> Any:
        if not isinstance(value, torch.Tensor):
            return None
        self.tensors.append(value.detach())
        return value.dtype, tuple(value.shape)


class _Unpickler(pickle.Unpickler):
    """Makes room for tensors that are still to come."""

    def __init__(self, file: io.BytesIO) -> None:
        super().__init__(file)
        self.tensors: list[torch.Tensor] = []

    def persistent_load(self, like: Any) -> torch.Tensor:
        dtype, shape = like
        self.tensors.append(torch.empty(shape, dtype=dtype))
        return self.tensors[-1]


def send(value: Any, device: torch.device) -> None:
    """Rank 0's part: `value` goes to those who receive. `device`: where the process group moves
    bytes."""
    pickler = _Pickler(skeleton := io.BytesIO())
    pickler.dump(value)
    written = torch.frombuffer(bytearray(skeleton.getvalue()), dtype=torch.uint8)
    parts = [written, *pickler.tensors]
    sizes = torch.tensor([part.nbytes for part in parts], device=device)
    dist.broadcast(torch.tensor([len(parts)], device=device), 0)
    dist.broadcast(sizes, 0)
    for part in parts:
        for chunk in _chunks(part.contiguous()):
            dist.broadcast(chunk.to(device), 0)


def receive(device: torch.device) -> Any:
    """What rank 0 sends, its tensors on the CPU."""
    skeleton_bytes, *_ = _sizes(device)
    read = torch.empty(skeleton_bytes, dtype=torch.uint8)
    _fill(read, device)
    unpickler = _Unpickler(io.BytesIO(read.numpy().tobytes()))
    value = unpickler.load()
    for tensor in unpickler.tensors:
        _fill(tensor, device)
    return value


def pass_by(device: torch.device) -> None:
    """The part of those who have what rank 0 sends: all ranks have to take part."""
    for size in _sizes(device):
        for begin in range(0, size, CHUNK_BYTES):
            passing = min(CHUNK_BYTES, size - begin)
            dist.broadcast(torch.empty(passing, dtype=torch.uint8, device=device), 0)


def _sizes(device: torch.device) -> list[int]:
    """Bytes of the parts that will follow: the skeleton, and each tensor."""
    parts = torch.zeros(1, dtype=torch.int64, device=device)
    dist.broadcast(parts, 0)
    sizes = torch.zeros(int(parts), dtype=torch.int64, device=device)
    dist.broadcast(sizes, 0)
    return sizes.tolist()


def _fill(tensor: torch.Tensor, device: torch.device) -> None:
    for chunk in _chunks(tensor):
        arrived = torch.empty_like(chunk, device=device)
        dist.broadcast(arrived, 0)
        chunk.copy_(arrived)


def _chunks(tensor: torch.Tensor) -> Iterator[torch.Tensor]:
    """Flat views of a tensor's bytes: what is no number to the process group moves too."""
    flat = tensor.reshape(-1).view(torch.uint8)
    return iter(flat.split(CHUNK_BYTES)) if flat.numel() else iter(())
