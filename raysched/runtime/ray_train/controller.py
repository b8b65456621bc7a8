"""The controller of one job: waits for grants, trains on them, leaves them."""

from __future__ import annotations

import asyncio
import logging
import os
import time
from collections.abc import Mapping
from contextlib import suppress
from dataclasses import replace
from typing import Any, cast

import ray
from ray._common.constants import RAY_WARN_BLOCKING_GET_INSIDE_ASYNC_ENV_VAR
from ray._private.state import actors
from ray.exceptions import RayError
from ray.train.v2._internal.constants import ENABLE_PREEMPTION_WATCHER_ENV_VAR
from ray.train.v2._internal.execution.checkpoint.sync_actor import SynchronizationActor
from ray.train.v2._internal.execution.context import DistributedContext
from ray.train.v2._internal.execution.controller.controller import (
    TrainController,
    TrainControllerLoopIterationResult,
)
from ray.train.v2._internal.execution.controller.state import (
    InitializingState,
    ReschedulingState,
    RestartingState,
)
from ray.train.v2._internal.execution.worker_group.worker import Worker

from raysched.errors import JobStopped
from raysched.runtime import link
from raysched.runtime.assignment import Assignment
from raysched.runtime.protocol import (
    CURRENT_GRANT,
    EPOCHS_DONE,
    GrantedSlots,
    Place,
    Slot,
    Standing,
)
from raysched.runtime.ray_train.decisions import GrantPolicy, Leave, LossPolicy, is_loss
from raysched.runtime.ray_train.joining import JoinerLost, Joiners
from raysched.runtime.ray_train.workers import (
    GrantContext,
    GrantedWorkerGroup,
    PickledFunction,
    end_workers,
)

POLL_S = 0.2  # bounds how soon a loss or a grant is seen
REPORT_POLL_S = 0.01  # at first when a boundary's report is on its way
JOIN_S = 30.0  # for joiners to be warm where workers cannot train on until they are
LOSS_SEEN_S = 2.0  # a peer's error may be seen before the death that caused it

# What Ray runs as an actor, as the plain object that it is.
_MEETING: Any = SynchronizationActor.__ray_metadata__.modified_class  # type: ignore[attr-defined]

logger = logging.getLogger(__name__)


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
        self._joiners = Joiners(self._start_joiner, self._say_ready)
        self._watching: asyncio.Task[None] | None = None
        self._report_poll_s = REPORT_POLL_S
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
        agreed = await self._meeting.broadcast_from_rank_zero(**rendezvous)
        self._policy.report_coming.set()
        self._report_poll_s = REPORT_POLL_S
        return agreed

    async def _step(self) -> TrainControllerLoopIterationResult:
        state = self.get_state()
        if isinstance(state, (InitializingState, RestartingState, ReschedulingState)):
            error = getattr(state, "training_failed_error", None)
            await self._stop_workers(error)
            self._policy.granted = await self._next_grant()
        elif self._policy.leaves_for is not None and not self._policy.must_stop:
            self._policy.must_stop = not await self._go_over(self._policy.leaves_for)
        return await super()._step()

    async def _go_over(self, grant: int) -> bool:
        """Have the workers go over to another grant in place; False where that cannot be: all of
        them are then stopped, and start from the boundary that was saved."""
        try:
            offer = await self._offer(grant)
            if offer is None:
                return False
            joiners = await self._joiners.warm(JOIN_S)
            await self._exchange_workers(offer, joiners)
        except (JoinerLost, RayError, TimeoutError, OSError):
            logger.warning("the workers could not be resized in place", exc_info=True)
            return False
        return True

    async def _offer(self, grant: int) -> GrantedSlots | None:
        """The slots of a grant if someone who trains now stays in it, with the batch of now."""
        found: Standing = await link.acall("offered", self._assignment.job, self._grant, 0)
        offer, expected = found.granted, self._joiners.offer
        if expected is None or expected.grant != grant:  # it was made a moment ago
            self._joiners.expect(offer, self._slots)
        here = {slot.place for slot in self._slots}
        stays = offer is not None and any(slot.place in here for slot in offer.slots)
        return offer if stays and offer is not None and offer.grant == grant else None

    async def _exchange_workers(self, offer: GrantedSlots, joiners: Mapping[Place, Worker]) -> None:
        """Those that stay keep their order, and with it rank 0 the job's state."""
        offered = {slot.place: slot for slot in offer.slots}
        stay = tuple(slot for slot in self._slots if slot.place in offered)
        join = tuple(slot for slot in offer.slots if slot.place in joiners)
        self._meeting = _MEETING()
        group = cast(GrantedWorkerGroup, self._worker_group)
        leavers = group.go_over(offer.grant, offer.batch_size, (*stay, *join), joiners)
        self._joiners.let_in()
        self._policy.stand_on(replace(offer, slots=(*stay, *join)))
        await asyncio.to_thread(end_workers, leavers)
        if not await link.acall("workers_resized", self._assignment.job, offer.grant):
            raise JoinerLost("the offer was withdrawn")
        self._grant = offer.grant

    @property
    def _slots(self) -> tuple[Slot, ...]:
        """Where the workers are now, by rank."""
        return self._policy.granted.slots if self._policy.granted else ()

    async def _watch_offers(self) -> None:
        """Start whoever an offer adds to the workers as soon as it stands."""
        known = 0
        while True:
            grant, job = self._grant, self._assignment.job
            found: Standing = await link.acall("offered", job, grant, known)
            if found.must_stop and grant == self._grant:
                self._policy.must_stop = True
                return
            offered = found.granted.grant if found.granted else 0
            if offered != known and grant == self._grant and self._policy.leaves_for is None:
                known = offered
                self._joiners.expect(found.granted, self._slots)
            else:
                await asyncio.sleep(POLL_S)

    async def _start_joiner(self, slot: Slot, offer: GrantedSlots) -> Worker:
        place = [other.place for other in offer.slots].index(slot.place)
        distributed = DistributedContext(place, len(offer.slots), 0, 1, 0)  # until it joins
        return await cast(GrantedWorkerGroup, self._worker_group).start_joiner(slot, distributed)

    async def _say_ready(self, grant: int) -> None:
        await link.acall("offer_ready", self._assignment.job, grant)

    async def _stop_workers(self, error: Exception | None) -> None:
        if self._watching is not None:
            self._watching.cancel()
            self._watching = None
        self._joiners.end()
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
                epochs_done=self._epochs_done(),
                granted_at_s=time.time(),
                profiles=granted.profiles,
            ),
        )
        self._worker_group = self.worker_group_cls.create(
            train_run_context=self._train_run_context,
            worker_group_context=context,
            callbacks=self._worker_group_callbacks_to_propagate,
        )
        self._watching = asyncio.ensure_future(self._watch_offers())

    def _epochs_done(self) -> int:
        """Of a training function that walks them by itself, as of its last checkpoint."""
        saved = self._checkpoint_manager.latest_checkpoint_result
        return saved.metrics.get(EPOCHS_DONE, 0) if saved is not None and saved.metrics else 0

    async def _poll_workers(self) -> Any:
        """Poll, at once where a report is coming. Where a rank raised, look a while for a death
        among its peers that explains it."""
        coming = self._policy.report_coming
        if coming.is_set():  # all workers wait for it to be registered; rank 0 may be uploading
            await asyncio.sleep(self._report_poll_s)
            self._report_poll_s = min(2 * self._report_poll_s, POLL_S)
        else:
            with suppress(TimeoutError):
                await asyncio.wait_for(coming.wait(), POLL_S)
        self._latest_poll_time = float("-inf")  # waited here, not in Ray's own
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
