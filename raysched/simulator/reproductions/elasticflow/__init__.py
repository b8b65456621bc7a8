"""Gu et al., ElasticFlow (ASPLOS 2023): its figures on the traces that its authors published."""

from raysched.simulator.reproductions.elasticflow import best_effort, over_time, overheads, ratios
from raysched.simulator.reproductions.experiment import Experiment

_FIGURES = (*ratios.FIGURES, *over_time.FIGURES, *best_effort.FIGURES, *overheads.FIGURES)


def _number(experiment: Experiment) -> tuple[int, str]:
    """Of the figure: 6a, 6b, 7, …, 12b."""
    figure = experiment.name.removeprefix("fig")
    digits = figure.rstrip("ab")
    return int(digits), figure.removeprefix(digits)


EXPERIMENTS: tuple[Experiment, ...] = tuple(sorted(_FIGURES, key=_number))
