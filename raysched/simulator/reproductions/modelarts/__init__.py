"""000 §5: the optimal resource allocator beside the greedy one that ModelArts had before.

447 jobs of two days, or all 1,252, on pools of 70 to 190 nodes, at full scale.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence

from raysched.simulator.reproductions.experiment import Effort, Experiment, Run
from raysched.simulator.reproductions.modelarts import pictures, reports
from raysched.simulator.reproductions.modelarts.compare import CASE_POOLS, FEW_POOLS, runs_of
from raysched.simulator.reproductions.modelarts.measures import decisions


def _baseline(*others: str) -> Callable[[Effort], Sequence[Run]]:
    """Both allocators in every pool, others in some."""
    both, few = runs_of(("optimal", "greedy")), runs_of(others, FEW_POOLS)
    return lambda effort: [*both(effort), *few(effort)]


def _beside_baseline(case: str) -> Callable[[Effort], Sequence[Run]]:
    return runs_of(("optimal", "greedy"), CASE_POOLS, ("baseline", case))


def _decisions(effort: Effort) -> list[Run]:
    return [Run(decisions, {"seed": seed}, 20.0) for seed in effort.seeds(full=3, quick=1)]


EXPERIMENTS = (
    Experiment(
        "fig9",
        "Queuing time",
        "Fig. 9",
        _baseline("greedy_remaining", "greedy_once", "fixed"),
        reports.queuing,
        pictures.queuing,
    ),
    Experiment(
        "fig10",
        "Total time",
        "Fig. 10",
        _baseline("fixed"),
        reports.total,
        pictures.total,
    ),
    Experiment(
        "fig11",
        "Additional jobs trained",
        "Fig. 11",
        _baseline("greedy_remaining", "greedy_once"),
        reports.extra,
        pictures.extra("baseline"),
    ),
    Experiment(
        "fig12",
        "Small jobs as well",
        "Fig. 12",
        _beside_baseline("all_jobs"),
        reports.heterogeneous,
        pictures.extra("all_jobs"),
    ),
    Experiment(
        "fig13",
        "Estimates wrong by up to ± 10 %",
        "Fig. 13",
        _beside_baseline("wrong_estimates"),
        reports.wrong_estimates,
        pictures.extra("wrong_estimates"),
    ),
    Experiment(
        "fig14",
        "Wrong estimates, bugs and users who give up",
        "Fig. 14",
        _beside_baseline("bugs"),
        reports.bugs,
        pictures.extra("bugs"),
    ),
    Experiment(
        "fig15",
        "15 s to start or grow",
        "Fig. 15",
        _beside_baseline("scaling_delay"),
        reports.scaling_delay,
        pictures.extra("scaling_delay"),
    ),
    Experiment(
        "fig16",
        "Speed of decisions, 70 nodes",
        "Fig. 16",
        _decisions,
        reports.speed,
        pictures.speed,
    ),
)
