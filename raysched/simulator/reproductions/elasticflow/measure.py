"""One policy on one trace of 001, as its authors' simulator counts."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import asdict, dataclass, replace
from pathlib import Path
from typing import Any

import numpy as np

from raysched.durations import HOUR_S
from raysched.simulator import traces
from raysched.simulator.assume import ELASTICFLOW, Assumption
from raysched.simulator.body import Outcome, Simulator
from raysched.simulator.metrics import metrics
from raysched.simulator.models import Settings
from raysched.simulator.over_time import cluster_efficiency, held_gpus
from raysched.simulator.reproductions.experiment import Effort, Measured, Run
from raysched.simulator.scenario import Arrival, Scenario, training_servers
from raysched.simulator.traces import Profiles, philly
from raysched.simulator.workloads.elasticflow import with_deadlines

POINTS = 192
"""Of a curve over time."""

PUBLISHED, CLEAN = "published", "clean"
"""Readings: what policies do in the authors' simulator, and what the papers say they do."""

PHILLY = "philly/philly_pollux.csv.gz"
PHILLY_CLUSTER = "103959"
"""The virtual cluster that the authors chose. Models and deadlines of its jobs are drawn."""

KEPT = (
    *("jobs", "completed", "dropped", "deadline_ratio", "deadline_ratio_slot"),
    *("jct_s_mean", "makespan_s", "gpu_use", "decisions"),
)
"""Metrics that some figure shows."""


@dataclass(frozen=True, slots=True)
class Setup:
    """A trace on a cluster of servers of so many GPUs, with the slot of the authors' scripts.

    `curves_h`: how many hours the curves show. `first`: so many jobs of the trace, None: all.
    `at_speeds`: all jobs do their iterations at the speeds that were measured, also where the
    authors let them last their durations, which is nearly the same: the cluster efficiency is
    known of these only.
    """

    trace: str
    servers: int
    gpus: int = 8
    slot_s: float = 240.0
    gpu_type: str = "A100"
    curves_h: float = 48.0
    first: int | None = None
    at_speeds: bool = False

    def reads(self, folder: Path) -> tuple[Path, Path]:
        """The trace, and the folder of speeds measured."""
        return folder / self.trace, folder / f"elasticflow/throughputs_{self.gpu_type}"


def runs(
    effort: Effort, setup: Setup, policy: str, cpu_s: float, reading: str = PUBLISHED, **more: Any
) -> list[Run]:
    """One, or where something is drawn one a seed; none where the trace is not at hand. `more`:
    what `simulate` can be told besides."""
    folder = effort.traces
    if folder is None or not all(path.exists() for path in setup.reads(folder)):
        return []
    seeds: Sequence[int | None] = effort.seeds() if setup.trace == PHILLY else [None]
    return [
        Run(
            simulate,
            {
                **{"folder": str(folder), "policy": policy, "reading": reading, "seed": seed},
                **asdict(setup),
                **more,
            },
            cpu_s,
            setup.reads(folder),
        )
        for seed in seeds
    ]


def simulate(
    *,
    folder: str,
    policy: str,
    reading: str,
    seed: int | None,
    parameters: Mapping[str, object] | None = None,
    overhead_s: float | None = None,
    **of_setup: Any,
) -> Measured:
    """Metrics, the mean JCT of jobs without a deadline, and curves over the first hours.

    `folder`: of all traces; `of_setup`: the fields of a `Setup`. `parameters`: of the policy, over
    those that the reading has. `overhead_s`: what a scheduling event costs each job that runs.
    """
    setup = Setup(**of_setup)
    assumed = _assumed(policy, reading)
    if setup.at_speeds:
        assumed = replace(assumed, work="iterations")
    if overhead_s is not None:
        costs = replace(assumed.costs, start_s=overhead_s, decision_s=overhead_s)
        assumed = replace(assumed, costs=costs)
    arrivals = _arrivals(Path(folder), setup, assumed, seed)
    settings = assumed.applied(Settings(policy, parameters or {}, slot_s=setup.slot_s))
    servers = training_servers(setup.servers, setup.gpus)
    outcome = Simulator(Scenario(arrivals, servers), settings).run()
    found = metrics(outcome)
    return {
        **{name: found[name] for name in KEPT},
        "best_effort_jct_s": _best_effort_jct_s(outcome),
        **_curves(outcome, setup.curves_h),
    }


def _assumed(policy: str, reading: str) -> Assumption:
    """At the same costs and sizes in either reading."""
    published = ELASTICFLOW.get(policy, Assumption())
    if reading == PUBLISHED:
        return published
    return Assumption(costs=published.costs, cap=published.cap)


def _arrivals(
    folder: Path, setup: Setup, assumed: Assumption, seed: int | None
) -> Sequence[Arrival]:
    trace, profiles = setup.reads(folder)
    if seed is not None:
        jobs = philly.read(trace, cluster=PHILLY_CLUSTER).arrivals
        return with_deadlines(jobs, Profiles.read(profiles), seed, cap=assumed.cap)[: setup.first]
    read = traces.load(
        trace,
        profiles=profiles if assumed.work == "iterations" else None,
        cap=assumed.cap,
        most_epochs=assumed.most_epochs,
    )
    return read.arrivals[: setup.first]


def _best_effort_jct_s(outcome: Outcome) -> float | None:
    jobs = outcome.history.jobs.values()
    jct_s = [j.jct_s for j in jobs if j.spec.deadline_s is None and j.jct_s is not None]
    return round(float(np.mean(jct_s)), 1) if jct_s else None


def _curves(outcome: Outcome, hours: float) -> Measured:
    """At the middle of equal parts of the first hours: GPUs that jobs held, and 001 eq. 8. By
    hour: jobs that were submitted, and those of them that were rejected."""
    at_s = (np.arange(POINTS) + 0.5) * hours * HOUR_S / POINTS
    jobs = list(outcome.history.jobs.values())
    bins = np.arange(hours + 1) * HOUR_S
    submitted_s = np.array([job.submitted_s for job in jobs])
    rejected = np.array([job.outcome == "rejected" for job in jobs], dtype=bool)
    return {
        "at_h": np.round(at_s / HOUR_S, 3).tolist(),
        "held_gpus": held_gpus(jobs, at_s).tolist(),
        "efficiency": np.round(cluster_efficiency(outcome, at_s), 4).tolist(),
        "submitted": np.histogram(submitted_s, bins)[0].tolist(),
        "rejected": np.histogram(submitted_s[rejected], bins)[0].tolist(),
    }
