"""Traces of jobs: which format a file has is read off its header, never off its name."""

from __future__ import annotations

from pathlib import Path

from raysched.simulator.traces import elasticflow, philly, pollux
from raysched.simulator.traces.elasticflow import Cap, no_cap
from raysched.simulator.traces.profiles import Profiles
from raysched.simulator.traces.rows import TraceError, header
from raysched.simulator.traces.trace import MOST_EPOCHS, Trace

SQLITE = b"SQLite format 3\0"


def is_journal(path: Path) -> bool:
    """Whether a file is a journal of raysched, and no table of jobs."""
    try:
        with path.open("rb") as file:
            return file.read(len(SQLITE)) == SQLITE
    except OSError as error:
        raise TraceError(f"{path}: cannot be read: {error.strerror}") from None


def load(
    path: Path,
    *,
    profiles: Path | None = None,
    skip_bad: bool = False,
    cap: Cap = no_cap,
    most_epochs: int = MOST_EPOCHS,
    tuned: bool = False,
) -> Trace:
    """A table of jobs, packed by gzip or not. Raises `TraceError` naming file, line and column.

    `profiles`: a folder of measured speeds. For ElasticFlow's tables, `cap`: the most GPUs of a job
    by model and batch; `most_epochs`: of a job. For Pollux's, `tuned`: whether policies may choose
    batch sizes.
    """
    columns = header(path)
    if elasticflow.fits(columns):
        known = None if profiles is None else Profiles.read(profiles)
        return elasticflow.read(path, known, skip_bad=skip_bad, cap=cap, most_epochs=most_epochs)
    if philly.fits(columns):
        return philly.read(path, skip_bad=skip_bad)
    if pollux.fits(columns):
        if profiles is None:
            raise TraceError(f"{path}: names no durations; pass the folder of its --profiles")
        return pollux.read(path, profiles, skip_bad=skip_bad, tuned=tuned)
    raise TraceError(
        f"{path}: no known trace begins with the columns {', '.join(columns) or '(none)'}; "
        "known are the tables of ElasticFlow, Philly and Pollux, and journals of raysched"
    )


__all__ = ["Profiles", "Trace", "TraceError", "is_journal", "load"]
