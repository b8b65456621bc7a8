"""Workloads of Pollux's authors: which application came when, with its batch and number of GPUs."""

from __future__ import annotations

import math
from dataclasses import replace
from itertools import takewhile
from pathlib import Path

from raysched.jobs import JobSpec
from raysched.simulator.models import Measured
from raysched.simulator.scenario import Arrival, PlacedS
from raysched.simulator.traces import pollux_profiles
from raysched.simulator.traces.pollux_profiles import Application, packed
from raysched.simulator.traces.pollux_tuned import Tuned
from raysched.simulator.traces.rows import Row, rows
from raysched.simulator.traces.trace import Trace, in_order, job

COLUMNS = {"name", "time", "application", "num_replicas", "batch_size"}


def fits(columns: tuple[str, ...]) -> bool:
    """Whether a table with these columns is such a workload."""
    return set(columns) >= COLUMNS


def read(path: Path, profiles: Path, *, skip_bad: bool = False, tuned: bool = False) -> Trace:
    """Jobs that run as many iterations at the trace's batch size as the whole training takes, on
    1 GPU or more, each a worker; `requested_workers` is the trace's number of replicas.

    A batch too large for the GPUs is accumulated over several steps, of which only the last one
    synchronises. The scheduler knows the speeds of packed workers; jobs run by how they stand. With
    `tuned` it may choose the batch size, and the trace's does not count (`pollux_tuned`).
    """
    applications = pollux_profiles.read(profiles)
    may_tune = {name: Tuned(application) for name, application in applications.items()}

    def read_job(row: Row) -> Arrival:
        name = row.text("application")
        if name not in applications:
            known = ", ".join(applications) or "none"
            raise row.bad("application", f"{name!r} has no profile in {profiles}: {known}")
        application = applications[name]
        batch_size, asked = row.whole("batch_size", least=1), row.whole("num_replicas", least=1)
        if tuned:
            return _tuned_job(row.text("name"), row.number("time"), may_tune[name], asked)
        if batch_size not in application.validations:
            known = ", ".join(map(str, application.validations))
            raise row.bad("batch_size", f"{batch_size} was not validated for {name}: {known} were")
        speeds, iterations = (
            _speeds(application, batch_size),
            round(application.iterations(batch_size).sum()),
        )
        most = speeds.workers[-1]
        arrival = job(
            row.text("name"),
            row.number("time"),
            speeds,
            iterations,
            iterations,
            (1, most),
            batch_size=batch_size,
            requested_workers=min(asked, most),
        )
        return replace(arrival, placed_s=_placed_s(application, iterations / arrival.spec.epochs))

    return in_order("pollux", rows(path), read_job, skip_bad=skip_bad, named_by="name")


def _speeds(application: Application, batch_size: int) -> Measured:
    """Iterations a second on packed GPUs, on as many as something is known of."""
    most = application.most(batch_size)
    seconds = [application.iteration_s(batch_size, packed(n)) for n in range(1, most + 1)]
    known = list(takewhile(math.isfinite, seconds))
    return Measured(tuple(range(1, len(known) + 1)), tuple(1.0 / s for s in known))


def _placed_s(application: Application, iterations: float) -> PlacedS:
    """Seconds of so many iterations."""
    return lambda servers, batch_size: iterations * application.iteration_s(batch_size, servers)


def _tuned_job(name: str, at_s: float, tuned: Tuned, asked: int) -> Arrival:
    batch_sizes, most = tuned.batch_sizes, tuned.most
    sizes = [packed(n) for n in range(1, most + 1)]
    epoch_s = tuple(tuned.epoch_s(batch, size) for batch in batch_sizes for size in sizes)
    spec = JobSpec(
        name,
        tuned.epochs,
        1,
        most,
        batch_sizes[0],
        requested_workers=min(asked, most),
        profile_epoch_s=tuple(s if math.isfinite(s) else None for s in epoch_s),
        batch_sizes=batch_sizes,
    )
    return Arrival(
        at_s, name, spec, epoch_s, placed_s=lambda servers, batch: tuned.epoch_s(batch, servers)
    )
