"""How the workers of a job share each global batch where they are not equally fast (004 App. A).

A share in proportion to samples a second, as they were seen with the shares before, makes all
workers be done at one time; fixed costs of a step that the proportion does not know are found out
by seeing again.
"""

from __future__ import annotations

import math
from collections.abc import Sequence
from functools import lru_cache

SMOOTHING = 0.5
"""Weight of the newest epoch in what is known of a worker's speed."""


@lru_cache(maxsize=8)
def split(batch: int, speeds: tuple[float, ...]) -> tuple[int, ...]:
    """Samples of a batch for each worker, in proportion to positive speeds: their sum is `batch`.

    By largest remainder: nobody is a whole sample from the exact proportion, and of workers that
    are equally fast, the first ones have what is left over.
    """
    total = math.fsum(speeds)
    exact = [batch * speed / total for speed in speeds]
    samples = [math.floor(share) for share in exact]
    by_remainder = sorted(range(len(speeds)), key=lambda rank: samples[rank] - exact[rank])
    for rank in by_remainder[: batch - sum(samples)]:
        samples[rank] += 1
    return tuple(samples)


def own_range(batch: int, speeds: tuple[float, ...], rank: int) -> tuple[int, int]:
    """Where the share of a worker in a batch begins and ends."""
    samples = split(batch, speeds)
    begin = sum(samples[:rank])
    return begin, begin + samples[rank]


def smoothed(known: float | None, seen: float) -> float:
    """What is known of a speed after it was seen once more."""
    return seen if known is None else known + SMOOTHING * (seen - known)


def completed(seen: Sequence[float | None], rates: Sequence[float]) -> tuple[float, ...]:
    """The speeds of all workers: those that were not seen yet as the rates of their GPUs say,
    beside those that were."""
    known = [(speed, rate) for speed, rate in zip(seen, rates, strict=True) if speed is not None]
    of_rate_1 = sum(speed / rate for speed, rate in known) / len(known) if known else 1.0
    return tuple(
        of_rate_1 * rate if speed is None else speed
        for speed, rate in zip(seen, rates, strict=True)
    )
