"""Paper 004, Aryl: capacity loaning and elastic scaling in simulation (§7.2 to §7.5)."""

from __future__ import annotations

from dataclasses import replace

from raysched.simulator.reproductions.aryl.loaning import FIG7, FIG8, TABLE7, TABLE12
from raysched.simulator.reproductions.aryl.runs import FULL
from raysched.simulator.reproductions.aryl.scaling import FIG11, FIG12, FIG13, FIG14
from raysched.simulator.reproductions.aryl.sensitivity import FIG10, TABLE6, TABLE9
from raysched.simulator.reproductions.aryl.table5 import TABLE5, TABLE5_FULL
from raysched.simulator.reproductions.aryl.use import FIG9
from raysched.simulator.reproductions.experiment import Experiment, Report, Results


def _with_scale(experiment: Experiment) -> Experiment:
    """Its report also says how small a part of the jobs and servers was run."""

    def report(results: Results) -> Report:
        found = experiment.report(results)
        scales = results.parameters("scale")
        parts = " and ".join(f"1/{1 / scale:.0f}" for scale in scales)
        where = "At full scale." if scales == [FULL] else f"At {parts} of jobs and servers."
        return replace(found, why=f"{where} {found.why}".strip())

    return replace(experiment, report=report)


EXPERIMENTS = tuple(
    map(
        _with_scale,
        (
            *(TABLE5, TABLE5_FULL, TABLE6, FIG9, FIG10),
            *(TABLE7, FIG7, FIG8, TABLE12),
            *(FIG11, FIG12, FIG13, FIG14, TABLE9),
        ),
    )
)
