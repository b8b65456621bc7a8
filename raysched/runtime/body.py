"""The body on Ray: takes events in, journals them, and carries out what the engine answers.

One loop owns the engine. Events that arrive together are handled together and committed in one
transaction before any action is sent (ruling 10). Policies are solved in a thread, on a question
that was copied from the state (ruling 6); their answers come back as events.
"""

from __future__ import annotations

import asyncio
import logging
import os
import time
from collections.abc import Awaitable, Callable
from typing import Any, Literal

from ray.util.placement_group import PlacementGroup

from loaning import registry as loaning_registry
from policies import registry as policy_registry
from raysched import codec
from raysched.actions import (
    Action,
    AskLoaning,
    AskPolicy,
    CloseLoan,
    Grant,
    OpenLoan,
    ReleaseGrant,
    ScaleReplicas,
)
from raysched.engine import Engine
from raysched.events import DecisionFailed, Event, LoanClosed, LoanOpened, LoanRefused
from raysched.journal import Entry, Journal
from raysched.questions import Question, question
from raysched.replay import recover
from raysched.runtime import groups
from raysched.runtime.cluster import Node
from raysched.runtime.protocol import GrantedSlots, Lender
from raysched.runtime.slots import SlotBook

logger = logging.getLogger(__name__)

SNAPSHOT_EVERY = 2000
"""Events between snapshots: recovery replays at most this many, in well under a second."""


class Body:
    """The engine with its journal, and the hands that do what it says."""

    def __init__(self, journal: Journal) -> None:
        self.journal = journal
        self.engine: Engine = recover(journal, policy_registry.load)
        self.nodes: dict[str, Node] = {}
        self.loans: dict[str, PlacementGroup] = {}
        self.slots = SlotBook()
        self.lender: Lender | None = None
        self._inbox: asyncio.Queue[tuple[Event, asyncio.Future[None]]] = asyncio.Queue()
        self._changed: asyncio.Future[None] = asyncio.get_running_loop().create_future()
        """Done when the next batch of events was handled."""
        self._tasks: set[asyncio.Task[None]] = set()

    def now_s(self) -> float:
        """Seconds since the journal began."""
        return self.journal.now_s()

    async def tell(self, event: Event) -> None:
        """Have an event handled; returns when it is journaled and its actions are under way."""
        done = asyncio.get_running_loop().create_future()
        await self._inbox.put((event, done))
        await done

    async def run(self) -> None:
        """The loop. Never returns.

        Where even that fails (the disk is full), the process ends rather than hang: Ray starts it
        again, from the journal.
        """
        while True:
            batch = [await self._inbox.get()]
            while not self._inbox.empty():
                batch.append(self._inbox.get_nowait())
            try:
                self._handle(batch)
            except Exception:
                logger.critical("the scheduler cannot go on and restarts", exc_info=True)
                os._exit(1)

    def spawn(self, work: Awaitable[None]) -> None:
        """Run something beside the loop; what it raises is logged, not lost."""
        task = asyncio.ensure_future(work)
        self._tasks.add(task)
        task.add_done_callback(self._finished)

    def slots_of(self, job: str, grant: Grant) -> GrantedSlots:
        """The slots of a grant of a live job, opened where they do not stand yet."""
        return self.slots.open(self.engine.state.live[job], grant, self.nodes, self.loans)

    async def until(self, holds: Callable[[], bool], patience_s: float) -> bool:
        """Wait until something holds of the state; False where it does not in time."""
        deadline_s = time.monotonic() + patience_s
        while not holds():
            left_s = deadline_s - time.monotonic()
            try:
                await asyncio.wait_for(asyncio.shield(self._changed), max(left_s, 0.0))
            except TimeoutError:
                return holds()
        return True

    def _handle(self, batch: list[tuple[Event, asyncio.Future[None]]]) -> None:
        handled: list[Entry] = []
        committed = 0
        for event, done in batch:
            try:
                handled.append(Entry.of(event, self.engine.handle(event)))
                self._ask(handled[-1].actions)
            except Exception as error:  # undo what it half did
                logger.exception("event %s was not handled", event.kind)
                self.journal.append(handled[committed:])
                committed = len(handled)
                self.engine = recover(self.journal, policy_registry.load)
                done.set_exception(error)
        self._commit(handled[committed:])
        for entry in handled:
            for action in entry.actions:
                self._carry_out(action)
        for _, done in batch:
            if not done.done():
                done.set_result(None)
        changed, self._changed = self._changed, asyncio.get_running_loop().create_future()
        changed.set_result(None)

    def _commit(self, entries: list[Entry]) -> None:
        before = len(self.journal) // SNAPSHOT_EVERY
        self.journal.append(entries)
        if len(self.journal) // SNAPSHOT_EVERY > before:
            self.journal.snapshot(self.engine.state)

    def _ask(self, actions: list[Action]) -> None:
        """Copy what is asked from the state as it is now; the answers are worked out later."""
        for action in actions:
            if not isinstance(action, AskPolicy | AskLoaning):
                continue
            try:
                posed = question(self.engine, action, loaning_registry.load)
            except Exception as error:
                logger.exception("a question could not be posed")
                self.spawn(self._give_up(action, error))
                continue
            if posed is not None:
                self.spawn(self._answer(action, posed))

    async def _answer(self, ask: AskPolicy | AskLoaning, posed: Question) -> None:
        try:
            await self.tell(await asyncio.to_thread(_answered, posed, self.now_s()))
        except Exception as error:  # one that cannot be written or applied
            await self._give_up(ask, error)

    async def _give_up(self, ask: AskPolicy | AskLoaning, error: Exception) -> None:
        """No answer will come: the standing targets stay, and the next trigger asks again."""
        asked: Literal["policy", "loaning"] = "policy" if isinstance(ask, AskPolicy) else "loaning"
        why = f"{type(error).__name__}: {error}"
        await self.tell(DecisionFailed(self.now_s(), ask.ask, asked, why))

    def _carry_out(self, action: Action) -> None:
        """Start what an action asks for. Offers and rejections are read from the state."""
        if isinstance(action, ReleaseGrant):
            self.slots.close_unneeded(action.job, self.engine.state.live.get(action.job))
        elif isinstance(action, ScaleReplicas):
            self.spawn(self._scale(action))
        elif isinstance(action, OpenLoan):
            self.spawn(self._open_loan(action.server))
        elif isinstance(action, CloseLoan):
            self.spawn(self._close_loan(action.server))

    async def _scale(self, action: ScaleReplicas) -> None:
        if self.lender is not None:
            await persistently(lambda: self._scale_to_latest(action), "scaling the replicas")

    def _scale_to_latest(self, action: ScaleReplicas) -> None:
        inference = self.engine.state.inference
        overruled = inference is None or inference.replicas != action.replicas
        if self.lender is not None and not overruled:
            self.lender.scale(action.replicas)

    async def _open_loan(self, server: str) -> None:
        node = self.nodes.get(server)
        group = self.loans.get(server)
        if group is None and node is not None:
            group = await asyncio.to_thread(groups.open_loan, node)
        if group is None:
            await self.tell(LoanRefused(self.now_s(), server))
            return
        self.loans[server] = group
        await self.tell(LoanOpened(self.now_s(), server))

    async def _close_loan(self, server: str) -> None:
        group = self.loans.pop(server, None)
        if group is not None:
            await asyncio.to_thread(groups.remove, group)
        await self.tell(LoanClosed(self.now_s(), server))

    def _finished(self, task: asyncio.Task[None]) -> None:
        self._tasks.discard(task)
        if not task.cancelled() and task.exception() is not None:
            logger.error("a task of the scheduler failed", exc_info=task.exception())


def _answered(posed: Question, at_s: float) -> Event:
    return codec.as_journaled(posed.answer(at_s))


async def persistently(work: Callable[[], Any], what: str, tries: int = 8) -> None:
    """Do blocking work in a thread, again after a growing pause where it fails."""
    pause_s = 0.1
    for attempt in range(1, tries + 1):
        try:
            await asyncio.to_thread(work)
            return
        except Exception:
            if attempt == tries:
                raise
            logger.warning("%s failed, try %d of %d", what, attempt, tries, exc_info=True)
            await asyncio.sleep(pause_s)
            pause_s = min(pause_s * 2, 2.0)
