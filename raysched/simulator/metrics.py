"""The numbers of a simulation, and a row of them for each job."""

from __future__ import annotations

import csv
from collections.abc import Iterable, Sequence
from pathlib import Path
from typing import Any

import numpy as np

from raysched.history import JobHistory
from raysched.simulator.body import Outcome
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
    - `gpu_use`: of the GPU-seconds of the training pool over the makespan, those that jobs held.
    - `preemption_ratio`: of the jobs that ran, those that were preempted.
    """
    jobs = list(outcome.history.jobs.values())
    summary = summarise(outcome.history)
    ran = [job for job in jobs if job.stretches]
    decision_ms = [1000 * seconds for seconds in outcome.decision_s]
    return {
        "jobs": len(jobs),
        "completed": summary["jobs_completed"],
        "dropped": sum(job.outcome in ("rejected", "refused") for job in jobs),
        "deadline_ratio": _ratio(_met(job, job.ended_s) for job in jobs),
        "deadline_ratio_slot": _ratio(_met(job, _seen_s(outcome, job)) for job in jobs),
        **_spread("queuing_s", [job.queuing_s for job in jobs]),
        **_spread("jct_s", [job.jct_s for job in jobs]),
        "makespan_s": summary["makespan_s"],
        "gpu_use": summary["gpu_use_training"],
        "preemption_ratio": _ratio(job.preemptions > 0 for job in ran),
        "resizes": summary["resizes"],
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
    held_s = ((s.to_s - s.from_s) * s.workers for s in job.stretches)
    gpu_s = sum(held_s) * spec.gpus_per_worker
    asked = spec.requested_workers or spec.min_workers
    return [
        *(job.job, job.submitted_s, started_s, job.ended_s, job.outcome, asked, spec.epochs),
        *(job.queuing_s, job.jct_s, deadline_s, met, job.resizes, job.preemptions, gpu_s),
    ]


def _seen_s(outcome: Outcome, job: JobHistory) -> float | None:
    return outcome.seen_ended_s.get(job.job, job.ended_s)


def _met(job: JobHistory, ended_s: float | None) -> bool | None:
    """Whether the job finished by its deadline; None where it has none."""
    if job.spec.deadline_s is None:
        return None
    due_s = job.submitted_s + job.spec.deadline_s
    return job.outcome == "finished" and ended_s is not None and ended_s <= due_s


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
