"""The only room that knows Ray Train's private parts; `tests/test_ray_contract.py` guards it.

Ray Train sizes its worker groups itself. Here the scheduler does: a controller starts workers in
the slots of a grant, leaves them when an epoch boundary's checkpoint is registered and the
scheduler has said that another grant stands, and then waits without workers for the next one.
Resize, preemption, lost workers and the first start are this one path:

    wait for a grant -> start workers in its slots -> train -> stop them, seen dead -> wait ...

Left out of Ray's own: its autoscaling coordinator, preemption watcher, metrics and the actors that
clean up placement groups (the scheduler owns those) and synchronise ranks (the controller does).
"""

from __future__ import annotations

import ray

from raysched.errors import UserError

RAY_VERSION = "2.60.0"
"""The version whose private parts these are."""


class UnsupportedRay(UserError):
    """This Ray is not the one that raysched knows."""


def check_ray_version() -> None:
    """Raise `UnsupportedRay` unless this is the Ray whose private parts are overridden here."""
    if ray.__version__ != RAY_VERSION:
        raise UnsupportedRay(
            f"ray {ray.__version__} is not supported; "
            f"install ray[default,serve,train]=={RAY_VERSION}"
        )
