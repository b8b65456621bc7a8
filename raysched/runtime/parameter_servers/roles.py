"""The processes of a job: its workers, each in a slot of its own, and its parameter servers."""

from __future__ import annotations

import asyncio
import logging
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any

import ray
from ray.exceptions import RayError, RayTaskError

from raysched.errors import CheckpointError
from raysched.runtime.parameter_servers.protocol import First, Saved
from raysched.runtime.parameter_servers.server import ParameterServer
from raysched.runtime.parameter_servers.shards import Layout, Range, even_ranges
from raysched.runtime.processes import Process, wait_until_gone
from raysched.runtime.protocol import Place, Slot

logger = logging.getLogger(__name__)

START_S = 180.0
"""For a process to be up: torch may have to be read from a slow disk, and others start too."""


class ServersLost(Exception):
    """A parameter server is gone, and the steps since the last boundary with it."""


class NoServer(RuntimeError):
    """No parameter server could be started."""


def is_loss(error: BaseException) -> bool:
    """Whether a process was lost with what it held, rather than something raised in it."""
    cause = error.cause if isinstance(error, RayTaskError) else error
    return isinstance(cause, RayError) and not isinstance(cause, RayTaskError)


@dataclass(slots=True)
class Worker:
    """One worker process, and how far it is."""

    actor: Any
    place: Place
    process: Process | None = None
    """Known once it is warm."""
    warm: bool = False
    """It has built its model, and asks for a round."""
    done: int = -1
    """The last round that it has finished."""
    metrics: Mapping[str, float] = field(default_factory=dict)


class Workers:
    """The workers by number. Numbers are never used again."""

    def __init__(self, start: Callable[[int, Slot], Any]) -> None:
        self._start = start
        self._last = 0
        self._workers: dict[int, Worker] = {}

    def __contains__(self, number: int) -> bool:
        return number in self._workers

    def __getitem__(self, number: int) -> Worker:
        return self._workers[number]

    def among(self, places: Mapping[Place, Slot]) -> dict[int, Worker]:
        """Those in these slots, in the order of their start."""
        return {number: w for number, w in self._workers.items() if w.place in places}

    def fill(self, slots: Mapping[Place, Slot]) -> dict[int, Worker]:
        """Start a worker in each of these slots that has none; those that are new."""
        taken = {worker.place for worker in self._workers.values()}
        new = {}
        for place in [place for place in slots if place not in taken]:
            self._last += 1
            new[self._last] = Worker(self._start(self._last, slots[place]), place)
        self._workers |= new
        return new

    def pop(self, number: int) -> Worker | None:
        """Count this one no more."""
        return self._workers.pop(number, None)

    async def keep(self, slots: Mapping[Place, Slot]) -> None:
        """End those that are in none of these slots, and see them gone."""
        left = [number for number, w in self._workers.items() if w.place not in slots]
        ended = [self._workers.pop(number) for number in left]
        for worker in ended:
            ray.kill(worker.actor)
        processes = [worker.process for worker in ended if worker.process is not None]
        if processes:
            await asyncio.to_thread(wait_until_gone, processes)


class Servers:
    """The parameter servers, which together hold all parameters."""

    def __init__(self) -> None:
        self._actors: list[Any] = []
        self._spare: list[Any] = []
        self._changing = asyncio.Lock()
        self.ranges: tuple[Range, ...] = ()
        self.loaded = 0
        """Counts how often parameters were loaded: what belongs to an older loading is void."""

    @property
    def actors(self) -> tuple[Any, ...]:
        """Those that hold parameters, in the order of their ranges."""
        return tuple(self._actors)

    async def warm(self, count: int) -> None:
        """Have as many up as `count`, beside those that hold parameters.

        Those that get no CPU in `START_S` are done without. Raises `NoServer` where none is left.
        """
        async with self._changing:
            await self._warm(count)

    async def begin(self, count: int, layout: Layout, source: First | Saved) -> None:
        """Load parameters into `count` servers, fresh or from a checkpoint.

        Raises `ServersLost`.
        """
        async with self._changing:
            down = await _down(self._actors)
            self._actors = [actor for actor in self._actors if actor not in down]
            await self._warm(count)
            if isinstance(source, First):
                await self._hold(count, layout, "load_first", ray.put(source.values))
            else:
                await self._hold(count, layout, "load_saved", source)

    async def resize(self, count: int, layout: Layout, exported: Sequence[Any]) -> None:
        """Divide what was exported among `count` servers anew; those too many end.

        Raises `ServersLost`.
        """
        async with self._changing:
            await self._warm(count)
            await self._hold(count, layout, "load", *exported)

    def export(self) -> list[Any]:
        """References to what each server holds: the data goes from server to server."""
        return [actor.export.remote() for actor in self._actors]

    async def save(
        self, saved: Saved, layout: Layout, carried: bytes, exported: Sequence[Any]
    ) -> None:
        """Have what was exported written as a checkpoint.

        Raises `ServersLost`, and `CheckpointError` where it cannot be written.
        """
        try:
            await _all([self._actors[0].save.remote(saved, layout, carried, *exported)])
        except RayTaskError as error:
            raise CheckpointError(saved.path, error.cause) from None

    async def carried(self, saved: Saved, layout: Layout) -> bytes:
        """What workers kept for themselves at a boundary: a server reads it, which has torch.

        Raises `ServersLost`.
        """
        reading = self._actors[0].carried.remote(saved, layout)
        await _all([reading])
        carried: bytes = await reading
        return carried

    def end(self) -> None:
        """End all of them."""
        for actor in (*self._actors, *self._spare):
            ray.kill(actor)

    async def _warm(self, count: int) -> None:
        missing = count - len(self._actors) - len(self._spare)
        self._spare += [ray.remote(num_cpus=1)(ParameterServer).remote() for _ in range(missing)]
        down = await _down(self._spare)
        self._spare = [actor for actor in self._spare if actor not in down]
        for actor in down:
            ray.kill(actor)
        if not self._actors and not self._spare:
            raise NoServer("no parameter server could be started: each needs a CPU of its own")

    async def _hold(self, count: int, layout: Layout, method: str, *source: Any) -> None:
        everyone = [*self._actors, *self._spare]
        self._actors, self._spare = everyone[:count], []
        self.ranges = even_ranges(layout.numbers, len(self._actors))
        self.loaded += 1
        loads = [
            getattr(actor, method).remote(self.loaded, layout, held, *source)
            for actor, held in zip(self._actors, self.ranges, strict=True)
        ]
        await _all(loads)
        for actor in everyone[count:]:
            ray.kill(actor)


async def _down(actors: list[Any]) -> list[Any]:
    """Those that do not answer."""
    up = await asyncio.gather(*map(_is_up, actors))
    return [actor for actor, answers in zip(actors, up, strict=True) if not answers]


async def _is_up(actor: Any) -> bool:
    try:
        await asyncio.wait_for(actor.ping.remote(), START_S)
    except (RayError, asyncio.TimeoutError):
        return False
    return True


async def _all(answers: Sequence[Any]) -> None:
    """Wait for servers. Raises `ServersLost` where one is gone, else what one of them raised."""
    for error in await asyncio.gather(*answers, return_exceptions=True):
        if isinstance(error, BaseException):
            raise ServersLost(str(error).splitlines()[0]) if is_loss(error) else error
