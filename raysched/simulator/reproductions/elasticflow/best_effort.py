"""Fig. 11: jobs with deadlines beside jobs without."""

from __future__ import annotations

from statistics import mean
from typing import TYPE_CHECKING

from raysched.simulator.reproductions.elasticflow.bars import NAMES, Ratios, colour
from raysched.simulator.reproductions.elasticflow.groups import FIG11, SPEEDUPS
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

QUICK = (0, 4, 8)
"""Shares of a quick run, by their place: 10, 50 and 90 %."""


def _runs(effort: Effort) -> list[Run]:
    places = QUICK if effort.quick else range(len(FIG11))
    return [run for place in places for run in FIG11[place].runs(effort)]


def _by_place(results: Results, metric: str) -> dict[int, Ratios]:
    """By the place of the share that was run."""
    found = {place: group.ratios(results, metric=metric) for place, group in enumerate(FIG11)}
    return {place: of_policies for place, of_policies in found.items() if of_policies}


def _speedups(results: Results) -> dict[int, Ratios]:
    """Gandiva's mean JCT of best-effort jobs over that of each."""
    return {
        place: {policy: (jct_s["gandiva"][0] / ours[0],) for policy, ours in jct_s.items()}
        for place, jct_s in _by_place(results, "best_effort_jct_s").items()
    }


def _report(results: Results) -> Report:
    ratios, speedups = _by_place(results, "deadline_ratio"), _speedups(results)
    rows = [
        Row(f"{FIG11[place].name} best effort: {what}, {NAMES[policy]}", f"{printed}", (ours,))
        for place in QUICK
        for what, printed, policy, ours in (
            *(("deadlines", FIG11[place].of[p].printed, p, v[0]) for p, v in ratios[place].items()),
            *(("JCT", SPEEDUPS[p][place], p, v[0]) for p, v in speedups[place].items()),
        )
    ]
    first = [_best(found) == "elasticflow" for found in ratios.values()]
    claims = (
        Claim("at every share, no baseline meets more deadlines than ElasticFlow", all(first)),
        Claim(
            "with 10 % of best-effort jobs ElasticFlow has their smallest mean JCT",
            _best(speedups[0]) == "elasticflow",
        ),
        Claim(
            "at every share, EDF has the largest mean JCT of best-effort jobs",
            all(min(found, key=lambda p: mean(found[p])) == "edf" for found in speedups.values()),
        ),
    )
    return Report(
        tuple(rows),
        claims,
        "JCT is Gandiva's mean of best-effort jobs over that of the policy: larger is better. Our "
        "ElasticFlow gives best-effort jobs all that minimum shares leave (§4.4), where it saves "
        "most GPU time; the authors' simulator gives it where it saves least. They drew these jobs "
        "anew for each run; ours were drawn once by their generator. Chronus is left out: minutes.",
    )


def _best(found: Ratios) -> str:
    """Ties go to ElasticFlow, the last: the paper has one with EDF at 90 %."""
    return max(reversed(found), key=lambda policy: mean(found[policy]))


def _draw(results: Results, figure: Figure) -> None:
    deadlines, jct = figure.subplots(1, 2)
    for axes, by_place, label in (
        (deadlines, _by_place(results, "deadline_ratio"), "deadline satisfactory ratio"),
        (jct, _speedups(results), "Gandiva's mean JCT over that of each"),
    ):
        for policy in SPEEDUPS:
            there = [place for place, found in by_place.items() if policy in found]
            ours = [by_place[place][policy][0] for place in there]
            axes.plot(
                [10 * (place + 1) for place in there],
                ours,
                marker=".",
                color=colour(policy),
                label=NAMES[policy],
            )
        axes.set_xlabel("% of best-effort jobs")
        axes.set_ylabel(label)
        axes.set_ylim(bottom=0)
    handles = deadlines.get_legend_handles_labels()
    figure.legend(*handles, loc="outside right center", fontsize=8)


FIGURES = (
    Experiment("fig11", "Jobs with and without deadlines", "Fig. 11", _runs, _report, _draw),
)
