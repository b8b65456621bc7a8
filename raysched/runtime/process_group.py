"""How the workers of one grant become one torch process group.

Ray's own torch backend makes the controller import torch (1.5 CPU-seconds and 190 MB for each
job) and asks for CUDA wherever a worker has a GPU; this one decides on the worker, where the
devices are.
"""

from __future__ import annotations

import os
from dataclasses import dataclass
from typing import Any

import ray
import ray.train
from ray.train.backend import Backend, BackendConfig

from raysched.runtime.ray_train.devices import use_what_is_there

# A lost peer is seen by its closed socket; this is for one that hangs.
TIMEOUT_S = 60


def own_address() -> tuple[str, int]:
    """An address and a free port of this worker, for the others to meet at."""
    import socket

    with socket.socket() as probe:
        probe.bind(("", 0))
        port: int = probe.getsockname()[1]
    return ray.util.get_node_ip_address(), port


def join(rank: int, world_size: int, address: str, port: int) -> None:
    """Join the process group: nccl where CUDA is, gloo elsewhere. Leaves one that it is in."""
    from datetime import timedelta

    import torch
    import torch.distributed as dist

    context = ray.train.get_context()
    os.environ |= {
        "MASTER_ADDR": address,
        "MASTER_PORT": str(port),
        "RANK": str(rank),
        "WORLD_SIZE": str(world_size),
        "LOCAL_RANK": str(context.get_local_rank()),
        "LOCAL_WORLD_SIZE": str(context.get_local_world_size()),
        "NODE_RANK": str(context.get_node_rank()),
    }
    use_what_is_there()
    if torch.cuda.is_available():
        from ray.train.torch import get_device

        torch.cuda.set_device(get_device())
    if dist.is_initialized():
        dist.destroy_process_group()
    dist.init_process_group(
        "nccl" if torch.cuda.is_available() else "gloo",
        init_method="env://",
        timeout=timedelta(seconds=TIMEOUT_S),
    )


class _Workers(Backend):
    share_cuda_visible_devices = True

    def on_start(self, worker_group: Any, backend_config: BackendConfig) -> None:
        """Have all workers join; nothing is left at the end: their processes are killed."""
        address, port = worker_group.execute_single(0, own_address)
        size = len(worker_group)
        ray.get(
            [
                worker_group.execute_single_async(rank, join, rank, size, address, port)
                for rank in range(size)
            ]
        )


@dataclass
class ProcessGroup(BackendConfig):
    """Stands where Ray's `TorchConfig` does; `backend` is what `TorchTrainer` looks at."""

    backend: str = "nccl or gloo"

    @property
    def backend_cls(self) -> type[Backend]:
        """What starts it."""
        return _Workers

    @property
    def train_func_context(self) -> Any:
        """What surrounds the training function: its thread gets its CUDA device."""
        from ray.train.torch.config import TorchConfigContextManager

        return TorchConfigContextManager
