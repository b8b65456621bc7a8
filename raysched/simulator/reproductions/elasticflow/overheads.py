"""Fig. 12(b) and §6.6: what scaling costs, beside the time between scheduling events."""

from __future__ import annotations

from raysched.simulator.reproductions.elasticflow.groups import FIG6B
from raysched.simulator.reproductions.elasticflow.measure import runs
from raysched.simulator.reproductions.experiment import (
    Claim,
    Effort,
    Experiment,
    Report,
    Results,
    Row,
    Run,
)

LEAST_S, MOST_S = 0.69, 4.239
"""Least and largest overhead that Fig. 12(b) shows, of moving InceptionV3 and of scaling BERT."""

OVERHEADS_S = (0.0, LEAST_S, MOST_S, 10 * MOST_S)


def _runs(effort: Effort) -> list[Run]:
    return [
        run
        for overhead_s in OVERHEADS_S
        for run in runs(effort, FIG6B.setup, "elasticflow", 2.0, overhead_s=overhead_s)
    ]


def _report(results: Results) -> Report:
    ratios = {cost: results.values("deadline_ratio", overhead_s=cost)[0] for cost in OVERHEADS_S}
    (run,) = results.where(overhead_s=MOST_S)
    interval_s = run["makespan_s"] / run["decisions"]
    share = 100 * MOST_S / interval_s
    rows = (
        Row("mean time between scheduling events", "23", (interval_s / 60,), "min"),
        Row("of it, the largest overhead measured", "", (share,), "%"),
        *(
            Row(f"deadlines met where an event costs each job {cost:g} s", "", (ratio,))
            for cost, ratio in ratios.items()
        ),
    )
    claims = (Claim("overheads are marginal beside that time: under 1 %", share < 1),)
    return Report(
        rows,
        claims,
        "The overheads were measured on GPUs that we do not have: here they are what each event is "
        "set to cost every job that runs, on the 195 jobs of Fig. 6(b). Marginal in time, they are "
        "not so in deadlines: a minimum satisfactory share ends just in time, with room for two "
        "resizes of the job, and not for the events of all others.",
    )


FIGURES = (Experiment("fig12b", "What scaling costs", "Fig. 12(b), §6.6", _runs, _report),)
