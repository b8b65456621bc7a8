"""Times of a fast form, and of the naive one beside it on the same problems in the same run."""

from __future__ import annotations

import gc
import time
from collections.abc import Callable, Mapping
from dataclasses import dataclass, field
from typing import Any

import numpy as np


class Disagreement(Exception):
    """A fast answer that is wrong, in words."""


@dataclass(frozen=True, slots=True)
class Question:
    """One problem and two ways to answer it."""

    fast: Callable[[], Any]
    check: Callable[[Any, Any], Mapping[str, float]]
    """Of both answers (the naive one None without `naive`): what to report of them, the larger
    the worse. Raises `Disagreement`."""
    naive: Callable[[], Any] | None = None


@dataclass(frozen=True, slots=True)
class Sample:
    """Problems of one size."""

    size: str
    ask: Callable[[int], Question]  # by seed
    seeds: int


@dataclass(frozen=True, slots=True)
class Times:
    """What a sample came to: one time for each seed, and what the checks report of it."""

    fast_ms: list[float] = field(default_factory=list)
    naive_ms: list[float] = field(default_factory=list)
    found: dict[str, list[float]] = field(default_factory=dict)

    @property
    def median_ms(self) -> float:
        """Of the fast form."""
        return float(np.median(self.fast_ms))

    @property
    def p95_ms(self) -> float:
        """Of the fast form."""
        return float(np.percentile(self.fast_ms, 95))

    @property
    def naive_median_ms(self) -> float:
        """Of the naive form."""
        return float(np.median(self.naive_ms))


def measure(sample: Sample) -> Times:
    """Fast and naive in turns over all seeds. Raises `Disagreement` at the first wrong answer."""
    times = Times()
    for seed in range(sample.seeds):
        question = sample.ask(seed)
        if seed == 0:
            question.fast()  # what only a first call loads is not counted
        took_ms, answer = timed(question.fast)
        times.fast_ms.append(took_ms)
        naive = None
        if question.naive is not None:
            took_ms, naive = timed(question.naive)
            times.naive_ms.append(took_ms)
        try:
            found = question.check(answer, naive)
        except Disagreement as wrong:
            raise Disagreement(f"{sample.size}, seed {seed}: {wrong}") from None
        for name, value in found.items():
            times.found.setdefault(name, []).append(value)
    return times


def timed(call: Callable[[], Any]) -> tuple[float, Any]:
    """Milliseconds of one call, undisturbed by the garbage collector, and what it returns."""
    gc.disable()
    try:
        begin_s = time.perf_counter()
        answer = call()
        return (time.perf_counter() - begin_s) * 1000, answer
    finally:
        gc.enable()


def agree(what: str, fast: float, naive: float, tolerance: float = 1e-9) -> None:
    """Raise `Disagreement` unless both are equal, relative to the larger."""
    if not abs(fast - naive) <= tolerance * max(abs(fast), abs(naive), 1.0):
        raise Disagreement(f"{what} is {fast!r}, by the naive form {naive!r}")


def require(holds: bool, what: str) -> None:
    """Raise `Disagreement` unless it holds; `what` says what is wrong otherwise."""
    if not holds:
        raise Disagreement(what)
