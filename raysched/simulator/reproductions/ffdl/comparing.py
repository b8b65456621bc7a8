"""What the experiments of FfDL share: runs in pairs, ratios, and curves of completed jobs."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Sequence
from typing import TYPE_CHECKING

from raysched.simulator.reproductions.experiment import Effort, Results, Run
from raysched.simulator.reproductions.ffdl.scenes import SCENES, measure

if TYPE_CHECKING:
    from matplotlib.axes import Axes


def paired(
    scenes: Iterable[str],
    baselines: Iterable[str] = ("random",),
    modes: Iterable[str] = ("drop",),
    quick_seeds: int = 2,
) -> Callable[[Effort], list[Run]]:
    """ffdl and these baselines, on the same jobs of each scene."""
    named = [
        {"scene": scene, "method": method, "when_full": mode}
        for scene in scenes
        for mode in modes
        for method in ("elastic", *baselines)
    ]

    def runs(effort: Effort) -> list[Run]:
        return [
            Run(measure, {**each, "seed": seed}, SCENES[each["scene"]].cpu_s)
            for each in named
            for seed in effort.seeds(full=5, quick=quick_seeds)
        ]

    return runs


def ratios(
    results: Results, metric: str, scene: str, baseline: str = "random", when_full: str = "drop"
) -> tuple[float, ...]:
    """ffdl's over the baseline's, seed by seed."""
    there = {"scene": scene, "when_full": when_full}
    ours = results.values(metric, method="elastic", **there)
    theirs = results.values(metric, method=baseline, **there)
    return tuple(a / b for a, b in zip(ours, theirs, strict=True))


def percent(values: Sequence[float]) -> tuple[float, ...]:
    """Shares as percent."""
    return tuple(100 * value for value in values)


def percent_more(values: Sequence[float]) -> tuple[float, ...]:
    """Ratios as percent above 1."""
    return tuple(100 * (value - 1) for value in values)


def inverse(values: Sequence[float]) -> tuple[float, ...]:
    """Ratios the other way round."""
    return tuple(1 / value for value in values)


def draw_curves(
    axes: Axes,
    results: Results,
    title: str,
    scene: str,
    baseline: str = "random",
    when_full: str = "drop",
) -> None:
    """Jobs that had arrived and been completed, over time; of the first seed."""
    for method, label in (("elastic", "ffdl"), (baseline, f"fixed batch ({baseline})")):
        found = results.where(scene=scene, method=method, when_full=when_full, seed=0)[0]["curve"]
        if method == "elastic":
            axes.plot(found["minutes"], found["arrived"], color="black", lw=0.8, label="arrived")
        axes.plot(found["minutes"], found["completed"], label=label)
    axes.set_title(title, fontsize=9)
    axes.set_xlabel("minutes")
    axes.set_ylim(bottom=0)
