"""What `raysched reproduce` shows on a terminal."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from contextlib import contextmanager

from rich.console import Console
from rich.table import Table

from raysched.simulator.progress import bars
from raysched.simulator.reproductions.command import Plan
from raysched.simulator.reproductions.experiment import Run
from raysched.simulator.reproductions.page import Document, claims, told


def announce(plan: Plan) -> None:
    """Say what it will cost before it begins, and what is left out."""
    console = Console(stderr=True)
    for name in plan.without_traces:
        console.print(f"{name}: left out, its traces are not at hand; pass --traces")
    cost = plan.forecast
    kept = cost.runs - len(cost.to_do)
    minutes = cost.wall_s / 60
    console.print(
        f"{len(plan.chosen)} experiments, {cost.runs} runs, {kept} of them done before; "
        f"about {minutes:.1f} minutes on {cost.processes} processes"
    )


@contextmanager
def progress(plan: Plan, *, quiet: bool) -> Iterator[Callable[[Run], None]]:
    """A bar with the time that is left, on standard error."""
    to_do = plan.forecast.to_do
    with bars(quiet=quiet or not to_do) as display:
        # Long runs come first, so time left is judged by what runs cost, not by their number.
        bar = display.add_task("runs", total=sum(run.cpu_s for run in to_do))
        yield lambda run: display.advance(bar, run.cpu_s)


def show(document: Document) -> None:
    """A table an experiment: paper and ours side by side."""
    console = Console()
    for paper, entries in document.items():
        for found in entries.values():
            table = Table("", "paper", "ours", box=None, padding=(0, 2), title_justify="left")
            table.title = f"{paper}, {found['source']}: {found['title']}"
            for row in found["rows"]:
                table.add_row(row["what"], row["paper"], told(row["ours"], row["unit"]))
            console.print(table)
            for claim in found["claims"]:
                console.print(
                    f"  {'holds' if claim['holds'] else 'DOES NOT HOLD'}: {claim['text']}"
                )
            console.print(f"  {found['why']}\n")
    held, made = claims(document)
    console.print(f"{held} of {made} claims hold")
