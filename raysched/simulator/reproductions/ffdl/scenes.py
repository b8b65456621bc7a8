"""What is simulated for FfDL's figures and tables (003 §IV): clusters, jobs and methods."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np

from raysched.simulator.body import Outcome, Simulator
from raysched.simulator.metrics import metrics
from raysched.simulator.models import Costs, Settings
from raysched.simulator.reproductions.experiment import Measured
from raysched.simulator.scenario import Arrival, Scenario, training_servers
from raysched.simulator.workloads.ffdl import (
    EQUAL_LENGTHS_MIN,
    SERVER_GPUS,
    Workload,
    generate,
    job,
)

METHODS: dict[str, tuple[str, dict[str, Any]]] = {
    "elastic": ("ffdl", {}),
    "random": ("ffdl_fixed", {"batch": "random"}),
    "max": ("ffdl_fixed", {"batch": "max"}),
    "min": ("ffdl_fixed", {"batch": "min"}),
}
"""The paper's own scheduler, and its baseline with each choice of a batch (§IV-B)."""

COSTS = Costs(at_boundaries=False)
"""As in the paper's simulator a change costs nothing, and loses no work (§IV-H)."""

CURVE_POINTS = 100


@dataclass(frozen=True, slots=True)
class Scene:
    """A cluster, what comes to it, and at the end of which slots it is told (None: at once)."""

    gpus: int
    workload: Workload
    cpu_s: float
    slot_s: float | None = None


def _of_category(number: int, jobs: float, phase_min: float | None = None) -> Scene:
    """Four hours of one category on 40 GPUs, of jobs as long as each other (§IV-A)."""
    return Scene(40, Workload(jobs, 240, phase_min, (number,), EQUAL_LENGTHS_MIN), 0.5)


HIGH, LOW, SEEMS_LOW = 320, 80, 272
"""Jobs of half an hour on 40 GPUs in four hours: as many as these can do on one GPU each; a quarter
of it, as printed; and 0.85 of it, at which jobs take about as long as Fig. 8 (c) has it."""

SCENES = {
    **{f"high {number}": _of_category(number, HIGH) for number in (1, 2, 3, 4)},
    "low": _of_category(1, LOW),
    "seems low": _of_category(1, SEEMS_LOW),
    "bursty": _of_category(1, (HIGH + LOW) / 2, phase_min=60),
    "40 GPUs": Scene(40, Workload(800, 720, phase_min=120), 3.0),
    "400 GPUs": Scene(400, Workload(5000, 480, phase_min=120), 10.0, slot_s=120.0),
}


def measure(scene: str, method: str, when_full: str, seed: int) -> Measured:
    """One scene under one method: numbers, and jobs that had arrived and ended by time."""
    setting = SCENES[scene]
    arrivals = generate(setting.workload, seed)
    outcome = _simulate(arrivals, setting.gpus, method, when_full, setting.slot_s)
    found = metrics(outcome)
    jct_s, makespan_s = found["jct_s_mean"], found["makespan_s"]
    assert jct_s is not None and makespan_s is not None
    return {
        **{name: found[name] for name in ("jobs", "completed", "drop_ratio", "sjs_efficiency")},
        "jct_min": jct_s / 60,
        "makespan_min": makespan_s / 60,
        "curve": _curve(outcome),
    }


def measure_alone(method: str) -> Measured:
    """One job of category 1 on 5 GPUs."""
    alone = job("alone", 0.0, category=1, length_min=EQUAL_LENGTHS_MIN[0])
    outcome = _simulate([alone], 5, method, "queue", None)
    stretch = outcome.history.jobs["alone"].stretches[0]
    return {"jct_min": (stretch.to_s - stretch.from_s) / 60, "gpus": stretch.workers}


def _simulate(
    arrivals: Sequence[Arrival], gpus: int, method: str, when_full: str, slot_s: float | None
) -> Outcome:
    policy, parameters = METHODS[method]
    server_gpus = SERVER_GPUS if gpus % SERVER_GPUS == 0 else gpus
    settings = Settings(
        policy,
        parameters | {"when_full": when_full},
        costs=COSTS,
        slot_s=slot_s,
        report_every_s=float("inf"),  # these policies do not look at what is left
    )
    servers = training_servers(gpus // server_gpus, server_gpus)
    return Simulator(Scenario(arrivals, servers), settings).run()


def _curve(outcome: Outcome) -> dict[str, list[float]]:
    """Minutes, and the jobs that had arrived and been completed by then."""
    jobs = outcome.history.jobs.values()
    arrived_s = np.sort([j.submitted_s for j in jobs])
    ended_s = np.sort([j.ended_s for j in jobs if j.outcome == "finished" and j.ended_s])
    at_s = np.linspace(0.0, max(ended_s[-1], arrived_s[-1]), CURVE_POINTS)
    return {
        "minutes": np.round(at_s / 60, 2).tolist(),
        "arrived": np.searchsorted(arrived_s, at_s, "right").tolist(),
        "completed": np.searchsorted(ended_s, at_s, "right").tolist(),
    }
