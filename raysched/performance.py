"""How long an epoch takes by number of workers: measured where it was seen, predicted elsewhere.

Sources, best first (ruling 11): what this job reported, what earlier jobs of the same name and
shape reported, at sizes that neither saw its profile (told with the job, or else measured), the
user's `expected`, a stated prior.

Curves are those of GPUs of rate 1, whatever GPUs the epochs were measured on.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field

import numpy as np
from numpy.typing import NDArray

from policies.problem import MIXING
from raysched.jobs import JobSpec

PRIOR_EPOCH_S = 60.0
"""An epoch on the minimum number of workers of a job of which nothing is known."""

OWN, EARLIER, PRIOR = "its own epochs", "earlier jobs like it", "a prior: nothing is known of it"
"""Of what `source` says."""

SMOOTHING = 0.5
"""Weight of the newest report in the running mean of one size."""


@dataclass(slots=True)
class EpochTimes:
    """Mean seconds of an epoch by number of workers, as reported."""

    mean_s: dict[int, float] = field(default_factory=dict)

    def observe(self, workers: int, epoch_s: float) -> None:
        """Take in one report."""
        known = self.mean_s.get(workers)
        self.mean_s[workers] = epoch_s if known is None else known + SMOOTHING * (epoch_s - known)


def rate_of(workers: Sequence[tuple[int, str, float]], mixing: float = MIXING) -> float:
    """Speed of a job over that on GPUs of rate 1, from (workers, GPU type, GPU rate) by server.

    Workers on one type keep step with the slowest. On several types they share the work by speed:
    their mean, times what `mixing` leaves of it (004 §7.1). 1 for a job that stands nowhere.
    """
    if len({gpu_type for _, gpu_type, _ in workers}) > 1:
        count = sum(here for here, _, _ in workers)
        return mixing * sum(here * rate for here, _, rate in workers) / count
    return min((rate for _, _, rate in workers), default=1.0)


def shape_of(spec: JobSpec, batch_size: int) -> str:
    """Jobs with the same name, batch and worker size are taken to run alike."""
    return f"{spec.name}/batch={batch_size}/gpus={spec.gpus_per_worker}"


def seen_epoch_s(
    spec: JobSpec, own: Mapping[int, EpochTimes], history: Mapping[str, EpochTimes]
) -> dict[int, Mapping[int, float]]:
    """What predictions rest on: measured seconds by admissible batch size and workers."""
    return {batch: _seen(spec, batch, own, history) for batch in spec.admissible}


def predicted_epoch_s(
    spec: JobSpec,
    own: Mapping[int, EpochTimes],
    history: Mapping[str, EpochTimes],
    profiled: NDArray[np.float64] | None = None,
) -> NDArray[np.float64]:
    """[batch sizes, max - min + 1] seconds of an epoch on min … max workers, by admissible batch.

    `own`: what the job itself reported, by batch size. `profiled`: by the measured profile of its
    model. Seen sizes as measured; others from the profile, or from `serial + parallel / workers`
    fitted to the seen ones (with a single seen size `serial` is 0: linear scaling, as in 004 §5).
    Without a profile a batch size that was never seen is taken to run like the nearest one that
    was. inf: the batch does not fit.
    """
    seen = seen_epoch_s(spec, own, history)
    if spec.profile_epoch_s is not None:
        profile = np.array(spec.profile_epoch_s, dtype=np.float64)
        profile[np.isnan(profile)] = np.inf
        rows = profile.reshape(len(spec.admissible), -1)
        known = zip(rows, spec.admissible, strict=True)
        return np.stack([_with_seen(row, spec, seen[batch]) for row, batch in known])
    known_batches = [batch for batch in spec.admissible if seen[batch]] or [spec.batch_size]
    nearest = [min(known_batches, key=lambda b: abs(b - batch)) for batch in spec.admissible]
    if profiled is None:
        return np.stack([_without_profile(spec, seen[batch]) for batch in nearest])
    row_of = dict(zip(spec.admissible, profiled, strict=True))
    over = [_over(row_of[near], spec, seen[near]) for near in nearest]
    known = zip(profiled * np.stack(over), spec.admissible, strict=True)
    return np.stack([_with_seen(row, spec, seen[batch]) for row, batch in known])


def source(
    spec: JobSpec,
    own: Mapping[int, EpochTimes],
    history: Mapping[str, EpochTimes],
    profiled: bool,
) -> str:
    """What the prediction of a size that was not measured rests on, in words."""
    earlier = any(_seen(spec, batch, {}, history) for batch in spec.admissible)
    reports = OWN if own else EARLIER if earlier else ""
    if spec.profile_epoch_s is not None:
        return "the profile that it came with"
    if profiled:
        return "its profile" + (f", corrected by {reports}" if reports else "")
    if reports:
        return reports
    return "what its user expects" if spec.expected_s is not None else PRIOR


def _seen(
    spec: JobSpec, batch: int, own: Mapping[int, EpochTimes], history: Mapping[str, EpochTimes]
) -> Mapping[int, float]:
    """Seconds by number of workers: this job's own, or those of earlier jobs like it."""
    if batch in own:
        return own[batch].mean_s
    return history.get(shape_of(spec, batch), EpochTimes()).mean_s


def _over(
    profiled: NDArray[np.float64], spec: JobSpec, seen: Mapping[int, float]
) -> NDArray[np.float64]:
    """[sizes] By how much epochs took longer than profiled: the ratio at the sizes that were seen,
    linear between these, and beyond them that of the nearest."""
    sizes = np.arange(spec.min_workers, spec.max_workers + 1)
    known = dict(zip(sizes.tolist(), profiled.tolist(), strict=True))
    ratio = {n: seen[n] / known[n] for n in sorted(seen) if known.get(n, np.inf) < np.inf}
    if not ratio:
        return np.ones(len(sizes))
    return np.asarray(np.interp(sizes, list(ratio), list(ratio.values())))


def _without_profile(spec: JobSpec, seen: Mapping[int, float]) -> NDArray[np.float64]:
    sizes = np.arange(spec.min_workers, spec.max_workers + 1, dtype=np.float64)
    if not seen:
        at_minimum = PRIOR_EPOCH_S if spec.expected_s is None else spec.expected_s / spec.epochs
        return at_minimum * spec.min_workers / sizes
    # Noise may say so, but no size is predicted slower than a smaller one.
    return np.minimum.accumulate(_with_seen(_fitted(seen, sizes), spec, seen))


def _with_seen(
    curve: NDArray[np.float64], spec: JobSpec, seen: Mapping[int, float]
) -> NDArray[np.float64]:
    for workers, epoch_s in seen.items():
        if spec.min_workers <= workers <= spec.max_workers:
            curve[workers - spec.min_workers] = epoch_s
    return curve


def _fitted(seen: Mapping[int, float], sizes: NDArray[np.float64]) -> NDArray[np.float64]:
    workers = np.array(sorted(seen), dtype=np.float64)
    epoch_s = np.array([seen[int(w)] for w in workers])
    if len(workers) == 1:
        serial, parallel = 0.0, float(epoch_s[0] * workers[0])
    else:
        parallel, serial = (float(c) for c in np.polyfit(1.0 / workers, epoch_s, 1))
        if serial < 0 or parallel <= 0:  # noise: fall back to linear scaling through the mean
            serial, parallel = 0.0, float(np.mean(epoch_s * workers))
    return serial + parallel / sizes
