"""Jobs with parameter servers, clusters that serve some already, and what oasis admits of them."""

from __future__ import annotations

from dataclasses import replace

import numpy as np
from hypothesis import strategies as st

from policies.oasis.market import Cluster, Estimate
from policies.oasis.model import PsJobs
from policies.oasis.schedule import offer

LITERAL = Estimate(least_share=0.0)
ROUNDING = 1e-9


def ps_jobs(*rows, **columns):
    """Jobs as dicts of what differs from one worker-slot of work for one GPU and 1 Gbps."""
    usual = {
        "arrival_slot": 0,
        "epochs": 1,
        "chunks": 1,
        "minibatches": 1,
        "minibatch_slots": 1.0,
        "gradient": 0.0,
        "worker": (1.0, 1.0),
        "ps": (0.0, 1.0),
        "worth": 10.0,
        "steepness": 0.0,
        "target_slots": 1.0,
    }
    jobs = [usual | columns | row for row in rows or ({},)]
    return PsJobs(**{name: np.array([job[name] for job in jobs]) for name in usual})


@st.composite
def cases(draw, slots=4, most_jobs=4, steepness=6.0):
    """Jobs in the order of arrival, and servers for workers and for parameter servers."""
    amounts = st.sampled_from([0.5, 1.0, 2.0])
    rows = [
        {
            "arrival_slot": draw(st.integers(0, slots - 1)),
            "epochs": draw(st.integers(1, 2)),
            "chunks": draw(st.integers(1, 3)),
            "minibatch_slots": draw(st.floats(0.1, 1.5)),
            "gradient": draw(st.sampled_from([0.0, 0.1])),
            "worker": (draw(st.sampled_from([0.0, 1.0, 2.0])), draw(amounts)),
            "ps": (0.0, draw(amounts)),
            "worth": draw(st.floats(1.0, 100.0)),
            "steepness": draw(st.sampled_from([0.0, 0.3, steepness])),
            "target_slots": draw(st.floats(0.0, slots)),
        }
        for _ in range(draw(st.integers(1, most_jobs)))
    ]
    rows.sort(key=lambda row: row["arrival_slot"])
    sizes = st.sampled_from([0.0, 2.0, 4.0, 6.0])
    workers = draw(st.lists(st.tuples(sizes, sizes), min_size=1, max_size=2))
    ps = draw(st.lists(st.tuples(st.just(0.0), sizes), min_size=1, max_size=2))
    return ps_jobs(*rows), np.array(workers), np.array(ps), slots


def busy(cluster, seed):
    """The cluster with part of each server taken in each slot, so that all prices differ."""
    random = np.random.default_rng(seed)

    def taken(market):
        share = random.choice([0.0, 0.2, 0.5, 0.9], size=market.used.shape[:2])[..., None]
        price = market.low ** (1 - share) * market.high**share
        return replace(market, used=share * market.capacity, price=price)

    return Cluster(taken(cluster.workers), taken(cluster.ps))


def run(jobs, cluster, slots):
    """Algorithm 1: the schedules admitted, by job, and the cluster after all arrivals."""
    admitted = {}
    for job in range(len(jobs)):
        schedule, after = offer(jobs.request(job, slots), cluster)
        if after is not cluster:
            admitted[job] = schedule
        cluster = after
    return admitted, cluster


def assert_feasible(jobs, capacities, workers, ps, ends):
    """(2) to (10) for workers and parameter servers [jobs, slots, servers]; ends -1: not in."""
    for job, end in enumerate(ends):
        y, z = workers[job].sum(axis=1), ps[job].sum(axis=1)
        assert y.sum() >= (jobs.work_slots[job] if end >= 0 else 0)  # (2)
        assert (y <= jobs.chunks[job]).all()  # (3)
        assert (z * jobs.ps[job, -1] >= y * jobs.worker[job, -1] - ROUNDING).all()  # (6)
        assert (z <= y).all()  # (7)
        assert not y[end + 1 :].any()  # (8)
        assert not y[: jobs.arrival_slot[job]].any() and not z[: jobs.arrival_slot[job]].any()
    sides = zip((workers, ps), (jobs.worker, jobs.ps), capacities, strict=True)
    for placed, demand, capacity in sides:
        taken = np.einsum("its,ir->tsr", placed, demand)
        assert (taken <= capacity + ROUNDING).all()  # (4), (5)
