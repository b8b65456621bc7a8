"""Tables of demand: a time and a number in each row."""

from __future__ import annotations

from pathlib import Path

import numpy as np

from raysched.simulator.demand import Series
from raysched.simulator.traces.rows import Row, TraceError, header, rows
from raysched.simulator.traces.times import at_s

COLUMNS = (("timestamp", "value"), ("period", "count"))
"""Those of NAB and of most tools, and of the World Cup 98 counts. Times as `times.at_s` reads them;
numbers in any unit."""


def read(path: Path, *, skip_bad: bool = False) -> tuple[Series, int]:
    """A series in the order of time, from 0 on, and how many bad rows were passed over.

    Of several rows of one time the last one counts. Raises `TraceError` naming file, line and
    column.
    """
    columns = header(path)
    known = [pair for pair in COLUMNS if set(pair) <= set(columns)]
    if not known:
        raise TraceError(
            f"{path}: no demand with the columns {', '.join(columns) or '(none)'}; known are "
            + ", or ".join(f"{time} and {number}" for time, number in COLUMNS)
        )
    samples: dict[float, float] = {}
    skipped = 0
    for row in rows(path):
        try:
            time, number = _sample(row, *known[0])
        except TraceError:
            if not skip_bad:
                raise
            skipped += 1
        else:
            samples[time] = number
    if len(samples) < 2 or not max(samples.values()) > 0:
        raise TraceError(f"{path}: has no demand; two times and a number above 0 are needed")
    times = np.array(sorted(samples))
    return Series(times - times[0], np.array([samples[time] for time in times])), skipped


def _sample(row: Row, time: str, number: str) -> tuple[float, float]:
    return at_s(row, time), row.number(number)
