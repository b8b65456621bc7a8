"""The picture: the pauses of each way, and what a pause in place consists of."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from pathlib import Path
from statistics import median
from typing import Any

import matplotlib

matplotlib.use("Agg")  # no screen needed

import matplotlib.pyplot as plt
from matplotlib.axes import Axes

_COLOURS = ("#4477aa", "#ee6677", "#228833", "#ccbb44", "#66ccee", "#bbbbbb")


def draw(pauses: Mapping[str, Sequence[Mapping[str, Any]]], path: Path) -> None:
    """Write a PNG: on the left a point for each resize, on the right the phases in place."""
    figure, (left, right) = plt.subplots(1, 2, figsize=(12, 4.5), layout="constrained")
    _draw_ways(left, pauses)
    _draw_phases(right, pauses["in place"])
    figure.savefig(path, dpi=110)
    plt.close(figure)


def _draw_ways(axes: Axes, pauses: Mapping[str, Sequence[Mapping[str, Any]]]) -> None:
    for row, (found, colour) in enumerate(zip(pauses.values(), _COLOURS, strict=False)):
        seconds = [pause["pause_s"] for pause in found]
        axes.plot(seconds, [row] * len(seconds), "o", color=colour, alpha=0.6)
        axes.plot(median(seconds), row, "|", color="black", markersize=22)
    axes.set_yticks(range(len(pauses)), list(pauses))
    axes.set_xscale("log")
    axes.set_xlabel("pause of training, s (bar: median)")
    axes.grid(alpha=0.3, axis="x")
    axes.invert_yaxis()


def _draw_phases(axes: Axes, pauses: Sequence[Mapping[str, Any]]) -> None:
    """A bar for each resize, in the order of time; what no phase covers is the first step."""
    phases = list(dict.fromkeys(phase for pause in pauses for phase in pause["phases"]))
    labels = [f"{pause['before']}→{pause['after']}" for pause in pauses]
    below = [0.0] * len(pauses)
    for phase, colour in zip([*phases, "the rest, with the first step"], _COLOURS, strict=False):
        took = [
            pause["phases"].get(phase, 0.0)
            if phase in phases
            else pause["pause_s"] - sum(pause["phases"].values())
            for pause in pauses
        ]
        axes.bar(range(len(pauses)), took, bottom=below, color=colour, label=phase)
        below = [a + b for a, b in zip(below, took, strict=True)]
    axes.set_xticks(range(len(pauses)), labels)
    axes.set_xlabel("workers, in the order of time")
    axes.set_ylabel("pause in place, s")
    axes.legend(fontsize=8)
