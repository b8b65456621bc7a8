"""The bar of a long command."""

from __future__ import annotations

from rich.console import Console
from rich.progress import Progress

JUDGED_BY_S = 600.0
"""The time left is judged by the pace of so long: runs are done in bursts."""


def bars(*, quiet: bool) -> Progress:
    """Bars with what is done and the time that is left, on standard error; gone in the end."""
    return Progress(
        console=Console(stderr=True),
        transient=True,
        disable=quiet,
        speed_estimate_period=JUDGED_BY_S,
    )
