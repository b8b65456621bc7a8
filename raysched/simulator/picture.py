"""The picture of a comparison: who held how many GPUs when, and how long jobs took."""

from __future__ import annotations

from collections.abc import Mapping
from pathlib import Path

import matplotlib

matplotlib.use("Agg")  # no screen needed

import matplotlib.pyplot as plt
import numpy as np
from matplotlib.axes import Axes

from raysched.history import History
from raysched.simulator.over_time import held_gpus

MOST_BANDS = 40
"""Bands that can be told apart; with more jobs, a band is several that came one after another."""

MOMENTS = 1200
"""Points in time that are drawn: more than a picture has columns."""

_HOUR_S = 3600.0


def draw(histories: Mapping[str, History], path: Path) -> None:
    """Write a PNG: GPUs over time by job, a panel a policy, and the distribution of JCTs."""
    rows = len(histories) + 1
    figure, panels = plt.subplots(
        rows, 1, figsize=(12, 2.6 * rows + 1), squeeze=False, layout="constrained"
    )
    *by_policy, jct = panels[:, 0]
    end_s = max(history.end_s for history in histories.values())
    for axes, (policy, history) in zip(by_policy, histories.items(), strict=True):
        _draw_gpus(axes, policy, history, end_s)
    _draw_jct(jct, histories)
    figure.savefig(path, dpi=110)
    plt.close(figure)


def _draw_gpus(axes: Axes, policy: str, history: History, end_s: float) -> None:
    at_s = np.linspace(0.0, max(end_s, 1.0), MOMENTS)
    jobs = list(history.jobs.values())
    bands = [
        band.tolist() for band in np.array_split(np.arange(len(jobs)), MOST_BANDS) if len(band)
    ]
    held = [held_gpus([jobs[row] for row in band], at_s) for band in bands]
    colours = plt.get_cmap("turbo")(np.linspace(0.05, 0.95, len(bands)))
    axes.stackplot(at_s / _HOUR_S, held, colors=colours, linewidth=0)
    axes.axhline(history.gpus["training"], color="black", linewidth=0.8, linestyle=":")
    axes.set_xlim(0, at_s[-1] / _HOUR_S)
    axes.set_ylim(bottom=0)
    axes.set_ylabel("GPUs")
    axes.set_xlabel("hours")
    axes.set_title(f"{policy}: GPUs by job, in the order of arrival", loc="left", fontsize=10)


def _draw_jct(axes: Axes, histories: Mapping[str, History]) -> None:
    for policy, history in histories.items():
        jct_s = sorted(j.jct_s for j in history.jobs.values() if j.jct_s is not None)
        share = np.arange(1, len(jct_s) + 1) / max(len(history.jobs), 1)
        axes.step(np.array(jct_s) / _HOUR_S, share, where="post", label=policy)
    axes.set_xscale("log")
    axes.set_ylim(0, 1)
    axes.set_ylabel("share of all jobs")
    axes.set_xlabel("hours")
    axes.legend(loc="lower right", fontsize=8)
    axes.set_title("Job completion time (JCT)", loc="left", fontsize=10)
