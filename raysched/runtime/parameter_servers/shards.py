"""The numbers that a model learns, divided evenly among parameter servers (002 §III-A).

All parameters are one row of numbers, in the order of the optimizer's groups. A server holds a
range of it, in a piece a group, with what the optimizer keeps for each number. So servers can be
any number, and each holds as much as any other whatever the sizes of the layers.
"""

from __future__ import annotations

import itertools
from collections.abc import Iterable, Mapping
from dataclasses import dataclass
from typing import Any, TypeAlias

import numpy as np
from numpy.typing import NDArray

Numbers: TypeAlias = NDArray[np.float32]

Range: TypeAlias = tuple[int, int]
"""From this number of the row until before that one."""


@dataclass(frozen=True, slots=True)
class Layout:
    """Where each parameter of a model stands in the row."""

    names: tuple[str, ...]  # in the model
    shapes: tuple[tuple[int, ...], ...]
    groups: tuple[int, ...]  # the optimizer's group of each parameter; ascending
    settings: tuple[Mapping[str, Any], ...]  # of each group: lr, weight_decay ...
    optimizer: str  # its name in torch.optim: whoever reads this need not import it

    @property
    def sizes(self) -> tuple[int, ...]:
        """Numbers of each parameter."""
        return tuple(int(np.prod(shape, dtype=np.int64)) for shape in self.shapes)

    @property
    def ranges(self) -> tuple[Range, ...]:
        """Of each parameter."""
        return _one_after_another(self.sizes)

    @property
    def numbers(self) -> int:
        """How many there are in all."""
        return sum(self.sizes)

    @property
    def group_ranges(self) -> tuple[Range, ...]:
        """Of each group."""
        sizes = np.bincount(self.groups, weights=self.sizes, minlength=len(self.settings))
        return _one_after_another(sizes.astype(np.int64))


def settings_of(groups: Iterable[Mapping[str, Any]]) -> list[dict[str, Any]]:
    """The settings of an optimizer's groups, without the parameters that stand beside them."""
    return [{k: value for k, value in group.items() if k != "params"} for group in groups]


@dataclass(frozen=True, slots=True)
class Piece:
    """Numbers of one group that stand together, and what the optimizer keeps for them."""

    group: int
    start: int
    values: Numbers
    kept: Mapping[str, Numbers]  # one number a number: momentum ...
    counts: Mapping[str, float]  # one for all of them: steps taken ...

    @property
    def end(self) -> int:
        """Before which number it ends."""
        return self.start + len(self.values)

    def part(self, start: int, end: int) -> Piece:
        """What of it lies in a range, or nothing at all."""
        within = slice(max(start - self.start, 0), max(end - self.start, 0))
        kept = {name: numbers[within] for name, numbers in self.kept.items()}
        return Piece(
            self.group, max(start, self.start), self.values[within], kept, dict(self.counts)
        )


def even_ranges(numbers: int, servers: int) -> tuple[Range, ...]:
    """The range of each server: as even as whole numbers allow."""
    ends = [numbers * server // servers for server in range(servers + 1)]
    return tuple(itertools.pairwise(ends))


def cut(pieces: Iterable[Piece], held: Range) -> tuple[Piece, ...]:
    """What of all these pieces lies in a range: one piece a group, in order."""
    parts = [part for piece in pieces if len((part := piece.part(*held)).values)]
    by_group: dict[int, list[Piece]] = {}
    for part in sorted(parts, key=lambda part: part.start):
        by_group.setdefault(part.group, []).append(part)
    return tuple(_joined(by_group[group]) for group in sorted(by_group))


def fresh(values: Numbers, layout: Layout, held: Range) -> tuple[Piece, ...]:
    """The pieces of a range before the first step."""
    whole = [
        Piece(group, start, values[start:end], {}, {})
        for group, (start, end) in enumerate(layout.group_ranges)
    ]
    return cut(whole, held)


def _one_after_another(sizes: Iterable[int]) -> tuple[Range, ...]:
    ends = itertools.accumulate(map(int, sizes), initial=0)
    return tuple(itertools.pairwise(ends))


def _joined(parts: list[Piece]) -> Piece:
    first = parts[0]
    kept = {name: np.concatenate([part.kept[name] for part in parts]) for name in first.kept}
    values = np.concatenate([part.values for part in parts])
    return Piece(first.group, first.start, values, kept, dict(first.counts))
