"""What every format comes to: jobs in the order of arrival, and how a row becomes one."""

from __future__ import annotations

from collections.abc import Callable, Iterable
from dataclasses import dataclass, replace
from typing import Any, TypeAlias

from raysched.jobs import InvalidJob, JobSpec
from raysched.simulator.models import Linear, Scaling, epoch_curve
from raysched.simulator.scenario import Arrival
from raysched.simulator.traces.rows import Row, TraceError

MOST_EPOCHS = 2000
"""A job's iterations are grouped into at most so many equal epochs: a boundary every 0.05 % of it.
Neither time nor memory of a simulation depends on their number."""


@dataclass(frozen=True, slots=True)
class Trace:
    """Jobs as they arrived, the first at time 0."""

    format: str
    arrivals: tuple[Arrival, ...]
    skipped: int = 0
    """Rows that were bad, and passed over."""
    left_out: int = 0
    """Rows that are sound and give GPUs nothing to do: jobs on CPUs alone, or that never ran."""


def job(
    name: str,
    at_s: float,
    scaling: Scaling,
    work: float,
    iterations: int,
    workers: tuple[int, int],
    most_epochs: int = MOST_EPOCHS,
    **described: Any,
) -> Arrival:
    """A job that does `work`, in the scaling's unit, on min … max workers, and whose curve the
    scheduler knows.

    Its name is its own, so that what it takes is not told of others: epochs of different jobs are
    different amounts of work. Raises `InvalidJob`.
    """
    epochs = min(iterations, most_epochs)
    curve = epoch_curve(scaling, work, epochs, workers)
    spec = JobSpec(name, epochs, *workers, profile_epoch_s=curve, **described)
    return Arrival(at_s, name, spec, curve)


LINEAR = Linear()


def sized_job(
    name: str,
    at_s: float,
    workers: int,
    duration_s: float,
    *,
    elastic: int = 1,
    scaling: Scaling = LINEAR,
    **described: Any,
) -> Arrival:
    """A job of a trace that does not say how jobs scale: it ran `duration_s` on these workers. It
    keeps its size, or may have up to `elastic` times as many workers, by `scaling`."""
    work, most = duration_s * scaling.speed(workers), elastic * workers
    sizes = (workers, most)
    return job(name, at_s, scaling, work, MOST_EPOCHS, sizes, batch_size=most, **described)


ReadRow: TypeAlias = Callable[[Row], Arrival | None]
"""The job of a row. None: it gives GPUs nothing to do."""


def in_order(
    trace_format: str,
    rows: Iterable[Row],
    read: ReadRow,
    *,
    skip_bad: bool,
    named_by: str = "job_id",
) -> Trace:
    """Read each row, in the order of arrival (ties as they stand), times from the first one on.

    Jobs are kept, rows are not. `named_by`: the column of the jobs' names, no two of them alike.
    Raises `TraceError` for the first bad row, unless these are to be skipped.
    """
    arrivals: list[Arrival] = []
    seen: set[str] = set()
    skipped = left_out = 0
    for row in rows:
        try:
            arrival = _read(row, read, seen, named_by)
        except TraceError:
            if not skip_bad:
                raise
            skipped += 1
            continue
        if arrival is None:
            left_out += 1
        else:
            seen.add(arrival.job)
            arrivals.append(arrival)
    arrivals.sort(key=lambda arrival: arrival.at_s)
    first_s = arrivals[0].at_s if arrivals else 0.0
    moved = (replace(arrival, at_s=arrival.at_s - first_s) for arrival in arrivals)
    return Trace(trace_format, tuple(moved), skipped, left_out)


def _read(row: Row, read: ReadRow, seen: set[str], named_by: str) -> Arrival | None:
    try:
        arrival = read(row)
    except InvalidJob as invalid:
        raise row.bad(invalid.field, str(invalid.args[1])) from None
    if arrival is not None and arrival.job in seen:
        raise row.bad(named_by, f"{arrival.job!r} occurs twice")
    return arrival
