"""Workers on their way to join those that train: started and warmed while these train on.

A joiner runs the training function up to its first epoch, so that everything that takes long is
done when it is let in: the process, imports, the model, the data.
"""

from __future__ import annotations

import asyncio
from collections.abc import Awaitable, Callable
from dataclasses import dataclass, field

import ray
from ray.train.v2._internal.execution.worker_group.worker import Worker

from raysched.runtime import gate
from raysched.runtime.protocol import GrantedSlots, Place, Slot

WARM_POLL_S = 0.1


class JoinerLost(RuntimeError):
    """One that was to join cannot."""


@dataclass
class Joiners:
    """Those who join for the newest offer.

    `start_worker` brings one up in its slot; `say_ready` tells the scheduler that the joiners of an
    offer are warm, or cannot be had.
    """

    start_worker: Callable[[Slot, GrantedSlots], Awaitable[Worker]]
    say_ready: Callable[[int], Awaitable[None]]
    offer: GrantedSlots | None = None
    _workers: dict[Place, Worker] = field(default_factory=dict)
    _warming: asyncio.Task[None] | None = None
    _failure: str = ""

    def expect(self, offer: GrantedSlots | None, standing: tuple[Slot, ...]) -> None:
        """Another offer stands beside the slots `standing`, or none: whoever was to join and is not
        in it goes, whoever is in it and not here is started."""
        self._stop_warming()
        self.offer, self._failure = offer, ""
        here = {slot.place for slot in standing}
        offered = offer.slots if offer else ()
        joining = [slot for slot in offered if slot.place not in here]
        self._keep({slot.place for slot in joining})
        someone_stays = len(joining) < len(offered)
        if offer is not None and joining and someone_stays:
            self._warming = asyncio.ensure_future(self._warm(offer, joining))

    async def warm(self, patience_s: float) -> dict[Place, Worker]:
        """Those who join, once all of them wait to be let in.

        Raises `JoinerLost` where one died, or is not warm in time.
        """
        if self._warming is not None:
            done, _ = await asyncio.wait([self._warming], timeout=patience_s)
            if not done:
                raise JoinerLost(f"not warm within {patience_s:.0f} s")
        if self._failure:
            raise JoinerLost(self._failure)
        return dict(self._workers)

    def let_in(self) -> None:
        """They have joined, and are nobody's who joins any more."""
        self._workers.clear()
        self.offer = None

    def end(self) -> None:
        """Nobody joins any more."""
        self.expect(None, ())

    def _keep(self, places: set[Place]) -> None:
        for place in self._workers.keys() - places:
            ray.kill(self._workers.pop(place).actor)

    def _stop_warming(self) -> None:
        if self._warming is not None:
            self._warming.cancel()
            self._warming = None

    async def _warm(self, offer: GrantedSlots, joining: list[Slot]) -> None:
        missing = [slot for slot in joining if slot.place not in self._workers]
        try:
            await asyncio.gather(*(self._start(slot, offer) for slot in missing))
            await asyncio.gather(*map(_until_waiting, self._workers.values()))
        except Exception as error:
            self._failure = str(error) or type(error).__name__
            self._keep(set())
        await self.say_ready(offer.grant)

    async def _start(self, slot: Slot, offer: GrantedSlots) -> None:
        self._workers[slot.place] = await self.start_worker(slot, offer)


async def _until_waiting(worker: Worker) -> None:
    """Wait until a worker's training function has come to its first epoch."""
    while not await worker.actor.execute.remote(gate.is_waited_at):
        status = await worker.actor.poll_status.remote()
        if status.error is not None or not status.running:
            raise JoinerLost(f"its training function ended before an epoch: {status.error}")
        await asyncio.sleep(WARM_POLL_S)
