"""In which order jobs completed in two runs, and how well the orders agree."""

from __future__ import annotations

import math
from collections.abc import Mapping

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


def _ended_s(history: History) -> Mapping[str, float]:
    return {
        name: job.ended_s
        for name, job in history.jobs.items()
        if job.outcome == "finished" and job.ended_s is not None
    }
