"""What a user asks for: one training job, checked before anything is started."""

from __future__ import annotations

import math
from dataclasses import dataclass

from raysched.errors import UserError


class InvalidJob(UserError, ValueError):
    """A job that cannot be run as described: names the field and the mend."""

    def __init__(self, field: str, problem: str) -> None:
        super().__init__(field, problem)  # both, so that it pickles
        self.field = field

    def __str__(self) -> str:
        return ": ".join(self.args)


@dataclass(frozen=True, slots=True)
class Utility:
    """A sigmoid utility (002 §II): `worth / (1 + exp(steepness_per_s * (age_s - target_s)))`."""

    worth: float
    steepness_per_s: float
    target_s: float

    def __post_init__(self) -> None:
        if not 0 < self.worth < math.inf:
            raise InvalidJob("utility", f"worth is {self.worth}; use a positive number")
        for name in ("steepness_per_s", "target_s"):
            if not 0 <= getattr(self, name) < math.inf:
                raise InvalidJob("utility", f"{name} is {getattr(self, name)}; use a number from 0")


@dataclass(frozen=True, slots=True)
class JobSpec:
    """One elastic training job, as its user describes it.

    A worker is one process with `gpus_per_worker` GPUs and one CPU. `batch_size` is the global
    batch, the same at every number of workers; where `batch_sizes` are named, it is the first one,
    and a policy may choose another of them. `expected_s` is the user's own estimate
    of the whole running time on the minimum number of workers, on GPUs of rate 1; `deadline_s`
    counts from submission. Without a `gpu_type` its workers run on GPUs of any one type, with
    `mixes_gpus` on several at once. Without `checkpoints` it starts over whenever its workers stop,
    and so cannot be resized. `requested_workers` is its size under a scheduler that never resizes
    (the minimum if left out); `profile_epoch_s` the seconds of an epoch on min … max workers, on
    GPUs of rate 1, where they were profiled: of each admissible batch size after the other, None
    where it does not fit on so many workers (the smallest fits on any number). With `pre_run`, what
    is not known of its throughput is measured before it trains, on as many workers as it gets then
    and on fewer (001 §5). It has a safe point `every_s` within an epoch; None: boundaries alone.
    With `workers_per_parameter_server` it trains asynchronously, and one parameter server's
    bandwidth carries so many workers (B_i / b_i of 002 (6)); `batch_size` is then that of one
    worker.
    """

    name: str
    epochs: int
    min_workers: int
    max_workers: int
    batch_size: int
    gpus_per_worker: int = 1
    deadline_s: float | None = None
    utility: Utility | None = None
    priority: int = 0
    tenant: str = "default"
    expected_s: float | None = None
    gpu_type: str = ""
    mixes_gpus: bool = False
    checkpoints: bool = True
    requested_workers: int | None = None
    profile_epoch_s: tuple[float | None, ...] | None = None
    batch_sizes: tuple[int, ...] = ()
    pre_run: bool = False
    every_s: float | None = None
    workers_per_parameter_server: int = 0

    def __post_init__(self) -> None:
        _at_least_one("epochs", self.epochs)
        _at_least_one("batch_size", self.batch_size)
        _at_least_one("gpus_per_worker", self.gpus_per_worker)
        if self.min_workers < 1:
            raise InvalidJob("workers", f"the minimum is {self.min_workers}; use 1 or more")
        if self.min_workers > self.max_workers:
            raise InvalidJob(
                "workers",
                f"the minimum {self.min_workers} is above the maximum {self.max_workers}; "
                "write workers=(min, max)",
            )
        self._check_batches()
        if self.min_workers < self.max_workers and not self.checkpoints:
            raise InvalidJob(
                "checkpoints",
                "a job without them starts over at each resize; use workers=N, or checkpoints",
            )
        asked = self.requested_workers
        if asked is not None and not self.min_workers <= asked <= self.max_workers:
            raise InvalidJob("requested_workers", f"{asked} is out of the range of workers")
        self._check_profile()
        if self.gpu_type and self.mixes_gpus:
            raise InvalidJob("mixes_gpus", f"with gpu_type={self.gpu_type!r} there is but one type")
        for name, seconds in (
            ("deadline", self.deadline_s),
            ("expected", self.expected_s),
            ("every", self.every_s),
        ):
            if seconds is not None and not seconds > 0:
                raise InvalidJob(name, f"{seconds} s is not a time to come; use a positive one")
        if self.every_s is not None and not self.checkpoints:
            raise InvalidJob("every", "a safe point is a checkpoint; drop checkpoints=False")

    def _check_batches(self) -> None:
        smallest = self.admissible[0]
        if smallest < self.max_workers and not self.workers_per_parameter_server:
            raise InvalidJob(
                "batch_size",
                f"{smallest} samples cannot be shared by {self.max_workers} workers; "
                "raise batch_size or lower the maximum of workers",
            )
        if list(self.admissible) != sorted(set(self.admissible)):
            raise InvalidJob("batch_sizes", f"{self.batch_sizes} do not ascend")
        if self.batch_size not in self.admissible:
            raise InvalidJob("batch_sizes", f"{self.batch_size}, the first one, is not among them")

    def _check_profile(self) -> None:
        profile = self.profile_epoch_s
        if profile is None:
            return
        sizes = self.max_workers - self.min_workers + 1
        needed = len(self.admissible) * sizes
        fitting = [epoch_s for epoch_s in profile if epoch_s is not None]
        if len(profile) != needed or not all(0 < epoch_s < math.inf for epoch_s in fitting):
            raise InvalidJob(
                "profile_epoch_s",
                f"needs {needed} positive numbers of seconds, one for each size and batch size",
            )
        if None in profile[:sizes]:
            smallest = self.admissible[0]
            raise InvalidJob(
                "profile_epoch_s", f"the smallest batch, {smallest}, must fit anywhere"
            )

    @property
    def admissible(self) -> tuple[int, ...]:
        """The global batch sizes that it may run with, ascending."""
        return self.batch_sizes or (self.batch_size,)

    def fits(self, batch_size: int, workers: int) -> bool:
        """Whether a batch size of its own can run on so many workers, as far as is known."""
        if self.profile_epoch_s is None:
            return True
        sizes = self.max_workers - self.min_workers + 1
        row = self.admissible.index(batch_size)
        return self.profile_epoch_s[row * sizes + workers - self.min_workers] is not None

    @property
    def base_gpus(self) -> int:
        """GPUs that the job needs to run at all."""
        return self.min_workers * self.gpus_per_worker


def _at_least_one(field: str, value: int) -> None:
    if value < 1:
        raise InvalidJob(field, f"is {value}; use 1 or more")
