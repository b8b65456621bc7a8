"""What a run looked like at each moment: GPUs held, jobs completed, how well GPUs were used."""

from __future__ import annotations

from collections.abc import Iterable

import numpy as np

from policies.problem import Floats, Ints
from raysched.history import JobHistory
from raysched.simulator.body import Outcome
from raysched.simulator.efficiency import trained


def held_gpus(jobs: Iterable[JobHistory], at_s: Floats) -> Floats:
    """[moments] GPUs that these jobs held together at each time, ascending."""
    return _together(
        (
            (stretch.from_s, stretch.to_s, stretch.workers * job.spec.gpus_per_worker)
            for job in jobs
            for stretch in job.stretches
        ),
        at_s,
    )


def completed(jobs: Iterable[JobHistory], at_s: Floats) -> Ints:
    """[moments] How many of these jobs had finished by each time, that time included."""
    ended_s = sorted(job.ended_s for job in jobs if job.outcome == "finished" and job.ended_s)
    return np.searchsorted(ended_s, at_s, side="right")


def cluster_efficiency(outcome: Outcome, at_s: Floats) -> Floats:
    """[moments] 001 eq. 8 at each time, ascending: see `efficiency`."""
    gpus = outcome.history.gpus["training"]
    return _together(trained(outcome), at_s) / max(gpus, 1)


def _together(spans: Iterable[tuple[float, float, float]], at_s: Floats) -> Floats:
    """[moments] The sum of the amounts that were there, each from one time up to another."""
    change = np.zeros(len(at_s) + 1)
    for from_s, to_s, amount in spans:
        begin, end = np.searchsorted(at_s, (from_s, to_s))
        change[begin] += amount
        change[end] -= amount
    return np.cumsum(change)[:-1]
