"""raysched: a cluster manager for elastic training on Ray.

Importing it never imports or starts Ray: names are fetched when they are first used.
"""

from __future__ import annotations

from importlib import import_module
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from raysched.api import (
        Connection,
        JobHandle,
        cancel,
        connect,
        explain,
        set_policy,
        status,
        stop,
        submit,
    )
    from raysched.errors import PromisesAtStake
    from raysched.jobs import InvalidJob, Utility
    from raysched.runtime.interface import train
    from raysched.runtime.loop import batches, epochs, prepare, report
    from raysched.runtime.parameter_servers.trainer import ParameterServerTrainer
    from raysched.runtime.trainer import TorchTrainer

_HOMES = {
    "Connection": "raysched.api",
    "InvalidJob": "raysched.jobs",
    "JobHandle": "raysched.api",
    "ParameterServerTrainer": "raysched.runtime.parameter_servers.trainer",
    "PromisesAtStake": "raysched.errors",
    "TorchTrainer": "raysched.runtime.trainer",
    "Utility": "raysched.jobs",
    "batches": "raysched.runtime.loop",
    "cancel": "raysched.api",
    "connect": "raysched.api",
    "epochs": "raysched.runtime.loop",
    "explain": "raysched.api",
    "prepare": "raysched.runtime.loop",
    "report": "raysched.runtime.loop",
    "set_policy": "raysched.api",
    "status": "raysched.api",
    "stop": "raysched.api",
    "submit": "raysched.api",
    "train": "raysched.runtime.interface",
}

__all__ = [
    "Connection",
    "InvalidJob",
    "JobHandle",
    "ParameterServerTrainer",
    "PromisesAtStake",
    "TorchTrainer",
    "Utility",
    "batches",
    "cancel",
    "connect",
    "epochs",
    "explain",
    "prepare",
    "report",
    "set_policy",
    "status",
    "stop",
    "submit",
    "train",
]


def __getattr__(name: str) -> Any:
    if name not in _HOMES:
        raise AttributeError(f"module 'raysched' has no attribute {name!r}")
    return getattr(import_module(_HOMES[name]), name)
