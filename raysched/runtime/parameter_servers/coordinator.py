"""The coordinator of one job: rounds of chunks, boundaries, changes of workers and servers."""

from __future__ import annotations

import asyncio
import logging
import random
import time
from collections.abc import Mapping
from dataclasses import replace
from typing import Any

import ray
from ray._private.state import actors
from ray.util.scheduling_strategies import PlacementGroupSchedulingStrategy

from raysched.runtime.assignment import Assignment
from raysched.runtime.parameter_servers import checkpoints
from raysched.runtime.parameter_servers.chunks import ChunkBook
from raysched.runtime.parameter_servers.protocol import First, Round, RoundDone, Saved
from raysched.runtime.parameter_servers.roles import (
    START_S,
    Servers,
    ServersLost,
    Worker,
    Workers,
    is_loss,
)
from raysched.runtime.parameter_servers.seat import Seat, places
from raysched.runtime.parameter_servers.shards import Layout
from raysched.runtime.parameter_servers.worker import PsWorker
from raysched.runtime.processes import Process
from raysched.runtime.protocol import GrantedSlots, Place, Slot

LOSSES_IN_ONE_EPOCH = 10

logger = logging.getLogger(__name__)


class WorkersLost(Exception):
    """No worker of the grant is left."""


class Coordinator:
    """The actor, of many calls at a time: workers wait here for chunks and for rounds.

    `run`: the directory or URI of the job's checkpoints.
    """

    def __init__(self, assignment: Assignment, chunks: int, run: str) -> None:
        self._assignment = assignment
        self._chunks = chunks
        self._run = run
        self._seat = Seat(assignment.job)
        self._workers = Workers(self._start_worker)
        self._servers = Servers()
        self._tasks: set[asyncio.Future[None]] = set()  # one watches each worker
        self._offers: asyncio.Task[None] | None = None
        self._changed = asyncio.Condition()
        self._layout: Layout | None = None
        self._first: First | None = None
        self._saved: Saved | None = None
        self._seed = random.randrange(2**31)
        self._carried = b""
        self._exported: list[Any] = []
        self._stale = True  # the servers do not hold the parameters of the last boundary
        self._rounds = 0
        self._round: Round | None = None
        self._book = ChunkBook(0)
        self._broken: ServersLost | None = None  # of the running round
        self._failed: Exception | None = None
        self._losses = 0  # since the last boundary
        self._waits_since_s: float | None = None  # for its workers to train
        self._began_s = 0.0  # the running round
        self._function: Any = None  # a reference: each worker is handed it
        self._over = False

    # -- the job

    async def train(self, function: bytes) -> Saved:
        """Run the job to its end; its last boundary. Safe to call again after a restart.

        Raises what the training function raised, and `JobStopped`.
        """
        self._function = ray.put(function)
        self._saved = await asyncio.to_thread(checkpoints.latest, self._run)
        if actors(ray.get_runtime_context().get_actor_id())["NumRestarts"] > 0:
            await self._seat.restarted("its coordinator was restarted")
        try:
            while self._epoch < self._assignment.epochs:
                await self._try_epoch()
            await self._let_return()
        finally:
            await self._stop(lost=False)
        assert self._saved is not None
        return self._saved

    @property
    def _epoch(self) -> int:
        return self._saved.epoch + 1 if self._saved else 0

    async def _try_epoch(self) -> None:
        try:
            if self._seat.granted is None:
                await self._start()
            await self._open_round()
            await self._run_round()
            await self._reach_boundary()
        except ServersLost as lost:
            self._count_loss(f"a parameter server was lost: {lost}")
            self._stale = True
        except WorkersLost as lost:
            self._count_loss(str(lost))
            await self._stop(lost=True, cause=str(lost))
        finally:
            self._round = None

    async def _start(self) -> None:
        """Wait for a grant, and for its workers to be warm."""
        granted = await self._seat.take()
        await self._bring_up(granted, time.monotonic())

    async def _bring_up(self, granted: GrantedSlots, since_s: float) -> None:
        """Have workers and servers of a grant for which the job waits since then."""
        self._waits_since_s = since_s
        if not await self._warm(granted):
            raise WorkersLost(f"workers did not start in {START_S:.0f} s")

    async def _open_round(self) -> None:
        self._raise_failure()
        granted, layout, source = self._seat.granted, self._layout, self._saved or self._first
        assert granted is not None and layout is not None and source is not None
        if self._stale:
            await self._servers.begin(granted.parameter_servers, layout, source)
            await self._take_up(layout)
        elif granted.parameter_servers != len(self._servers.actors):
            await self._servers.resize(granted.parameter_servers, layout, self._exported)
        self._exported = []
        self._rounds += 1
        self._book, self._broken = ChunkBook(self._chunks), None
        self._round = Round(
            self._rounds,
            self._epoch,
            self._servers.actors,
            self._servers.ranges,
            self._servers.loaded,
            self._seed,
        )
        await self._notify()

    async def _take_up(self, layout: Layout) -> None:
        """Be where the servers are that have just been loaded."""
        if self._saved is not None:
            self._seed = self._saved.seed
            self._carried = await self._servers.carried(self._saved, layout)
        elif self._first is not None:
            self._carried = self._first.carried
        self._stale = False

    async def _run_round(self) -> None:
        """Wait until all chunks are trained, or nobody is left to train them."""
        self._began_s = time.monotonic()
        if self._waits_since_s is not None:
            since_s, self._waits_since_s = self._waits_since_s, None
            await self._seat.started(self._began_s - since_s)
            self._offers = asyncio.ensure_future(self._look_for_offers())
        async with self._changed:
            await self._changed.wait_for(self._is_settled)
        self._raise_failure()
        if self._broken is not None:
            raise self._broken

    def _is_settled(self) -> bool:
        if self._failed or self._broken or not self._at_work():
            return True
        done = all(worker.done == self._rounds for worker in self._at_work().values())
        return done and self._book.over

    def _at_work(self) -> dict[int, Worker]:
        """The workers of the grant that take part in the round."""
        granted = self._workers.among(places(self._seat.granted))
        return {number: worker for number, worker in granted.items() if worker.warm}

    async def _reach_boundary(self) -> None:
        """Save, ask the scheduler, and go over to what it grants."""
        epoch, layout, done_s = self._epoch, self._layout, time.monotonic()
        assert layout is not None
        self._round = None
        at_work = list(self._at_work().values())
        if not at_work:
            raise WorkersLost("all workers were lost")
        metrics = at_work[0].metrics
        sizes = {"workers": len(at_work), "parameter_servers": len(self._servers.actors)}
        exported = self._servers.export()
        carried = await self._ask_carried()
        saved = Saved(
            epoch,
            self._seed,
            {"epoch": epoch, **sizes, **metrics},
            checkpoints.path_of(self._run, epoch),
        )
        await self._servers.save(saved, layout, carried, exported)
        self._saved, self._carried, self._exported = saved, carried, exported
        self._first = None
        self._losses = 0
        grant = await self._seat.boundary(epoch, done_s - self._began_s, metrics)
        if epoch < self._assignment.epochs - 1 and not self._seat.stands(grant):
            await self._go_over(grant, done_s)

    async def _ask_carried(self) -> bytes:
        for worker in self._at_work().values():
            try:
                carried: bytes = await worker.actor.carried.remote()
                return carried
            except Exception as error:
                if not is_loss(error):
                    raise
        raise WorkersLost("all workers were lost")

    # -- changes

    async def _go_over(self, grant: int, since_s: float) -> None:
        """Let those who stay train on under another grant; where that cannot be, stop all."""
        offer = await self._seat.slots_of(grant)
        self._cancel_offers()
        if offer is not None:
            await self._workers.keep(places(offer))
            if await self._seat.went_over(offer):
                await self._bring_up(offer, since_s)
                return
        await self._stop(lost=False)

    async def _look_for_offers(self) -> None:
        """Have those who would join for an offer warm before the boundary."""
        while True:
            offer = await self._seat.next_offer()
            await self._workers.keep(places(self._seat.granted) | places(offer))
            if offer is not None:
                await self._warm(offer)
                await self._seat.ready(offer)

    def _cancel_offers(self) -> None:
        if self._offers is not None:
            self._offers.cancel()
            self._offers = None

    async def _stop(self, *, lost: bool, cause: str = "") -> None:
        """End workers and servers: what comes next begins from the last boundary."""
        self._cancel_offers()
        await self._workers.keep({})
        self._servers.end()
        self._servers, self._stale = Servers(), True
        await self._seat.stopped(lost=lost, cause=cause)

    async def _let_return(self) -> None:
        """Let the training functions come to their end."""
        self._over = True
        await self._notify()
        await asyncio.gather(*self._tasks)
        self._raise_failure()

    def _fill(self, slots: Mapping[Place, Slot]) -> None:
        for number, worker in self._workers.fill(slots).items():
            task = asyncio.ensure_future(self._watch(number, worker.actor))
            self._tasks.add(task)
            task.add_done_callback(self._tasks.discard)

    def _start_worker(self, number: int, slot: Slot) -> Any:
        gpus = self._assignment.gpus_per_worker
        place = PlacementGroupSchedulingStrategy(slot.placement_group, 0)
        return (
            ray.remote(PsWorker)
            .options(num_cpus=1, num_gpus=gpus, max_concurrency=2, scheduling_strategy=place)
            .remote(
                number,
                replace(self._assignment, gpu_rate=slot.gpu_rate),
                self._chunks,
                ray.get_runtime_context().current_actor,
            )
        )

    async def _watch(self, number: int, worker: Any) -> None:
        """See how a worker ends."""
        try:
            await worker.run.remote(self._function)
        except Exception as error:
            if number in self._workers:
                self._workers.pop(number)
                self._book.drop(number)
                if not is_loss(error):
                    self._failed = error
                elif self._round is None or self._at_work():
                    self._count_loss(f"worker {number} was lost: its chunk is another's")
                    self._fill(places(self._seat.granted))
        else:
            if not self._over:
                self._failed = RuntimeError(
                    f"the training function returned in epoch {self._epoch}; "
                    "it is to walk all of raysched.epochs"
                )
        await self._notify()

    def _count_loss(self, what: str) -> None:
        logger.warning("%s: %s", self._assignment.job, what)
        self._losses += 1
        if self._losses > LOSSES_IN_ONE_EPOCH:
            self._failed = RuntimeError(f"{self._losses} losses in epoch {self._epoch}; {what}")

    def _raise_failure(self) -> None:
        if self._failed is not None:
            raise self._failed

    async def _warm(self, granted: GrantedSlots) -> bool:
        """Start who is missing of a grant, and wait until its workers are warm; False: they are not
        in `START_S`."""
        slots = places(granted)
        self._fill(slots)
        await self._servers.warm(granted.parameter_servers)

        def are_warm() -> bool:
            there = self._workers.among(slots).values()
            return self._failed is not None or (
                len(there) == len(slots) and all(worker.warm for worker in there)
            )

        async with self._changed:
            try:
                await asyncio.wait_for(self._changed.wait_for(are_warm), START_S)
            except asyncio.TimeoutError:
                return False
        return True

    async def _notify(self) -> None:
        async with self._changed:
            self._changed.notify_all()

    # -- the workers

    async def is_new(self) -> bool:
        """Whether there is nothing yet that the job begins with."""
        return self._first is None and self._saved is None

    async def attach(
        self, number: int, process: Process, layout: Layout, first: First | None
    ) -> None:
        """A worker has built its model. Of a new job the first one's is what all begin with."""
        self._layout = self._layout or layout
        self._first = self._first or first
        if number in self._workers:
            worker = self._workers[number]
            worker.warm, worker.process = True, process
        await self._notify()

    async def carried(self) -> bytes:
        """What those take over who did not train the epoch before."""
        return self._carried

    async def next_round(self, number: int, done: RoundDone | None) -> Round | None:
        """The next round that a worker takes part in; None: the job is done."""
        if done is not None and number in self._workers:
            self._workers[number].done = done.number
            self._workers[number].metrics = done.metrics
            await self._notify()

        def has_begun() -> bool:
            worker = self._at_work().get(number)
            return self._round is not None and worker is not None and worker.done < self._rounds

        async with self._changed:
            await self._changed.wait_for(lambda: self._over or has_begun())
        return None if self._over else self._round

    async def next_chunk(self, number: int, of_round: int, finished: int | None) -> int | None:
        """The chunk that a worker is to train next; None: none is left in this round."""

        def takes_part() -> bool:
            return number in self._workers and self._runs(of_round)

        if takes_part() and finished is not None:
            self._book.finish(number, finished)
            await self._notify()
        async with self._changed:
            await self._changed.wait_for(
                lambda: not takes_part() or self._book.over or self._book.take(number) is not None
            )
        return self._book.take(number) if takes_part() else None

    async def server_lost(self, of_round: int) -> None:
        """A worker cannot reach a server of this round."""
        if self._runs(of_round):
            self._broken = ServersLost(f"in epoch {self._epoch}")
            await self._notify()

    def _runs(self, of_round: int) -> bool:
        return self._round is not None and self._broken is None and self._rounds == of_round
