"""Tables in text files, row by row, with errors that name file, line and column."""

from __future__ import annotations

import csv
import gzip
import math
import zlib
from collections.abc import Iterator, Sequence
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
    except (OSError, UnicodeDecodeError, EOFError, zlib.error, csv.Error) as error:
        raise TraceError(f"{path}: cannot be read: {error}") from None


class Tabs(csv.excel_tab):
    """Cells between tabs, in which a quote is a quote."""

    quoting = csv.QUOTE_NONE


def header(path: Path, dialect: type[csv.Dialect] = csv.excel) -> tuple[str, ...]:
    """The cells of the first row: the names of the columns, where a table has these."""
    with opened(path) as file:
        return tuple(next(csv.reader(file, dialect), ()))


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
        """A whole number, also written 2.0: so tools write them where a column has gaps."""
        text = self.text(column)
        try:
            value = int(text.removesuffix(".0"))
        except ValueError:
            raise self.bad(column, f"{text!r} is not a whole number") from None
        if value < least:
            raise self.bad(column, f"is {value}; use {least} or more")
        return value

    def number(self, column: str, *, above_0: bool = False, below_0: bool = False) -> float:
        """A finite number from 0 on, not 0 itself or also below where that is said."""
        text = self.text(column)
        try:
            value = float(text)
        except ValueError:
            raise self.bad(column, f"{text!r} is not a number") from None
        small = (value < 0 and not below_0) or (above_0 and value == 0)
        if small or not math.isfinite(value):
            use = "any finite number" if below_0 else f"a number {'above' if above_0 else 'from'} 0"
            raise self.bad(column, f"is {text}; use {use}")
        return value

    def bad(self, column: str, why: str) -> TraceError:
        """The error that this cell is."""
        return TraceError(f"{self.path} line {self.line}: {column} {why}; mend it, or --skip-bad")


def rows(
    path: Path,
    columns: Sequence[str] | None = None,
    dialect: type[csv.Dialect] = csv.excel,
) -> Iterator[Row]:
    """The rows of a table, streamed. Without `columns` the first row names them."""
    with opened(path) as file:
        reader = csv.DictReader(file, columns, dialect=dialect)
        for cells in reader:
            yield Row(path, reader.line_num, cells)
