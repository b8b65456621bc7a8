"""Measured speeds by model, batch size and number of GPUs (001's authors' tables)."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from pathlib import Path

from raysched.simulator.models import Measured
from raysched.simulator.traces.rows import Row, TraceError, rows


@dataclass(frozen=True, slots=True)
class Profiles:
    """Iterations a second by model and global batch size."""

    folder: Path
    tables: Mapping[str, Mapping[int, Measured]]

    @classmethod
    def read(cls, folder: Path) -> Profiles:
        """A folder with a table for each model: `global_batch_size`, then iterations a second on
        1, 2, 4, … GPUs. An empty cell or nan was not profiled; 0 is a size that cannot be used.

        Raises `TraceError` naming file, line and column.
        """
        if not folder.is_dir():
            raise TraceError(f"{folder}: there is no such folder of profiles")
        return cls(folder, {path.stem: _table(path) for path in sorted(folder.glob("*.csv"))})

    def speeds(self, row: Row) -> Measured:
        """Those of a row's `model_name` and `batch_size`. Raises `TraceError`."""
        model, batch_size = row.text("model_name"), row.whole("batch_size", least=1)
        table = self.tables.get(model)
        if table is None:
            known = ", ".join(self.tables) or "none"
            raise row.bad("model_name", f"{model!r} has no profile in {self.folder}: {known}")
        if batch_size not in table:
            known = ", ".join(map(str, sorted(table)))
            raise row.bad("batch_size", f"{batch_size} is not profiled for {model}: {known} are")
        return table[batch_size]


def _table(path: Path) -> dict[int, Measured]:
    return {row.whole("global_batch_size", least=1): _measured(row) for row in rows(path)}


def _measured(row: Row) -> Measured:
    sizes = [column for column in row.cells if column and column.isdigit()]
    speeds = {int(size): row.number(size) for size in sizes if row.cells[size] not in ("", "nan")}
    usable = {size: speed for size, speed in sorted(speeds.items()) if speed > 0}
    if not usable:
        raise row.bad("global_batch_size", f"{row.text('global_batch_size')} has no usable speed")
    return Measured(tuple(usable), tuple(usable.values()))
