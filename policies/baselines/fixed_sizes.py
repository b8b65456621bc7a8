"""For schedulers that never resize: each job runs on the size that it asked for, or waits."""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np

from policies.problem import Bools, Ints, Jobs


def requested_gpus(jobs: Jobs) -> Ints:
    """[jobs] GPUs that each job asked for."""
    gpus: Ints = jobs.requested_workers * jobs.gpus_per_worker
    return gpus


@dataclass(frozen=True, slots=True)
class Taken:
    """Who runs, and what each met in its turn."""

    runs: Bools  # [jobs]
    free_gpus: Ints  # [jobs] in its turn

    def workers(self, jobs: Jobs) -> Ints:
        """[jobs] What they asked for, or 0."""
        workers: Ints = np.where(self.runs, jobs.requested_workers, 0)
        return workers


def take(order: Ints, gpus: Ints, free_gpus: int) -> Taken:
    """Jobs in this order while they fit; one that does not is skipped (backfilling)."""
    runs = np.zeros(len(gpus), dtype=bool)
    met = np.zeros(len(gpus), dtype=np.int64)
    for row in order.tolist():
        met[row] = free_gpus
        runs[row] = gpus[row] <= free_gpus
        free_gpus -= int(gpus[row]) if runs[row] else 0
    return Taken(runs, met)
