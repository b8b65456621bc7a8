"""A row of the benchmark: one decision at one size, what it is compared with, what it aims at."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import Any, Literal

import numpy as np

from benchmarks.measure import Disagreement, Sample, Times, measure


@dataclass(frozen=True, slots=True)
class Target:
    """What counts as met: a time, and where they are set a speed-up and limits on the checks."""

    ms: float
    of: Literal["median", "p95"] = "median"
    ratio: float | None = None  # at least so many times faster than the naive form
    limits: Mapping[str, float] = field(default_factory=dict)  # on what the checks report


@dataclass(frozen=True, slots=True)
class Row:
    """One decision. The naive form runs on `sample`, or on smaller problems, `beside` it."""

    name: str
    sample: Sample
    target: Target | None = None
    baseline: str | None = None  # what the naive form is
    beside: Sample | None = None
    jobs: int | None = None  # of `sample`, where its time is followed from fewer
    fewer: Mapping[int, Sample] = field(default_factory=dict)  # by jobs


Result = dict[str, Any]
"""A row as JSON."""


def run(row: Row) -> Result:
    """Measure a row. Times are of the fast form but for `baseline_ms`."""
    result: Result = {"size": row.sample.size, "baseline": row.baseline}
    try:
        fewer = {str(jobs): measure(sample).median_ms for jobs, sample in row.fewer.items()}
        times = measure(row.sample)
        beside = measure(row.beside) if row.beside else times
    except Disagreement as wrong:
        return result | {"met": False, "disagreement": str(wrong)}
    result |= {"median_ms": times.median_ms, "p95_ms": times.p95_ms, "runs": len(times.fast_ms)}
    if row.baseline:
        result |= {
            "baseline_ms": beside.naive_median_ms,
            "baseline_size": (row.beside or row.sample).size,
            "compared_ms": beside.median_ms,
            "ratio": beside.naive_median_ms / beside.median_ms,
        }
    if fewer:
        result["median_ms_by_jobs"] = {**fewer, str(row.jobs): times.median_ms}
    result["mean"] = {name: float(np.mean(values)) for name, values in times.found.items()}
    result["worst"] = {name: float(max(values)) for name, values in times.found.items()}
    return result | _judged(row.target, times, result)


def _judged(target: Target | None, times: Times, result: Result) -> Result:
    """The target and whether it is met; `met` is None where none is set."""
    if target is None:
        return {"target_ms": None, "met": None}
    took_ms = times.p95_ms if target.of == "p95" else times.median_ms
    met = took_ms <= target.ms
    met &= target.ratio is None or result["ratio"] >= target.ratio
    met &= all(result["worst"][name] <= limit for name, limit in target.limits.items())
    return {
        "target_ms": target.ms,
        "target_of": target.of,
        "target_ratio": target.ratio,
        "limits": dict(target.limits),
        "met": bool(met),
    }
