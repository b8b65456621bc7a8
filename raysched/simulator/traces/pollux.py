"""Workloads of Pollux's authors: which application came when, with its batch and number of GPUs."""

from __future__ import annotations

import math
from collections.abc import Mapping
from dataclasses import dataclass
from pathlib import Path

import numpy as np

from raysched.simulator.models import Measured
from raysched.simulator.scenario import Arrival
from raysched.simulator.traces.rows import Row, TraceError, rows
from raysched.simulator.traces.trace import Trace, in_order, job

COLUMNS = {"name", "time", "application", "num_replicas", "batch_size"}

SERVER_GPUS = 4
"""GPUs of the servers on which the profiles were measured."""


def fits(columns: tuple[str, ...]) -> bool:
    """Whether a table with these columns is such a workload."""
    return set(columns) >= COLUMNS


def read(path: Path, profiles: Path, *, skip_bad: bool = False) -> Trace:
    """Jobs that run all iterations of their validation at the trace's batch size, on 1 GPU or as
    many as were profiled, each a worker; `requested_workers` is the trace's number of replicas.

    A batch too large for the GPUs is accumulated over several steps, of which only the last one
    synchronises. Departure: workers stand packed, and run as fast wherever they stand.
    """
    applications = _applications(profiles)

    def read_job(row: Row) -> Arrival:
        name = row.text("application")
        if name not in applications:
            known = ", ".join(applications) or "none"
            raise row.bad("application", f"{name!r} has no profile in {profiles}: {known}")
        application = applications[name]
        batch_size, asked = row.whole("batch_size", least=1), row.whole("num_replicas", least=1)
        if batch_size not in application.iterations:
            known = ", ".join(map(str, sorted(application.iterations)))
            raise row.bad("batch_size", f"{batch_size} was not validated for {name}: {known} were")
        speeds, iterations = application.speeds(batch_size), application.iterations[batch_size]
        most = speeds.workers[-1]
        return job(
            row.text("name"),
            row.number("time"),
            speeds,
            iterations,
            iterations,
            (1, most),
            batch_size=batch_size,
            requested_workers=min(asked, most),
        )

    return in_order("pollux", rows(path), read_job, skip_bad=skip_bad)


@dataclass(frozen=True, slots=True)
class _Steps:
    """Of one placement, by batch size of a GPU: seconds of a step, and of its synchronisation."""

    local_batch: tuple[int, ...]  # ascending
    step_s: tuple[float, ...]
    sync_s: tuple[float, ...]

    def iteration_s(self, local_batch: int) -> float:
        """One iteration with so many samples a GPU."""
        steps = math.ceil(local_batch / self.local_batch[-1])
        each = math.ceil(local_batch / steps)
        step_s = float(np.interp(each, self.local_batch, self.step_s))
        sync_s = float(np.interp(each, self.local_batch, self.sync_s))
        return steps * step_s - (steps - 1) * sync_s


@dataclass(frozen=True, slots=True)
class _Application:
    """A model as it was profiled."""

    packed: Mapping[int, _Steps]  # by number of GPUs, from 1 on
    iterations: Mapping[int, int]  # of a whole training, by global batch size

    def speeds(self, batch_size: int) -> Measured:
        """Iterations a second, on as many GPUs as leave each the smallest batch profiled."""
        most = max(batch_size // self.packed[1].local_batch[0], 1)
        seconds = {
            gpus: steps.iteration_s(math.ceil(batch_size / gpus))
            for gpus, steps in self.packed.items()
            if gpus <= most
        }
        return Measured(tuple(seconds), tuple(1.0 / s for s in seconds.values()))


def _applications(folder: Path) -> dict[str, _Application]:
    if not folder.is_dir():
        raise TraceError(f"{folder}: there is no such folder of profiles")
    tables = sorted(folder.glob("*/placements.csv"))
    return {path.parent.name: _Application(_packed(path), _iterations(path)) for path in tables}


def _packed(path: Path) -> dict[int, _Steps]:
    """Steps on the fewest servers: full ones, and one for what is left."""
    measured: dict[str, list[tuple[int, float, float]]] = {}
    for row in rows(path):
        step = (row.whole("local_bsz", least=1), row.number("step_time"), row.number("sync_time"))
        measured.setdefault(row.text("placement"), []).append(step)
    packed: dict[int, _Steps] = {}
    while (placement := _packed_placement(len(packed) + 1)) in measured:
        local_batch, step_s, sync_s = zip(*sorted(measured[placement]), strict=True)
        packed[len(packed) + 1] = _Steps(local_batch, step_s, sync_s)
    if not packed:
        raise TraceError(f"{path}: has no row of placement 1; one GPU must be profiled")
    return packed


def _packed_placement(gpus: int) -> str:
    """GPUs by server, ascending: 6 GPUs are 24."""
    full, rest = divmod(gpus, SERVER_GPUS)
    return (str(rest) if rest else "") + str(SERVER_GPUS) * full


def _iterations(placements: Path) -> dict[int, int]:
    found = {}
    for path in sorted(placements.parent.glob("validation-*.csv")):
        batch_size = path.stem.removeprefix("validation-")
        if batch_size.isdigit():
            found[int(batch_size)] = max(row.whole("iteration", least=1) for row in rows(path))
    return found
