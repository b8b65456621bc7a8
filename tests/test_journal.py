"""The journal: facts in order, a chain that shows tampering, recovery and replay."""

from __future__ import annotations

import json
import sqlite3
from dataclasses import replace
from itertools import starmap

import pytest
from click.testing import CliRunner

from loaning import registry as loaning_registry
from policies import registry as policy_registry
from policies.problem import Decision
from raysched import codec
from raysched.actions import Action, Offer
from raysched.cli import cli
from raysched.events import PolicyDecided
from raysched.journal import Entry, Journal, JournalAltered, JournalError
from raysched.replay import recover, replay
from tests.pretend_cluster import PretendCluster, spec


@pytest.fixture
def cluster() -> PretendCluster:
    """A short life: two jobs that run to their end."""
    made = PretendCluster()
    made.switch("aryl")
    made.add_server("t1")
    made.submit("a", spec(workers=(1, 4)))
    made.submit("b", spec(workers=(2, 2)))
    made.run_to_the_end()
    return made


@pytest.fixture
def path(cluster, tmp_path):
    """Its journal, written in groups."""
    journal = Journal(tmp_path / "journal.db")
    for start in range(0, len(cluster.log), 5):
        journal.append(starmap(Entry.of, cluster.log[start : start + 5]))
    journal.close()
    return journal.path


def alter(path, sql: str, *arguments: object) -> None:
    with sqlite3.connect(path) as db:
        db.execute(sql, arguments)


def test_rows_come_back_as_they_were_written(cluster, path):
    rows = list(Journal(path).rows())
    assert [(row.event, row.actions) for row in rows] == cluster.log
    assert [row.seq for row in rows] == list(range(1, len(cluster.log) + 1))


def test_a_journal_that_is_opened_again_goes_on_where_it_ended(cluster, path):
    journal = Journal(path)
    journal.append(starmap(Entry.of, cluster.log[:2]))
    assert journal.verify() == len(cluster.log) + 2


def test_recovery_applies_decisions_and_never_solves(cluster, path, monkeypatch):
    aryl = policy_registry.load("aryl", {})
    monkeypatch.setattr(type(aryl), "decide", lambda *_: pytest.fail("recovery solved again"))
    recovered = recover(Journal(path), policy_registry.load)
    assert codec.state_to_json(recovered.state) == codec.state_to_json(cluster.engine.state)


@pytest.mark.parametrize("share", [0.0, 0.5, 1.0])
def test_recovery_from_a_snapshot_is_the_same_as_from_the_start(cluster, tmp_path, share):
    journal = Journal(tmp_path / "journal.db")
    cut = int(share * len(cluster.log))
    journal.append(starmap(Entry.of, cluster.log[:cut]))
    journal.snapshot(recover(journal, policy_registry.load).state)
    journal.append(starmap(Entry.of, cluster.log[cut:]))
    recovered = recover(journal, policy_registry.load)
    assert codec.state_to_json(recovered.state) == codec.state_to_json(cluster.engine.state)


def test_replay_takes_every_decision_again(path):
    found = replay(Journal(path), policy_registry.load, loaning_registry.load)
    assert found.identical
    assert found.decisions > 0
    assert found.same_versions


@pytest.mark.parametrize(
    "sql",
    [
        "UPDATE rows SET event = replace(event, '\"at_s\":0.0', '\"at_s\":0.5') WHERE seq = 3",
        "UPDATE rows SET actions = '[]' || ' ' WHERE seq = 3",
        "UPDATE rows SET hash = 'f' WHERE seq = 3",
        "DELETE FROM rows WHERE seq = 3",
    ],
)
def test_an_altered_row_is_named(path, sql):
    alter(path, sql)
    with pytest.raises(JournalAltered, match="row 3 was altered"):
        Journal(path).verify()


def test_a_row_that_was_forged_with_its_hash_breaks_the_chain(cluster, path, tmp_path):
    """Its own hash is right; the next row's covers the one that stood there before."""
    event, actions = cluster.log[2]
    forged = Journal(tmp_path / "forged.db")
    log = [*cluster.log[:2], (replace(event, at_s=0.5), actions)]
    forged.append(starmap(Entry.of, log))
    forged.close()
    with sqlite3.connect(path) as db:
        db.execute("ATTACH ? AS forged", (str(forged.path),))
        db.execute("REPLACE INTO rows SELECT * FROM forged.rows WHERE seq = 3")
    with pytest.raises(JournalAltered, match="row 4 was altered"):
        Journal(path).verify()


def a_decision(cluster: PretendCluster) -> tuple[int, PolicyDecided, list[Action]]:
    """The first decision that starts a job, and its place in the log."""
    return next(
        (index, event, actions)
        for index, (event, actions) in enumerate(cluster.log)
        if isinstance(event, PolicyDecided) and any(isinstance(a, Offer) for a in actions)
    )


def test_a_decision_that_comes_out_differently_is_a_difference_not_corruption(cluster, tmp_path):
    index, event, actions = a_decision(cluster)
    other = PolicyDecided(event.at_s, event.ask, Decision({}), {})
    journal = Journal(tmp_path / "journal.db")
    journal.append(starmap(Entry.of, [*cluster.log[:index], (other, actions)]))
    found = replay(journal, policy_registry.load, loaning_registry.load)
    assert [(d.seq, d.what) for d in found.differences] == [
        (index + 1, "decision"),
        (index + 1, "actions"),
    ]


def test_a_capped_decision_is_not_compared(cluster, tmp_path):
    index, event, actions = a_decision(cluster)
    capped = Decision(event.decision.allocations, review_at_s=9.0, capped=True)
    journal = Journal(tmp_path / "journal.db")
    log = [*cluster.log[:index], (PolicyDecided(event.at_s, event.ask, capped, {}), actions)]
    journal.append(starmap(Entry.of, log))
    found = replay(journal, policy_registry.load, loaning_registry.load)
    assert (found.identical, found.capped) == (True, 1)


class TestCommands:
    """`raysched journal …` as a user runs it."""

    def test_replay_says_identical(self, path):
        result = CliRunner().invoke(cli, ["journal", "replay", str(path)])
        assert result.exit_code == 0
        assert "every decision and action is identical" in result.output

    def test_replay_of_an_altered_journal_fails_and_names_the_row(self, path):
        alter(path, "UPDATE rows SET event = event || ' ' WHERE seq = 7")
        result = CliRunner().invoke(cli, ["journal", "replay", str(path), "--json"])
        assert result.exit_code == 1
        assert json.loads(result.output)["altered_row"] == 7

    def test_export_is_a_line_of_json_a_row(self, path, cluster):
        result = CliRunner().invoke(cli, ["journal", "export", str(path)])
        lines = [json.loads(line) for line in result.output.splitlines()]
        assert len(lines) == len(cluster.log)
        assert lines[0]["event"]["kind"] == "policy_switched"
        array = CliRunner().invoke(cli, ["journal", "export", str(path), "--json"]).output
        assert json.loads(array) == lines


def test_a_file_that_is_no_journal_is_refused_in_one_line(tmp_path):
    (tmp_path / "notes.txt").write_text("not a database, whatever its name says" * 20)
    with pytest.raises(JournalError, match=r"notes\.txt"):
        Journal(tmp_path / "notes.txt", must_exist=True)
    with pytest.raises(JournalError, match="there is no such journal"):
        Journal(tmp_path / "absent.db", must_exist=True)
