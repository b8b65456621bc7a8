"""Recovery (apply the recorded decisions) and replay (solve again, and compare)."""

from __future__ import annotations

from dataclasses import dataclass, field

from raysched import codec
from raysched.actions import AskLoaning, AskPolicy
from raysched.engine import Engine, LoadPolicy
from raysched.events import Event, LoaningDecided, PolicyDecided
from raysched.journal import Journal, versions
from raysched.questions import LoadLoaning, Question, question


def recover(journal: Journal, load_policy: LoadPolicy) -> Engine:
    """The engine as it was after the last row: newest snapshot, then the rows behind it."""
    seq, state = journal.latest_snapshot()
    engine = Engine(state, load_policy=load_policy)
    for row in journal.rows(after=seq):
        engine.handle(row.event)
    return engine


@dataclass(frozen=True, slots=True)
class Difference:
    """A row whose decision or actions come out differently now."""

    seq: int
    what: str
    recorded: str
    replayed: str


@dataclass(slots=True)
class Replayed:
    """What a replay found."""

    rows: int = 0
    decisions: int = 0
    capped: int = 0
    versions_recorded: dict[str, str] = field(default_factory=dict)
    versions_now: dict[str, str] = field(default_factory=versions)
    differences: list[Difference] = field(default_factory=list)

    @property
    def identical(self) -> bool:
        """Whether every decision and action came out as recorded."""
        return not self.differences

    @property
    def same_versions(self) -> bool:
        """Across versions a difference is reported, and is not corruption."""
        return all(self.versions_recorded.get(k) == v for k, v in self.versions_now.items())


def replay(journal: Journal, load_policy: LoadPolicy, load_loaning: LoadLoaning) -> Replayed:
    """Rebuild every decision from the first row on, and compare it with what was recorded.

    Raises `JournalAltered` first of all, where a row was changed.
    """
    found = Replayed(rows=journal.verify(), versions_recorded=journal.header)
    engine = Engine(load_policy=load_policy)
    open_questions: dict[int, Question] = {}
    for row in journal.rows():
        asked = open_questions.pop(getattr(row.event, "ask", 0), None)
        if asked is not None:
            _compare_decision(found, row.seq, row.event, asked)
        actions = engine.handle(row.event)
        _compare(found, row.seq, "actions", *map(codec.actions_to_json, (row.actions, actions)))
        for action in actions:
            if isinstance(action, AskPolicy | AskLoaning):
                posed = question(engine, action, load_loaning)
                if posed is not None:
                    open_questions[posed.ask] = posed
    return found


def _compare_decision(found: Replayed, seq: int, recorded: Event, asked: Question) -> None:
    replayed = asked.answer(recorded.at_s)
    found.decisions += 1
    if isinstance(recorded, PolicyDecided | LoaningDecided) and recorded.decision.capped:
        found.capped += 1  # a wall clock cut it: another machine may have searched further
        return
    _compare(found, seq, "decision", *map(codec.event_to_json, (recorded, replayed)))


def _compare(found: Replayed, seq: int, what: str, recorded: str, replayed: str) -> None:
    if recorded != replayed:
        found.differences.append(Difference(seq, what, recorded, replayed))
