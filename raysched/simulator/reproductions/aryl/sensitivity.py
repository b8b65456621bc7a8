"""004 §7.2 and §7.5: plain placement (Table 6), imperfect scaling (Fig. 10), wrong estimates (Table
9)."""

from __future__ import annotations

from collections.abc import Sequence
from statistics import mean
from typing import TYPE_CHECKING

import numpy as np

from raysched.simulator.reproductions.aryl.compared import average, each_row, ratio
from raysched.simulator.reproductions.aryl.runs import BASELINE, BASIC, Scheme, runs
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

APART: dict[str, Scheme] = {name: SCENARIOS[name] for name in ("Basic", "Advanced", "Ideal")}
PLAIN: dict[str, Scheme] = {name: {**each, "apart": False} for name, each in APART.items()}
_TABLE6 = {  # queuing, JCT, preemptions
    "Basic": ("2,231", "13,864", "12.56"),
    "Advanced": ("1,950", "12,237", "10.28"),
    "Ideal": ("1,257", "9,751", "11.89"),
}


def table6(results: Results) -> Report:
    """Elastic jobs placed like others."""
    rows = each_row(results, _TABLE6, PLAIN)
    claims = [
        Claim(
            f"{name}: {what} than with elastic jobs apart",
            average(results, metric, PLAIN[name]) > average(results, metric, APART[name]),
        )
        for name in _TABLE6
        for what, metric in (
            ("more preemptions", "preemption_ratio"),
            ("a longer JCT", "jct_s_mean"),
        )
    ]
    return Report(rows, tuple(claims), _WHY6)


_WHY6 = """\
Placed like others, elastic jobs stay on training servers while these have room, where no reclaim
reaches them."""

LINEAR: dict[str, Scheme] = {name: SCENARIOS[name] for name in ("Basic", "Ideal")}
IMPERFECT: dict[str, Scheme] = {name: {**each, "imperfect": True} for name, each in LINEAR.items()}
_FIG10 = {"Basic": ("4 %", "12 %"), "Ideal": ("", "19 %")}


def fig10(results: Results) -> Report:
    """What is lost where jobs scale imperfectly."""
    rows = [
        Row(
            f"{name}: {what} longer than with linear scaling",
            printed,
            tuple(100 * (more - 1) for more in _more(results, metric, name)),
            "%",
        )
        for name, paper in _FIG10.items()
        for printed, (what, metric) in zip(paper, _TIMES, strict=True)
    ]
    claims = [
        Claim(
            f"{name}: JCT suffers more than queuing",
            mean(_more(results, "jct_s_mean", name)) > mean(_more(results, "queuing_s_mean", name)),
        )
        for name in LINEAR
    ]
    claims.append(
        Claim(
            "JCT suffers more in the Ideal scenario than in Basic",
            mean(_more(results, "jct_s_mean", "Ideal"))
            > mean(_more(results, "jct_s_mean", "Basic")),
        )
    )
    return Report(tuple(rows), tuple(claims), _WHY10)


_TIMES = (("queuing", "queuing_s_mean"), ("JCT", "jct_s_mean"))
_WHY10 = """\
A large job of one to three workers loses a tenth of its speed at the most; one of four to twelve
hardly gains beyond eight. The scheduler knows the true curves. In the Ideal scenario all jobs
scale, and those who wait miss the GPU time that imperfect scaling wastes: queuing suffers about as
much as JCT."""


def _more(results: Results, metric: str, name: str) -> tuple[float, ...]:
    return ratio(results, metric, IMPERFECT[name], LINEAR[name])


def _draw10(results: Results, figure: Figure) -> None:
    for axes, (what, metric) in zip(figure.subplots(1, 2), _TIMES, strict=True):
        for at, (label, schemes) in enumerate((("linear", LINEAR), ("imperfect", IMPERFECT))):
            values = [average(results, metric, each) for each in schemes.values()]
            axes.bar(np.arange(2) + 0.4 * at, values, 0.38, label=label)
        axes.set_xticks(np.arange(2) + 0.2, list(LINEAR))
        axes.set_title(f"{what}, mean, s")
        axes.legend()


MISJUDGED: dict[float, Scheme] = {
    share: {**BASIC, "misjudged": share} for share in (0.0, 0.2, 0.4, 0.6)
}
_TABLE9 = {
    0.0: ("2.37", "1.57"),
    0.2: ("2.21", "1.52"),
    0.4: ("2.17", "1.49"),
    0.6: ("1.76", "1.38"),
}


def table9(results: Results) -> Report:
    """Gains over Baseline where times are estimated wrong."""
    gains = {
        share: [ratio(results, metric, BASELINE, each) for _, metric in _TIMES]
        for share, each in MISJUDGED.items()
    }
    rows = [
        Row(f"{share:.0%} wrong: {what} of Baseline over Aryl's", f"{printed} x", gain, "x")
        for share, paper in _TABLE9.items()
        for (what, _), printed, gain in zip(_TIMES, paper, gains[share], strict=True)
    ]
    claims = (
        Claim("with 60 % wrong, queuing gains 1.76 times or more", mean(gains[0.6][0]) >= 1.76),
        *(
            Claim(
                f"{what} gains less with 60 % wrong than with none",
                mean(gains[0.6][at]) < mean(gains[0.0][at]),
            )
            for at, (what, _) in enumerate(_TIMES)
        ),
    )
    return Report(tuple(rows), claims, _WHY9)


_WHY9 = """\
An estimate that is off by a quarter rarely changes who is shortest, where running times differ
by orders of magnitude, from half a minute to nine days."""


def _table6_runs(effort: Effort) -> Sequence[Run]:
    return runs(effort, (*APART.values(), *PLAIN.values()))


def _fig10_runs(effort: Effort) -> Sequence[Run]:
    return runs(effort, (*LINEAR.values(), *IMPERFECT.values()))


def _table9_runs(effort: Effort) -> Sequence[Run]:
    return runs(effort, (BASELINE, *MISJUDGED.values()))


TABLE6 = Experiment("table6", "Elastic jobs placed like others", "Table 6", _table6_runs, table6)
FIG10 = Experiment("fig10", "Imperfect scaling", "Fig. 10", _fig10_runs, fig10, _draw10)
TABLE9 = Experiment("table9", "Wrong estimates of running times", "Table 9", _table9_runs, table9)
