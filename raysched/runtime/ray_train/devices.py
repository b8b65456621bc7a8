"""Where `ray.train.torch` takes a worker's model to."""

from __future__ import annotations


def use_what_is_there() -> None:
    """Have it use the CPU where there is no CUDA: it goes by the GPUs that Ray was told of, which
    may be simulated."""
    import torch
    from ray.air._internal import device_manager
    from ray.air._internal.device_manager.cpu import CPUTorchDeviceManager

    if not torch.cuda.is_available():
        device_manager._torch_device_manager = CPUTorchDeviceManager()  # type: ignore[assignment]
