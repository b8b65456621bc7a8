"""What is to happen when, in virtual time."""

from __future__ import annotations

from collections.abc import Callable
from enum import IntEnum
from heapq import heappop, heappush
from typing import NamedTuple, TypeAlias

Deed: TypeAlias = Callable[[float], None]
"""What happens, given the time at which it does: not before the one it was noted for."""


class Kind(IntEnum):
    """What happens first where several things happen at one time: what frees GPUs before what
    asks for them, all of it before the policy answers, and its answer before anyone acts on it."""

    OUTSIDE = 0
    END = 1
    BOUNDARY = 2
    STOPPED = 3
    FREED = 4
    LOAN = 5
    ARRIVAL = 6
    ANSWER = 7
    PICK_UP = 8
    STARTED = 9


class Entry(NamedTuple):
    """Something that will happen. Ties break by kind, then by the number of the job or server,
    then by which was noted first."""

    at_s: float
    kind: Kind
    number: int
    noted: int
    deed: Deed


class Agenda:
    """Entries in the order in which they will happen."""

    def __init__(self) -> None:
        self._entries: list[Entry] = []
        self._noted = 0
        self._from_outside = 0

    def note(self, at_s: float, kind: Kind, number: int, deed: Deed) -> None:
        """Have something happen at that time."""
        self._noted += 1
        self._from_outside += kind is Kind.OUTSIDE
        heappush(self._entries, Entry(at_s, kind, number, self._noted, deed))

    def take(self) -> Entry:
        """The next entry, off the agenda."""
        entry = heappop(self._entries)
        self._from_outside -= entry.kind is Kind.OUTSIDE
        return entry

    @property
    def next_s(self) -> float | None:
        """When the next entry is due. None: nothing is left."""
        return self._entries[0].at_s if self._entries else None

    @property
    def only_outside(self) -> bool:
        """Whether all that is left comes from outside."""
        return len(self._entries) == self._from_outside
