"""The controller of one job: waits for grants, trains on them, leaves them."""

from __future__ import annotations

import asyncio
import logging
import os
import time
from dataclasses import replace
from typing import Any

import ray
from ray._common.constants import RAY_WARN_BLOCKING_GET_INSIDE_ASYNC_ENV_VAR
from ray._private.state import actors
from ray.train.v2._internal.constants import ENABLE_PREEMPTION_WATCHER_ENV_VAR
from ray.train.v2._internal.execution.checkpoint.sync_actor import SynchronizationActor
from ray.train.v2._internal.execution.controller.controller import (
    TrainController,
    TrainControllerLoopIterationResult,
)
from ray.train.v2._internal.execution.controller.state import (
    InitializingState,
    ReschedulingState,
    RestartingState,
)

from raysched.runtime import link
from raysched.runtime.assignment import Assignment
from raysched.runtime.protocol import CURRENT_GRANT, GrantedSlots, Standing
from raysched.runtime.ray_train.decisions import GrantPolicy, Leave, LossPolicy, is_loss
from raysched.runtime.ray_train.workers import GrantContext, GrantedWorkerGroup, PickledFunction

POLL_S = 0.2  # bounds how soon a boundary, a loss or a grant is seen
LOSS_SEEN_S = 2.0  # a peer's error may be seen before the death that caused it

# What Ray runs as an actor, as the plain object that it is.
_MEETING: Any = SynchronizationActor.__ray_metadata__.modified_class  # type: ignore[attr-defined]

logger = logging.getLogger(__name__)


class JobStopped(RuntimeError):
    """The scheduler ended the job: it was cancelled or rejected."""


class JobController(TrainController):
    """Runs one job: waits for grants, trains on them, leaves them."""

    worker_group_cls = GrantedWorkerGroup

    _train_fn_ref: Any  # a `PickledFunction`

    def __init__(self, *, assignment: Assignment, callbacks: list[Any], **kwargs: Any) -> None:
        os.environ[ENABLE_PREEMPTION_WATCHER_ENV_VAR] = "0"  # an actor of its own, polling nodes
        os.environ[RAY_WARN_BLOCKING_GET_INSIDE_ASYNC_ENV_VAR] = "0"
        context = kwargs["train_run_context"]
        self._assignment = assignment
        self._policy = GrantPolicy(context.scaling_config)
        losses = LossPolicy(context.run_config.failure_config)
        restarted = actors(ray.get_runtime_context().get_actor_id())["NumRestarts"] > 0
        self._grant: int | None = CURRENT_GRANT if restarted else None
        super().__init__(
            scaling_policy=self._policy,
            failure_policy=losses,
            callbacks=[*callbacks, self._policy, losses],
            **{**kwargs, "train_fn_ref": None},
        )
        self._health_check_interval_s = POLL_S

    async def train(self, function: PickledFunction) -> Any:
        """Run the job to its end; return Ray's `Result`. Safe to call again after a restart.

        The function comes here, not to the constructor: Ray keeps the arguments of a call that
        is under way, however large, but may lose a constructor's before a restart.
        """
        self._train_fn_ref = function
        await self.run()  # type: ignore[no-untyped-call]
        return self.get_result()

    async def broadcast_from_rank_zero(self, **rendezvous: Any) -> Any:
        """Meet of all ranks: here rather than in an actor for each worker group."""
        return await self._meeting.broadcast_from_rank_zero(**rendezvous)

    async def _step(self) -> TrainControllerLoopIterationResult:
        state = self.get_state()
        if isinstance(state, (InitializingState, RestartingState, ReschedulingState)):
            error = getattr(state, "training_failed_error", None)
            await self._stop_workers(error)
            self._policy.granted = await self._next_grant()
        return await super()._step()

    async def _stop_workers(self, error: Exception | None) -> None:
        if self._worker_group:
            self._shutdown_worker_group()  # type: ignore[no-untyped-call]
        if self._grant is None:
            return
        restarted = self._grant == CURRENT_GRANT
        cause = "its controller was restarted" if restarted else _one_line(error)
        lost = restarted or error is not None
        await link.acall("workers_stopped", self._assignment.job, self._grant, lost, cause)
        self._grant = None

    async def _next_grant(self) -> GrantedSlots:
        while True:
            standing: Standing = await link.acall("standing", self._assignment.job)
            if standing.ended:
                raise JobStopped(standing.ended)
            if standing.granted is not None:
                return standing.granted
            await asyncio.sleep(POLL_S)

    def _execute_resize_decision(self, decision: Any) -> TrainControllerLoopIterationResult:
        if not isinstance(decision, Leave):
            return super()._execute_resize_decision(decision)
        return TrainControllerLoopIterationResult(
            run_attempt_id=self._run_attempt_id,
            previous_state=self._state,
            next_state=InitializingState(),
        )

    def _start_worker_group(self, num_workers: int, resources_per_worker: dict[str, float]) -> None:
        granted = self._policy.granted
        assert granted is not None
        self._grant = granted.grant
        self._meeting = _MEETING()
        context = GrantContext(
            run_attempt_id=self._run_attempt_id,
            train_fn_ref=self._train_fn_ref,
            num_workers=num_workers,
            resources_per_worker=resources_per_worker,
            slots=granted.slots,
            assignment=replace(
                self._assignment,
                grant=granted.grant,
                batch_size=granted.batch_size,
                granted_at_s=time.time(),
            ),
        )
        self._worker_group = self.worker_group_cls.create(
            train_run_context=self._train_run_context,
            worker_group_context=context,
            callbacks=self._worker_group_callbacks_to_propagate,
        )

    async def _poll_workers(self) -> Any:
        """Poll; where a rank raised, look a while for a death among its peers that explains it."""
        status = await super()._poll_workers()
        deadline_s = time.monotonic() + LOSS_SEEN_S
        while (
            status.errors
            and len(status.worker_statuses) > 1
            and not any(map(is_loss, status.errors.values()))
            and time.monotonic() < deadline_s
        ):
            status = await super()._poll_workers()
        return status

    async def _shutdown(self) -> TrainControllerLoopIterationResult:
        try:
            await self._stop_workers(None)
        except Exception:  # the job's own outcome is what its user must hear
            logger.exception("could not say that the workers stopped")
        return await super()._shutdown()


def _one_line(error: Exception | None) -> str:
    return "" if error is None else " ".join(str(error).split())[:300]
