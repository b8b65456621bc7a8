"""004 §7.3: capacity loaning without scaling (Table 7, Figs. 7 and 8, Table 12)."""

from __future__ import annotations

from collections.abc import Sequence
from statistics import mean
from typing import TYPE_CHECKING

import numpy as np

from raysched.simulator.reproductions.aryl.compared import average, each_row, least
from raysched.simulator.reproductions.aryl.runs import (
    BASIC,
    LOANING,
    PART,
    QUICK,
    Scheme,
    on_loan,
    runs,
)
from raysched.simulator.reproductions.aryl.schemes import RECLAIMS
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

_BY = {"Random": "random", "SCF": "smallest_count_first", "Aryl": "aryl"}
WITH_SCALING: dict[str, Scheme] = {name: {**BASIC, "reclaim": by} for name, by in _BY.items()}
ORDERS: dict[str, Scheme] = {
    "Static": {**LOANING, "reclaim": "static"},
    "LSF": {**LOANING, "reclaim": "largest_size_first"},
    "SSF": {**LOANING, "reclaim": "smallest_size_first"},
    "Aryl": LOANING,
}

_FIFO7 = {"queuing_s": ("4,573", "1,283", "23,351"), "jct_s": ("11,547", "2,122", "60,170")}
_ARYL7 = {"queuing_s": ("1,029", "272", "7,249"), "jct_s": ("6,832", "1,256", "35,604")}


def table7(results: Results) -> Report:
    """Jobs that ran on loan, under loaning alone and under FIFO."""
    rows = [
        Row(
            f"{name}: {what} of jobs that ran on loan, {of}",
            f"{printed} s",
            results.values(f"{policy}_{metric}_{statistic}"),
            "s",
        )
        for policy, name, paper in (("fifo", "Baseline", _FIFO7), ("aryl", "Aryl", _ARYL7))
        for metric, what in (("queuing_s", "queuing"), ("jct_s", "JCT"))
        for (statistic, of), printed in zip(
            (("mean", "mean"), ("p50", "median"), ("p95", "95th percentile")),
            paper[metric],
            strict=True,
        )
    ]
    claims = tuple(
        Claim(
            f"{what} of jobs that ran on loan is shorter than under FIFO, {of}",
            mean(results.values(f"aryl_{metric}_{statistic}"))
            < mean(results.values(f"fifo_{metric}_{statistic}")),
        )
        for metric, what in (("queuing_s", "queuing"), ("jct_s", "JCT"))
        for statistic, of in (("mean", "mean"), ("p95", "95th percentile"))
    )
    return Report(tuple(rows), claims, _WHY7)


_WHY7 = """\
Inelastic jobs stand on loan only where the training pool is full. Here that is while a sweep
waits, so that those who come to stand there would have waited for long."""


def fig7(results: Results) -> Report:
    """Use of what was on loan, by the day."""
    rows = [
        Row(f"servers on loan in use, {name}", paper, tuple(_use(each)), "%")
        for name, paper, each in (
            ("without scaling", "> 93 %", results.where(**LOANING)),
            ("Basic", "", results.where(**BASIC)),
        )
    ]
    return Report(tuple(rows), (), _WHY_FIG7)


_WHY_FIG7 = """\
Inelastic jobs go on loan only where the training pool is full (§5.3), and only 21 % of them may:
most days nobody needs to. Large jobs prefer servers on loan, and use them in Basic."""


def _use(found: Sequence[dict[str, list[float | None]]]) -> list[float]:
    """[seeds] In percent, the mean of the days on which something was on loan."""
    days = [[day for day in each["on_loan_daily"] if day is not None] for each in found]
    return [100 * mean(each) for each in days]


def _draw7(results: Results, figure: Figure) -> None:
    axes = figure.subplots()
    for name, each in (("without scaling", LOANING), ("Basic", BASIC)):
        by_day = zip(*(found["on_loan_daily"] for found in results.where(**each)), strict=True)
        days = [[use for use in seeds if use is not None] for seeds in by_day]
        shown = [day for day, seeds in enumerate(days) if seeds]
        axes.plot([1 + day for day in shown], [100 * mean(days[day]) for day in shown], label=name)
    axes.set(xlabel="day", ylabel="%", ylim=(0, 100), title="Use of servers on loan")
    axes.legend()


_FIG8 = {  # preemptions and collateral damage of SCF and Random over Aryl's
    "without scaling": (RECLAIMS, {"SCF": ("1.5 x", "1.37 x"), "Random": ("1.67 x", "1.59 x")}),
    "with scaling": (WITH_SCALING, {"SCF": ("", ""), "Random": ("", "")}),
}


def fig8(results: Results) -> Report:
    """What reclaims cost, by how servers are chosen."""
    rows, claims = [], []
    for where, (schemes, paper) in _FIG8.items():
        for name, printed in paper.items():
            for metric, what, told in zip(
                ("preemption_ratio", "collateral"),
                ("preemptions", "collateral damage"),
                printed,
                strict=True,
            ):
                aryl = average(results, metric, schemes["Aryl"])
                other = average(results, metric, schemes[name])
                over = (other / aryl,) if aryl else ()
                rows.append(Row(f"{name} over Aryl, {where}: {what}", told, over, "x"))
        for metric in ("preemption_ratio", "collateral"):
            claims += least(results, metric, "Aryl", schemes, where)
    return Report(tuple(rows), tuple(claims), _WHY8)


_WHY8 = """\
Without scaling few jobs stand on loan (Fig. 7), and ways of choosing are closer than in print;
with it these servers are full. A server of 8 T4 is worth two GPUs here and hosts one or two
workers: in small parts of the cluster, where one or two are asked back at a time (`--quick`), there
is little to choose."""


def _draw8(results: Results, figure: Figure) -> None:
    left, right = figure.subplots(1, 2)
    for axes, metric, title in (
        (left, "preemption_ratio", "Preemptions per submission, %"),
        (right, "collateral", "Collateral damage, %"),
    ):
        for at, (where, (schemes, _)) in enumerate(_FIG8.items()):
            values = [100 * average(results, metric, each) for each in schemes.values()]
            axes.bar(np.arange(len(values)) + 0.4 * at, values, 0.38, label=where)
        axes.set_xticks(np.arange(3) + 0.2, list(RECLAIMS))
        axes.set_title(title)
    figure.legend(*left.get_legend_handles_labels(), loc="outside lower center", ncols=2)


_TABLE12 = {
    "Static": ("3,649", "18,747", "36.75"),
    "LSF": ("2,993", "12,953", "28.58"),
    "SSF": ("2,354", "14,953", "14.34"),
    "Aryl": ("2,204", "12,414", "12.34"),
}


def table12(results: Results) -> Report:
    """Other orders in which servers may be chosen."""
    rows = each_row(results, _TABLE12, ORDERS)
    claims = least(results, "preemption_ratio", "Aryl", ORDERS, "loaning")
    return Report(rows, tuple(claims), _WHY12)


_WHY12 = """\
The paper does not define Static, LSF and SSF; ours are readings. Without scaling few jobs stand
on loan (Fig. 7), so that preemptions are few and nearly alike."""


def _table7_runs(effort: Effort) -> Sequence[Run]:
    size = 2 * QUICK if effort.quick else PART  # few jobs run on loan at smaller ones
    return [Run(on_loan, {"seed": seed, "scale": size}, 260 * size) for seed in effort.seeds()]


def _fig7_runs(effort: Effort) -> Sequence[Run]:
    return runs(effort, (LOANING, BASIC))


def _fig8_runs(effort: Effort) -> Sequence[Run]:
    return runs(effort, (*RECLAIMS.values(), *WITH_SCALING.values()))


def _table12_runs(effort: Effort) -> Sequence[Run]:
    return runs(effort, ORDERS.values())


TABLE7 = Experiment("table7", "Jobs that ran on loan", "Table 7", _table7_runs, table7)
FIG7 = Experiment("fig7", "Use of servers on loan", "Fig. 7", _fig7_runs, fig7, _draw7)
FIG8 = Experiment("fig8", "What reclaims cost", "Fig. 8", _fig8_runs, fig8, _draw8)
TABLE12 = Experiment("table12", "Ways of choosing servers", "Table 12", _table12_runs, table12)
