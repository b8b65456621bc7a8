"""The numbers of a run, computed from its journal and from nothing else."""

from __future__ import annotations

from collections.abc import Iterable
from statistics import median
from typing import Any

from raysched.history import History, JobHistory, Stretch


def summarise(history: History) -> dict[str, Any]:
    """Jobs, resizes, loans and GPU use of a run. Times in seconds; shares between 0 and 1.

    `gpu_use_training` is the share of the training pool's GPU-seconds that jobs held between the
    first submission and the last end; `gpu_use_overall` that of both pools, where an inference
    GPU counts as used while a job holds it, or by the share of a server's capacity that requests
    take.
    """
    jobs = list(history.jobs.values())
    begin_s, end_s = _window(history, jobs)
    return {
        "policy": history.policies[-1][1] if history.policies else "",
        "loaning": history.policies[-1][2] if history.policies else "",
        "jobs_submitted": len(jobs),
        "jobs_completed": sum(job.outcome == "finished" for job in jobs),
        "epochs_expected": sum(job.spec.epochs for job in jobs),
        "epochs_run": sum(job.counted.run for job in jobs),
        "epochs_repeated": round(sum(job.epochs_repeated for job in jobs), 2),
        "resizes": sum(job.resizes for job in jobs),
        "resizes_in_place": sum(job.resizes_in_place for job in jobs),
        "resize_pause_s_median": _median(_pauses(jobs)),
        "preemptions": sum(job.preemptions for job in jobs),
        "loans": len(history.loans),
        "reclaims": sum(loan.reclaimed_s is not None for loan in history.loans),
        "reclaim_s": [
            round(loan.serving_s - loan.reclaimed_s, 2)
            for loan in history.loans
            if loan.serving_s is not None and loan.reclaimed_s is not None
        ],
        "queuing_s_mean": _mean(job.queuing_s for job in jobs),
        "jct_s_mean": _mean(job.jct_s for job in jobs),
        "makespan_s": round(end_s - begin_s, 2),
        "gpu_use_training": _training_use(history, begin_s, end_s),
        "gpu_use_overall": _overall_use(history, begin_s, end_s),
        "restart_s_mean": _mean(_restarts(jobs)),
        "accuracy_min": min(
            (j.metrics["accuracy"] for j in jobs if "accuracy" in j.metrics), default=None
        ),
        "journal_events": history.events,
    }


def _window(history: History, jobs: list[JobHistory]) -> tuple[float, float]:
    """From the first submission to the last end (or to the end of the journal)."""
    begin_s = min((job.submitted_s for job in jobs), default=0.0)
    ends = [history.end_s if job.ended_s is None else job.ended_s for job in jobs]
    return begin_s, max(ends, default=begin_s)


def _restarts(jobs: list[JobHistory]) -> Iterable[float | None]:
    """From taking a grant to training on it."""
    for job in jobs:
        for stretch in job.stretches:
            if stretch.training_s is not None and not stretch.in_place:
                yield stretch.training_s - stretch.from_s


def _pauses(jobs: list[JobHistory]) -> Iterable[float | None]:
    """What resizes in place kept jobs from training."""
    return (stretch.start_s for job in jobs for stretch in job.stretches if stretch.in_place)


def _held_gpu_s(history: History, pools: set[str]) -> float:
    """GPU-seconds that jobs held on servers of these pools."""

    def held(job: JobHistory, stretch: Stretch) -> float:
        workers = sum(
            n for server, n in stretch.servers.items() if history.servers[server].pool in pools
        )
        return workers * job.spec.gpus_per_worker * (stretch.to_s - stretch.from_s)

    return sum(held(job, stretch) for job in history.jobs.values() for stretch in job.stretches)


def _training_use(history: History, begin_s: float, end_s: float) -> float:
    capacity = history.gpus["training"] * (end_s - begin_s)
    return round(_held_gpu_s(history, {"training"}) / capacity, 4) if capacity else 0.0


def _overall_use(history: History, begin_s: float, end_s: float) -> float:
    capacity = sum(history.gpus.values()) * (end_s - begin_s)
    if not capacity:
        return 0.0
    held = _held_gpu_s(history, {"training", "inference"})
    return round((held + _served_gpu_s(history, begin_s, end_s)) / capacity, 4)


def _served_gpu_s(history: History, begin_s: float, end_s: float) -> float:
    """GPU-seconds that requests took: their rate over what a server carries, times its GPUs."""
    inference = [s for s in history.servers.values() if s.pool == "inference"]
    if history.inference is None or not inference:
        return 0.0
    gpus_per_rps = inference[0].gpus / history.inference.server_rps
    total = 0.0
    for sample, following in zip(history.demand, history.demand[1:], strict=False):
        if begin_s <= sample.at_s <= end_s:
            total += sample.rps * gpus_per_rps * (following.at_s - sample.at_s)
    return total


def _median(values: Iterable[float | None]) -> float | None:
    known = [value for value in values if value is not None]
    return round(median(known), 3) if known else None


def _mean(values: Iterable[float | None]) -> float | None:
    known = [value for value in values if value is not None]
    return round(sum(known) / len(known), 2) if known else None
