"""The numbers of a simulation, and a row of them for each job."""

from __future__ import annotations

import csv
from collections.abc import Iterable, Sequence
from pathlib import Path
from typing import Any

import numpy as np

from policies.oasis.model import sigmoid
from raysched.history import JobHistory
from raysched.simulator.body import Outcome
from raysched.simulator.efficiency import (
    cluster_efficiency,
    collateral_damage,
    held_gpu_s,
    sjs_efficiency,
)
from raysched.summary import summarise


def metrics(outcome: Outcome) -> dict[str, float | int | None]:
    """Times in seconds, ratios between 0 and 1; None where nothing was counted.

    - `dropped`: jobs that were refused (they can never fit) or rejected by the policy. A job that
      waits to the end is neither completed nor dropped.
    - `deadline_ratio`: of the jobs that have a deadline, dropped ones among them, those that ended
      by it. `deadline_ratio_slot` asks whether the scheduler was told of the end by then, which
      with slots is at the end of the slot (the rows that the simulator of 001's authors writes).
    - `queuing_s`: from submission to the first GPUs; `jct_s`: from submission to the end.
    - `makespan_s`: from the first submission to the last end.
    - `gpu_use`: of the GPU-seconds of the training pool over the makespan, those that jobs held;
      `gpu_use_overall`: of both pools, those that jobs held or requests took.
    - `cluster_efficiency`, `sjs_efficiency`, `collateral_damage`: see `efficiency`.
    - `preemption_ratio`: of the jobs that ran, those that were preempted; `resizes_per_job`: over
      the same jobs.
    - `drop_ratio`: of all jobs, those dropped (003 §IV-C).
    - `utility`: the sum over all finished jobs that have one, at their completion time (002 (1)).
    """
    jobs = list(outcome.history.jobs.values())
    summary = summarise(outcome.history)
    ran = [job for job in jobs if job.stretches]
    dropped = [job.outcome in ("rejected", "refused") for job in jobs]
    decision_ms = [1000 * seconds for seconds in outcome.decision_s]
    begin_s = min((job.submitted_s for job in jobs), default=0.0)
    return {
        "jobs": len(jobs),
        "completed": summary["jobs_completed"],
        "dropped": sum(dropped),
        "drop_ratio": _ratio(dropped),
        "deadline_ratio": _ratio(_met(job, job.ended_s) for job in jobs),
        "deadline_ratio_slot": _ratio(_met(job, _seen_s(outcome, job)) for job in jobs),
        **_spread("queuing_s", [job.queuing_s for job in jobs]),
        **_spread("jct_s", [job.jct_s for job in jobs]),
        "makespan_s": summary["makespan_s"],
        "gpu_use": summary["gpu_use_training"],
        "gpu_use_overall": summary["gpu_use_overall"],
        "cluster_efficiency": cluster_efficiency(outcome, begin_s, begin_s + summary["makespan_s"]),
        "sjs_efficiency": sjs_efficiency(outcome),
        "preemption_ratio": _ratio(job.preemptions > 0 for job in ran),
        "collateral_damage": collateral_damage(outcome.history),
        "resizes": summary["resizes"],
        "resizes_per_job": _rounded(np.mean, [job.resizes for job in ran]),
        "utility": _utility(jobs),
        "cpu_s": round(outcome.cpu_s, 2) or None,
        "decisions": len(decision_ms) or None,
        "decision_ms_mean": _rounded(np.mean, decision_ms),
        "decision_ms_p95": _rounded(_p95, decision_ms),
        "decision_ms_max": _rounded(np.max, decision_ms),
    }


COLUMNS = (
    *("job", "submitted_s", "started_s", "ended_s", "outcome", "requested_workers", "epochs"),
    *("queuing_s", "jct_s", "deadline_s", "met_deadline", "resizes", "preemptions", "gpu_s"),
)


def write_jobs(outcome: Outcome, path: Path) -> None:
    """A row a job, in the order of submission. Times since the first event; what is not so is
    left empty."""
    with path.open("w", newline="") as file:
        writer = csv.writer(file)
        writer.writerow(COLUMNS)
        for job in outcome.history.jobs.values():
            writer.writerow(_row(job))


def _row(job: JobHistory) -> list[Any]:
    spec, met = job.spec, _met(job, job.ended_s)
    deadline_s = None if spec.deadline_s is None else job.submitted_s + spec.deadline_s
    started_s = job.stretches[0].from_s if job.stretches else None
    asked = spec.requested_workers or spec.min_workers
    return [
        *(job.job, job.submitted_s, started_s, job.ended_s, job.outcome, asked, spec.epochs),
        *(job.queuing_s, job.jct_s, deadline_s, met, job.resizes, job.preemptions, held_gpu_s(job)),
    ]


def _seen_s(outcome: Outcome, job: JobHistory) -> float | None:
    return outcome.seen_ended_s.get(job.job, job.ended_s)


def _met(job: JobHistory, ended_s: float | None) -> bool | None:
    """Whether the job finished by its deadline; None where it has none."""
    if job.spec.deadline_s is None:
        return None
    due_s = job.submitted_s + job.spec.deadline_s
    return job.outcome == "finished" and ended_s is not None and ended_s <= due_s


def _utility(jobs: Iterable[JobHistory]) -> float | None:
    having = [(job, job.spec.utility) for job in jobs if job.spec.utility is not None]
    if not having:
        return None
    gained = (
        sigmoid(utility.worth, utility.steepness_per_s, utility.target_s, job.jct_s)
        for job, utility in having
        if job.jct_s is not None
    )
    return round(float(sum(gained)), 3)


def _ratio(cases: Iterable[bool | None]) -> float | None:
    known = [case for case in cases if case is not None]
    return round(sum(known) / len(known), 4) if known else None


def _spread(name: str, values: Sequence[float | None]) -> dict[str, float | None]:
    known = [value for value in values if value is not None]
    return {
        f"{name}_mean": _rounded(np.mean, known),
        f"{name}_median": _rounded(np.median, known),
        f"{name}_p95": _rounded(_p95, known),
    }


def _p95(values: Sequence[float]) -> float:
    return float(np.percentile(values, 95))


def _rounded(measure: Any, values: Sequence[float]) -> float | None:
    return round(float(measure(values)), 3) if values else None
