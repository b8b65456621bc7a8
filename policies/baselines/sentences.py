"""What the baselines say alike: how a job's size changes, and why it gets no more."""

from __future__ import annotations

from policies.problem import Jobs
from policies.reason import Number, Reason


def change(before: int, workers: int) -> str:
    """The beginning of a sentence over `before` and `workers`."""
    if workers == 0:
        return "gives up its {before} workers: " if before else "waits: "
    if before == 0:
        return "starts on {workers} workers: "
    if workers == before:
        return "keeps its {workers} workers: "
    return ("grows" if workers > before else "shrinks") + " from {before} to {workers} workers: "


def resized(
    jobs: Jobs, row: int, workers: int, free_gpus: int, more: str, **numbers: Number
) -> Reason:
    """Why a job has this size where GPUs were handed out one worker at a time.

    `more` says over `numbers` what its next step would bring, which others get instead.
    """
    step = 1 if workers else int(jobs.min_workers[row])
    needed = step * int(jobs.gpus_per_worker[row])
    if workers == jobs.max_workers[row]:
        limit = "it can use no more" if jobs.elastic[row] else "its size is fixed"
    elif needed > free_gpus:
        limit = more + "; it needs {needed} GPUs, {free} are free"
    else:
        limit = more
    before = int(jobs.workers[row])
    standard: dict[str, Number] = {
        "before": before,
        "workers": workers,
        "needed": needed,
        "free": free_gpus,
    }
    return Reason(change(before, workers) + limit, standard | numbers)
