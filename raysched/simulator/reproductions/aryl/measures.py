"""What 004 measures of a run: queuing, JCT, how much is in use, what reclaims cost."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from typing import TypeAlias

import numpy as np

from policies.problem import Floats
from raysched.durations import DAY_S, HOUR_S
from raysched.history import History, JobHistory
from raysched.simulator.body import Outcome
from raysched.simulator.efficiency import collateral_damage
from raysched.simulator.reproductions.experiment import Measured
from raysched.simulator.workloads.aryl import T4_PER_GPU, Workload, demand

PERCENTILES = (50, 75, 95, 99)
SHOWN_HOURS = range(6 * 24, 8 * 24)
"""Two days in the middle (Fig. 9)."""

Spans: TypeAlias = tuple[Floats, Floats, Floats]
"""From when to when, how many GPUs."""


def measure(outcome: Outcome, drawn: Workload, seed: int) -> Measured:
    """Times in seconds; use as shares of the GPUs during the days in which jobs come.

    - `use_training`: of the training pool. `use_overall`: of both pools, 4 T4 on loan for each GPU
      of a training server that they stand for, and those that serve demand.
    - `preemption_ratio`: preemptions over submissions (Table 5, note 2); `collateral`: GPUs vacated
      beyond those asked for (§7.3).
    - `on_loan_daily`: use of servers on loan, a day each (Fig. 7; None where none was on loan).
    - `use_hourly`: of both pools, for two days in the middle (Fig. 9).
    """
    history = outcome.history
    jobs = list(history.jobs.values())
    days = np.arange(drawn.days + 1) * DAY_S
    hours = np.append(SHOWN_HOURS, SHOWN_HOURS.stop) * HOUR_S
    whole = days[[0, -1]]
    held = {pool: _held(history, pool) for pool in ("training", "inference")}
    on_loan = _over(held["inference"], days)
    lent = _over(_lent(history), days)
    return {
        **times(jobs),
        "use_training": float(_over(held["training"], whole)[0] / drawn.training_gpus),
        "use_overall": float(_overall(held, drawn, seed, whole)[0]),
        "use_hourly": _overall(held, drawn, seed, hours).round(4).tolist(),
        "on_loan_daily": [
            round(float(used / there), 4) if there else None
            for used, there in zip(on_loan, lent, strict=True)
        ],
        "preemption_ratio": sum(job.preemptions for job in jobs) / len(jobs),
        "collateral": collateral_damage(history),
        "resizes": sum(job.resizes for job in jobs),
    }


def times(jobs: Iterable[JobHistory]) -> Measured:
    """Mean and percentiles of queuing and JCT, in seconds: `queuing_s_mean`, `jct_s_p95` …"""
    finished = [job for job in jobs if job.outcome == "finished"]
    found: Measured = {}
    for name, values in (
        ("queuing_s", [job.queuing_s for job in finished]),
        ("jct_s", [job.jct_s for job in finished]),
    ):
        column = np.array(values, dtype=np.float64)
        found[f"{name}_mean"] = round(float(column.mean()), 2)
        for percent in PERCENTILES:
            found[f"{name}_p{percent}"] = round(float(np.percentile(column, percent)), 2)
    return found


def _held(history: History, pool: str) -> Spans:
    """When jobs held GPUs of a pool."""
    there = {server for server, each in history.servers.items() if each.pool == pool}
    return _spans(
        [
            (stretch.from_s, stretch.to_s, workers * job.spec.gpus_per_worker)
            for job in history.jobs.values()
            for stretch in job.stretches
            for server, workers in stretch.servers.items()
            if server in there
        ]
    )


def _lent(history: History) -> Spans:
    """When training could use servers on loan."""
    return _spans(
        [
            (
                loan.from_s,
                history.end_s if loan.to_s is None else loan.to_s,
                history.servers[loan.server].gpus,
            )
            for loan in history.loans
        ]
    )


def _spans(rows: Sequence[tuple[float, float, float]]) -> Spans:
    begin, end, gpus = np.array(rows, dtype=np.float64).reshape(-1, 3).T
    return begin, end, gpus


def _over(spans: Spans, at_s: Floats) -> Floats:
    """[moments - 1] GPUs in the mean, between each two moments."""
    begin, end, gpus = spans
    so_far = [float(((np.clip(at, begin, end) - begin) * gpus).sum()) for at in at_s]
    return np.diff(so_far) / np.diff(at_s)


def _overall(held: dict[str, Spans], drawn: Workload, seed: int, at_s: Floats) -> Floats:
    """[moments - 1] Of all GPUs of both pools, those in use between each two moments."""
    inference = T4_PER_GPU * drawn.inference_gpus
    series = demand(drawn, seed)
    used = np.cumsum(series.value[1:] * np.diff(series.at_s)) / series.value.max()
    serving = np.diff(np.interp(at_s, series.at_s[1:], used)) / np.diff(at_s)
    serving *= drawn.peak_use * inference
    jobs = _over(held["training"], at_s) + T4_PER_GPU * _over(held["inference"], at_s)
    share: Floats = (jobs + serving) / (drawn.training_gpus + inference)
    return share
