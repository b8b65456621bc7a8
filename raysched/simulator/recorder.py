"""The journal of a simulation: the rows that a live scheduler would have written."""

from __future__ import annotations

from raysched.actions import Action
from raysched.events import Event
from raysched.journal import Entry, Journal

COMMIT_EVERY = 1000
"""Rows in a transaction: there is no crash to survive, only a file to fill."""


class Recorder:
    """Writes events and their actions into a journal, in groups."""

    def __init__(self, journal: Journal) -> None:
        self._journal = journal
        self._entries: list[Entry] = []

    def note(self, event: Event, actions: list[Action]) -> None:
        """Take an event in with what followed from it."""
        self._entries.append(Entry.of(event, actions))
        if len(self._entries) >= COMMIT_EVERY:
            self.commit()

    def commit(self) -> None:
        """Write what was noted."""
        self._journal.append(self._entries)
        self._entries = []
