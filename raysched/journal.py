"""The journal: every event and decision, in order, in SQLite (WAL), with a hash chain.

Decisions are facts (ruling 1): recovery applies the recorded ones and never solves again. A row's
hash covers the row before it, so an altered row is found before anything is compared. What the
wall clock said, and how long solving took, stands outside of what is hashed.
"""

from __future__ import annotations

import hashlib
import sqlite3
import time
from collections.abc import Iterable, Iterator
from dataclasses import dataclass
from importlib.metadata import version
from pathlib import Path

from raysched import codec
from raysched.actions import Action
from raysched.errors import UserError
from raysched.events import Event
from raysched.state import State

FORMAT = "1"

_SCHEMA = """
CREATE TABLE IF NOT EXISTS header (key TEXT PRIMARY KEY, value TEXT NOT NULL);
CREATE TABLE IF NOT EXISTS rows (
    seq INTEGER PRIMARY KEY,
    kind TEXT NOT NULL,
    event TEXT NOT NULL,
    actions TEXT NOT NULL,
    hash TEXT NOT NULL,
    written_at REAL NOT NULL
);
CREATE TABLE IF NOT EXISTS snapshots (seq INTEGER PRIMARY KEY, state TEXT NOT NULL);
"""


class JournalError(UserError):
    """A file that is not a journal, or one that cannot be read or written."""


class JournalAltered(JournalError):
    """A row does not hash to what was written: it, or a row before it, was changed."""

    def __init__(self, seq: int) -> None:
        super().__init__(seq)
        self.seq = seq

    def __str__(self) -> str:
        return f"row {self.seq} was altered: its hash does not match its content"


@dataclass(frozen=True, slots=True)
class Row:
    """One event, and the actions that were taken on it."""

    seq: int
    event: Event
    actions: list[Action]
    written_at: float


@dataclass(frozen=True, slots=True)
class Entry:
    """An event with its actions, written out: what can be written can be committed."""

    event: Event
    actions: list[Action]
    event_json: str
    actions_json: str

    @classmethod
    def of(cls, event: Event, actions: list[Action]) -> Entry:
        """Write an event out. Raises `ValueError` where a number is not finite."""
        return cls(event, actions, codec.event_to_json(event), codec.actions_to_json(actions))


class Journal:
    """An open journal. Made where the file does not exist, unless `must_exist`."""

    def __init__(self, path: Path | str, *, must_exist: bool = False) -> None:
        self.path = Path(path)
        if must_exist and not self.path.is_file():
            raise JournalError(f"{self.path}: there is no such journal")
        try:
            self._db = sqlite3.connect(self.path, isolation_level=None, check_same_thread=False)
            self._db.execute("PRAGMA journal_mode=WAL")
            self._db.execute("PRAGMA synchronous=NORMAL")
            self._db.executescript(_SCHEMA)
            self._write_header()
        except sqlite3.Error as error:
            raise JournalError(f"{self.path}: {error}") from None
        self._seq, self._hash = self._last()

    def append(self, entries: Iterable[Entry]) -> None:
        """Commit a group of events with their actions, before any of the actions is sent."""
        rows, seq, chained, now = [], self._seq, self._hash, time.time()
        for entry in entries:
            seq += 1
            chained = _chain(chained, seq, entry.event_json, entry.actions_json)
            kind = entry.event.kind
            rows.append((seq, kind, entry.event_json, entry.actions_json, chained, now))
        self._db.execute("BEGIN")
        self._db.executemany("INSERT INTO rows VALUES (?, ?, ?, ?, ?, ?)", rows)
        self._db.execute("COMMIT")
        self._seq, self._hash = seq, chained

    def snapshot(self, state: State) -> None:
        """Keep the state as it is after the last row: recovery starts from here."""
        self._db.execute(
            "INSERT OR REPLACE INTO snapshots VALUES (?, ?)",
            (self._seq, codec.state_to_json(state)),
        )

    def latest_snapshot(self) -> tuple[int, State | None]:
        """The newest snapshot and the row it stands behind; (0, None) without one."""
        found = self._db.execute(
            "SELECT seq, state FROM snapshots ORDER BY seq DESC LIMIT 1"
        ).fetchone()
        return (0, None) if found is None else (found[0], codec.state_from_json(found[1]))

    def rows(self, after: int = 0) -> Iterator[Row]:
        """Rows behind row `after`, in order, streamed."""
        query = "SELECT seq, event, actions, written_at FROM rows WHERE seq > ? ORDER BY seq"
        for seq, event, actions, written_at in self._db.execute(query, (after,)):
            yield Row(
                seq, codec.event_from_json(event), codec.actions_from_json(actions), written_at
            )

    def verify(self) -> int:
        """Walk the hash chain; the number of rows. Raises `JournalAltered` at the first odd row."""
        chained, expected = self._seed(), 0
        for seq, event, actions, recorded in self._db.execute(
            "SELECT seq, event, actions, hash FROM rows ORDER BY seq"
        ):
            expected += 1
            chained = _chain(chained, expected, event, actions)
            if seq != expected or chained != recorded:
                raise JournalAltered(expected)
        return expected

    @property
    def header(self) -> dict[str, str]:
        """The journal's format, the versions that wrote it, and when it began (Unix seconds)."""
        return dict(self._db.execute("SELECT key, value FROM header ORDER BY key").fetchall())

    def now_s(self) -> float:
        """Seconds since the journal began: the time of the events that a live body writes."""
        return time.time() - float(self.header["began_at"])

    def __len__(self) -> int:
        return self._seq

    def fold(self) -> None:
        """Fold the write-ahead log into the file, which is whole by itself then."""
        self._db.execute("PRAGMA wal_checkpoint(TRUNCATE)")

    def close(self) -> None:
        """Fold the log and close the file."""
        self.fold()
        self._db.close()

    def _write_header(self) -> None:
        written = {"format": FORMAT, "began_at": repr(time.time()), **versions()}
        self._db.executemany("INSERT OR IGNORE INTO header VALUES (?, ?)", written.items())
        if self.header["format"] != FORMAT:
            raise JournalError(f"{self.path}: format {self.header['format']}, not {FORMAT}")

    def _seed(self) -> str:
        hashed = {key: value for key, value in self.header.items() if key != "began_at"}
        return hashlib.sha256(codec.canonical(hashed).encode()).hexdigest()

    def _last(self) -> tuple[int, str]:
        found = self._db.execute("SELECT seq, hash FROM rows ORDER BY seq DESC LIMIT 1").fetchone()
        return (0, self._seed()) if found is None else (found[0], found[1])


def versions() -> dict[str, str]:
    """Versions that a decision may depend on."""
    return {name: version(name) for name in ("raysched", "numpy", "scipy", "numba")}


def _chain(previous: str, seq: int, event: str, actions: str) -> str:
    return hashlib.sha256(f"{previous}\n{seq}\n{event}\n{actions}".encode()).hexdigest()
