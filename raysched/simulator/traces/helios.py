"""SenseTime's Helios traces: a row a job, with its GPUs, when it was submitted and how long it ran.

Columns: job_id, user, vc, jobname, gpu_num, cpu_num, node_num, state, submit_time, start_time,
end_time, duration, queue. Times are dates, `duration` and `queue` seconds.
"""

from __future__ import annotations

from pathlib import Path

from raysched.simulator.scenario import Arrival
from raysched.simulator.traces.rows import Row, rows
from raysched.simulator.traces.times import at_s
from raysched.simulator.traces.trace import Trace, in_order, sized_job

COLUMNS = {"job_id", "vc", "gpu_num", "state", "submit_time", "duration"}
"""Of these, what is read, and what tells the table from others."""


def fits(columns: tuple[str, ...]) -> bool:
    """Whether a table with these columns is such a trace."""
    return set(columns) >= COLUMNS


def read(path: Path, *, skip_bad: bool = False) -> Trace:
    """Jobs that come when they were submitted and run their duration on the trace's GPUs, each a
    worker, whatever their state in the end; the virtual cluster is the tenant.

    Left out, and counted: jobs without GPUs (half of the published rows), and those that were
    cancelled before they ran, whose duration is 0.
    """

    def read_job(row: Row) -> Arrival | None:
        gpus, duration_s = row.whole("gpu_num"), row.number("duration")
        if gpus == 0 or duration_s == 0:
            return None
        come_s = at_s(row, "submit_time")
        return sized_job(row.text("job_id"), come_s, gpus, duration_s, tenant=row.text("vc"))

    return in_order("helios", rows(path), read_job, skip_bad=skip_bad)
