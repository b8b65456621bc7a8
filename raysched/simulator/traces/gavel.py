"""Traces of Gavel's authors: a row a job, cells between tabs, without a header.

Columns: job type such as `ResNet-18 (batch size 64)`, command, working directory, argument for the
number of steps, whether it needs a data directory, total steps, scale factor, priority weight, SLO,
arrival time in seconds.
"""

from __future__ import annotations

import json
import re
from collections.abc import Mapping
from pathlib import Path
from typing import TypeAlias

from raysched.simulator.scenario import Arrival
from raysched.simulator.traces.rows import Row, Tabs, TraceError, opened, rows
from raysched.simulator.traces.trace import Trace, in_order, sized_job

COLUMNS = (
    *("job_type", "command", "working_directory", "num_steps_arg", "needs_data_dir"),
    *("total_steps", "scale_factor", "priority_weight", "SLO", "arrival_time"),
)

REFERENCE_GPU = "v100"
"""The GPUs of rate 1, in whose speeds jobs are told."""

Speeds: TypeAlias = Mapping[tuple[str, int], float]
"""Steps a second of a whole job, by its type and scale factor."""


def fits(first: tuple[str, ...]) -> bool:
    """Whether a table whose first row has these cells, between tabs, is such a trace."""
    return len(first) == len(COLUMNS)


def read(path: Path, profiles: Path, *, skip_bad: bool = False) -> Trace:
    """Jobs that run all their steps on as many GPUs as their scale factor, each a worker, at the
    speed that `profiles` has for that many V100; jobs are named by the line on which they stand.

    They keep their size, since their batch grows with it. An SLO is how many times the duration
    they may take (below 0: as long as they like). Departures: other GPUs are slower by the rate of
    the server's type, the same for all models; priority weights are left out.
    """
    speeds = read_speeds(profiles)

    def read_job(row: Row) -> Arrival:
        scale = row.whole("scale_factor", least=1)
        duration_s = row.whole("total_steps", least=1) / _speed(row, scale, speeds, profiles)
        come_s, slo = row.number("arrival_time"), row.number("SLO", below_0=True)
        deadline_s = slo * duration_s if slo >= 0 else None
        return sized_job(f"gavel-{row.line}", come_s, scale, duration_s, deadline_s=deadline_s)

    return in_order("gavel", rows(path, COLUMNS, Tabs), read_job, skip_bad=skip_bad)


def read_speeds(path: Path) -> Speeds:
    """Those of jobs that have their GPUs to themselves: in JSON, by GPU type, by a text such as
    `('ResNet-18 (batch size 64)', 1)`, under `null`. Raises `TraceError`."""
    with opened(path) as file:
        try:
            by_gpu = json.load(file)
            of_reference = by_gpu[REFERENCE_GPU]
            return {_type_and_scale(key): float(of["null"]) for key, of in of_reference.items()}
        except (ValueError, KeyError, TypeError, AttributeError) as error:
            raise TraceError(
                f"{path}: is no table of Gavel's speeds with the GPU type {REFERENCE_GPU} "
                f"({type(error).__name__}: {error})"
            ) from None


def _type_and_scale(key: str) -> tuple[str, int]:
    found = re.fullmatch(r"\('(.+)', (\d+)\)", key)
    if found is None:
        raise ValueError(f"{key} is not ('job type', scale factor)")
    return found[1], int(found[2])


def _speed(row: Row, scale: int, speeds: Speeds, profiles: Path) -> float:
    kind = row.text("job_type")
    if speeds.get((kind, scale), 0.0) > 0:
        return speeds[kind, scale]
    scales = [str(known) for (other, known), speed in speeds.items() if other == kind and speed > 0]
    if scales:
        raise row.bad(
            "scale_factor", f"{scale} is not profiled for {kind}: {', '.join(scales)} are"
        )
    known = ", ".join(sorted({other for other, _ in speeds})) or "none"
    raise row.bad("job_type", f"{kind!r} has no speed in {profiles}: {known}")
