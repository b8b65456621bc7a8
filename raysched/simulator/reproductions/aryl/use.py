"""004 §7.2: how much is in use over time (Fig. 9)."""

from __future__ import annotations

from collections.abc import Sequence
from typing import TYPE_CHECKING

import numpy as np

from policies.problem import Floats
from raysched.simulator.reproductions.aryl.measures import SHOWN_HOURS
from raysched.simulator.reproductions.aryl.runs import Scheme, runs
from raysched.simulator.reproductions.aryl.schemes import SCENARIOS
from raysched.simulator.reproductions.experiment import (
    Claim,
    Effort,
    Experiment,
    Report,
    Results,
    Row,
    Run,
)

if TYPE_CHECKING:
    from matplotlib.figure import Figure


def fig9(results: Results) -> Report:
    """Use of both pools over two days."""
    curves = {name: _hourly(results, each) for name, each in SCENARIOS.items()}
    swing = {name: float(curve.max() - curve.min()) for name, curve in curves.items()}
    rise = float((curves["Basic"] - curves["Baseline"]).max())
    rows = [
        Row(f"{name}: highest less lowest hour", "", (100 * each,), "%")
        for name, each in swing.items()
    ]
    rows.append(Row("Basic less Baseline, at the most", "14 %", (100 * rise,), "%"))
    flatter = swing["Basic"] < swing["Baseline"]
    return Report(tuple(rows), (Claim("loaning flattens the curve", flatter),), _WHY9)


_WHY9 = """\
Two days in the middle, hour by hour, in the mean of the seeds; inference demand has the printed
peak and trough, and a mean of 64 % of its GPUs (Fig. 1: about 65 %), where Table 5's overall use
implies 35 %."""


def _hourly(results: Results, each: Scheme) -> Floats:
    """[hours] In the mean of the seeds."""
    curves = [found["use_hourly"] for found in results.where(**each)]
    use: Floats = np.array(curves, dtype=np.float64).mean(axis=0)
    return use


def _draw9(results: Results, figure: Figure) -> None:
    axes = figure.subplots()
    hours = np.arange(len(SHOWN_HOURS))
    for name, each in SCENARIOS.items():
        axes.plot(hours, 100 * _hourly(results, each), label=name)
    axes.set(xlabel="hour", ylabel="use of both pools, %", ylim=(0, 100), title="Use by the hour")
    axes.legend(ncols=4)


def _fig9_runs(effort: Effort) -> Sequence[Run]:
    return runs(effort, SCENARIOS.values())


FIG9 = Experiment("fig9", "Use of both pools over time", "Fig. 9", _fig9_runs, fig9, _draw9)
