"""The coordinator's part in the scheduler's protocol (`raysched.runtime.protocol`)."""

from __future__ import annotations

import asyncio
from collections.abc import Mapping

from raysched.errors import JobStopped
from raysched.runtime import link
from raysched.runtime.protocol import (
    CURRENT_GRANT,
    BoundaryReport,
    GrantedSlots,
    Place,
    Slot,
    Standing,
    numbers,
)

POLL_S = 0.2


def places(granted: GrantedSlots | None) -> dict[Place, Slot]:
    """The slots of a grant by place: those of two grants with the same place are one."""
    return {slot.place: slot for slot in granted.slots} if granted else {}


class Seat:
    """The grant that a job trains on, and the offer beside it."""

    def __init__(self, job: str) -> None:
        self._job = job
        self.granted: GrantedSlots | None = None
        self.offered: GrantedSlots | None = None

    async def take(self) -> GrantedSlots:
        """Wait for a grant. Raises `JobStopped` where none will come."""
        while True:
            standing: Standing = await link.acall("standing", self._job)
            if standing.ended:
                raise JobStopped(standing.ended)
            if standing.granted is not None:
                self.granted, self.offered = standing.granted, None
                return standing.granted
            await asyncio.sleep(POLL_S)

    async def started(self, start_s: float) -> None:
        """All workers of the grant train."""
        await link.acall("workers_started", self._job, self._grant, start_s, True)

    async def next_offer(self) -> GrantedSlots | None:
        """The offer, when it is another one than the last; None: there is none any more."""
        known = self.offered.grant if self.offered else 0
        while True:
            standing: Standing = await link.acall("offered", self._job, self._grant, known)
            found = standing.granted
            if (found.grant if found else 0) != known:
                self.offered = found
                return found

    async def ready(self, offer: GrantedSlots) -> None:
        """Those who join for an offer are warm, or cannot be had while the job trains."""
        await link.acall("offer_ready", self._job, offer.grant)

    async def boundary(self, epoch: int, epoch_s: float, metrics: Mapping[str, float]) -> int:
        """An epoch is done and saved; the grant to go on with."""
        report = BoundaryReport(self._job, self._grant, epoch, epoch_s, numbers(metrics))
        grant, _ = await link.acall("boundary", report)
        return int(grant)

    def stands(self, grant: int) -> bool:
        """Whether this is the grant that the job trains on."""
        return grant == self._grant

    async def slots_of(self, grant: int) -> GrantedSlots | None:
        """The slots of an offer that a boundary named; None: it has none, or was withdrawn."""
        if grant < 0:
            return None
        standing: Standing = await link.acall("offered", self._job, self._grant, 0)
        found = standing.granted
        return found if found is not None and found.grant == grant and found.slots else None

    async def went_over(self, offer: GrantedSlots) -> bool:
        """The workers are those of the offer now. False: it was withdrawn meanwhile, and they must
        stop."""
        if await link.acall("workers_resized", self._job, offer.grant):
            self.granted, self.offered = offer, None
            return True
        return False

    async def stopped(self, *, lost: bool, cause: str = "") -> None:
        """The workers of the grant are gone."""
        if self.granted is not None:
            await link.acall("workers_stopped", self._job, self._grant, lost, cause)
        self.granted = self.offered = None

    async def restarted(self, cause: str) -> None:
        """Whatever grant the job had, its workers are gone."""
        await link.acall("workers_stopped", self._job, CURRENT_GRANT, True, cause)

    @property
    def _grant(self) -> int:
        assert self.granted is not None
        return self.granted.grant
