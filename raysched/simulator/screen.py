"""What `raysched simulate` shows on a terminal."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager
from itertools import zip_longest

from rich.console import Console
from rich.table import Table

from raysched.simulator.compare import MEASURED, Compared, Metrics, Watch
from raysched.simulator.progress import bars

MOST_SHOWN = 40
"""Completions that a screen has room for."""

_WIDE = 10_000


def show(found: Compared) -> None:
    """Print a row a metric, a column a policy. Beside a run that was measured: by how much each
    value differs from it, and in which order jobs completed."""
    measured = found.metrics.get(MEASURED)
    table = _table("", *found.metrics)
    for name in dict.fromkeys(name for of_one in found.metrics.values() for name in of_one):
        cells = (_cell(name, of_one, measured) for of_one in found.metrics.values())
        table.add_row(name, *cells)
    _print(table)
    if measured is not None:
        _print_completions(found)


@contextmanager
def progress(runs: int, *, quiet: bool) -> Iterator[Watch]:
    """A bar over all simulations, each counted alike, on standard error."""
    begun: dict[str, None] = {}
    with bars(quiet=quiet) as display:
        bar = display.add_task("", total=float(runs))

        def watch(policy: str, over: int, total: int) -> None:
            begun.setdefault(policy)
            done = len(begun) - 1 + over / max(total, 1)
            display.update(bar, completed=done, description=f"{policy} ({len(begun)} of {runs})")

        yield watch


def _print_completions(found: Compared) -> None:
    """A row a place, a column a policy; then how well each order agrees with the measured one."""
    orders = found.completions
    table = _table("completed", *orders)
    for place, jobs in enumerate(zip_longest(*orders.values(), fillvalue="–"), start=1):
        if place > MOST_SHOWN:
            table.add_row("…", *("jobs.csv" for _ in jobs))
            break
        table.add_row(str(place), *jobs)
    _print(table)
    for policy in found.metrics:
        if policy != MEASURED:
            same = "the measured order" if orders[policy] == orders[MEASURED] else "another order"
            tau = found.metrics[policy]["completion_order_tau"]
            swap_s = found.metrics[policy]["completion_swap_s"]
            swaps = f"; swaps within {_told(swap_s)} s" if swap_s else ""
            Console().print(f"{policy}: {same}, Kendall's tau {_told(tau)}{swaps}")


def _table(*columns: str) -> Table:
    table = Table(*columns, box=None, padding=(0, 2))
    for column in table.columns[1:]:
        column.justify = "right"
    return table


def _print(table: Table) -> None:
    """On a terminal as wide as that is, elsewhere as wide as the table is."""
    console = Console()
    if not console.is_terminal:
        console.width = Console(width=_WIDE).measure(table).maximum
    console.print(table)


def _cell(name: str, of_one: Metrics, measured: Metrics | None) -> str:
    """A value, and its difference to another one that was measured."""
    value = of_one.get(name)
    was = None if measured is None or of_one is measured else measured.get(name)
    return f"{_told(value)} ({value / was - 1:+.1%})" if was and value is not None else _told(value)


def _told(value: float | int | None) -> str:
    if value is None:
        return "–"
    return f"{value:,.3f}".rstrip("0").rstrip(".") if isinstance(value, float) else f"{value:,}"
