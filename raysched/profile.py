"""How a model runs by batch and workers, predicted from a few measured steps (003 §III-B).

A step of a global batch of B samples on n workers takes t_proc(⌈B / n⌉) + t_comm(weights, n):
forward, backward and update of one worker's share, then the all-reduce of the gradients. t_proc is
measured for each model on one GPU, t_comm once for the cluster. Overlap of the two is left out, as
in the paper; what epochs take corrects it (`raysched.performance`).
"""

from __future__ import annotations

import math
from collections.abc import Mapping
from dataclasses import dataclass, field, replace

import numpy as np
from numpy.typing import NDArray

from raysched.jobs import InvalidJob, JobSpec

POINTS = 5
"""Local batches for which a step is measured."""

Floats = NDArray[np.float64]


@dataclass(frozen=True, slots=True)
class Profile:
    """What was measured of a model on GPUs of one type.

    `step_s` by local batch: forward, backward and update of one worker, without all-reduce.
    `fitting`: the most samples that one worker can hold, where more were tried and did not fit.
    `together_s`, by global batch and workers: a step of all of them, where it was pre-run (001 §5).
    """

    samples: int  # of an epoch
    weights_bytes: int  # of the gradients that each step averages
    step_s: Mapping[int, float]
    fitting: int | None = None
    together_s: Mapping[int, Mapping[int, float]] = field(default_factory=dict)

    def __post_init__(self) -> None:
        positive = [self.samples, *self.step_s, *self.step_s.values()]
        for by_workers in self.together_s.values():
            positive += [*by_workers, *by_workers.values()]
        if not self.step_s or not all(0 < value < math.inf for value in positive):
            raise InvalidJob("profile", "needs positive seconds of a step for each local batch")

    def at_rate(self, rate: float) -> Profile:
        """What it would be on GPUs of rate 1, measured on GPUs of this rate."""
        together_s = {b: _times(by_workers, rate) for b, by_workers in self.together_s.items()}
        return replace(self, step_s=_times(self.step_s, rate), together_s=together_s)

    def proc_s(self, local_batch: Floats) -> Floats:
        """t_proc for each of these local batches.

        Linear between those measured and beyond them, never falling, and below the smallest never
        less than its share of that one's time.
        """
        batch = np.array(sorted(self.step_s), dtype=np.float64)
        step_s = np.maximum.accumulate([self.step_s[int(b)] for b in batch])
        if len(batch) == 1:
            return np.asarray(step_s[0] * local_batch / batch[0])
        below = step_s[0] - _slope(batch[:2], step_s[:2]) * (batch[0] - local_batch)
        above = step_s[-1] + _slope(batch[-2:], step_s[-2:]) * (local_batch - batch[-1])
        between = np.interp(local_batch, batch, step_s)
        least = np.maximum(below, step_s[0] * local_batch / batch[0])
        smaller = np.where(local_batch < batch[0], least, between)
        return np.where(local_batch > batch[-1], above, smaller)

    def fits(self, batch_size: int, workers: int) -> bool:
        """Whether each of so many workers can hold its share of a batch, as far as was tried."""
        return self.fitting is None or -(-batch_size // workers) <= self.fitting


@dataclass(frozen=True, slots=True)
class Ring:
    """t_comm: a ring all-reduce sends 2 (n - 1) messages of a share 1 / n of the bytes each, at
    `latency_s` a message and `s_per_byte`. Nothing measured yet: no time."""

    latency_s: float = 0.0
    s_per_byte: float = 0.0

    @classmethod
    def fitted(cls, seconds: Mapping[int, Mapping[int, float]]) -> Ring:
        """To measured seconds by workers and bytes: least squares of the relative errors, neither
        constant negative."""
        rows, measured = [], []
        for workers, by_bytes in seconds.items():
            for size, took_s in by_bytes.items():
                rows.append((2 * (workers - 1), 2 * (workers - 1) / workers * size))
                measured.append(took_s)
        if not rows:
            return cls()
        from scipy.optimize import nnls  # costs every training worker a second, which fits nothing

        columns = np.array(rows, dtype=np.float64) / np.array(measured)[:, None]
        scale = columns.max(axis=0)  # the two differ by orders of magnitude
        found, _ = nnls(columns / scale, np.ones(len(rows)))
        latency_s, s_per_byte = (found / scale).tolist()
        return cls(latency_s, s_per_byte)

    def seconds(self, size_bytes: int, workers: Floats) -> Floats:
        """Of an all-reduce of so many bytes on each of these numbers of workers."""
        messages = 2 * (workers - 1)
        return np.asarray(messages * (self.latency_s + self.s_per_byte * size_bytes / workers))


@dataclass(slots=True)
class Profiles:
    """What was measured on this cluster: of models, and of its network."""

    by_model: dict[str, dict[str, Profile]] = field(default_factory=dict)
    """By model and GPU type, as it would be on GPUs of rate 1."""
    all_reduce_s: dict[int, dict[int, float]] = field(default_factory=dict)
    """Seconds of an all-reduce by workers and bytes."""
    ring: Ring = field(default_factory=Ring)
    """Fitted to them."""

    def take(
        self,
        spec: JobSpec,
        gpu_type: str,
        profile: Profile,
        all_reduce_s: Mapping[int, Mapping[int, float]],
    ) -> None:
        """Take in what a job's workers measured, seconds of steps as on GPUs of rate 1."""
        self.by_model.setdefault(model_of(spec), {})[gpu_type] = profile
        for workers, by_bytes in all_reduce_s.items():
            self.all_reduce_s.setdefault(workers, {}).update(by_bytes)
        self.ring = Ring.fitted(self.all_reduce_s)

    def knows(self, spec: JobSpec, gpu_type: str) -> bool:
        """Whether a job's model was measured on GPUs of this type."""
        return gpu_type in self.by_model.get(model_of(spec), {})

    def of(self, spec: JobSpec) -> Profile | None:
        """That of a job's model, on the GPUs that the job asks for where it was measured there."""
        by_type = self.by_model.get(model_of(spec)) if self.by_model else None
        if not by_type:
            return None
        return by_type.get(spec.gpu_type) or next(iter(by_type.values()))

    def epoch_s(self, spec: JobSpec) -> Floats | None:
        """[batch sizes, sizes] Predicted seconds of an epoch of a job, if its model is known."""
        profile = self.of(spec)
        return None if profile is None else epoch_s(spec, profile, self.ring)

    def groups_to_measure(self, workers: int) -> tuple[int, ...]:
        """Sizes of the groups whose all-reduces so many workers are to measure: powers of two and
        all of them, without those that are known."""
        sizes = sorted({2**power for power in range(1, workers.bit_length())} | {workers})
        return tuple(size for size in sizes if size > 1 and size not in self.all_reduce_s)

    def fits(self, spec: JobSpec, batch_size: int, workers: int) -> bool:
        """Whether a batch size of a job can run on so many workers, as far as is known; the
        smallest one is taken to, as anywhere (`JobSpec`)."""
        profile = self.of(spec)
        return (
            profile is None or batch_size == spec.admissible[0] or profile.fits(batch_size, workers)
        )


def model_of(spec: JobSpec) -> str:
    """Jobs with the same name and worker size are taken to train the same model."""
    return f"{spec.name}/gpus={spec.gpus_per_worker}"


def epoch_s(spec: JobSpec, profile: Profile, ring: Ring) -> Floats:
    """[batch sizes, max - min + 1] predicted seconds of an epoch on min … max workers.

    Sizes that were pre-run as measured; between and beyond them what the measured ones were off.
    inf: the batch does not fit; the smallest one is taken to, as anywhere (`JobSpec`).
    """
    workers = np.arange(spec.min_workers, spec.max_workers + 1, dtype=np.float64)
    comm_s = ring.seconds(profile.weights_bytes, workers)
    rows = []
    for batch in spec.admissible:
        whole, rest = divmod(profile.samples, batch)
        seconds = whole * (profile.proc_s(np.ceil(batch / workers)) + comm_s)
        if rest:
            seconds += profile.proc_s(np.ceil(rest / workers)) + comm_s
        if together_s := profile.together_s.get(batch):
            sizes = np.array(sorted(together_s), dtype=np.float64)
            step_s = profile.proc_s(np.ceil(batch / sizes))
            step_s = step_s + ring.seconds(profile.weights_bytes, sizes)
            off = [together_s[int(n)] for n in sizes] / step_s
            seconds = seconds * np.interp(workers, sizes, off)
        if batch != spec.admissible[0]:
            fits = [profile.fits(batch, n) for n in range(spec.min_workers, spec.max_workers + 1)]
            seconds = np.where(fits, seconds, np.inf)
        rows.append(seconds)
    return np.stack(rows)


def to_measure(spec: JobSpec) -> tuple[int, ...]:
    """Local batches for which a step is to be measured, ascending: from what the smallest batch
    leaves each of the most workers to what the largest leaves each of the fewest.

    Equal ratios apart, where the paper takes them equal distances apart: local batches fall as
    1 / n, so that most sizes of a job lie at the small end.
    """
    least = -(-spec.admissible[0] // spec.max_workers)
    most = -(-spec.admissible[-1] // spec.min_workers)
    return tuple(sorted({round(batch) for batch in np.geomspace(least, most, POINTS)}))


def to_pre_run(spec: JobSpec, workers: int) -> tuple[int, ...]:
    """Numbers of workers on which a job is pre-run where it has so many: the fewest that it may
    have, powers of two, and all of them."""
    sizes = {2**power for power in range(workers.bit_length())} | {spec.min_workers, workers}
    return tuple(sorted(size for size in sizes if size >= spec.min_workers))


def _times(seconds: Mapping[int, float], rate: float) -> dict[int, float]:
    return {key: value * rate for key, value in seconds.items()}


def _slope(batch: Floats, step_s: Floats) -> float:
    return float((step_s[1] - step_s[0]) / (batch[1] - batch[0]))
