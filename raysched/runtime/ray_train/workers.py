"""Workers in the slots of a grant: how they start, which rank they have, when they are gone."""

from __future__ import annotations

import time
from collections.abc import Callable, Mapping
from dataclasses import dataclass, field, replace
from typing import Any, cast

import ray
from ray.exceptions import RayActorError
from ray.train.v2._internal.exceptions import (
    WorkerGroupStartupFailedError,
    WorkerGroupStartupTimeoutError,
)
from ray.train.v2._internal.execution.checkpoint.report_handler import ReportCallbackHandler
from ray.train.v2._internal.execution.context import (
    DistributedContext,
    get_train_context,
    set_train_context,
)
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
from ray.train.v2._internal.util import bundle_to_remote_args
from ray.util.scheduling_strategies import PlacementGroupSchedulingStrategy

from raysched.runtime import gate
from raysched.runtime.assignment import Assignment, assign
from raysched.runtime.gate import Ticket
from raysched.runtime.process_group import own_address
from raysched.runtime.processes import Process, this_process, wait_until_gone
from raysched.runtime.protocol import Place, Slot
from raysched.runtime.ray_train.reporting import job_context


class PickledFunction:
    """A training function that only workers unpickle: the controller need not import torch."""

    def __init__(self, function: Callable[..., Any]) -> None:
        self._pickled = ray.cloudpickle.dumps(function)

    def get(self) -> Callable[..., Any]:
        """Return the function."""
        function: Callable[..., Any] = ray.cloudpickle.loads(self._pickled)
        return function


@dataclass(frozen=True)
class WorkerMetadata(ActorMetadata):
    """Also names the process, so that its end can be seen."""

    process: Process = field(kw_only=True)


class JobWorker(RayTrainWorker):
    """A worker process that knows its part in the grant."""

    def __init__(self, assignment: Assignment) -> None:
        super().__init__()  # type: ignore[no-untyped-call]
        assign(assignment)

    def init_train_context(self, *arguments: Any, **named: Any) -> None:
        """Let the reports of a function for Ray Train alone be boundaries."""
        super().init_train_context(*arguments, **named)
        set_train_context(job_context(get_train_context()))

    def get_metadata(self) -> WorkerMetadata:
        """Where this worker runs."""
        metadata = super().get_metadata()
        return WorkerMetadata(**vars(metadata), process=this_process())


class ScheduledSlots(PlacementGroupHandle):
    """The placement groups of a grant, which stay the scheduler's."""

    def __init__(self, slots: tuple[Slot, ...]) -> None:
        self._groups = {slot.placement_group.id: slot.placement_group for slot in slots}

    @property
    def placement_group(self) -> Any:
        """Any of them: asked for by parts of Ray Train that are not in use here."""
        return next(iter(self._groups.values()))

    def ready(self) -> Any:
        """An object reference to wait for."""
        return self.placement_group.ready()

    def wait(self, timeout_seconds: float = 30) -> bool:
        """Wait for all of them; one that was withdrawn will never be ready."""
        return all(group.wait(timeout_seconds) for group in self._groups.values())

    def shutdown(self) -> None:
        """Nothing: the scheduler removes them."""


@dataclass(frozen=True)
class GrantContext(WorkerGroupContext):
    """What one worker group is built on."""

    slots: tuple[Slot, ...] = ()
    assignment: Assignment | None = None


@dataclass(frozen=True)
class GrantState(WorkerGroupState):
    """A worker group whose end is the end of its processes."""

    def shutdown(self) -> None:
        """Kill the workers, and return when their processes are gone."""
        end_workers(self.workers)


class GrantedWorkerGroup(WorkerGroup):
    """Workers in the slots of a grant; rank follows the order of the slots."""

    def _start(self) -> None:
        context = cast(GrantContext, self._worker_group_context)
        actors: list[Any] = []
        try:
            for callback in self._callbacks:
                callback.before_worker_group_start(context)
            slots = ScheduledSlots(context.slots)
            if not slots.wait(self._worker_group_start_timeout_s):
                raise WorkerGroupStartupTimeoutError(num_workers=context.num_workers)
            actors = self.start_actors(context.slots, cast(Assignment, context.assignment))
            self._start_training(context, slots, actors)
        except RayActorError as error:
            self._abandon(actors)
            raise WorkerGroupStartupFailedError("a worker died while it was started") from error
        except BaseException:
            self._abandon(actors)
            raise

    def start_actors(self, slots: tuple[Slot, ...], assignment: Assignment) -> list[Any]:
        """Start a worker process in each slot."""
        context = self._worker_group_context
        options = bundle_to_remote_args(context.resources_per_worker)
        runtime_env = self._get_worker_runtime_env(
            self._train_run_context.run_config.worker_runtime_env or {}
        )
        if runtime_env != {"env_vars": {}}:  # without one, an idle process of the node may serve
            options["runtime_env"] = runtime_env
        actor_class = ray.remote(**options)(JobWorker)
        return [
            actor_class.options(
                scheduling_strategy=PlacementGroupSchedulingStrategy(
                    slot.placement_group, placement_group_bundle_index=0
                )
            ).remote(replace(assignment, gpu_rate=slot.gpu_rate))
            for slot in slots
        ]

    async def start_joiner(self, slot: Slot, distributed: DistributedContext) -> Worker:
        """Start a worker that is to join these: its function runs until it waits for them."""
        context = cast(GrantContext, self._worker_group_context)
        assignment = replace(cast(Assignment, context.assignment), joins=True)
        (actor,) = self.start_actors((slot,), assignment)
        try:
            metadata = await actor.get_metadata.remote()
            worker = Worker(actor, metadata, context.resources_per_worker, distributed)
            self._init_train_context([worker], ray.get_runtime_context().current_actor)
            await actor.run_train_fn.remote(context.train_fn_ref)
        except BaseException:
            ray.kill(actor)
            raise
        return worker

    def go_over(
        self, grant: int, batch_size: int, slots: tuple[Slot, ...], joiners: Mapping[Place, Worker]
    ) -> list[Worker]:
        """Let the workers in these slots, ranks in their order, train on together; those that are
        not in them any more.

        Those that stay come first. Raises `RayActorError` where one is gone.
        """
        context = cast(GrantContext, self._worker_group_context)
        standing = dict(
            zip((slot.place for slot in context.slots), self.get_workers(), strict=True)
        )
        workers = [standing.get(slot.place) or joiners[slot.place] for slot in slots]
        assignment = replace(
            cast(Assignment, context.assignment), grant=grant, batch_size=batch_size
        )
        self._let_go_on(workers, slots, assignment, survivors=len(workers) - len(joiners))
        controller = ray.get_runtime_context().current_actor
        self._worker_group_context = replace(
            context, num_workers=len(workers), slots=slots, assignment=assignment
        )
        self._worker_group_state = GrantState(
            self.get_worker_group_state().start_time, ScheduledSlots(slots), workers, controller
        )
        self._world_rank_to_ongoing_poll.clear()
        for callback in self._callbacks:
            if isinstance(callback, ReportCallbackHandler):
                callback.after_worker_group_start(self)  # a queue of reports for each rank
        return [worker for place, worker in standing.items() if worker not in workers]

    def _let_go_on(
        self, workers: list[Worker], slots: tuple[Slot, ...], assignment: Assignment, survivors: int
    ) -> None:
        address: str
        port: int
        address, port = ray.get(workers[0].actor.execute.remote(own_address))
        ranks = _ranks([worker.metadata.node_id for worker in workers])
        told = []
        for worker, slot, distributed in zip(workers, slots, ranks, strict=True):
            worker.distributed_context = distributed
            ticket = Ticket(
                replace(assignment, gpu_rate=slot.gpu_rate),
                distributed.world_rank,
                distributed.world_size,
                survivors,
                address,
                port,
            )
            told.append(worker.actor.execute.remote(_go_on, ticket, distributed))
        ray.get(told)

    def _start_training(
        self, context: GrantContext, slots: ScheduledSlots, actors: list[Any]
    ) -> None:
        controller = ray.get_runtime_context().current_actor
        metadata = ray.get([actor.get_metadata.remote() for actor in actors])
        workers = [
            Worker(actor, data, context.resources_per_worker, distributed)
            for actor, data, distributed in zip(
                actors, metadata, _ranks([data.node_id for data in metadata]), strict=True
            )
        ]
        self._init_train_context(workers, controller)
        self._worker_group_state = GrantState(time.monotonic(), slots, workers, controller)
        for callback in self._callbacks:
            callback.after_worker_group_start(self)
        ray.get([actor.run_train_fn.remote(context.train_fn_ref) for actor in actors])
        for callback in self._callbacks:
            callback.after_worker_group_training_start(self)

    def _abandon(self, actors: list[Any]) -> None:
        if self._worker_group_state is not None:
            self._worker_group_state.shutdown()
            self._clear_state()  # type: ignore[no-untyped-call]
        for actor in actors:
            ray.kill(actor)


def _go_on(ticket: Ticket, distributed: DistributedContext) -> None:
    """Run on a worker: its place among the others is another one from here on."""
    context = get_train_context()
    context.distributed_context = distributed
    context.collective_seq = 0  # they meet anew
    gate.let_go_on(ticket)


def _ranks(node_ids: list[str]) -> list[DistributedContext]:
    """World ranks in the order given; local ranks within each node."""
    nodes = list(dict.fromkeys(node_ids))
    return [
        DistributedContext(
            world_rank=rank,
            world_size=len(node_ids),
            local_rank=node_ids[:rank].count(node_id),
            local_world_size=node_ids.count(node_id),
            node_rank=nodes.index(node_id),
        )
        for rank, node_id in enumerate(node_ids)
    ]


def end_workers(workers: list[Worker]) -> None:
    """Kill workers, and return when their processes are gone."""
    for worker in workers:
        ray.kill(worker.actor)
    wait_until_gone([cast(WorkerMetadata, worker.metadata).process for worker in workers])
