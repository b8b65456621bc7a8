"""What the five papers report, run again: paper and ours side by side."""

from __future__ import annotations

from importlib import import_module

from raysched.errors import UserError
from raysched.simulator.reproductions.experiment import Experiment

PAPERS: tuple[str, ...] = ("modelarts", "elasticflow", "oasis", "ffdl", "aryl")
"""Each has a module of its name here, with its `EXPERIMENTS`."""


def experiments(paper: str, name: str | None = None) -> tuple[Experiment, ...]:
    """Those of a paper, or the one of that name. Raises `UserError` with the names there are."""
    if paper not in PAPERS:
        raise UserError(f"{paper!r} is no paper; use {', '.join(PAPERS)} or all")
    of_paper: tuple[Experiment, ...] = import_module(f"{__name__}.{paper}").EXPERIMENTS
    chosen = tuple(e for e in of_paper if name in (None, e.name))
    if not chosen:
        known = ", ".join(e.name for e in of_paper)
        raise UserError(f"{paper} has no experiment {name!r}; use {known}")
    return chosen
