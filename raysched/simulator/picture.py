"""The pictures of a comparison: who held how many GPUs when, how long jobs waited and took."""

from __future__ import annotations

import math
from collections.abc import Mapping, Sequence
from pathlib import Path

import matplotlib

matplotlib.use("Agg")  # no screen needed

import matplotlib.pyplot as plt
import numpy as np
from matplotlib.axes import Axes
from matplotlib.figure import Figure

from raysched.durations import HOUR_S
from raysched.history import History
from raysched.simulator.over_time import held_gpus

MOST_BANDS = 40
"""Bands that can be told apart; with more jobs, a band is several that came one after another."""

MOMENTS = 1200
"""Points in time that are drawn: more than a picture has columns."""

FIRST_S = 1.0
"""What is shorter is drawn as this, on axes of seconds: many jobs never wait."""

TICKS = {
    **{1: "≤ 1 s", 3: "3 s", 10: "10 s", 30: "30 s", 60: "1 min", 180: "3 min", 600: "10 min"},
    **{1800: "30 min", 3600: "1 h", 10_800: "3 h", 36_000: "10 h", 86_400: "1 d", 259_200: "3 d"},
    **{864_000: "10 d", 2_592_000: "30 d", 7_776_000: "90 d", 31_536_000: "1 y"},
}
"""On axes of seconds, of which as many are shown as have room."""

MOST_TICKS = 8

LINE_STYLES = ("-", "--", "-.", ":")
"""In turn, so that lines that lie on one another are still seen."""


def draw_gpus(histories: Mapping[str, History], path: Path) -> None:
    """Write a PNG: GPUs over time by job, a panel a policy."""
    rows = len(histories)
    figure, panels = plt.subplots(
        rows, 1, figsize=(12, 2.6 * rows + 1), squeeze=False, layout="constrained"
    )
    end_s = max(history.end_s for history in histories.values())
    for axes, (policy, history) in zip(panels[:, 0], histories.items(), strict=True):
        _draw_gpus(axes, policy, history, end_s)
    _write(figure, path)


def draw_cdfs(histories: Mapping[str, History], path: Path) -> None:
    """Write a PNG: the share of all jobs that waited, and took, at most so long, by policy."""
    figure, (queuing, jct) = plt.subplots(
        1, 2, figsize=(12, 4.6), sharey=True, layout="constrained"
    )
    jobs = {policy: list(history.jobs.values()) for policy, history in histories.items()}
    _draw_cdfs(queuing, {p: [job.queuing_s for job in of] for p, of in jobs.items()})
    queuing.set_title("Queuing time", loc="left", fontsize=10)
    queuing.set_ylabel("share of all jobs")
    _draw_cdfs(jct, {p: [job.jct_s for job in of] for p, of in jobs.items()})
    jct.set_title("Job completion time (JCT)", loc="left", fontsize=10)
    lines, policies = jct.get_legend_handles_labels()
    figure.legend(lines, policies, loc="outside right upper", fontsize=9, frameon=False)
    _write(figure, path)


def _write(figure: Figure, path: Path) -> None:
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
    axes.stackplot(at_s / HOUR_S, held, colors=colours, linewidth=0)
    axes.axhline(history.gpus["training"], color="black", linewidth=0.8, linestyle=":")
    axes.set_xlim(0, at_s[-1] / HOUR_S)
    axes.set_ylim(bottom=0)
    axes.set_ylabel("GPUs")
    axes.set_xlabel("hours")
    axes.set_title(f"{policy}: GPUs by job, in the order of arrival", loc="left", fontsize=10)


def _draw_cdfs(axes: Axes, seconds: Mapping[str, Sequence[float | None]]) -> None:
    """A line a policy. It ends below 1 where jobs never came so far."""
    known_s = [sorted(max(s, FIRST_S) for s in each if s is not None) for each in seconds.values()]
    ends_s = [s for each in known_s for s in (each[:1] + each[-1:])] or [FIRST_S]
    from_s = max(tick for tick in TICKS if tick <= min(ends_s))
    to_s = 1.3 * max(ends_s)
    for place, (policy, each) in enumerate(zip(seconds, known_s, strict=True)):
        share = np.arange(len(each) + 1) / max(len(seconds[policy]), 1)
        axes.step(
            [from_s, *each, to_s],
            [*share, share[-1]],
            where="post",
            color=f"C{place % 10}",
            linestyle=LINE_STYLES[place % len(LINE_STYLES)],
            linewidth=1.6,
            label=policy,
        )
    axes.set_xscale("log")
    axes.set_xlim(from_s, to_s)
    ticks = [tick for tick in TICKS if from_s <= tick <= to_s]
    ticks = ticks[:: math.ceil(len(ticks) / MOST_TICKS)]
    axes.set_xticks(ticks, [TICKS[tick] for tick in ticks])
    axes.minorticks_off()
    axes.set_ylim(0, 1.01)
    axes.grid(alpha=0.3)
