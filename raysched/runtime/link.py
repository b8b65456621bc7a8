"""Calls to the scheduler actor that outlive its restarts."""

from __future__ import annotations

import asyncio
import logging
import socket
import time
from typing import Any

import ray
from ray._private.services import canonicalize_bootstrap_address_or_die
from ray.exceptions import RayActorError, RayTaskError

from raysched.errors import NotConnected
from raysched.runtime.protocol import NAMESPACE, SCHEDULER_NAME

PATIENCE_S = 60.0  # a restarted scheduler is back within seconds; this is for a slow machine
ANSWER_S = 5.0
_PAUSE_S = 0.2


class NoScheduler(NotConnected):
    """No scheduler runs on this Ray cluster, or it did not come back."""

    def __init__(self) -> None:
        super().__init__(
            "no scheduler runs on this Ray cluster; start one with `raysched start` "
            "or raysched.connect()"
        )


def scheduler() -> Any:
    """Return the scheduler's actor handle.

    The namespace is always named: a driver has a random one of its own.

    Raises:
        NoScheduler: There is none.
        NotConnected: This process has left its Ray cluster. (Ray would look for another one.)
    """
    if not ray.is_initialized():
        raise NotConnected("this process is not connected to a Ray cluster")
    try:
        return ray.get_actor(SCHEDULER_NAME, namespace=NAMESPACE)
    except ValueError:
        raise NoScheduler from None


def join(address: str | None = None) -> None:
    """Connect this process to a Ray cluster (by default the one that runs here), unless it is.

    Raises:
        NotConnected: None answers. (Ray itself would start one.)
    """
    if ray.is_initialized():
        return
    try:
        found = canonicalize_bootstrap_address_or_die(address or "auto")
        host, port = found.rsplit(":", 1)
        # Ray itself waits a minute for an address that is dead, and then ends the process.
        socket.create_connection((host, int(port)), ANSWER_S).close()
        ray.init(
            address=found,
            namespace=NAMESPACE,
            log_to_driver=False,
            logging_level=logging.WARNING,
        )
    except (OSError, ValueError) as error:
        raise NotConnected(
            f"no Ray cluster answers ({str(error).splitlines()[0]}); start one with "
            "`ray start --head --labels pool=head`, or name its --address"
        ) from None


def call(method: str, *arguments: Any) -> Any:
    """Call the scheduler, from a driver or a training worker.

    Raises:
        NoScheduler: It does not answer within `PATIENCE_S`.
        Exception: What the method itself raised.
    """
    deadline_s = time.monotonic() + PATIENCE_S
    while True:
        try:
            return ray.get(getattr(scheduler(), method).remote(*arguments))
        except RayTaskError as error:
            raise _cause(error) from None
        except (RayActorError, NoScheduler):
            if time.monotonic() > deadline_s:
                raise NoScheduler from None
        time.sleep(_PAUSE_S)


def say(method: str, *arguments: Any) -> None:
    """Tell the scheduler something, without waiting until it has heard, if it is there."""
    try:
        getattr(scheduler(), method).remote(*arguments)
    except NoScheduler:
        call(method, *arguments)


async def acall(method: str, *arguments: Any) -> Any:
    """As `call`, from an asynchronous actor: its loop runs on while this waits."""
    deadline_s = time.monotonic() + PATIENCE_S
    while True:
        try:
            return await getattr(scheduler(), method).remote(*arguments)
        except RayTaskError as error:
            raise _cause(error) from None
        except (RayActorError, NoScheduler):
            if time.monotonic() > deadline_s:
                raise NoScheduler from None
        await asyncio.sleep(_PAUSE_S)


def _cause(error: RayTaskError) -> BaseException:
    return error.cause if isinstance(error.cause, BaseException) else error
