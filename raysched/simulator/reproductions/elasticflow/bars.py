"""Bars of deadline satisfactory ratios: one group for each trace and cluster, a bar a policy."""

from __future__ import annotations

import math
from collections.abc import Mapping, Sequence
from contextlib import suppress
from dataclasses import dataclass, field
from statistics import mean
from typing import TYPE_CHECKING, Any, TypeAlias

from raysched.simulator.reproductions.elasticflow.measure import PUBLISHED, Setup, runs
from raysched.simulator.reproductions.experiment import Claim, Effort, Results, Row, Run

if TYPE_CHECKING:
    from matplotlib.figure import Figure

NAMES = {
    "edf": "EDF",
    "edf_admission": "EDF + Admission Control",
    "edf_elastic": "EDF + Elastic Scaling",
    "gandiva": "Gandiva",
    "tiresias": "Tiresias",
    "themis": "Themis",
    "chronus": "Chronus",
    "pollux": "Pollux",
    "elasticflow": "ElasticFlow",
}
"""As the figures print them, in their order."""

MOST_QUICK_CPU_S = 20.0
"""What takes longer is left out of quick runs."""

Ratios: TypeAlias = dict[str, tuple[float, ...]]
"""By policy, one a seed."""


@dataclass(frozen=True, slots=True)
class Bar:
    """The ratio that a figure shows for a policy, None: a curve only; and what a run takes, None:
    too much.

    Ratios are those of the authors' plotting scripts (pkusys/ElasticFlow, plot_figure/scripts), as
    the text names few of them.
    """

    printed: float | None
    cpu_s: float | None = None


@dataclass(frozen=True, slots=True, eq=False)
class Bars:
    """A group: its name, what is run, and a bar for each policy. `parameters` of policies stand
    over those of the authors."""

    name: str
    setup: Setup
    of: Mapping[str, Bar]
    parameters: Mapping[str, Mapping[str, object]] = field(default_factory=dict)

    def runs(self, effort: Effort, reading: str = PUBLISHED) -> list[Run]:
        """A run for each policy and seed. Quick: of those that take not long, none where
        ElasticFlow does."""
        most_s = MOST_QUICK_CPU_S if effort.quick else math.inf
        costs = {policy: bar.cpu_s for policy, bar in self.of.items() if bar.cpu_s is not None}
        if costs["elasticflow"] > most_s:
            return []
        return [
            run
            for policy, cpu_s in costs.items()
            if cpu_s <= most_s
            for run in runs(effort, self.setup, policy, cpu_s, reading, **self._told(policy))
        ]

    def _told(self, policy: str) -> dict[str, Any]:
        own = self.parameters.get(policy)
        return {} if own is None else {"parameters": dict(own)}

    def ratios(
        self, results: Results, reading: str = PUBLISHED, metric: str = "deadline_ratio"
    ) -> Ratios:
        """Of the policies that were run, in the order of the figure; {}: none was."""
        found: Ratios = {}
        where = {"trace": self.setup.trace, "servers": self.setup.servers, "reading": reading}
        for policy in NAMES:
            with suppress(KeyError):
                found[policy] = results.values(metric, policy=policy, **where)
        return found

    def rows(self, ratios: Ratios) -> list[Row]:
        """Paper and ours."""
        return [
            Row(f"{self.name}: {NAMES[policy]}", f"{self.of[policy].printed:.3g}", ours)
            for policy, ours in ratios.items()
        ]


def factors(ratios: Ratios) -> dict[str, float]:
    """How many times the deadlines of each baseline ElasticFlow meets, on the mean of seeds."""
    best = mean(ratios["elasticflow"])
    return {
        policy: best / mean(ours)
        for policy, ours in ratios.items()
        if policy != "elasticflow" and mean(ours) > 0
    }


def factor_rows(ratios: Ratios, printed: Mapping[str, float], of: str = "") -> list[Row]:
    """ElasticFlow over each baseline, as the text prints it."""
    return [
        Row(f"ElasticFlow over {NAMES[policy]}", f"{printed[policy]:g}{of}", (times,), "x")
        for policy, times in factors(ratios).items()
    ]


def leads(ratios: Ratios, policy: str, others: Sequence[str], text: str) -> Claim:
    """The claim that a policy meets more deadlines than others, of those that were run."""
    own = mean(ratios[policy])
    return Claim(text, all(own > mean(ratios[other]) for other in others if other in ratios))


def first(ratios: Ratios, where: str) -> Claim:
    """The claim of every figure."""
    baselines = [policy for policy in ratios if policy != "elasticflow"]
    return leads(
        ratios, "elasticflow", baselines, f"{where}: ElasticFlow meets more than every baseline"
    )


def draw(ratios: Mapping[Bars, Ratios], figure: Figure) -> None:
    """Ours as bars, the paper's as marks on them."""
    axes = figure.subplots()
    shown = [policy for policy in NAMES if any(policy in found for found in ratios.values())]
    width = 0.8 / len(shown)
    for number, policy in enumerate(shown):
        aside = (number - (len(shown) - 1) / 2) * width
        for place, (group, found) in enumerate(ratios.items()):
            at, label = place + aside, "_" if place else NAMES[policy]
            ours = mean(found.get(policy, (0.0,)))
            axes.bar(at, ours, 0.9 * width, label=label, color=colour(policy))
            printed = group.of[policy].printed if policy in found else None
            if printed is not None:
                axes.plot(at, printed, "_", color="grey", ms=11, mew=2)
    axes.set_xticks(range(len(ratios)), [group.name for group in ratios])
    axes.set_ylim(0, 1)
    axes.set_ylabel("deadline satisfactory ratio")
    axes.set_title("bars: ours, marks: the paper's", loc="left", fontsize=9)
    figure.legend(loc="outside right center", fontsize=8)


def colour(policy: str) -> str:
    """The same in all figures."""
    return "black" if policy == "elasticflow" else f"C{list(NAMES).index(policy)}"
