"""Fig. 7 and 10: GPUs allocated, jobs admitted and cluster efficiency over time."""

from __future__ import annotations

from typing import TYPE_CHECKING

import numpy as np

from raysched.simulator.reproductions.elasticflow.bars import NAMES, Bars, colour
from raysched.simulator.reproductions.elasticflow.groups import FIG6B, FIG10
from raysched.simulator.reproductions.experiment import (
    Claim,
    Experiment,
    Measured,
    Report,
    Results,
    Row,
)

if TYPE_CHECKING:
    from matplotlib.axes import Axes
    from matplotlib.figure import Figure

QUIET_H = 13
"""Hours of Fig. 7 before the burst of submissions that §6.2 names."""

EARLY_H = 100
"""Hours of Fig. 10 in which §6.4 compares the cluster efficiency."""


def _mean(run: Measured, curve: str, hours: float) -> float:
    at_h = np.array(run["at_h"])
    return float(np.mean(np.array(run[curve])[at_h < hours]))


def _by_policy(results: Results, group: Bars) -> dict[str, Measured]:
    ran = results.parameters("policy")
    return {
        policy: results.where(policy=policy, trace=group.setup.trace)[0]
        for policy in NAMES
        if policy in ran
    }


def _report_7(results: Results) -> Report:
    found = _by_policy(results, FIG6B)
    held = {policy: _mean(run, "held_gpus", QUIET_H) for policy, run in found.items()}
    own = found["elasticflow"]
    submitted, rejected = np.array(own["submitted"]), np.array(own["rejected"])
    burst_h = int(submitted.argmax())
    rows = [
        Row(f"GPUs allocated in the first {QUIET_H} hours, {NAMES[policy]}", "", (gpus,))
        for policy, gpus in held.items()
    ]
    rows += [
        Row("hour with the most submissions", "13th", (burst_h,)),
        Row("jobs submitted in it", "", (float(submitted[burst_h]),)),
        Row("of them dropped by ElasticFlow", "", (float(rejected[burst_h]),)),
        Row("dropped in 48 hours", "", (float(rejected.sum()),)),
    ]
    claims = (
        Claim(
            "while few jobs are there ElasticFlow uses more GPUs than Gandiva and Tiresias, "
            "which are not elastic",
            held["elasticflow"] > max(held["gandiva"], held["tiresias"]),
        ),
        Claim("jobs are dropped in the burst of submissions", bool(rejected[burst_h] > 0)),
    )
    return Report(
        tuple(rows),
        claims,
        "The paper draws curves only. Hours count from the first submission, from 0.",
    )


def _draw_7(results: Results, figure: Figure) -> None:
    found = _by_policy(results, FIG6B)
    gpus, jobs = figure.subplots(2, 1, sharex=True)
    _curves(gpus, found, "held_gpus")
    gpus.set_ylabel("GPUs allocated")
    own = found["elasticflow"]
    hours = np.arange(len(own["submitted"])) + 0.5
    submitted, rejected = np.array(own["submitted"]), np.array(own["rejected"])
    jobs.step(hours, submitted, where="mid", color="C3", label="submitted")
    jobs.step(hours, submitted - rejected, where="mid", color="black", label="admitted", ls=":")
    jobs.set_ylabel("jobs an hour")
    jobs.set_xlabel("hours")
    jobs.legend(fontsize=8)
    figure.legend(*gpus.get_legend_handles_labels(), loc="outside right center", fontsize=8)


def _report_10(results: Results) -> Report:
    found = _by_policy(results, FIG10)
    efficiency = {policy: _mean(run, "efficiency", EARLY_H) for policy, run in found.items()}
    makespan_h = {policy: run["makespan_s"] / 3600 for policy, run in found.items()}
    rows = [
        *(
            Row(f"cluster efficiency in the first {EARLY_H} hours, {NAMES[policy]}", "", (ours,))
            for policy, ours in efficiency.items()
        ),
        *(Row(f"makespan, {NAMES[p]}", "", (hours,), "h") for p, hours in makespan_h.items()),
        Row("jobs dropped by ElasticFlow", "0", (float(found["elasticflow"]["dropped"]),)),
    ]
    claims = (
        Claim("ElasticFlow admits all jobs", found["elasticflow"]["dropped"] == 0),
        Claim(
            f"ElasticFlow has the highest cluster efficiency in the first {EARLY_H} hours",
            max(efficiency, key=lambda policy: efficiency[policy]) == "elasticflow",
        ),
        Claim(
            "ElasticFlow has the smallest makespan",
            min(makespan_h, key=lambda policy: makespan_h[policy]) == "elasticflow",
        ),
    )
    return Report(tuple(rows), claims, WHY_10)


WHY_10 = (
    "The paper draws curves only. Cluster efficiency is (8) with a job's throughput shared among "
    "its GPUs: as printed a job would count once for each of them. Chronus is left out: it takes "
    "minutes."
)


def _draw_10(results: Results, figure: Figure) -> None:
    axes = figure.subplots()
    _curves(axes, _by_policy(results, FIG10), "efficiency")
    axes.set_ylabel("cluster efficiency")
    axes.set_xlabel("hours")
    figure.legend(loc="outside right center", fontsize=8)


def _curves(axes: Axes, found: dict[str, Measured], curve: str) -> None:
    for policy, run in found.items():
        width = 2.0 if policy == "elasticflow" else 1.0
        axes.plot(run["at_h"], run[curve], label=NAMES[policy], color=colour(policy), lw=width)
    axes.set_ylim(bottom=0)


FIGURES = (
    Experiment("fig7", "GPUs and jobs over time", "Fig. 7", FIG6B.runs, _report_7, _draw_7),
    Experiment("fig10", "Cluster efficiency", "Fig. 10", FIG10.runs, _report_10, _draw_10),
)
