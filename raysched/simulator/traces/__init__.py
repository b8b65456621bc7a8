"""Traces of jobs: which format a file has is read off its first row, never off its name."""

from __future__ import annotations

from pathlib import Path

from raysched.simulator.traces import elasticflow, gavel, helios, pai, philly, pollux
from raysched.simulator.traces.elasticflow import Cap, no_cap
from raysched.simulator.traces.profiles import Profiles
from raysched.simulator.traces.rows import Tabs, TraceError, header
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

    `profiles`: a folder of measured speeds, for Gavel's traces a file. For ElasticFlow's tables,
    `cap`: the most GPUs of a job by model and batch; `most_epochs`: of a job. For Pollux's,
    `tuned`: whether policies may choose batch sizes.
    """
    columns = header(path)
    if elasticflow.fits(columns):
        known = None if profiles is None else Profiles.read(profiles)
        return elasticflow.read(path, known, skip_bad=skip_bad, cap=cap, most_epochs=most_epochs)
    if philly.fits(columns):
        return philly.read(path, skip_bad=skip_bad)
    if helios.fits(columns):
        return helios.read(path, skip_bad=skip_bad)
    if pai.fits(columns):
        return pai.read(path, skip_bad=skip_bad)
    if pollux.fits(columns):
        folder = _needed(profiles, path, "the folder")
        return pollux.read(path, folder, skip_bad=skip_bad, tuned=tuned)
    if gavel.fits(header(path, Tabs)):
        return gavel.read(path, _needed(profiles, path, "the file"), skip_bad=skip_bad)
    raise TraceError(
        f"{path}: no known trace begins with the columns {', '.join(columns) or '(none)'}; "
        "known are the tables of ElasticFlow, Philly, Helios, PAI, Pollux and Gavel, and journals "
        "of raysched"
    )


def _needed(profiles: Path | None, path: Path, what: str) -> Path:
    if profiles is None:
        raise TraceError(f"{path}: names no durations; pass {what} of its --profiles")
    return profiles


__all__ = ["Profiles", "Trace", "TraceError", "is_journal", "load"]
