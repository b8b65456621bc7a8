"""What `raysched simulate` shows on a terminal."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager
from typing import Any

from rich.console import Console
from rich.progress import Progress
from rich.table import Table

from raysched.simulator.compare import Metrics, Watch


def show(found: dict[str, Metrics]) -> None:
    """Print a row a metric, a column a policy."""
    table = Table("", *found, box=None, padding=(0, 2))
    for column in table.columns[1:]:
        column.justify = "right"
    for name in next(iter(found.values())):
        table.add_row(name, *(_told(measured[name]) for measured in found.values()))
    Console().print(table)


@contextmanager
def progress(*, quiet: bool) -> Iterator[Watch]:
    """A bar a policy while simulations run, on standard error."""
    bars: dict[str, Any] = {}
    with Progress(console=Console(stderr=True), transient=True, disable=quiet) as display:

        def watch(policy: str, over: int, total: int) -> None:
            if policy not in bars:
                bars[policy] = display.add_task(policy, total=total)
            display.update(bars[policy], completed=over)

        yield watch


def _told(value: float | int | None) -> str:
    if value is None:
        return "–"
    return f"{value:,.3f}".rstrip("0").rstrip(".") if isinstance(value, float) else f"{value:,}"
