"""What every format comes to: jobs in the order of arrival, and how a row becomes one."""

from __future__ import annotations

from collections.abc import Callable, Iterable
from dataclasses import dataclass, replace
from typing import Any

from raysched.jobs import InvalidJob, JobSpec
from raysched.simulator.models import Scaling, epoch_curve
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


def in_order(
    trace_format: str, rows: Iterable[Row], read: Callable[[Row], Arrival], *, skip_bad: bool
) -> Trace:
    """Read each row, in the order of arrival (ties as they stand), times from the first one on.

    Raises `TraceError` for the first bad row, unless these are to be skipped.
    """
    arrivals: list[Arrival] = []
    seen: set[str] = set()
    skipped = 0
    for row in rows:
        try:
            arrivals.append(_new(row, read, seen))
        except TraceError:
            if not skip_bad:
                raise
            skipped += 1
    arrivals.sort(key=lambda arrival: arrival.at_s)
    first_s = arrivals[0].at_s if arrivals else 0.0
    moved = (replace(arrival, at_s=arrival.at_s - first_s) for arrival in arrivals)
    return Trace(trace_format, tuple(moved), skipped)


def _new(row: Row, read: Callable[[Row], Arrival], seen: set[str]) -> Arrival:
    try:
        arrival = read(row)
    except InvalidJob as invalid:
        raise row.bad(invalid.field, str(invalid.args[1])) from None
    if arrival.job in seen:
        raise row.bad("job_id", f"{arrival.job!r} occurs twice")
    seen.add(arrival.job)
    return arrival
