"""Microsoft's Philly trace: when a job came, how many GPUs it held, and for how long."""

from __future__ import annotations

from pathlib import Path

from raysched.simulator.models import Scaling
from raysched.simulator.scenario import Arrival
from raysched.simulator.traces.rows import Row, rows
from raysched.simulator.traces.times import at_s
from raysched.simulator.traces.trace import LINEAR, Trace, in_order, sized_job

COLUMNS = {"timestamp", "duration", "num_gpus", "cluster"}


def fits(columns: tuple[str, ...]) -> bool:
    """Whether a table with these columns is such a trace."""
    return set(columns) >= COLUMNS


def read(
    path: Path,
    *,
    skip_bad: bool = False,
    elastic: int = 1,
    scaling: Scaling = LINEAR,
    cluster: str | None = None,
) -> Trace:
    """Jobs that run their duration on the trace's GPUs, each a worker; the virtual cluster is the
    tenant. `cluster`: jobs of this one only.

    The trace does not say how jobs scale: they keep their size, or may have up to `elastic` times
    as many workers, by `scaling`. Jobs are named by the line on which they stand.
    """

    def read_job(row: Row) -> Arrival:
        return sized_job(
            f"philly-{row.line}",
            at_s(row, "timestamp"),
            row.whole("num_gpus", least=1),
            row.number("duration", above_0=True),
            elastic=elastic,
            scaling=scaling,
            tenant=row.text("cluster"),
        )

    chosen = (row for row in rows(path) if cluster in (None, row.cells["cluster"]))
    return in_order("philly", chosen, read_job, skip_bad=skip_bad)
