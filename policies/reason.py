"""Why a decision was taken: one sentence and the numbers in it, as one value.

`explain`, the journal and the screens all read this value, so they cannot disagree.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import dataclass, field

import numpy as np

Number = int | float | str


@dataclass(frozen=True, slots=True)
class Reason:
    """A sentence with named places, and the number that stands in each.

    `template` is a `str.format` template over the keys of `numbers`, so that a program can read
    the numbers and a person the sentence: `str(reason)`.
    """

    template: str
    numbers: Mapping[str, Number] = field(default_factory=dict)

    def __str__(self) -> str:
        return self.template.format(**self.numbers)

    @property
    def told(self) -> Reason:
        """The same with nothing left to be read later."""
        return self


class LaterReason(Reason):
    """One that is put together where it is read: of the thousands that are given, few are.

    It holds on to whatever `tell` needs; what is to be kept for long is `told`.
    """

    __slots__ = ("_row", "_tell")
    __setattr__ = object.__setattr__  # quicker than what a frozen dataclass has

    def __init__(self, tell: Callable[[int], Reason], row: int) -> None:
        """`tell` makes the reason of a job, given its row."""
        self._tell = tell
        self._row = row

    @property
    def told(self) -> Reason:
        """The reason itself."""
        return self._tell(self._row)

    @property
    def template(self) -> str:
        """As that of the reason."""
        return self.told.template

    @property
    def numbers(self) -> Mapping[str, Number]:
        """As those of the reason."""
        return self.told.numbers


def because(template: str, **numbers: Number | np.generic) -> Reason:
    """`because("needs {gpus} GPUs, {free} are free", gpus=4, free=2)`."""
    return Reason(template, {name: _plain(value) for name, value in numbers.items()})


def _plain(value: Number | np.generic) -> Number:
    """Columns yield numpy scalars; the journal wants numbers."""
    if isinstance(value, np.generic):
        plain: Number = value.item()
        return plain
    return value
