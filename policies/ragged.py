"""Rows of unequal lengths in one column: row r has the entries `offset[r]` to `offset[r + 1]`.

Asked at every decision, mostly of a few dozen short rows: there the methods of arrays take half the
time of numpy's functions.
"""

from __future__ import annotations

import numpy as np
from numpy.typing import NDArray


def offsets(lengths: NDArray[np.int64]) -> NDArray[np.int64]:
    """[rows + 1] Where each row begins, and the last one ends."""
    offset = np.zeros(len(lengths) + 1, dtype=np.int64)
    lengths.cumsum(out=offset[1:])
    return offset


def lengths_of(offset: NDArray[np.int64]) -> NDArray[np.int64]:
    """[rows] How many entries each has."""
    lengths: NDArray[np.int64] = offset[1:] - offset[:-1]
    return lengths


def rows_of(lengths: NDArray[np.int64]) -> NDArray[np.int64]:
    """[entries] The row of each."""
    return np.arange(len(lengths)).repeat(lengths)


def counted(first: NDArray[np.int64], lengths: NDArray[np.int64]) -> NDArray[np.int64]:
    """[entries] Row after row as many whole numbers as it is long, from its `first` up: where the
    entries lie of rows that begin there."""
    before = lengths.cumsum() - lengths
    numbers: NDArray[np.int64] = np.arange(lengths.sum()) + (first - before).repeat(lengths)
    return numbers
