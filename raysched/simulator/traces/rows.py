"""Tables in text files, row by row, with errors that name file, line and column."""

from __future__ import annotations

import csv
import gzip
import math
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path
from typing import TextIO

from raysched.errors import UserError


class TraceError(UserError):
    """A trace that cannot be read: file, line, column and the mend."""


@contextmanager
def opened(path: Path) -> Iterator[TextIO]:
    """The text of a file, also of one that was packed by gzip. Raises `TraceError`."""
    try:
        with gzip.open(path, "rt") if path.suffix == ".gz" else path.open() as file:
            yield file
    except (OSError, UnicodeDecodeError, EOFError) as error:
        raise TraceError(f"{path}: cannot be read: {error}") from None


def header(path: Path) -> tuple[str, ...]:
    """The names of the columns."""
    with opened(path) as file:
        return tuple(next(csv.reader(file), ()))


@dataclass(frozen=True, slots=True)
class Row:
    """One row by column, and where it stands."""

    path: Path
    line: int
    cells: dict[str, str | None]

    def text(self, column: str) -> str:
        """What stands in a column; it may not be empty."""
        value = self.cells.get(column)
        if not value:
            raise self.bad(column, "is empty")
        return value

    def whole(self, column: str, least: int = 0) -> int:
        """A whole number."""
        text = self.text(column)
        try:
            value = int(text)
        except ValueError:
            raise self.bad(column, f"{text!r} is not a whole number") from None
        if value < least:
            raise self.bad(column, f"is {value}; use {least} or more")
        return value

    def number(self, column: str, *, above_0: bool = False) -> float:
        """A finite number."""
        text = self.text(column)
        try:
            value = float(text)
        except ValueError:
            raise self.bad(column, f"{text!r} is not a number") from None
        if not math.isfinite(value) or value < 0 or (above_0 and value == 0):
            raise self.bad(column, f"is {text}; use a number {'above' if above_0 else 'from'} 0")
        return value

    def bad(self, column: str, why: str) -> TraceError:
        """The error that this cell is."""
        return TraceError(f"{self.path} line {self.line}: {column} {why}; mend it, or --skip-bad")


def rows(path: Path) -> Iterator[Row]:
    """The rows of a table with a header, streamed."""
    with opened(path) as file:
        reader = csv.DictReader(file)
        for cells in reader:
            yield Row(path, reader.line_num, cells)
