"""Fig. 3 and 4 of 002: utility and lateness under OASiS and four other schemes."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from itertools import chain
from typing import TYPE_CHECKING, Any

import numpy as np

from raysched.simulator.reproductions.experiment import (
    Claim,
    Effort,
    Experiment,
    Report,
    Results,
    Row,
    Run,
)
from raysched.simulator.reproductions.oasis.measures import PRICE_FLOOR, SCHEMES, share_cluster

if TYPE_CHECKING:
    from matplotlib.figure import Figure

OURS, AS_PRINTED = "oasis", "oasis, L as printed"
OTHERS = tuple(name for name in SCHEMES if name not in (OURS, AS_PRINTED))
KINDS = ("sensitive", "critical")

_DORM_S: Mapping[int, float] = {15: 0.7, 30: 3.0, 45: 15.0, 60: 35.0}
"""CPU seconds by number of jobs; the other schemes take less than one."""

_WHY_UTILITY = f"""\
Over the live engine with GPUs alone: 16 servers of 16 GPUs, about as many as the paper's 50 have, \
and 100 slots of an hour. The numbers of jobs are ours. OASiS plans whole slots, while jobs of the \
others may end and make room within one. As printed, L is the least that any job could be worth at \
the end of the span, and for time-critical jobs that is 0: prices rise from nothing, each arrival \
takes what is left however late it ends, and OASiS loses to drf. What stands as oasis has L at \
least U x {PRICE_FLOOR:g} (`price_floor`), with which an empty cluster still admits jobs of \
thousands of GPU-slots."""

_WHY_LATENESS = """\
The runs of Fig. 3 with the most jobs. Jobs that are rejected have no completion time: oasis, \
which rejects those that it cannot end near their target, is judged by those that it admits, while \
fifo, drf and dorm run every job however late."""


def runs(effort: Effort) -> list[Run]:
    """Every scheme on every number of jobs; more of these where there is time."""
    return [
        Run(
            share_cluster,
            {"scheme": scheme, "jobs": jobs, "seed": seed},
            cpu_s=_DORM_S[jobs] if scheme == "dorm" else 0.4,
        )
        for jobs in ((15, 45) if effort.quick else (15, 30, 45, 60))
        for scheme in SCHEMES
        for seed in effort.seeds()
    ]


def report_utility(results: Results) -> Report:
    """Fig. 3: rows for the fewest and the most jobs; the claims are about all numbers."""
    numbers = results.parameters("jobs")
    fewest, most = numbers[0], numbers[-1]
    rows = [
        Row(f"total utility, {jobs} jobs, {scheme}", "", _utility(results, scheme, jobs))
        for jobs in (fewest, most)
        for scheme in SCHEMES
    ]
    lead = {jobs: _lead(results, jobs) for jobs in numbers}
    rows += [
        Row(f"oasis over the best other, {jobs} jobs", "", (share,), "x")
        for jobs, share in lead.items()
    ]
    return Report(
        tuple(rows),
        (
            Claim(
                "oasis has the greatest total utility at every number of jobs",
                all(share > 1 for share in lead.values()),
            ),
            Claim(
                f"its lead over the best other is greater with {most} jobs than with {fewest}",
                lead[most] > lead[fewest],
            ),
        ),
        _WHY_UTILITY,
    )


def report_lateness(results: Results) -> Report:
    """Fig. 4: mean and spread of completion minus target, the most jobs there are."""
    rows: list[Row] = []
    claims: list[Claim] = []
    for kind in KINDS:
        late = {scheme: _lateness(results, scheme, kind) for scheme in SCHEMES}
        for scheme, by_seed in late.items():
            what = f"time-{kind} jobs, completion minus target, {scheme}"
            rows.append(Row(f"{what}: mean", "", _each(np.mean, by_seed), "slots"))
            rows.append(Row(f"{what}: standard deviation", "", _each(np.std, by_seed), "slots"))
        of_all = {scheme: np.array([*chain(*late[scheme])]) for scheme in (OURS, *OTHERS)}
        nearest = min(of_all, key=lambda scheme: abs(float(of_all[scheme].mean())))
        steadiest = min(of_all, key=lambda scheme: float(of_all[scheme].std()))
        claims.append(
            Claim(f"oasis ends time-{kind} jobs closest to their targets", nearest == OURS)
        )
        claims.append(Claim(f"and with the smallest variance ({kind})", steadiest == OURS))
    return Report(tuple(rows), tuple(claims), _WHY_LATENESS)


def draw_utility(results: Results, figure: Figure) -> None:
    """Mean total utility over the number of jobs, a line a scheme."""
    axes = figure.subplots()
    numbers = results.parameters("jobs")
    for scheme in SCHEMES:
        means = [float(np.mean(_utility(results, scheme, jobs))) for jobs in numbers]
        style = "--" if scheme == AS_PRINTED else "-"
        axes.plot(numbers, means, style, marker="o", label=scheme)
    axes.set(xlabel="jobs", ylabel="total utility", ylim=(0, None))
    axes.legend()


def draw_lateness(results: Results, figure: Figure) -> None:
    """A box a scheme, for either kind of job."""
    for axes, kind in zip(figure.subplots(1, 2, sharey=True), KINDS, strict=True):
        names = (OURS, *OTHERS)
        axes.boxplot([[*chain(*_lateness(results, name, kind))] for name in names], sym="")
        axes.set_xticks(range(1, len(names) + 1), names)
        axes.axhline(0, color="grey", linewidth=0.8)
        axes.set(title=f"time-{kind} jobs", ylabel="completion - target (slots)")


def _utility(results: Results, scheme: str, jobs: int) -> tuple[float, ...]:
    return results.values("utility", scheme=scheme, jobs=jobs)


def _lead(results: Results, jobs: int) -> float:
    """Mean utility of oasis over that of the best other scheme."""
    means = {name: float(np.mean(_utility(results, name, jobs))) for name in (OURS, *OTHERS)}
    return means[OURS] / max(means[name] for name in OTHERS)


def _lateness(results: Results, scheme: str, kind: str) -> list[list[float]]:
    """[slots] By seed."""
    most = results.parameters("jobs")[-1]
    return [found["lateness"][kind] for found in results.where(scheme=scheme, jobs=most)]


def _each(statistic: Callable[[list[float]], Any], by_seed: list[list[float]]) -> tuple[float, ...]:
    """Of each seed in which a job finished."""
    return tuple(float(statistic(late)) for late in by_seed if late)


UTILITY = Experiment(
    "fig3", "Total utility by number of jobs", "Fig. 3", runs, report_utility, draw_utility
)
LATENESS = Experiment(
    "fig4",
    "Completion minus target completion time",
    "Fig. 4",
    runs,
    report_lateness,
    draw_lateness,
)
