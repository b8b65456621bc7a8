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
        self._struck: set[int] = set()
        self._noted = 0
        self._ours = 0

    def note(self, at_s: float, kind: Kind, number: int, deed: Deed) -> int:
        """Have something happen at that time; its name, to strike it off."""
        self._noted += 1
        self._ours += kind is not Kind.OUTSIDE
        heappush(self._entries, Entry(at_s, kind, number, self._noted, deed))
        return self._noted

    def put_off(self, entry: Entry, at_s: float) -> None:
        """Have what was taken off the agenda happen later, under its old name."""
        self._ours += entry.kind is not Kind.OUTSIDE
        heappush(self._entries, entry._replace(at_s=at_s))

    def strike(self, noted: int) -> None:
        """Something that is not from outside, and still on the agenda, will not happen."""
        self._struck.add(noted)
        self._ours -= 1

    def take(self) -> Entry:
        """The next entry, off the agenda. Raises `IndexError` where there is none."""
        self._skip_struck()
        entry = heappop(self._entries)
        self._ours -= entry.kind is not Kind.OUTSIDE
        return entry

    @property
    def next_s(self) -> float | None:
        """When the next entry is due. None: nothing is left."""
        self._skip_struck()
        return self._entries[0].at_s if self._entries else None

    @property
    def only_outside(self) -> bool:
        """Whether all that is left comes from outside."""
        return self._ours == 0

    def _skip_struck(self) -> None:
        while self._entries and self._entries[0].noted in self._struck:
            self._struck.remove(heappop(self._entries).noted)
