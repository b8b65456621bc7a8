"""What the demo shows while it runs: a live table on a terminal, a line now and then elsewhere."""

from __future__ import annotations

import time
from typing import Any

from rich.console import Console, Group
from rich.live import Live
from rich.text import Text

from raysched import screens
from serve_inference.load import LoadView

LINE_EVERY_S = 10.0


class Display:
    """A context manager; `show` it the state of things as often as you like."""

    def __init__(self, *, quiet: bool = False) -> None:
        self._console = Console(quiet=quiet)
        self._live: Live | None = None
        self._last_line_s = float("-inf")

    def __enter__(self) -> Display:
        if self._console.is_terminal:
            self._live = Live(console=self._console, refresh_per_second=4)
            self._live.start()
        return self

    def __exit__(self, *_: object) -> None:
        if self._live is not None:
            self._live.stop()

    def say(self, text: str) -> None:
        """Print a line for good."""
        self._console.print(text, highlight=False, markup=False)

    def show(self, status: dict[str, Any], load: LoadView) -> None:
        """Show jobs, servers and traffic as they are now."""
        if self._live is not None:
            self._live.update(Group(screens.status_view(status), Text(_traffic(load), "bold")))
        elif time.monotonic() - self._last_line_s >= LINE_EVERY_S:
            self._last_line_s = time.monotonic()
            self.say(_line(status, load))


def _traffic(load: LoadView) -> str:
    latency = "" if load.p50_ms is None else f", p50 {load.p50_ms:.0f} ms, p99 {load.p99_ms:.0f} ms"
    return (
        f"traffic {load.rate_rps:.0f} requests/s: {load.sent} sent, {load.failed} failed, "
        f"{load.in_flight} in flight{latency}"
    )


def _line(status: dict[str, Any], load: LoadView) -> str:
    jobs = [
        f"{job['job']} {job['phase']} {job['workers']}w {job['epochs_done']}/{job['epochs']}"
        for job in status["jobs"]
        if job["phase"] != "finished"
    ]
    loans = [s["server"] for s in status["servers"] if s["loan"] != "none"]
    lent = f" · lent {', '.join(loans)}" if loans else ""
    return f"{load.at_s:4.0f} s · {' · '.join(jobs) or 'no jobs'}{lent} · {_traffic(load)}"
