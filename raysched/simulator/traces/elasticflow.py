"""Traces of 001's authors: iterations, batch, GPUs and an absolute deadline for each job."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path
from typing import Any

from raysched.simulator.models import Linear, Measured
from raysched.simulator.scenario import Arrival
from raysched.simulator.traces.profiles import Profiles
from raysched.simulator.traces.rows import Row, rows
from raysched.simulator.traces.trace import MOST_EPOCHS, Trace, in_order, job

COLUMNS = {"job_id", "model_name", "batch_size", "num_gpu", "duration"}
"""What all variants have; three columns are named in one of two ways."""

MOST_GPUS = 64
"""The largest number of GPUs that these traces and profiles know."""

Cap = Callable[[str, int], int]
"""The most GPUs that a job may have, by its model and batch size."""


def fits(columns: tuple[str, ...]) -> bool:
    """Whether a table with these columns is such a trace."""
    return set(columns) >= COLUMNS and bool({"num_iteration", "iteration"} & set(columns))


def no_cap(_: str, batch_size: int) -> int:
    """All that was profiled, and at most a GPU a sample."""
    return min(MOST_GPUS, batch_size)


def read(
    path: Path,
    profiles: Profiles | None,
    *,
    skip_bad: bool = False,
    cap: Cap = no_cap,
    most_epochs: int = MOST_EPOCHS,
) -> Trace:
    """Jobs on 1 … `cap` GPUs, each a worker; `requested_workers` is the trace's number of GPUs.

    With profiles a job runs its iterations at the speeds measured, and between two sizes at the
    speed on the line between them; without, its duration on the trace's GPUs, scaling linearly.
    """

    def read_job(row: Row) -> Arrival:
        model, batch_size = row.text("model_name"), row.whole("batch_size", least=1)
        asked, iterations = row.whole("num_gpu", least=1), _iterations(row)
        most = min(cap(model, batch_size), batch_size)
        described: dict[str, Any] = {"batch_size": batch_size, "deadline_s": _deadline_s(row)}
        described["most_epochs"] = most_epochs
        name, at_s = row.text("job_id"), float(row.whole(_named(row, "submission_time")))
        if profiles is None:
            most = max(most, asked)
            work = asked * row.number("duration", above_0=True)
            described["requested_workers"] = asked
            return job(name, at_s, Linear(), work, iterations, (1, most), **described)
        speeds = profiles.speeds(row)
        return profiled_job(name, at_s, speeds, iterations, asked, most, **described)

    return in_order("elasticflow", rows(path), read_job, skip_bad=skip_bad)


def profiled_job(
    name: str, at_s: float, speeds: Measured, iterations: int, asked: int, most: int, **spec: Any
) -> Arrival:
    """A job that runs its iterations at the speeds measured, on 1 … `most` GPUs, as far as they
    were profiled. Raises `InvalidJob`."""
    most = min(most, speeds.workers[-1])
    spec["requested_workers"] = min(asked, most)
    return job(name, at_s, speeds, iterations, iterations, (1, most), **spec)


_OTHER_NAME = {
    "submission_time": "submit_time",
    "num_iteration": "iteration",
    "deadline": "ddl",
}


def _named(row: Row, column: str) -> str:
    return column if column in row.cells else _OTHER_NAME[column]


def _iterations(row: Row) -> int:
    return row.whole(_named(row, "num_iteration"), least=1)


def _deadline_s(row: Row) -> float | None:
    """From submission. None for best effort."""
    if row.cells.get("best_effort") == "1":
        return None
    column = _named(row, "deadline")
    after_s = row.whole(column) - row.whole(_named(row, "submission_time"))
    if after_s <= 0:
        raise row.bad(column, "is not after the submission")
    return float(after_s)
