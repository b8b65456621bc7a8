"""Jobs of FfDL's evaluation (003 §IV-A, §IV-G, §IV-I): four categories, steady or bursty arrivals.

Printed, and taken as it is: weights and batch sizes (Table I); at most 10 GPUs a job (§III-C); the
lengths of jobs on one GPU; high and low rates as 4 to 1, in phases of 60 or 120 minutes; category 1
on 2 GPUs at 8 to 32 samples each (Table II) and on 5 GPUs, where 160 samples make a job 1.6 times
shorter than 32 samples on 2 GPUs (§IV-D): these fix its t_proc and t_comm.

Chosen:
- how many jobs come. "High" is printed as k_max λ, with λ one over the mean length of a job. With
  k_max = 10 that is 171 jobs in Fig. 7 and 114 in Fig. 9, with the GPUs of the cluster in place of
  k_max 686 and 4,571, while their axes show about 800 and 5,000. So the expected number of jobs is
  a parameter;
- the largest batch that fits on a GPU: 32 in category 1 (as §IV-D has it), 128 in categories 2 and
  4, one model, whose fixed batch then fits on one GPU, and 256 in category 3;
- t_comm: a ring AllReduce of weights of 4 bytes, through PCIe in a server of 2 GPUs and through
  Ethernet beyond. Table II gives 3.1 GB/s to the one, §IV-D 0.73 GB/s (of 10 Gb/s) to the other;
- t_proc of category 2, in proportion to the batch: category 1 at its smallest batch then scales 1.3
  times as far as category 2 does at its own, as §IV-E prints. In category 3 it is shaped as in 1;
- how t_proc of categories 2 and 3 compares with t_comm: such that jobs whose batch is drawn at
  random use GPUs as they do in Tables III and IV, where they queue (SJS efficiency 42 to 43 %). A
  second GPU then slows category 2 down, and helps category 3 less than category 1.
"""

from __future__ import annotations

import math
from dataclasses import dataclass, replace
from functools import cache

import numpy as np

from policies.characteristics import Characteristics, Communication, Processing
from policies.problem import Floats
from raysched.errors import UserError
from raysched.jobs import JobSpec
from raysched.simulator.scenario import Arrival

MAX_GPUS = 10
"""k_max: GPUs that a job can have."""

SERVER_GPUS = 2
"""Two P100 a server (§IV)."""

EPOCHS = 100
"""The samples of a job are reported in so many equal parts."""

HIGH_OVER_LOW = 4.0
"""The rate of arrivals in a high phase over that in a low one (§IV-A)."""

MIXED_LENGTHS_MIN = (16.0, 21.0, 41.0, 27.0)
"""Minutes of a job of category 1, 2, 3, 4 on one GPU with the largest batch (§IV-G, §IV-I)."""

EQUAL_LENGTHS_MIN = (30.0,) * 4
"""The same where each benchmark has one category (§IV-A)."""


@dataclass(frozen=True, slots=True)
class Workload:
    """What is drawn: an expected number of jobs over some minutes, of categories that are equally
    likely.

    `phase_min`: high and low phases of so many minutes take turns, high first; None: one rate.
    Raises `UserError`.
    """

    jobs: float
    minutes: float
    phase_min: float | None = None
    categories: tuple[int, ...] = (1, 2, 3, 4)
    lengths_min: tuple[float, ...] = MIXED_LENGTHS_MIN

    def __post_init__(self) -> None:
        for name in ("jobs", "minutes"):
            if not 0 < getattr(self, name) < math.inf:
                raise UserError(f"{name} is {getattr(self, name)}; use a number above 0")
        if self.phase_min is not None and not 0 < self.phase_min <= self.minutes:
            raise UserError(f"phase_min is {self.phase_min}; use minutes up to {self.minutes}")
        if not self.categories or not set(self.categories) <= set(CATEGORIES):
            raise UserError(f"categories are {self.categories}; use some of {list(CATEGORIES)}")
        if len(self.lengths_min) != len(CATEGORIES) or not min(self.lengths_min) > 0:
            raise UserError(f"lengths_min is {self.lengths_min}; use minutes for each category")


@dataclass(frozen=True, slots=True)
class Category:
    """A model of Table I, as it runs on P100 GPUs.

    `largest_per_gpu` samples fit on a GPU and take it `iteration_s`; a share of them takes a share
    of that, given as (share of samples, share of seconds).
    """

    weights: int
    batch_sizes: tuple[int, ...]
    largest_per_gpu: int
    iteration_s: float
    shares: tuple[tuple[float, float], ...]

    @property
    def elastic(self) -> bool:
        """Whether its batch, and with it its number of GPUs, can change."""
        return len(self.batch_sizes) > 1

    def characteristics(self, samples: int) -> Characteristics:
        """With t_proc and t_comm, for epochs of so many samples."""
        part, seconds = np.array(self.shares).T
        batch = np.rint(part * self.largest_per_gpu).astype(np.int64)
        processing = Processing(batch, seconds * self.iteration_s)
        return Characteristics(processing, _communication(), self.weights, samples)


_TABLE_II = ((8, 0.86), (11, 1.06), (16, 1.3), (22, 1.45), (32, 1.66))
"""Samples a GPU, and the scaling factor of category 1 on 2 GPUs."""

_ON_5_GPUS = 1.6 * 1.3
"""Scaling factor of category 1 on 5 GPUs with 160 samples: 1.6 times that on 2 with 32 (§IV-D)."""

_WEIGHTS_1, _LARGEST_1, _ITERATION_1_S = 24_000_000, 32, 0.15
"""0.15 s is about what a P100 takes; only its ratio to the other categories matters."""

_SHARES_1 = tuple(
    (batch / _LARGEST_1, 2 * batch / _LARGEST_1 / factor - (2 / _TABLE_II[-1][1] - 1))
    for batch, factor in _TABLE_II
)
"""t_proc off Table II: factor(b) = (2 b / 32) / (t_proc(b) + t_comm) with t_proc(32) = 1."""

_PROPORTIONAL = ((1 / 128, 1 / 128), (1.0, 1.0))

CATEGORIES = {
    1: Category(_WEIGHTS_1, tuple(range(32, 257, 16)), _LARGEST_1, _ITERATION_1_S, _SHARES_1),
    2: Category(58_000_000, tuple(range(16, 257, 16)), 128, 0.034, _PROPORTIONAL),
    3: Category(10_000_000, tuple(range(16, 1025, 16)), 256, 0.026, _SHARES_1),
    4: Category(58_000_000, (128,), 128, 0.034, _PROPORTIONAL),
}
"""Table I: resnet50, alexnet, vgg11_bn on CIFAR100, and alexnet on Food101, which is not elastic.
Of the ranges of batch sizes every 16th is there."""


def generate(workload: Workload, seed: int) -> tuple[Arrival, ...]:
    """Jobs in the order of arrival: a Poisson process whose rate follows the phases.

    Names hold seed and category, as `ffdl_fixed` draws the batch of a job by its name.
    """
    rng = np.random.default_rng(seed)
    count = int(rng.poisson(workload.jobs))
    minutes, expected = _expected(workload)
    at_min = np.interp(np.sort(rng.uniform(high=expected[-1], size=count)), expected, minutes)
    categories = rng.choice(workload.categories, size=count)
    return tuple(
        job(f"s{seed}-c{category}-{n}", 60.0 * at, category, workload.lengths_min[category - 1])
        for n, (at, category) in enumerate(zip(at_min.tolist(), categories.tolist(), strict=True))
    )


def job(name: str, at_s: float, category: int, length_min: float) -> Arrival:
    """A job that takes so long on one GPU with the largest batch that fits there."""
    spec, epoch_s = _described(category, length_min)
    return Arrival(at_s, name, replace(spec, name=name), epoch_s)


def _expected(workload: Workload) -> tuple[Floats, Floats]:
    """Minutes at which phases begin, and what part of the arrivals is expected before each."""
    phase_min = workload.phase_min or workload.minutes
    begins = np.append(np.arange(0.0, workload.minutes, phase_min), workload.minutes)
    rate = np.where(np.arange(len(begins) - 1) % 2 == 0, HIGH_OVER_LOW, 1.0)
    return begins, np.concatenate(([0.0], np.cumsum(rate * np.diff(begins))))


@cache
def _described(number: int, length_min: float) -> tuple[JobSpec, tuple[float, ...]]:
    """What `job` gives but for name and time, and what its epochs take."""
    category = CATEGORIES[number]
    samples = 1_000_000  # cancels out below
    gpus = np.arange(1, MAX_GPUS + 1 if category.elastic else 2)
    sizes = np.array(category.batch_sizes)
    epoch_s = category.characteristics(samples).epoch_s(sizes, gpus)
    on_one = epoch_s[category.batch_sizes.index(category.largest_per_gpu), 0]
    epoch_s *= 60.0 * length_min / EPOCHS / on_one
    curve = tuple(epoch_s.ravel().tolist())
    spec = JobSpec(
        f"category-{number}",
        EPOCHS,
        1,
        int(gpus[-1]),
        category.batch_sizes[0],
        batch_sizes=category.batch_sizes,
        profile_epoch_s=tuple(s if math.isfinite(s) else None for s in curve),
    )
    return spec, curve


@cache
def _communication() -> Communication:
    """t_comm by weights (10 and 100 million; it is in proportion) and by GPUs."""
    weights, gpus = np.array([10_000_000, 100_000_000]), np.arange(1, MAX_GPUS + 1)
    on_2_s = (2 / _TABLE_II[-1][1] - 1) * _ITERATION_1_S
    on_5_s = (5 / _ON_5_GPUS - 1) * _ITERATION_1_S
    ring = (gpus - 1) / gpus  # of the weights, twice; the two constants cancel out
    in_server_s, between_s = on_2_s / ring[1], on_5_s / ring[4]
    of_category_1 = ring * np.where(gpus <= SERVER_GPUS, in_server_s, between_s)
    return Communication(weights, weights[:, np.newaxis] / _WEIGHTS_1 * of_category_1)
