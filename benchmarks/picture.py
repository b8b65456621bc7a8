"""The picture: how time grows with the number of jobs."""

from __future__ import annotations

from collections.abc import Mapping
from pathlib import Path

import matplotlib

matplotlib.use("Agg")  # no screen needed

import matplotlib.pyplot as plt

_COLOURS = ("#4477aa", "#ee6677", "#228833", "#ccbb44", "#aa3377")


def draw(
    growth: Mapping[str, Mapping[int, float]],
    path: Path,
    *,
    jobs_are: str = "jobs, on four GPUs each",
    time_is: str = "whole decision, median ms",
) -> None:
    """Write a line for each name (jobs -> time) to `path`, a PNG; both axes are logs."""
    figure, axes = plt.subplots(figsize=(8, 5), layout="constrained")
    for (policy, by_jobs), colour in zip(growth.items(), _COLOURS, strict=False):
        axes.loglog(list(by_jobs), list(by_jobs.values()), "o-", color=colour, label=policy)
    jobs = sorted({count for by_jobs in growth.values() for count in by_jobs})
    axes.set_xticks(jobs, [f"{count:,}" for count in jobs])
    axes.minorticks_off()
    axes.set_xlabel(jobs_are)
    axes.set_ylabel(time_is)
    axes.grid(alpha=0.3)
    axes.legend()
    figure.savefig(path, dpi=110)
    plt.close(figure)
