"""Durations as people write them: `90s`, `5m`, `2h`, `1d`, or a number of seconds."""

from __future__ import annotations

import re

HOUR_S = 3600.0
DAY_S = 24 * HOUR_S

_SECONDS = {"s": 1.0, "m": 60.0, "h": HOUR_S, "d": DAY_S}
_DURATION = re.compile(r"(\d+(?:\.\d+)?)([smhd])")


def seconds(duration: str | float) -> float:
    """Return a duration in seconds; units may follow each other (`1h30m`).

    Raises:
        ValueError: It is no duration; the message shows how one is written.
    """
    if not isinstance(duration, str):
        return float(duration)
    text = duration.strip().lower()
    parts = _DURATION.findall(text)
    if not parts or "".join(number + unit for number, unit in parts) != text:
        raise ValueError(f"{duration!r} is not a duration; write 90s, 5m, 2h, 1d or a number")
    return sum(float(number) * _SECONDS[unit] for number, unit in parts)
