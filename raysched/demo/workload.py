"""What happens in the demo: six jobs over time, and a day of traffic.

With `SAMPLES_PER_S` a pass over the 1,437 training images takes 4.5 s on one simulated GPU, and a
global step of 128 samples 0.4 s. Jobs that hold more GPUs at their minimum make more passes an
epoch, so that epochs take 2 to 5 s for all. However the GPUs are given out, at most 10 workers
are alive: the jobs of one GPU a worker cannot have more than 8, which leaves room for 2 others.
"""

from __future__ import annotations

from dataclasses import dataclass

SAMPLES_PER_S = 320.0
"""Samples that one simulated GPU trains in a second."""

BATCH_SIZE = 128
TRAINING_IMAGES = 1437


@dataclass(frozen=True, slots=True)
class DemoJob:
    """One job, and when it arrives (seconds of the day)."""

    name: str
    arrives_s: float
    workers: tuple[int, int]
    gpus_per_worker: int
    epochs: int
    passes: int

    @property
    def expected_s(self) -> float:
        """What its user expects on the minimum number of workers: a good guess."""
        samples_per_s = SAMPLES_PER_S * self.gpus_per_worker * self.workers[0]
        return self.epochs * self.passes * TRAINING_IMAGES / samples_per_s


JOBS = (
    DemoJob("wide", 5.0, (1, 4), 1, 24, 1),
    DemoJob("gang", 9.0, (2, 2), 2, 16, 4),
    DemoJob("twin", 13.0, (1, 3), 2, 18, 2),
    DemoJob("deep", 28.0, (1, 3), 2, 20, 2),
    DemoJob("rigid", 36.0, (1, 1), 1, 14, 1),
    DemoJob("surge", 44.0, (1, 3), 1, 16, 1),
)


@dataclass(frozen=True, slots=True)
class Day:
    """Jobs and traffic of one run."""

    jobs: tuple[DemoJob, ...]
    day_s: float
    low_rps: float = 3.0
    high_rps: float = 15.0


FULL = Day(JOBS, day_s=170.0)
QUICK = Day(JOBS[:3], day_s=90.0)

INTERVAL_S = 10.0
"""The period of policies that have one: a day of 24 h passes in three minutes, so that theirs of
one to five minutes are scaled as well (not by as much: a restart takes its seconds)."""
