"""004 §7.4: job scheduling without loaning (Figs. 11 to 14)."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from statistics import mean
from typing import TYPE_CHECKING

import numpy as np

from raysched.simulator.reproductions.aryl.compared import average, ratio
from raysched.simulator.reproductions.aryl.measures import PERCENTILES
from raysched.simulator.reproductions.aryl.runs import BASELINE, BESIDE_POLLUX, Scheme, runs
from raysched.simulator.reproductions.aryl.schemes import SCHEDULERS
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

SHOWN: dict[str, Scheme] = {"Baseline": BASELINE, **SCHEDULERS}

_CLAIMED11 = (("Pollux", 50, "1.23 x"), ("Pollux", 95, "1.69 x"))
_CLAIMED12 = (("Pollux", 50, "1.20 x"), ("Pollux", 95, "1.25 x"))


def _percentiles(
    metric: str, claimed: Sequence[tuple[str, int, str]], why: str
) -> Callable[[Results], Report]:
    """A report of how the percentiles of a time compare; `claimed`: Aryl's gain over others."""

    def report(results: Results) -> Report:
        rows = [
            Row(
                f"{name}: {percent}th percentile",
                "",
                results.values(f"{metric}_p{percent}", **each),
                "s",
            )
            for name, each in SHOWN.items()
            for percent in PERCENTILES
        ]
        for name, percent, printed in claimed:
            gain = _over(results, f"{metric}_p{percent}", SHOWN[name], SHOWN["Aryl"])
            rows.append(Row(f"{name} over Aryl: {percent}th percentile", printed, gain, "x"))
        claims = [
            Claim(
                f"at the {percent}th percentile Aryl is ahead of {name}",
                average(results, f"{metric}_p{percent}", SHOWN["Aryl"])
                <= average(results, f"{metric}_p{percent}", SHOWN[name]),
            )
            for name, percent, _ in claimed
        ]
        return Report(tuple(rows), tuple(claims), why)

    return report


def _over(results: Results, metric: str, over: Scheme, under: Scheme) -> tuple[float, ...]:
    """The ratio of the means; none where the one below is nothing."""
    below = average(results, metric, under)
    return (average(results, metric, over) / below,) if below else ()


def _draw_percentiles(metric: str, what: str) -> Callable[[Results, Figure], None]:
    def draw(results: Results, figure: Figure) -> None:
        axes = figure.subplots()
        width = 0.8 / len(SHOWN)
        for at, (name, each) in enumerate(SHOWN.items()):
            values = [average(results, f"{metric}_p{percent}", each) for percent in PERCENTILES]
            axes.bar(np.arange(len(values)) + width * at, values, width, label=name)
        axes.set_xticks(np.arange(len(PERCENTILES)) + 0.4, [f"{p}th" for p in PERCENTILES])
        axes.set(yscale="symlog", ylabel="s", title=f"Percentiles of {what} (Basic)")
        axes.legend(ncols=3, fontsize="small")

    return draw


SHARES = (0.2, 0.6, 1.0)
_GROWN = ("Gandiva", "AFS", "Pollux", "Aryl", "Aryl+TunedJobs")


def _with(share: float) -> dict[str, Scheme]:
    return {name: {**SCHEDULERS[name], "elastic": share} for name in _GROWN}


def _reduction(metric: str, what: str, why: str) -> Callable[[Results], Report]:
    """A report of what schemes cut off Baseline's time, by the share of jobs that scale."""

    def report(results: Results) -> Report:
        cut = {share: _cut(results, metric, _with(share)) for share in SHARES}
        rows = [
            Row(f"{name}, {share:.0%} elastic: {what} less than Baseline's", "", each, "%")
            for share in SHARES
            for name, each in cut[share].items()
        ]
        claims = [
            Claim(
                f"{share:.0%} elastic: Aryl cuts {what} more than {name}",
                mean(cut[share]["Aryl"]) > mean(cut[share][name]),
            )
            for share in SHARES
            for name in ("Gandiva", "AFS", "Pollux")
        ]
        claims += [
            Claim(
                f"{name} cuts more where more jobs are elastic",
                mean(cut[SHARES[-1]][name]) > mean(cut[SHARES[0]][name]),
            )
            for name in _GROWN
        ]
        return Report(tuple(rows), tuple(claims), why)

    return report


def _cut(
    results: Results, metric: str, schemes: Mapping[str, Scheme]
) -> dict[str, tuple[float, ...]]:
    """In percent of Baseline, seed by seed."""
    return {
        name: tuple(100 * (1 - each) for each in ratio(results, metric, scheme, BASELINE))
        for name, scheme in schemes.items()
    }


def _draw_reduction(metric: str, what: str) -> Callable[[Results, Figure], None]:
    def draw(results: Results, figure: Figure) -> None:
        axes = figure.subplots()
        cut = [_cut(results, metric, _with(share)) for share in SHARES]
        for name in _GROWN:
            axes.plot(
                [100 * s for s in SHARES], [mean(each[name]) for each in cut], "o-", label=name
            )
        axes.set(xlabel="elastic jobs, %", ylabel="%", title=f"{what} less than Baseline's")
        axes.legend(ncols=3, fontsize="small")

    return draw


_WHY11 = """\
More than half of the jobs do not wait at all here, as decisions need not wait for their minute,
so that medians are nothing."""
_WHY12 = """\
Most of the gain is in the upper percentiles, where the large jobs are, which scale. Pollux tunes
batches and Aryl alone does not; Aryl+TunedJobs is about as fast there."""
_WHY13 = """\
Pollux tunes batches, so that jobs are over sooner and others wait less. Aryl+TunedJobs does so too,
and queues less than Pollux whatever the share."""
_WHY14 = """\
Scaling is linear for all schemes; Pollux and the tuned jobs of Aryl have larger batches too,
whose gain was chosen, as no profile is printed. With them Aryl is ahead of Pollux whatever the
share, without them it is not."""


def _percentile_runs(effort: Effort) -> Sequence[Run]:
    return runs(effort, SHOWN.values(), scale=BESIDE_POLLUX)


def _reduction_runs(effort: Effort) -> Sequence[Run]:
    grown = [each for share in SHARES for each in _with(share).values()]
    return runs(effort, (BASELINE, *grown), scale=BESIDE_POLLUX)


FIG11 = Experiment(
    "fig11",
    "Percentiles of queuing",
    "Fig. 11",
    _percentile_runs,
    _percentiles("queuing_s", _CLAIMED11, _WHY11),
    _draw_percentiles("queuing_s", "queuing"),
)
FIG12 = Experiment(
    "fig12",
    "Percentiles of JCT",
    "Fig. 12",
    _percentile_runs,
    _percentiles("jct_s", _CLAIMED12, _WHY12),
    _draw_percentiles("jct_s", "JCT"),
)
FIG13 = Experiment(
    "fig13",
    "Queuing by the share of elastic jobs",
    "Fig. 13",
    _reduction_runs,
    _reduction("queuing_s_mean", "queuing", _WHY13),
    _draw_reduction("queuing_s_mean", "Queuing"),
)
FIG14 = Experiment(
    "fig14",
    "JCT by the share of elastic jobs",
    "Fig. 14",
    _reduction_runs,
    _reduction("jct_s_mean", "JCT", _WHY14),
    _draw_reduction("jct_s_mean", "JCT"),
)
