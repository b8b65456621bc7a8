"""The figures of 000 §5."""

from __future__ import annotations

from collections.abc import Callable
from typing import TYPE_CHECKING

import numpy as np

from raysched.simulator.reproductions.experiment import Results
from raysched.simulator.reproductions.modelarts.compare import Compared

if TYPE_CHECKING:
    from matplotlib.figure import Figure

_NODES = "nodes"
_BAR = 6.0  # in nodes


def queuing(results: Results, figure: Figure) -> None:
    """Fig. 9: mean queuing time by number of nodes."""
    who = {
        "greedy": "greedy",
        "greedy_once": "greedy, one halving a decision",
        "optimal": "optimal",
    }
    _lines(results, figure, "queuing_s", who, 1.0, "mean queuing time (s)")


def total(results: Results, figure: Figure) -> None:
    """Fig. 10: mean total time by number of nodes."""
    who = {"fixed": "fixed sizes", "greedy": "greedy", "optimal": "optimal"}
    _lines(results, figure, "total_s", who, 60.0, "mean total time (min)")


def _lines(
    results: Results, figure: Figure, metric: str, who: dict[str, str], unit: float, label: str
) -> None:
    axes = figure.subplots()
    for policy, name in who.items():
        means = Compared(results, than=policy).means_of(metric, policy)
        axes.plot(list(means), [value / unit for value in means.values()], marker="o", label=name)
    axes.set(xlabel=_NODES, ylabel=label, ylim=(0, None))
    axes.legend()


def extra(case: str) -> Callable[[Results, Figure], None]:
    """Fig. 11 to 15: additional jobs for each 100, each seed a point; the baseline beside."""

    def draw(results: Results, figure: Figure) -> None:
        axes = figure.subplots()
        shown = ["baseline"] if case == "baseline" else ["baseline", case]
        for number, name in enumerate(shown):
            compared = Compared(results, name)
            at = [nodes + _BAR * (number - (len(shown) - 1) / 2) for nodes in compared.pools]
            means = compared.means(compared.extra_jobs)
            axes.bar(at, list(means.values()), _BAR, label=name.replace("_", " "), alpha=0.6)
            for x, nodes in zip(at, compared.pools, strict=True):
                seeds = compared.extra_jobs(nodes)
                axes.plot([x] * len(seeds), seeds, ".", color="black", markersize=3)
        axes.set(xlabel=_NODES, ylabel="additional jobs for each 100", xticks=compared.pools)
        axes.legend()

    return draw


def speed(results: Results, figure: Figure) -> None:
    """Fig. 16: how long scaling decisions take."""
    axes = figure.subplots()
    took_s = np.concatenate([found["took_s"] for found in results.where()])
    edges = np.geomspace(max(took_s.min(), 1e-4), took_s.max(), 40)
    axes.hist(took_s, bins=edges.tolist())
    axes.axvline(0.4, color="black", linestyle=":", label="mean in the paper")
    axes.set(xscale="log", xlabel="time of a scaling decision (s)", ylabel="decisions")
    axes.legend()
