"""For schedulers that never resize: each job runs on the size that it asked for, or waits."""

from __future__ import annotations

from policies.problem import Ints, Jobs


def requested_gpus(jobs: Jobs) -> Ints:
    """[jobs] GPUs that each job asked for."""
    gpus: Ints = jobs.requested_workers * jobs.gpus_per_worker
    return gpus
