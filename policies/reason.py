"""Why a decision was taken: one sentence and the numbers in it, as one value.

`explain`, the journal and the screens all read this value, so they cannot disagree.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
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

    def of(self, job: str) -> Reason:
        """What it says of a job: this, where it does not stand for those of many."""
        return self


class Reasons(Reason):
    """Those of many jobs in one: of the thousands that are given few are read, and put together
    then. It has no words of its own, and holds on to whatever `tell` needs."""

    __slots__ = ("_jobs", "_tell")
    __setattr__ = object.__setattr__  # a frozen dataclass has none
    __repr__, __eq__, __hash__ = object.__repr__, object.__eq__, object.__hash__  # without words

    def __init__(self, jobs: Sequence[str], tell: Callable[[int], Reason]) -> None:
        """`tell` makes the reason of a job, given its row."""
        self._jobs = jobs
        self._tell = tell

    def of(self, job: str) -> Reason:
        """That of one of the jobs. Raises `ValueError` where it is none of them."""
        return self._tell(self._jobs.index(job))


def because(template: str, **numbers: Number | np.generic) -> Reason:
    """`because("needs {gpus} GPUs, {free} are free", gpus=4, free=2)`."""
    return Reason(template, {name: _plain(value) for name, value in numbers.items()})


def _plain(value: Number | np.generic) -> Number:
    """Columns yield numpy scalars; the journal wants numbers."""
    if isinstance(value, np.generic):
        plain: Number = value.item()
        return plain
    return value
