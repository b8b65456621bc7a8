"""The Python API: connect to the scheduler of a Ray cluster, and talk to it."""

from __future__ import annotations

import logging
import threading
from collections.abc import Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Any

from policies import registry as policy_registry
from raysched.runtime import launch, link
from raysched.runtime.ray_train import check_ray_version

if TYPE_CHECKING:
    from raysched.runtime.parameter_servers.trainer import ParameterServerTrainer
    from raysched.runtime.trainer import TorchTrainer

logger = logging.getLogger(__name__)

DEFAULT_POLICY = "aryl"


@dataclass(frozen=True, slots=True)
class Connection:
    """A scheduler that runs: its process, its journal, and what it decides by."""

    pid: int
    journal: str
    policy: str
    loaning: str
    started: bool
    """Whether this call started it, or found it running."""


def connect(
    policy: str | None = None,
    loaning: str | None = None,
    *,
    address: str | None = None,
    journal: str | Path | None = None,
    policy_parameters: Mapping[str, Any] | None = None,
    loaning_parameters: Mapping[str, Any] | None = None,
) -> Connection:
    """Find the scheduler of this Ray cluster, or start it (by default under `aryl`).

    A running scheduler is reused, never doubled, and keeps its policy: `set_policy` switches it.
    Without an initialised Ray this connects to `address`, or to the cluster that Ray finds.
    Raises `NotConnected`, and `PolicyError` for an unknown policy.
    """
    check_ray_version()
    if policy is not None:
        policy_registry.load(policy, policy_parameters or {})
    link.join(address)
    try:
        link.scheduler()
    except link.NoScheduler:
        launch.start(journal)
        link.call(
            "set_policy",
            policy or DEFAULT_POLICY,
            loaning,
            dict(policy_parameters or {}),
            None if loaning_parameters is None else dict(loaning_parameters),
        )
        found = status()
        _warn_without_training_servers(found)
        return _connection(found, started=True)
    found = status()
    if policy is not None and policy != found["policy"]:
        logger.warning(
            "the scheduler runs policy %s; raysched.set_policy switches it", found["policy"]
        )
    return _connection(found, started=False)


def _connection(found: Mapping[str, Any], *, started: bool) -> Connection:
    pinged = link.call("ping")
    return Connection(pinged["pid"], pinged["journal"], found["policy"], found["loaning"], started)


def set_policy(
    policy: str | None = None,
    loaning: str | None = None,
    *,
    policy_parameters: Mapping[str, Any] | None = None,
    loaning_parameters: Mapping[str, Any] | None = None,
    break_promises: bool = False,
) -> dict[str, Any]:
    """Switch the policy, the loaning or both on the live cluster. Running jobs run on.

    None keeps what is; a new policy brings its own default loaning unless one is named. What the
    policy before promised (admitted deadlines, schedules) is kept on GPUs reserved for it, unless
    `break_promises`.

    Raises:
        PolicyError: The policy or a parameter is unknown, or it cannot decide on this cluster.
        PromisesAtStake: Some promise could not be kept; says which, and nothing is switched.
    """
    return dict(
        _ask(
            "set_policy",
            policy,
            loaning,
            None if policy_parameters is None else dict(policy_parameters),
            None if loaning_parameters is None else dict(loaning_parameters),
            break_promises,
        )
    )


def status() -> dict[str, Any]:
    """Servers, jobs, loans and demand now, as plain data."""
    return dict(_ask("status"))


def explain(job: str) -> dict[str, Any]:
    """Why a job stands where it stands, with numbers."""
    return dict(_ask("explain", job))


def cancel(job: str) -> None:
    """End a job; what it held is given back."""
    _ask("cancel", job)


def journal_path() -> Path:
    """The journal of the running scheduler, whole in its file. On the head's disk."""
    return Path(_ask("export"))


def stop() -> None:
    """End the scheduler, and remove its placement groups (which ends what runs in them)."""
    link.join()
    launch.stop()


class JobHandle:
    """A job that trains in the background of this process."""

    def __init__(self, trainer: TorchTrainer | ParameterServerTrainer) -> None:
        self._trainer = trainer
        self._result: Any = None
        self._error: BaseException | None = None
        self._thread = threading.Thread(target=self._run, name="raysched-job", daemon=True)
        self._thread.start()

    def done(self) -> bool:
        """Whether the job is over."""
        return not self._thread.is_alive()

    def result(self, timeout_s: float | None = None) -> Any:
        """Wait for the end; Ray Train's `Result`. Raises what the job raised, or `TimeoutError`."""
        self._thread.join(timeout_s)
        if self._thread.is_alive():
            raise TimeoutError(f"the job still runs after {timeout_s} s")
        if self._error is not None:
            raise self._error
        return self._result

    def _run(self) -> None:
        try:
            self._result = self._trainer.fit()
        except BaseException as error:  # handed to whoever asks for the result
            self._error = error


def submit(trainer: TorchTrainer | ParameterServerTrainer) -> JobHandle:
    """Run `trainer.fit()` in the background: several jobs can share one driver."""
    return JobHandle(trainer)


def _ask(method: str, *arguments: Any) -> Any:
    """Call the scheduler; at once an error where there is none to wait for."""
    link.join()
    link.scheduler()
    return link.call(method, *arguments)


def _warn_without_training_servers(found: Mapping[str, Any]) -> None:
    if not any(server["pool"] == "training" for server in found["servers"]):
        logger.warning(
            "no server with GPUs carries the label pool=training: nothing can train; "
            "start nodes with `ray start --labels pool=training`"
        )
