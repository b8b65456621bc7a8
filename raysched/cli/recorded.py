"""Commands on a journal: decisions are taken again, or printed."""

from __future__ import annotations

import sys
from pathlib import Path
from typing import Any

import click

from raysched.cli.options import answer, json_option


@click.group()
def journal() -> None:
    """The journal: every event and decision."""


@journal.command("replay")
@click.argument("path", type=click.Path(path_type=Path))
@json_option
def journal_replay(path: Path, as_json: bool) -> None:
    """Take every decision again, and compare it with what was recorded.

    Exit status 1 where a row was altered or a decision differs.
    """
    from loaning import registry as loaning_registry
    from policies import registry as policy_registry
    from raysched.journal import Journal, JournalAltered
    from raysched.replay import replay

    opened = Journal(path, must_exist=True)
    try:
        found = replay(opened, policy_registry.load, loaning_registry.load)
    except JournalAltered as altered:
        answer({"identical": False, "altered_row": altered.seq}, f"{path}: {altered}", as_json)
        sys.exit(1)
    finally:
        opened.close()
    from raysched import screens

    report, text = screens.replay_report(found)
    answer(report, text, as_json)
    sys.exit(0 if found.identical or not found.same_versions else 1)


@journal.command("export")
@click.argument("path", type=click.Path(path_type=Path))
@click.option(
    "--out", type=click.File("w", lazy=True), default="-", help="A file; default: standard output."
)
@click.option("--json", "as_json", is_flag=True, help="One JSON array instead of lines.")
def journal_export(path: Path, out: Any, as_json: bool) -> None:
    """Every row, as a line of JSON."""
    from raysched import codec
    from raysched.journal import Journal

    opened = Journal(path, must_exist=True)
    start, between, end = ("[", ",\n", "]\n") if as_json else ("", "\n", "\n")
    with out as file:
        file.write(start)
        for row in opened.rows():
            event, actions = codec.event_to_json(row.event), codec.actions_to_json(row.actions)
            line = f'{{"actions":{actions},"event":{event},"seq":{row.seq}}}'
            file.write(line if row.seq == 1 else between + line)
        file.write(end)
    opened.close()
