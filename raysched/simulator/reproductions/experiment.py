"""What an experiment is made of: runs, what they measured, and what is reported of it."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Any, TypeAlias

if TYPE_CHECKING:
    from matplotlib.figure import Figure

Measured: TypeAlias = dict[str, Any]
"""What a run found: JSON values only."""


@dataclass(frozen=True, slots=True)
class Run:
    """One measurement, `measure(**parameters)`, in a process of its own.

    `measure` is a function of a module, `parameters` are JSON values, and both with the code and
    the content of the files that it `reads` decide the result: a run that was done is not done
    again. `cpu_s`: what it is expected to take.
    """

    measure: Callable[..., Measured]
    parameters: Mapping[str, Any]
    cpu_s: float
    reads: tuple[Path, ...] = ()


@dataclass(frozen=True, slots=True)
class Effort:
    """How much to spend, and the folder of real traces if it is at hand."""

    quick: bool = False
    traces: Path | None = None

    def seeds(self, full: int = 5, quick: int = 2) -> range:
        """Seeds of generated traces."""
        return range(quick if self.quick else full)


class Results:
    """What the runs of an experiment measured, by their parameters."""

    def __init__(self, runs: Sequence[Run], measured: Sequence[Measured]) -> None:
        self._found = list(zip(runs, measured, strict=True))

    def where(self, **parameters: Any) -> list[Measured]:
        """Of all runs with these parameters, in the order of the runs.

        Raises `KeyError` where there is none: a report that asks for it is wrong.
        """
        wanted = parameters.items()
        chosen = [
            measured
            for run, measured in self._found
            if all(name in run.parameters and run.parameters[name] == v for name, v in wanted)
        ]
        if not chosen:
            raise KeyError(f"no run has {parameters}")
        return chosen

    def values(self, metric: str, **parameters: Any) -> tuple[float, ...]:
        """One number of each of these runs: one a seed, where all else is named."""
        return tuple(float(measured[metric]) for measured in self.where(**parameters))

    def parameters(self, name: str) -> list[Any]:
        """The values of a parameter, each once, in the order of the runs."""
        return list(
            dict.fromkeys(r.parameters[name] for r, _ in self._found if name in r.parameters)
        )


@dataclass(frozen=True, slots=True)
class Row:
    """A line of the table. `paper`: as printed, "" where the paper draws a curve only; `ours`: one
    value a seed."""

    what: str
    paper: str
    ours: tuple[float, ...]
    unit: str = ""


@dataclass(frozen=True, slots=True)
class Claim:
    """An ordering or a range that the paper claims, and whether it holds in ours."""

    text: str
    holds: bool


@dataclass(frozen=True, slots=True)
class Report:
    """An experiment's outcome. `why`: why ours differs where it does."""

    rows: tuple[Row, ...]
    claims: tuple[Claim, ...]
    why: str


@dataclass(frozen=True, slots=True)
class Experiment:
    """A table or figure of a paper.

    `runs` gives none where the traces that it needs are not at hand. Different experiments may
    share runs.
    """

    name: str
    title: str
    source: str
    runs: Callable[[Effort], Sequence[Run]]
    report: Callable[[Results], Report]
    draw: Callable[[Results, Figure], None] | None = None
