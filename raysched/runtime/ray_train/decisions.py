"""What the controller does next: how many workers, and whether a failure is tried again."""

from __future__ import annotations

import asyncio
from dataclasses import dataclass, field
from typing import Any

from ray.exceptions import RayError, RayTaskError
from ray.train.v2._internal.exceptions import (
    WorkerGroupStartupFailedError,
    WorkerGroupStartupTimeoutError,
    WorkerHealthCheckFailedError,
    WorkerHealthCheckTimeoutError,
)
from ray.train.v2._internal.execution.callback import ReportCallback
from ray.train.v2._internal.execution.failure_handling import FailureDecision, FailurePolicy
from ray.train.v2._internal.execution.scaling_policy import (
    NoopDecision,
    ResizeDecision,
    ScalingPolicy,
)
from ray.train.v2.api.exceptions import ControllerError, WorkerGroupError

from raysched.runtime.protocol import NEXT_GRANT, GrantedSlots

LOSSES_IN_ONE_EPOCH = 10
BROKEN_STARTS_IN_ONE_EPOCH = 3
_PEER_ERRORS = ("gloo", "NCCL", "DistBackendError", "DistNetworkError", "Connection reset by peer")
_MEMORY_ERROR = "OutOfMemoryError"


@dataclass
class Leave(ResizeDecision):
    """Stop the workers, and wait for the next grant."""

    num_workers: int = 0
    resources_per_worker: dict[str, float] = field(default_factory=dict)


class GrantPolicy(ScalingPolicy, ReportCallback):
    """Sizes the worker group as the scheduler granted."""

    def __init__(self, scaling_config: Any) -> None:
        super().__init__(scaling_config)
        self.granted: GrantedSlots | None = None
        self.must_stop = False
        """The workers cannot go over to the next grant in place."""
        self.report_coming = asyncio.Event()
        """The workers have met to report a boundary, and it is not registered yet."""
        self._next_grant: int | None = None

    def after_controller_start(self, train_run_context: Any) -> None:
        """Nothing: Ray's own would ask its autoscaling coordinator for resources."""

    def after_report(self, training_report: Any, metrics: list[dict[str, Any]]) -> None:
        """A boundary is registered, with its checkpoint if it has one: only now may workers go."""
        self.report_coming.clear()
        if NEXT_GRANT in training_report.metrics:
            self._next_grant = training_report.metrics[NEXT_GRANT]

    def make_decision_for_non_running_worker_group(self) -> Any:
        """Start what was granted; the controller asks when there is a grant."""
        if self.granted is None:
            return NoopDecision()
        self.stand_on(self.granted)
        resources = self.scaling_config._resources_per_worker_not_none
        return ResizeDecision(len(self.granted.slots), resources)

    def make_decision_for_running_worker_group(
        self, worker_group_state: Any, worker_group_status: Any
    ) -> Any:
        """Leave when another grant stands that cannot be gone over to in place."""
        return Leave() if self.must_stop else NoopDecision()

    @property
    def leaves_for(self) -> int | None:
        """The grant that stands from the last boundary on, where that is another one."""
        if self.granted is None or self._next_grant == self.granted.grant:
            return None
        return self._next_grant

    def stand_on(self, granted: GrantedSlots) -> None:
        """The workers are those of this grant."""
        self.granted, self._next_grant, self.must_stop = granted, None, False
        self.report_coming.clear()

    def _get_num_workers_for_resource_request(self) -> int:
        return 0


class LossPolicy(FailurePolicy, ReportCallback):
    """What is lost is started again; what the training function raised fails the job."""

    def __init__(self, failure_config: Any) -> None:
        super().__init__(failure_config)
        self._failures = 0

    def after_report(self, training_report: Any, metrics: list[dict[str, Any]]) -> None:
        """Progress: count anew."""
        self._failures = 0

    def make_decision(self, training_failed_error: Exception) -> FailureDecision:
        """Bound retries by the failures since the last finished epoch."""
        self._failures += 1
        allowed = _retries(training_failed_error)
        return FailureDecision.RETRY if self._failures <= allowed else FailureDecision.RAISE


def _retries(error: Exception) -> int:
    if isinstance(error, WorkerGroupError):
        if any(map(is_loss, error.worker_failures.values())):
            return LOSSES_IN_ONE_EPOCH
        # Between live workers only the network can break, or ranks that disagree; and those that
        # time steps before they train may find no memory, which the next ones do not do: try that
        # less.
        text = str(error)
        tried = any(word in text for word in (*_PEER_ERRORS, _MEMORY_ERROR))
        return BROKEN_STARTS_IN_ONE_EPOCH if tried else 0
    cause = error.controller_failure if isinstance(error, ControllerError) else error
    if isinstance(cause, (WorkerGroupStartupFailedError, WorkerGroupStartupTimeoutError)):
        return LOSSES_IN_ONE_EPOCH
    # A peer vanished while ranks met; or a function that no worker can load, which fails again.
    return BROKEN_STARTS_IN_ONE_EPOCH if isinstance(cause, RayError) else 0


def is_loss(error: Exception) -> bool:
    """Whether an error of one rank means that its process is gone."""
    if isinstance(error, WorkerHealthCheckFailedError):
        # A task's own error means that the worker lives and cannot send what the user raised.
        return not isinstance(error.health_check_failure, RayTaskError)
    return isinstance(error, WorkerHealthCheckTimeoutError)
