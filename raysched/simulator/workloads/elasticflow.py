"""Models, iterations and deadlines for a trace that has none, as 001's authors drew them (§6.1)."""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass

import numpy as np

from raysched.simulator.scenario import Arrival
from raysched.simulator.traces.elasticflow import Cap, no_cap, profiled_job
from raysched.simulator.traces.profiles import Profiles

TABLE_2 = (
    *(("resnet50", 64), ("resnet50", 128), ("resnet50", 256)),
    *(("vgg16", 64), ("vgg16", 128), ("vgg16", 256)),
    *(("inception3", 64), ("inception3", 128)),
    *(("bert", 64), ("bert", 128)),
    *(("gpt2", 128), ("gpt2", 256)),
    *(("deepspeech2", 32), ("deepspeech2", 64)),
)
"""Models with their global batch sizes."""


@dataclass(frozen=True, slots=True)
class Draw:
    """What is drawn for a job, uniformly: one of `settings`, and its deadline after `tightness`
    times the duration. Both are printed (Table 2, §6.1: λ in 0.5 … 1.5).

    `least_s`: shorter jobs are left out. Not printed: this leaves 876 jobs of Philly's virtual
    cluster 103959, those of the table that the authors made of it.
    """

    settings: tuple[tuple[str, int], ...] = TABLE_2
    tightness: tuple[float, float] = (0.5, 1.5)
    least_s: float = 600.0


def with_deadlines(
    jobs: Iterable[Arrival],
    profiles: Profiles,
    seed: int,
    *,
    draw: Draw = Draw(),
    cap: Cap = no_cap,
) -> tuple[Arrival, ...]:
    """Jobs of a trace, which run their duration on the GPUs they ask for, as jobs of a model that
    have a deadline.

    A job has as many iterations as its model does in that duration on these GPUs. The same seed
    draws the same for the same jobs, whatever the `cap` of their GPUs is.
    """
    random = np.random.default_rng(seed)
    drawn = []
    for arrival in jobs:
        asked, duration_s = arrival.spec.min_workers, arrival.spec.epochs * arrival.epoch_s[0]
        if duration_s < draw.least_s:
            continue
        model, batch_size = draw.settings[random.integers(len(draw.settings))]
        speeds = profiles.tables[model][batch_size]
        drawn.append(
            profiled_job(
                arrival.job,
                arrival.at_s,
                speeds,
                max(int(duration_s * speeds.speed(asked)), 1),
                asked,
                min(cap(model, batch_size), batch_size),
                batch_size=batch_size,
                deadline_s=duration_s * random.uniform(*draw.tightness),
                tenant=arrival.spec.tenant,
            )
        )
    return tuple(drawn)
