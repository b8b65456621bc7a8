"""`raysched reproduce`: choose experiments, do their runs, and write down what came out."""

from __future__ import annotations

import json
from collections.abc import Callable
from dataclasses import dataclass, replace
from pathlib import Path

from raysched.simulator import reproductions
from raysched.simulator.reproductions import experiments
from raysched.simulator.reproductions.experiment import Effort, Experiment, Results, Run
from raysched.simulator.reproductions.page import Document, entry, markdown
from raysched.simulator.reproductions.runner import Forecast, do, forecast, results
from raysched.simulator.reproductions.store import Store

PICTURES = Path("img/reproduction")
"""Under the folder of the page."""


@dataclass(frozen=True, slots=True)
class Asked:
    """What to reproduce: a paper or `all`, one of its experiments or every one."""

    paper: str
    experiment: str | None
    effort: Effort
    out: Path


@dataclass(frozen=True, slots=True)
class Plan:
    """The experiments that can be done, those whose traces are not at hand, and the cost."""

    chosen: tuple[tuple[str, Experiment], ...]
    without_traces: tuple[str, ...]
    forecast: Forecast
    store: Store


def plan(asked: Asked) -> Plan:
    """Look up what there is to do. Raises `UserError` for names that nothing has."""
    papers = reproductions.PAPERS if asked.paper == "all" else (asked.paper,)
    named = [(paper, e) for paper in papers for e in experiments(paper, asked.experiment)]
    runs = {(paper, e.name): list(e.runs(asked.effort)) for paper, e in named}
    store = Store(asked.out / "runs")
    return Plan(
        chosen=tuple((paper, e) for paper, e in named if runs[paper, e.name]),
        without_traces=tuple(f"{paper} {e.name}" for paper, e in named if not runs[paper, e.name]),
        forecast=forecast([run for of_one in runs.values() for run in of_one], store),
        store=store,
    )


def carry_out(asked: Asked, planned: Plan, watch: Callable[[Run], None]) -> Document:
    """Do what is still to be done; what was found by this command.

    Written to `out`: `reproduction.json` and the page `reproduction.md`, which keep what other
    commands found before, and a picture for each experiment that has one.
    """
    do(planned.forecast, planned.store, watch)
    found: Document = {}
    for paper, experiment in planned.chosen:
        measured = results(list(experiment.runs(asked.effort)), planned.store)
        found.setdefault(paper, {})[experiment.name] = entry(
            experiment,
            experiment.report(measured),
            command=_command(paper, experiment, asked.effort),
            picture=_draw(paper, experiment, measured, asked.out),
        )
    _write(found, asked.out)
    return found


def _command(paper: str, experiment: Experiment, effort: Effort) -> str:
    quick = " --quick" if effort.quick else ""
    needs_traces = not experiment.runs(replace(effort, traces=None))
    traces = " --traces DIR" if needs_traces else ""
    return f"raysched reproduce {paper} {experiment.name}{quick}{traces}"


def _draw(paper: str, experiment: Experiment, measured: Results, out: Path) -> str | None:
    """The picture's path, from the page."""
    if experiment.draw is None:
        return None
    import matplotlib

    matplotlib.use("Agg")  # no screen needed
    from matplotlib.figure import Figure

    figure = Figure(figsize=(8, 3.6), layout="constrained")
    experiment.draw(measured, figure)
    path = PICTURES / f"{paper}-{experiment.name}.png"
    (out / path).parent.mkdir(parents=True, exist_ok=True)
    figure.savefig(out / path, dpi=110)
    return str(path)


def _write(found: Document, out: Path) -> None:
    out.mkdir(parents=True, exist_ok=True)
    kept = out / "reproduction.json"
    before: Document = json.loads(kept.read_text()) if kept.exists() else {}
    document = {
        paper: _in_order(paper, {**before.get(paper, {}), **found.get(paper, {})})
        for paper in reproductions.PAPERS
        if paper in before or paper in found
    }
    kept.write_text(json.dumps(document, indent=1, ensure_ascii=False) + "\n")
    (out / "reproduction.md").write_text(markdown(document))


def _in_order(paper: str, entries: dict[str, dict[str, object]]) -> dict[str, dict[str, object]]:
    """As the paper has them. One that the code no longer knows is left out."""
    return {e.name: entries[e.name] for e in experiments(paper) if e.name in entries}
