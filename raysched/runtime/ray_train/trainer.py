"""The driver's side: a `TorchTrainer` that starts our controller in place of Ray's."""

from __future__ import annotations

from dataclasses import replace
from typing import Any, cast

import ray
from ray.train.v2._internal.callbacks import DatasetsCallback
from ray.train.v2._internal.callbacks.metrics import (
    ControllerMetricsCallback,
    WorkerMetricsCallback,
)
from ray.train.v2._internal.callbacks.placement_group_callback import PlacementGroupCleanerCallback
from ray.train.v2._internal.constants import get_env_vars_to_propagate
from ray.train.v2.api.result import Result
from ray.train.v2.torch.torch_trainer import TorchTrainer

from raysched.runtime import driver
from raysched.runtime.assignment import Assignment
from raysched.runtime.ray_train.controller import JobController
from raysched.runtime.ray_train.workers import PickledFunction

_UNUSED = (PlacementGroupCleanerCallback, ControllerMetricsCallback, WorkerMetricsCallback)


class GrantedTrainer(TorchTrainer):
    """Runs the job that `_assignment` describes."""

    _assignment: Assignment

    def __init__(self, *arguments: Any, **settings: Any) -> None:
        super().__init__(*arguments, **settings)
        # The function carries its configuration; here it would go to each process once more.
        self.train_run_context = replace(self.train_run_context, train_loop_config=None)

    def _create_default_callbacks(self) -> list[Any]:
        """Without what has no use here, and costs processes or time."""
        unused = _UNUSED if self.datasets else (*_UNUSED, DatasetsCallback)
        callbacks = super()._create_default_callbacks()
        return [callback for callback in callbacks if not isinstance(callback, unused)]

    def _initialize_and_run_controller(self, **arguments: Any) -> Result:
        for own in ("scaling_policy", "failure_policy", "train_fn_ref"):  # the controller has its
            del arguments[own]
        function = PickledFunction(self._get_train_func())  # carries its configuration
        controller = _start_controller(self._assignment, arguments)
        try:
            return cast(Result, ray.get(controller.train.remote(function)))
        finally:
            ray.kill(controller)  # its workers, if any are left, die with it


def _start_controller(assignment: Assignment, arguments: dict[str, Any]) -> Any:
    options = driver.controller_options(assignment.job)
    if env_vars := get_env_vars_to_propagate():
        options["runtime_env"] = {"env_vars": env_vars}
    controller = ray.remote(JobController).options(**options)
    return controller.remote(assignment=assignment, **arguments)
