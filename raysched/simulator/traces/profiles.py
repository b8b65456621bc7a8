"""Measured speeds by model, batch size and number of GPUs (001's authors' tables)."""

from __future__ import annotations

import math
from dataclasses import dataclass
from functools import cached_property
from pathlib import Path

from raysched.simulator.models import Measured
from raysched.simulator.traces.rows import Row, TraceError, rows


@dataclass(frozen=True)
class Profiles:
    """A folder with a table for each model: `global_batch_size`, then iterations a second on 1, 2,
    4, … GPUs. An empty cell or nan was not profiled; 0 is a size that cannot be used."""

    folder: Path

    def speeds(self, model: str, batch_size: int) -> Measured:
        """Iterations a second, up to the largest size that can be used. Raises `TraceError`."""
        table = self._tables.get(model)
        if table is None:
            known = ", ".join(sorted(self._tables)) or "none"
            raise TraceError(f"{self.folder}: no profile of {model!r}; there are {known}")
        if batch_size not in table:
            known = ", ".join(map(str, sorted(table)))
            raise TraceError(f"{self.folder}/{model}.csv: no batch of {batch_size}; it has {known}")
        return table[batch_size]

    @cached_property
    def _tables(self) -> dict[str, dict[int, Measured]]:
        if not self.folder.is_dir():
            raise TraceError(f"{self.folder}: there is no such folder of profiles")
        return {path.stem: _table(path) for path in sorted(self.folder.glob("*.csv"))}


def _table(path: Path) -> dict[int, Measured]:
    return {row.whole("global_batch_size", least=1): _measured(row) for row in rows(path)}


def _measured(row: Row) -> Measured:
    sizes = [column for column in row.cells if column and column.isdigit()]
    speeds = {int(size): _speed(row, size) for size in sizes}
    usable = {size: speed for size, speed in sorted(speeds.items()) if speed > 0}
    if not usable:
        raise row.bad("1", "and all other sizes are empty or 0")
    return Measured(tuple(usable), tuple(usable.values()))


def _speed(row: Row, size: str) -> float:
    cell = row.cells[size]
    return 0.0 if not cell or math.isnan(float(cell)) else row.number(size)
