"""Results for people: the decisions, the naive forms beside them, how time grows with jobs."""

from __future__ import annotations

import os
import platform
from collections.abc import Mapping, Sequence
from typing import Any

import numba
import numpy as np
import scipy

from benchmarks.row import Result

_DECISIONS = ("decision", "size", "median ms", "p95 ms", "found, on average", "target", "met")
_COMPARED = ("decision", "naive form", "on", "naive ms", "fast ms", "faster")


def machine() -> dict[str, Any]:
    """What the times were measured on."""
    return {
        "cores": os.cpu_count(),
        "python": platform.python_version(),
        "numpy": np.__version__,
        "numba": numba.__version__,
        "scipy": scipy.__version__,
    }


def text(decisions: Mapping[str, Result], start_s: Mapping[str, float]) -> str:
    """All of it, as markdown that reads well on a terminal."""
    compared = [(name, row) for name, row in decisions.items() if "ratio" in row]
    parts = [
        table(_DECISIONS, [_decision(name, row) for name, row in decisions.items()]),
        table(_COMPARED, [_compared(name, row) for name, row in compared]),
        _growth_table(growth(decisions)),
    ]
    if start_s:
        parts.append(
            f"A first start, with all kernels to compile, takes {start_s['first_start_s']:.1f} s; "
            f"a later one, with their cache, {start_s['later_start_s']:.1f} s. Not counted above."
        )
    return "\n\n".join(part for part in parts if part)


def growth(results: Mapping[str, Result]) -> dict[str, dict[int, float]]:
    """Policy -> jobs -> median ms."""
    return {
        name.rpartition("-")[0]: {int(jobs): ms for jobs, ms in result["median_ms_by_jobs"].items()}
        for name, result in results.items()
        if "median_ms_by_jobs" in result
    }


def _growth_table(by_policy: Mapping[str, Mapping[int, float]]) -> str:
    """Median ms of a whole decision by number of jobs."""
    jobs = sorted({count for by_jobs in by_policy.values() for count in by_jobs})
    header = ("whole decision, median ms", *(f"{count:,} jobs" for count in jobs))
    rows = [(name, *map(_number, by_jobs.values())) for name, by_jobs in by_policy.items()]
    return table(header, rows)


def _decision(name: str, result: Result) -> Sequence[str]:
    if "disagreement" in result:
        return (name, result["size"], "–", "–", "–", "–", "WRONG")
    times = (_number(result["median_ms"]), _number(result["p95_ms"]))
    found = ", ".join(f"{check} {_number(value)}" for check, value in result["mean"].items())
    met = {None: "–", True: "yes", False: "NO"}[result["met"]]
    return (name, result["size"], *times, found or "–", _target(result), met)


def _target(result: Result) -> str:
    """`p95 ≤ 15 ms, ≥ 20 ×, gap ≤ 0.001`."""
    if result["target_ms"] is None:
        return "–"
    parts = [f"{result['target_of']} ≤ {result['target_ms']:g} ms"]
    if result["target_ratio"]:
        parts.append(f"≥ {result['target_ratio']:g} ×")
    parts += [f"{check} ≤ {limit:g}" for check, limit in result["limits"].items()]
    return ", ".join(parts)


def _compared(name: str, result: Result) -> Sequence[str]:
    numbers = (_number(result["baseline_ms"]), _number(result["compared_ms"]))
    ratio = f"{_number(result['ratio'])} ×"
    return (name, result["baseline"], result["baseline_size"], *numbers, ratio)


def _number(value: float) -> str:
    """Three digits that count."""
    return f"{value:,.0f}" if abs(value) >= 100 else f"{value:.3g}"


def table(header: Sequence[str], rows: Sequence[Sequence[str]]) -> str:
    """Columns aligned; empty without rows."""
    if not rows:
        return ""
    widths = [max(map(len, column)) for column in zip(header, *rows, strict=True)]
    lines = [header, ["-" * width for width in widths], *rows]
    return "\n".join("| " + " | ".join(map(str.ljust, line, widths)) + " |" for line in lines)
