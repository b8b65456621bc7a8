"""Experiments are done once, go on where they stopped, and end up on one page."""

import json
import sys
from pathlib import Path
from types import ModuleType
from typing import Any

import pytest
from click.testing import CliRunner
from matplotlib.figure import Figure

from raysched.cli import cli
from raysched.errors import UserError
from raysched.simulator import reproductions
from raysched.simulator.reproductions.command import Asked, carry_out, plan
from raysched.simulator.reproductions.experiment import (
    Claim,
    Effort,
    Experiment,
    Report,
    Results,
    Row,
    Run,
)
from raysched.simulator.reproductions.page import claims, told
from raysched.simulator.reproductions.store import Store, digest


def area(seed: int, side: float, log: str = "") -> dict[str, Any]:
    """A measure that says where it was run."""
    if log:
        with open(log, "a") as file:
            file.write(f"{seed} {side}\n")
    return {"area": side * side + seed}


def runs(effort: Effort) -> list[Run]:
    log = str(effort.traces / "log") if effort.traces else ""
    return [
        Run(area, {"seed": seed, "side": side, "log": log}, cpu_s=side)
        for side in (1.0, 2.0)
        for seed in effort.seeds(full=3, quick=2)
    ]


def report(results: Results) -> Report:
    small, large = results.values("area", side=1.0), results.values("area", side=2.0)
    rows = (Row("small", "1", small, "m2"), Row("large", "", large))
    return Report(rows, (Claim("larger is larger", min(large) > min(small)),), "It is not.")


def draw(results: Results, figure: Figure) -> None:
    figure.subplots().plot(results.parameters("side"), [1, 2])


EXPERIMENTS = (
    Experiment("fig1", "Areas", "Fig. 1", runs, report, draw),
    Experiment("fig2", "Areas again", "Fig. 2", runs, report),
    Experiment("fig3", "On a trace", "Fig. 3", lambda effort: [], report),
)


@pytest.fixture(autouse=True)
def paper(monkeypatch: pytest.MonkeyPatch) -> None:
    module = ModuleType("squares")
    module.EXPERIMENTS = EXPERIMENTS  # type: ignore[attr-defined]
    monkeypatch.setattr(reproductions, "PAPERS", ("squares",))
    monkeypatch.setitem(sys.modules, f"{reproductions.__name__}.squares", module)


def asked(out: Path, name: str | None = None, quick: bool = True) -> Asked:
    return Asked("squares", name, Effort(quick, traces=out), out)


def test_experiments_share_their_runs_and_write_a_page(tmp_path: Path) -> None:
    planned = plan(asked(tmp_path))
    assert planned.forecast.runs == len(planned.forecast.to_do) == 4
    assert planned.without_traces == ("squares fig3",)
    over: list[Run] = []
    found = carry_out(asked(tmp_path), planned, over.append)
    assert len((tmp_path / "log").read_text().splitlines()) == len(over) == 4
    assert found["squares"]["fig1"]["rows"][0]["ours"] == (1.0, 2.0)
    assert claims(found) == (2, 2)
    page = (tmp_path / "reproduction.md").read_text()
    assert "### Fig. 1: Areas" in page and "| small | 1 | 1.5 ± 0.707 m2 |" in page
    assert "- holds: larger is larger" in page and "It is not." in page
    assert (tmp_path / "img/reproduction/squares-fig1.png").stat().st_size > 1000


def test_what_was_done_is_kept_and_other_experiments_stay_on_the_page(tmp_path: Path) -> None:
    carry_out(asked(tmp_path, "fig1"), plan(asked(tmp_path, "fig1")), lambda _: None)
    again = plan(asked(tmp_path, "fig2", quick=False))
    assert [run.parameters["seed"] for run in again.forecast.to_do] == [2, 2]
    carry_out(asked(tmp_path, "fig2", quick=False), again, lambda _: None)
    kept = json.loads((tmp_path / "reproduction.json").read_text())
    assert list(kept["squares"]) == ["fig1", "fig2"]
    assert kept["squares"]["fig1"]["command"].endswith("fig1 --quick")
    assert not plan(asked(tmp_path, quick=False)).forecast.to_do


def test_runs_are_kept_when_their_report_fails(tmp_path: Path) -> None:
    def broken(results: Results) -> Report:
        raise KeyError("nothing of this name")

    failing = Experiment("fig4", "Broken", "Fig. 4", runs, broken)
    sys.modules[f"{reproductions.__name__}.squares"].EXPERIMENTS = (failing,)  # type: ignore[attr-defined]
    with pytest.raises(KeyError):
        carry_out(asked(tmp_path), plan(asked(tmp_path)), lambda _: None)
    assert not plan(asked(tmp_path)).forecast.to_do


def test_a_result_rests_on_parameters_and_data(tmp_path: Path) -> None:
    data = tmp_path / "trace.csv"
    data.write_text("a\n1\n")
    run = Run(area, {"seed": 0, "side": 1.0}, 1.0, reads=(data,))
    assert digest(run) != digest(Run(area, {"seed": 1, "side": 1.0}, 1.0, reads=(data,)))
    assert digest(run) == digest(Run(area, {"side": 1.0, "seed": 0}, 9.0, reads=(data,)))
    other = tmp_path / "other.csv"
    other.write_text("a\n2\n")
    assert digest(run) != digest(Run(area, {"seed": 0, "side": 1.0}, 1.0, reads=(other,)))


def test_an_unfinished_result_counts_for_nothing(tmp_path: Path) -> None:
    store, run = Store(tmp_path), Run(area, {"seed": 0, "side": 1.0}, 1.0)
    (tmp_path / f"{digest(run)}.part").write_text("{")
    assert store.get(run) is None
    store.keep(run, {"area": 1.0}, cpu_s=0.5)
    assert store.get(run) == {"area": 1.0}
    assert [path.suffix for path in tmp_path.iterdir()] == [".json"]


def test_the_command_prints_both_sides_and_refuses_unknown_names(tmp_path: Path) -> None:
    told_json = CliRunner().invoke(
        cli, ["reproduce", "squares", "fig1", "--quick", "--json", "--out", str(tmp_path)]
    )
    assert told_json.exit_code == 0
    assert json.loads(told_json.stdout)["squares"]["fig1"]["claims"][0]["holds"] is True
    shown = CliRunner().invoke(cli, ["reproduce", "all", "--quick", "--out", str(tmp_path)])
    assert "squares, Fig. 1: Areas" in shown.stdout and "2 of 2 claims hold" in shown.stdout
    with pytest.raises(UserError, match="no experiment 'fig9'; use fig1, fig2, fig3"):
        plan(asked(tmp_path, "fig9"))
    with pytest.raises(UserError, match="'circles' is no paper; use squares or all"):
        plan(Asked("circles", None, Effort(), tmp_path))


def test_nothing_to_do_is_said_by_the_exit_status(tmp_path: Path) -> None:
    found = CliRunner().invoke(cli, ["reproduce", "squares", "fig3", "--out", str(tmp_path)])
    assert found.exit_code == 1
    assert "fig3: left out" in found.stderr


def test_results_are_looked_up_by_parameters() -> None:
    some = runs(Effort(quick=True))
    found = Results(some, [area(**run.parameters) for run in some])
    assert found.values("area", side=2.0) == (4.0, 5.0)
    assert found.parameters("seed") == [0, 1]
    with pytest.raises(KeyError):
        found.where(side=3.0)


def test_numbers_are_told_with_three_figures() -> None:
    assert told((16610.4,), "s") == "16,610 s"
    assert told((-31.234, -29.0), "%") == "-30.1 ± 1.58 %"
    assert told((), "s") == "–"
