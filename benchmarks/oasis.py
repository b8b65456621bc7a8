"""oasis (002): the best schedule of one arrival, beside Algorithm 2 in plain Python."""

from __future__ import annotations

import math
from collections.abc import Mapping
from functools import partial

import numpy as np

from benchmarks.measure import Question, Sample, agree, require
from benchmarks.problems import ps_jobs, ps_servers
from benchmarks.row import Row, Target
from policies.oasis.literal import best_payoff
from policies.oasis.market import Cluster, empty_cluster
from policies.oasis.model import Request
from policies.oasis.schedule import Schedule, offer

_TOLERANCE = 1e-6  # of sums of prices, added in another order


def arrival(
    name: str, slots: int, servers: int, *, before: int, small: int, target: Target | None = None
) -> Row:
    """An arrival after `before` others; the naive form beside it on jobs of `small` work."""
    return Row(
        name,
        _sample(slots, servers, before, None, seeds=20),
        target,
        baseline="Algorithm 2 in plain Python",
        beside=_sample(slots, servers, before, small, seeds=3),
    )


def _sample(slots: int, servers: int, before: int, small: int | None, seeds: int) -> Sample:
    """`small`: arrivals of at most so many worker-slots, which the naive form answers too."""

    def ask(seed: int) -> Question:
        request, cluster = _case(slots, servers, before, small, seed)
        return Question(
            fast=partial(offer, request, cluster),
            check=partial(_check, request, cluster),
            naive=partial(best_payoff, request, cluster) if small else None,
        )

    size = f"T = {slots}, {servers} + {servers} servers"
    return Sample(size + (f", W <= {small}" if small else ""), ask, seeds)


def _case(
    slots: int, servers: int, before: int, small: int | None, seed: int
) -> tuple[Request, Cluster]:
    """The cluster after `before` arrivals, and the next one that is small enough."""
    random = np.random.default_rng(seed)
    jobs = ps_jobs(4 * before, random)
    for_workers, for_ps = ps_servers(servers, random)
    cluster = empty_cluster(jobs, for_workers, for_ps, slots)
    for job in range(before):
        _, cluster = offer(jobs.request(job, slots), cluster)
    work = jobs.work_slots[before:]
    fits = work <= (small or np.inf)
    fits &= jobs.fastest_slots[before:] <= slots
    return jobs.request(before + int(np.flatnonzero(fits)[0]), slots), cluster


def _check(
    request: Request,
    cluster: Cluster,
    fast: tuple[Schedule | None, Cluster],
    naive: tuple[float, int] | None,
) -> Mapping[str, float]:
    """All of the work within the servers; the payoff that the naive form finds."""
    schedule, after = fast
    if schedule is not None:
        require(int(schedule.workers.sum()) >= request.work, "the schedule leaves work")
        for market, taken, demand in (
            (cluster.workers, schedule.workers, request.worker),
            (cluster.ps, schedule.ps, request.ps),
        ):
            used = market.used + taken[..., None] * demand
            require(bool((used <= market.capacity + 1e-6).all()), "the schedule does not fit")
    admitted = schedule is not None and schedule.payoff > 0
    require(admitted == (after is not cluster), "admitted without a payoff, or refused with one")
    if naive is not None:
        payoff = schedule.payoff if schedule is not None else -math.inf
        require(math.isinf(payoff) == math.isinf(naive[0]), f"payoff {payoff}, not {naive[0]}")
        if not math.isinf(payoff):
            agree("the payoff", payoff, naive[0], _TOLERANCE)
    return {"refused": float(not admitted)}
