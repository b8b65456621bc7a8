"""Why a job gets no more, where GPUs are handed out one worker at a time."""

from __future__ import annotations

from policies.problem import Jobs
from policies.reason import Number, Reason
from policies.sentences import change


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
    return Reason(change(workers, before) + ": " + limit, standard | numbers)
