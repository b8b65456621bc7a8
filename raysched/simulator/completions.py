"""In which order jobs completed in two runs, and how well the orders agree."""

from __future__ import annotations

import math
from collections.abc import Mapping

import numpy as np
from scipy.stats import kendalltau

from raysched.history import History


def completion_order(history: History) -> tuple[str, ...]:
    """The jobs that finished, the first one first; of one moment, in the order of submission."""
    ended_s = _ended_s(history)
    return tuple(sorted(ended_s, key=lambda job: ended_s[job]))


def order_tau(measured: History, simulated: History) -> float | None:
    """Kendall's tau-b between the completion times of the jobs that finished in both runs: 1 where
    each pair of them completed in the same order, -1 where each in the other.

    None with less than two such jobs, or where a run ended all of them at once.
    """
    ours, theirs = _ended_s(measured), _ended_s(simulated)
    both = [job for job in ours if job in theirs]
    if len(both) < 2:
        return None
    tau = float(kendalltau([ours[job] for job in both], [theirs[job] for job in both]).statistic)
    return None if math.isnan(tau) else round(tau, 4)


def widest_swap_s(measured: History, simulated: History) -> float | None:
    """The longest time between the measured ends of two jobs that the simulation ends in the other
    order: 0 where it ends none so. A small one says that only near ties were broken otherwise.

    None with less than two jobs that finished in both.
    """
    ours, theirs = _ended_s(measured), _ended_s(simulated)
    pairs = sorted((ours[job], theirs[job]) for job in ours if job in theirs)
    if len(pairs) < 2:
        return None
    measured_s, simulated_s = np.array(pairs, dtype=np.float64).T
    latest_s = np.maximum.accumulate(simulated_s)
    first = np.searchsorted(latest_s, simulated_s, side="right")  # that the simulation ends later
    before = np.minimum(first, np.arange(len(pairs)))
    return round(float((measured_s - measured_s[before]).max()), 3)


def _ended_s(history: History) -> Mapping[str, float]:
    return {
        name: job.ended_s
        for name, job in history.jobs.items()
        if job.outcome == "finished" and job.ended_s is not None
    }
