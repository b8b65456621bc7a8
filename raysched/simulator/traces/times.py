"""Points in time as tables write them."""

from __future__ import annotations

import math
from datetime import datetime, timezone

from raysched.simulator.traces.rows import Row


def at_s(row: Row, column: str) -> float:
    """Seconds since 1970, or since whatever a table counts from: a number, or a date and time, in
    UTC where no zone is named. Raises `TraceError`."""
    text = row.text(column)
    try:
        found_s = float(text)
    except ValueError:
        found_s = _dated_s(text)
    if not math.isfinite(found_s):
        raise row.bad(column, f"{text!r} is not a time like 2017-10-09 07:01:55")
    return found_s


def _dated_s(text: str) -> float:
    """nan where it is no date."""
    try:
        found = datetime.fromisoformat(text)
    except ValueError:
        return math.nan
    return (found if found.tzinfo else found.replace(tzinfo=timezone.utc)).timestamp()
