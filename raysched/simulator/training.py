"""One job on one grant: how far it is at any time, computed and not stepped."""

from __future__ import annotations

import math
from collections.abc import Mapping
from dataclasses import dataclass, field

from raysched.actions import Grant
from raysched.simulator.models import Costs
from raysched.simulator.scenario import Arrival

ROUNDING_EPOCHS = 1e-9
"""So much below a whole number of epochs is that number."""


@dataclass(slots=True)
class Progress:
    """A job over all its grants."""

    arrival: Arrival
    number: int  # in the order of arrival
    costs: Costs
    done: float = 0.0  # epochs that its checkpoint holds; part of one where it left within it
    reported: int = 0  # epochs that the scheduler knows of
    workers: int = 0  # on its last grant; 0: it never ran
    put_off: bool = False  # its last workers were preempted or lost

    def start_s(self, workers: int) -> float:
        """From the pick-up of a grant of so many workers to training on it."""
        if self.put_off:
            return self.costs.preempted_s
        if self.workers == 0:
            return self.costs.start_s
        if self.workers > workers and self.costs.shrink_s is not None:
            return self.costs.shrink_s
        return self.costs.move_s if self.workers == workers else self.costs.resize_s


@dataclass(slots=True)
class Training:
    """Workers that train at a steady pace since `from_s`, pauses apart."""

    progress: Progress
    grant: Grant
    number: int  # in the order in which groups started
    from_s: float
    reported_s: float
    rate: float = 1.0  # speed on these GPUs over that on GPUs of rate 1
    paused_s: float = 0.0
    at_boundary: bool = False  # it leaves, or changes its batch, at a boundary on the agenda
    report_s: float = 0.0  # before then it has nothing to report
    joiners: dict[tuple[str, int], float] = field(default_factory=dict)
    """By server and number there: when a worker that an offer adds is warm."""
    epoch_s: float = field(init=False)  # seconds that an epoch takes on these workers
    lasts: float = field(init=False)
    """Epochs after which it is over: all of them, or those until its code raises."""
    end: int = 0  # the entry of its end on the agenda

    def __post_init__(self) -> None:
        fails = self.progress.arrival.fails_epochs
        self.lasts = min(math.inf if fails is None else fails, float(self.epochs))
        self.stand_on(self.grant)

    @property
    def job(self) -> str:
        """Its id."""
        return self.progress.arrival.job

    @property
    def epochs(self) -> int:
        """Epochs of the whole job."""
        return self.progress.arrival.spec.epochs

    def stand_on(self, grant: Grant) -> None:
        """Train by this grant, on as many workers, maybe with another batch."""
        self.grant = grant
        seconds = self.progress.arrival.seconds_on(grant.servers, grant.batch_size)
        self.epoch_s = seconds / self.rate

    def go_on(self, grant: Grant, done: float, now_s: float) -> None:
        """Train by this grant from now on, with so many epochs done."""
        self.progress.done = done
        self.from_s, self.paused_s = now_s, 0.0
        self.stand_on(grant)

    def stop(self) -> None:
        """Its workers stop. What is done is in the checkpoint; without one the job starts over."""
        self.progress.workers = self.grant.workers
        if not self.progress.arrival.spec.checkpoints:
            self.progress.done, self.progress.reported = 0.0, 0

    def expect_joiners(self, servers: Mapping[str, int], warm_s: float) -> None:
        """Those who join for an offer of workers by server; any who is new is warm by then. Whoever
        was to join for another one, and is not in it, goes."""
        standing = self.grant.servers
        self.joiners = {
            (server, number): self.joiners.get((server, number), warm_s)
            for server, workers in servers.items()
            for number in range(standing.get(server, 0), workers)
        }

    @property
    def warm_s(self) -> float:
        """When all who join are warm."""
        return max(self.joiners.values(), default=self.from_s)

    @property
    def fails(self) -> bool:
        """Whether its code will raise."""
        return self.progress.arrival.fails_epochs is not None

    @property
    def ends_s(self) -> float:
        """When it is over."""
        return self.reaches_s(self.lasts)

    def reaches_s(self, epochs: float) -> float:
        """When so many epochs are done."""
        return self.from_s + self.paused_s + (epochs - self.progress.done) * self.epoch_s

    def done(self, now_s: float) -> float:
        """Epochs that are done by now."""
        trained_s = max(now_s - self.from_s - self.paused_s, 0.0)
        return min(self.progress.done + trained_s / self.epoch_s, self.lasts)

    def whole(self, now_s: float) -> int:
        """Whole epochs that are done by now, the one apart with which the job is over."""
        return min(math.floor(self.done(now_s) + ROUNDING_EPOCHS), math.ceil(self.lasts) - 1)

    def saved(self, now_s: float) -> float:
        """Epochs that a checkpoint holds by now: whole ones, and of the one under way what was done
        at its last safe point."""
        done = self.done(now_s)
        saved = max(float(math.floor(done + ROUNDING_EPOCHS)), self.progress.done)
        every_s = self.progress.arrival.spec.every_s
        if every_s is not None:
            every = every_s / self.epoch_s
            saved += math.floor((done - saved) / every + ROUNDING_EPOCHS) * every
        return saved

    def next_boundary(self, now_s: float) -> int:
        """Epochs done at the first boundary from now on that was not reported yet."""
        upcoming = math.ceil(self.done(now_s) - ROUNDING_EPOCHS)
        return max(upcoming, self.progress.reported + 1, math.floor(self.progress.done) + 1)
