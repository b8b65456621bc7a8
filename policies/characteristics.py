"""Scaling characteristics of jobs and their run time (paper 003 §III-B, §V-A).

The job scalability analyzer measures two things apart: the seconds that one GPU takes over its
share of a batch, for each job, and the seconds of an AllReduce, for the cluster. Their sum is one
iteration at any batch size on any number of GPUs.
"""

from __future__ import annotations

import math
from dataclasses import dataclass

import numpy as np

from policies.problem import Bools, Floats, Ints, PolicyError


@dataclass(frozen=True, slots=True)
class Processing:
    """t_proc of one job: measured seconds of an iteration on one GPU by batch size per GPU.

    Between the measured batches it is interpolated. Below the smallest it is held, as a GPU with
    less work takes no longer; above the largest the batch does not fit on the GPU: inf.
    """

    batch_per_gpu: Ints  # [measured] ascending, the last one the largest that fits
    iteration_s: Floats  # [measured]

    def __post_init__(self) -> None:
        _check_axis("batch_per_gpu", self.batch_per_gpu)
        _check_seconds("iteration_s", self.iteration_s, (len(self.batch_per_gpu),), above_0=True)

    def seconds(self, batch_per_gpu: Ints) -> Floats:
        """[...] t_proc, inf where the batch does not fit on a GPU."""
        return np.interp(batch_per_gpu, self.batch_per_gpu, self.iteration_s, right=math.inf)


@dataclass(frozen=True, slots=True)
class Communication:
    """t_comm of a cluster: measured seconds of an AllReduce by number of weights and of GPUs.

    Between the measured numbers of weights it is interpolated; outside them nothing is known.
    """

    weights: Ints  # [measured] ascending
    allreduce_s: Floats  # [measured, gpus] on 1, 2, ... GPUs

    def __post_init__(self) -> None:
        _check_axis("weights", self.weights)
        if self.allreduce_s.ndim != 2 or not self.allreduce_s.shape[1]:
            raise PolicyError("allreduce_s: one row for each number of weights, from 1 GPU on")
        shape = (len(self.weights), self.allreduce_s.shape[1])
        _check_seconds("allreduce_s", self.allreduce_s, shape)

    def seconds(self, weights: int) -> Floats:
        """[gpus] t_comm of a model of so many weights on 1, 2, ... GPUs."""
        low, high = int(self.weights[0]), int(self.weights[-1])
        if not low <= weights <= high:
            raise PolicyError(f"weights is {weights}; measured are {low} to {high}")
        return np.array([np.interp(weights, self.weights, column) for column in self.allreduce_s.T])


@dataclass(frozen=True, slots=True)
class Characteristics:
    """One job on one cluster: what its epochs take at any batch size on any number of GPUs."""

    processing: Processing
    communication: Communication
    weights: int  # p, of its model
    samples: int  # in an epoch

    def __post_init__(self) -> None:
        if self.samples < 1:
            raise PolicyError(f"samples is {self.samples}; it must be from 1")

    def rate(self, batch_sizes: Ints, gpus: Ints) -> Floats:
        """[batches, sizes] T(b, k), samples a second: b / (t_proc(ceil(b / k)) + t_comm(p, k)).

        0 where the share of a GPU does not fit on it, or some GPU would have none.
        """
        _check_axis("batch_sizes", batch_sizes)
        _check_axis("gpus", gpus)
        measured = self.communication.seconds(self.weights)
        if gpus[-1] > len(measured):
            raise PolicyError(f"gpus is {gpus[-1]}; AllReduce is measured up to {len(measured)}")
        batch = batch_sizes[:, np.newaxis]
        iteration_s = self.processing.seconds(-(-batch // gpus)) + measured[gpus - 1]
        rate: Floats = np.where(batch >= gpus, batch / iteration_s, 0.0)
        return rate

    def epoch_s(self, batch_sizes: Ints, gpus: Ints) -> Floats:
        """[batches, sizes] Seconds of an epoch, a curve of the contract; inf where it cannot run.

        Samples over the rate: the last iteration of an epoch counts as the part that it is.
        """
        rate = self.rate(batch_sizes, gpus)
        epoch_s = np.full(rate.shape, math.inf)
        np.divide(self.samples, rate, out=epoch_s, where=rate > 0)
        return epoch_s

    def slowest_s(self, epochs: float, batch_sizes: Ints, gpus: Ints) -> Floats:
        """[batches] Seconds that a job takes at each batch size on the fewest GPUs that hold it.

        What its user agrees to wait for by permitting the batch size (§V-A); inf: it fits nowhere.
        """
        if not 0 <= epochs < math.inf:
            raise PolicyError(f"epochs is {epochs}; it must be finite and from 0")
        epoch_s = self.epoch_s(batch_sizes, gpus)
        fewest = np.isfinite(epoch_s).argmax(axis=1)
        on_fewest = epoch_s[np.arange(len(batch_sizes)), fewest]
        return np.where(np.isfinite(on_fewest), epochs * on_fewest, math.inf)

    def batch_sizes_within(
        self, limit_s: float, epochs: float, batch_sizes: Ints, gpus: Ints
    ) -> Ints:
        """Those batch sizes at which even the slowest run ends within `limit_s` (§V-A)."""
        within: Ints = batch_sizes[self.slowest_s(epochs, batch_sizes, gpus) <= limit_s]
        return within


def _check_axis(field: str, values: Ints) -> None:
    if not len(values) or values[0] < 1 or (np.diff(values) <= 0).any():
        raise PolicyError(f"{field} is {values.tolist()}; it must ascend from 1 or more")


def _check_seconds(
    field: str, values: Floats, shape: tuple[int, ...], *, above_0: bool = False
) -> None:
    if values.shape != shape:
        raise PolicyError(f"{field} has shape {values.shape}; it must be {shape}")
    bad: Bools = ~np.isfinite(values) | (values < 0) | (above_0 & (values == 0))
    if bad.any():
        good = "finite and positive" if above_0 else "finite and from 0"
        raise PolicyError(f"{field} is {values[bad][0]}; it must be {good}")
