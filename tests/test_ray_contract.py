"""Ray's private parts are as `raysched.runtime.ray_train` overrides them; fails when Ray moves."""

import dataclasses
import inspect

import pytest
import ray
from ray._private.state import actors
from ray._private.state import state as cluster_state
from ray._raylet import GlobalStateAccessor  # type: ignore[attr-defined]
from ray.air._internal import device_manager
from ray.train.v2._internal.callbacks import DatasetsCallback
from ray.train.v2._internal.callbacks.metrics import (
    ControllerMetricsCallback,
    WorkerMetricsCallback,
)
from ray.train.v2._internal.callbacks.placement_group_callback import PlacementGroupCleanerCallback
from ray.train.v2._internal.execution.callback import ReportCallback
from ray.train.v2._internal.execution.checkpoint.report_handler import ReportCallbackHandler
from ray.train.v2._internal.execution.context import DistributedContext, TrainContext
from ray.train.v2._internal.execution.controller.controller import (
    TrainController,
    TrainControllerLoopIterationResult,
)
from ray.train.v2._internal.execution.failure_handling import FailureDecision, FailurePolicy
from ray.train.v2._internal.execution.scaling_policy import ResizeDecision, ScalingPolicy
from ray.train.v2._internal.execution.worker_group.placement_group_handle import (
    PlacementGroupHandle,
)
from ray.train.v2._internal.execution.worker_group.state import (
    WorkerGroupContext,
    WorkerGroupState,
)
from ray.train.v2._internal.execution.worker_group.worker import (
    ActorMetadata,
    RayTrainWorker,
    Worker,
)
from ray.train.v2._internal.execution.worker_group.worker_group import WorkerGroup
from ray.train.v2.api.data_parallel_trainer import DataParallelTrainer

from raysched.runtime.ray_train import RAY_VERSION, UnsupportedRay, check_ray_version
from raysched.runtime.ray_train.controller import _MEETING

PARAMETERS = {
    DataParallelTrainer._create_default_callbacks: ["self"],
    DataParallelTrainer._get_train_func: ["self"],
    DataParallelTrainer._initialize_and_run_controller: ["self", "controller_init_kwargs"],
    FailurePolicy.make_decision: ["self", "training_failed_error"],
    RayTrainWorker.__init__: ["self"],
    RayTrainWorker.get_metadata: ["self"],
    RayTrainWorker.run_train_fn: ["self", "train_fn_ref"],
    TrainContext._sync_checkpoint_dir_name_across_ranks: ["self", "checkpoint_dir_name"],
    TrainContext.get_checkpoint: ["self"],
    ReportCallback.after_report: ["self", "training_report", "metrics"],
    ScalingPolicy.__init__: ["self", "scaling_config"],
    ScalingPolicy._get_num_workers_for_resource_request: ["self"],
    ScalingPolicy.after_controller_start: ["self", "train_run_context"],
    ScalingPolicy.make_decision_for_non_running_worker_group: ["self"],
    ScalingPolicy.make_decision_for_running_worker_group: [
        "self",
        "worker_group_state",
        "worker_group_status",
    ],
    TrainController.__init__: [
        "self",
        "train_fn_ref",
        "train_run_context",
        "scaling_policy",
        "failure_policy",
        "callbacks",
        "validation_config",
    ],
    TrainController._execute_resize_decision: ["self", "decision"],
    TrainController._poll_workers: ["self"],
    TrainController._shutdown: ["self"],
    TrainController._shutdown_worker_group: ["self"],
    TrainController._start_worker_group: ["self", "num_workers", "resources_per_worker"],
    TrainController._step: ["self"],
    TrainController.get_result: ["self"],
    TrainController.run: ["self"],
    ReportCallbackHandler.after_worker_group_start: ["self", "worker_group"],
    WorkerGroup._clear_state: ["self"],
    WorkerGroup._get_worker_runtime_env: ["custom_runtime_env"],
    WorkerGroup._init_train_context: ["self", "workers", "sync_actor"],
    WorkerGroup._start: ["self"],
    WorkerGroup.create: ["train_run_context", "worker_group_context", "callbacks"],
    WorkerGroupState.shutdown: ["self"],
}

FIELDS = {
    ActorMetadata: ["hostname", "node_id", "node_ip", "pid", "accelerator_ids"],
    DistributedContext: [
        "world_rank",
        "world_size",
        "local_rank",
        "local_world_size",
        "node_rank",
    ],
    ResizeDecision: ["num_workers", "resources_per_worker"],
    TrainControllerLoopIterationResult: [
        "run_attempt_id",
        "previous_state",
        "next_state",
        "training_failed_error",
    ],
    Worker: [
        "actor",
        "metadata",
        "resources",
        "distributed_context",
        "log_file_path",
        "placement_group_bundle_index",
    ],
    WorkerGroupContext: [
        "run_attempt_id",
        "train_fn_ref",
        "num_workers",
        "resources_per_worker",
        "placement_strategy",
        "label_selector",
        "num_slices",
    ],
    WorkerGroupState: ["start_time", "placement_group_handle", "workers", "sync_actor"],
}


def test_the_pinned_version_is_installed(monkeypatch):
    assert ray.__version__ == RAY_VERSION
    check_ray_version()
    monkeypatch.setattr(ray, "__version__", "2.61.0")
    with pytest.raises(UnsupportedRay, match=r"ray 2\.61\.0 is not supported; install ray\["):
        check_ray_version()


@pytest.mark.parametrize("method", PARAMETERS, ids=lambda method: method.__qualname__)
def test_what_is_overridden_has_the_known_parameters(method):
    known = inspect.signature(method).parameters
    # Ray adds the last to methods of a class that was made an actor in this process.
    assert [name for name in known if name != "_ray_trace_ctx"] == PARAMETERS[method]


@pytest.mark.parametrize("record", FIELDS, ids=lambda record: record.__name__)
def test_what_is_constructed_has_the_known_fields(record):
    assert [field.name for field in dataclasses.fields(record)] == FIELDS[record]


def test_the_controller_keeps_what_is_read_where_it_was():
    source = inspect.getsource(TrainController)
    for attribute in (
        "_health_check_interval_s",
        "_checkpoint_manager",
        "_latest_poll_time",
        "_run_attempt_id",
        "_state",
        "_train_fn_ref",
        "_train_run_context",
        "_worker_group",
        "_worker_group_callbacks_to_propagate",
        "worker_group_cls.create(",
    ):
        assert attribute in source, attribute
    for ours in ("_assignment", "_grant", "_joiners", "_meeting", "_policy", "_watching"):
        assert f"self.{ours} " not in source, f"{ours} is now an attribute of Ray's own"
    for attribute in ("_worker_group_start_timeout_s", "_world_rank_to_ongoing_poll.clear()"):
        assert attribute in inspect.getsource(WorkerGroup), attribute
    assert "self._worker_group_state.shutdown()" in inspect.getsource(WorkerGroup.shutdown)


def test_reports_take_metrics_and_checkpoint_first_and_meet_for_a_name():
    assert list(inspect.signature(TrainContext.report).parameters)[:3] == [
        "self",
        "metrics",
        "checkpoint",
    ]
    assert "self._sync_checkpoint_dir_name_across_ranks(" in inspect.getsource(TrainContext.report)
    worker = inspect.getsource(RayTrainWorker.init_train_context)
    assert "set_train_context(context)" in worker


def test_a_worker_finds_its_place_among_the_others_where_it_is_set_anew():
    """When workers come and go in place."""
    fields = {field.name for field in dataclasses.fields(TrainContext)}
    assert {"distributed_context", "collective_seq"} <= fields
    for method in (TrainContext.get_world_rank, TrainContext.get_world_size):
        assert "self.distributed_context.world_" in inspect.getsource(method)


def test_ranks_meet_at_one_method_that_a_plain_object_has():
    """The controller serves it in place of the actor."""
    meeting = _MEETING()
    assert inspect.iscoroutinefunction(meeting.broadcast_from_rank_zero)
    assert "sync_actor.broadcast_from_rank_zero.remote(" in inspect.getsource(TrainContext)


def test_the_rest_that_is_used_exists():
    assert {decision.name for decision in FailureDecision} >= {"RETRY", "RAISE"}
    assert PlacementGroupHandle.__abstractmethods__ == {
        "placement_group",
        "ready",
        "wait",
        "shutdown",
    }
    assert callable(actors)
    assert hasattr(device_manager, "_torch_device_manager")
    assert "_torch_device_manager" in inspect.getsource(
        device_manager.get_torch_device_manager_by_context
    )
    assert callable(cluster_state._connect_and_get_accessor)
    assert hasattr(GlobalStateAccessor, "get_worker_info")
    for callback in (
        DatasetsCallback,
        ControllerMetricsCallback,
        WorkerMetricsCallback,
        PlacementGroupCleanerCallback,
    ):
        assert callback.__name__ in inspect.getsource(DataParallelTrainer)
