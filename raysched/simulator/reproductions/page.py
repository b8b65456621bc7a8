"""The page of a reproduction: each experiment, the paper's figures, ours, and why they differ."""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import asdict
from statistics import mean, stdev
from typing import Any, TypeAlias

from raysched.simulator.reproductions.experiment import Experiment, Report

Entry: TypeAlias = dict[str, Any]
"""An experiment's report as JSON."""

Document: TypeAlias = dict[str, dict[str, Entry]]
"""Entries by paper and by experiment."""

_HEAD = """\
# Reproduction

What five papers report, and what their systems do here: the same policies that run on the live
cluster, in the simulator. Every number under *ours* was printed by the command that stands over its
table; where traces are generated it is the mean over seeds ± the standard deviation. A claim is an
ordering or a range that the paper states, and whether it holds here.
"""


def entry(experiment: Experiment, report: Report, *, command: str, picture: str | None) -> Entry:
    """What is kept of an experiment. `picture`: its path, from the page."""
    return {
        "title": experiment.title,
        "source": experiment.source,
        "command": command,
        "picture": picture,
        **asdict(report),
        "why": " ".join(report.why.split()),  # texts are broken where the source's lines end
    }


def told(ours: Sequence[float], unit: str) -> str:
    """Mean and spread, as in `31.2 ± 3.1 %`."""
    after = f" {unit}" if unit else ""
    if not ours:
        return "–"
    spread = f" ± {_number(stdev(ours))}" if len(ours) > 1 else ""
    return f"{_number(mean(ours))}{spread}{after}"


def claims(document: Document) -> tuple[int, int]:
    """How many claims hold, and of how many."""
    held = [
        c["holds"] for entries in document.values() for e in entries.values() for c in e["claims"]
    ]
    return sum(held), len(held)


def markdown(document: Document) -> str:
    """The whole page."""
    return "\n".join([_HEAD, _overview(document), *_papers(document)])


def _overview(document: Document) -> str:
    lines = ["| paper | experiments | claims that hold |", "| --- | --- | --- |"]
    for paper, entries in document.items():
        held, made = claims({paper: entries})
        lines.append(f"| [{paper}](#{paper}) | {len(entries)} | {held} of {made} |")
    return "\n".join(lines) + "\n"


def _papers(document: Document) -> Iterator[str]:
    for paper, entries in document.items():
        yield f"## {paper}\n"
        for name, found in entries.items():
            yield from _experiment(paper, name, found)


def _experiment(paper: str, name: str, found: Mapping[str, Any]) -> Iterator[str]:
    yield f"### {found['source']}: {found['title']}\n"
    yield f"`{found['command']}`\n"
    if found["rows"]:
        yield "| | paper | ours |\n| --- | --- | --- |"
        for row in found["rows"]:
            yield f"| {row['what']} | {row['paper'] or '–'} | {told(row['ours'], row['unit'])} |"
        yield ""
    for claim in found["claims"]:
        yield f"- {'holds' if claim['holds'] else '**does not hold**'}: {claim['text']}"
    if found["claims"]:
        yield ""
    if found["why"]:
        yield f"{found['why']}\n"
    if found["picture"]:
        yield f"![{paper} {name}]({found['picture']})\n"


def _number(value: float) -> str:
    """Three figures that count, none behind the point where there are three before it."""
    if value == 0:
        return "0"
    if abs(value) >= 100:
        return f"{value:,.0f}"
    return f"{value:.3g}" if abs(value) >= 0.001 else f"{value:.1e}"
