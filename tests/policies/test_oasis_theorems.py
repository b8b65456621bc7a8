"""oasis against the optimum in hindsight: Theorem 4 of 002 and its proof, step by step; App. A."""

from dataclasses import replace

import numpy as np
import pytest
from hypothesis import assume, given
from hypothesis import strategies as st

from policies.oasis.market import Cluster, Estimate, Market, PriceRange, alpha, empty_cluster
from policies.oasis.offline import optimum
from policies.oasis.schedule import best_schedule, offer
from tests.policies.oasis_cases import LITERAL, ROUNDING, assert_feasible, cases, ps_jobs, run


def booked_alpha(jobs, admitted, cluster):
    """Theorem 4's alpha where a booking takes a share d of a server: ((U / L)^d - 1) / d."""
    alphas = [1.0]
    for job, schedule in admitted.items():
        sides = (
            (schedule.workers, jobs.worker[job], cluster.workers),
            (schedule.ps, jobs.ps[job], cluster.ps),
        )
        for placed, demand, market in sides:
            taken = placed.max(axis=0)[:, None] * demand
            server, resource = np.nonzero(taken)
            share = taken[server, resource] / market.capacity[server, resource]
            ratio = (market.high / market.low)[resource]
            alphas += ((ratio**share - 1) / share).tolist()
    return max(alphas)


def shortfall(jobs, cluster):
    """By what a price may fall short of U where a job finds no room: (U / L)^d.

    d is the share of a server that a job may want in one slot: less than that is free there.
    """
    ratios = [1.0]
    for demand, market in ((jobs.worker, cluster.workers), (jobs.ps, cluster.ps)):
        capacity = market.capacity[:, None, :]
        most = jobs.chunks[:, None] * demand
        share = np.divide(most, capacity, out=np.zeros_like(capacity * most), where=capacity > 0)
        ratios.append(((market.high / market.low) ** np.minimum(share, 1)).max())
    return max(ratios)


def worth_of_servers(cluster):
    """The dual objective without payoffs: all that there is, at its prices."""
    return sum((m.price * m.capacity).sum() for m in (cluster.workers, cluster.ps))


@given(cases(slots=5, most_jobs=6, steepness=2.0))
def test_the_dual_begins_under_half_of_any_utility(case):
    """(34)-(35), which fix L."""
    jobs, workers, ps, slots = case
    cluster = empty_cluster(jobs, workers, ps, slots, LITERAL)
    latest = jobs.utility(np.arange(len(jobs)), slots - 1 - jobs.arrival_slot)
    assert worth_of_servers(cluster) <= latest.min() / 2 * (1 + ROUNDING)


@given(cases(slots=5, most_jobs=6, steepness=2.0))
def test_lemma_2_the_dual_rises_by_alpha_times_the_utility_at_most(case):
    jobs, workers, ps, slots = case
    cluster = empty_cluster(jobs, workers, ps, slots, LITERAL)
    for job in range(len(jobs)):
        schedule, after = offer(jobs.request(job, slots), cluster)
        if schedule and after is not cluster:
            rise = schedule.payoff + worth_of_servers(after) - worth_of_servers(cluster)
            factor = booked_alpha(jobs, {job: schedule}, cluster)
            assert rise <= factor * schedule.utility * (1 + ROUNDING)
        cluster = after


@given(cases(slots=5, most_jobs=6, steepness=2.0))
def test_theorem_4_primal_optimum_dual_and_2_alpha_times_primal_stand_in_this_order(case):
    """For bookings of any size, which takes two factors that are 1 where they are small."""
    jobs, workers, ps, slots = case
    empty = empty_cluster(jobs, workers, ps, slots, LITERAL)
    admitted, cluster = run(jobs, empty, slots)
    primal = sum(schedule.utility for schedule in admitted.values())
    payoffs = sum(schedule.payoff for schedule in admitted.values())
    dual = payoffs + shortfall(jobs, cluster) * worth_of_servers(cluster)
    best = optimum(jobs, workers, ps, slots)
    assert best.optimal
    assert_feasible(jobs, (workers, ps), best.workers, best.ps, best.completion_slot)
    assert primal <= best.bound * (1 + 1e-5) + ROUNDING
    if primal:
        assert best.utility <= dual * (1 + 1e-5)
        factor = shortfall(jobs, cluster) * booked_alpha(jobs, admitted, cluster)
        assert dual <= 2 * factor * primal * (1 + ROUNDING)
    else:
        assert best.utility == pytest.approx(0.0)


def test_theorem_4_as_printed_does_not_hold_for_large_workers():
    """A job that takes half a server keeps out one that needs all of it, at any price."""
    small, large = {"worth": 1.0}, {"worth": 1e6, "worker": (2.0, 1.0)}
    jobs, workers, ps = ps_jobs(small, large), np.array([[2.0, 9.0]]), np.array([[0.0, 9.0]])
    cluster = empty_cluster(jobs, workers, ps, 1, LITERAL)
    admitted, _ = run(jobs, cluster, 1)
    assert admitted.keys() == {0}
    utility = admitted[0].utility
    best = optimum(jobs, workers, ps, 1).utility
    assert best > 2 * booked_alpha(jobs, admitted, cluster) * utility
    assert best > 2 * alpha(cluster) * utility


@pytest.mark.parametrize("seed", range(3))
def test_with_small_workers_2_alpha_holds_as_printed(seed):
    """Jobs of the paper's three kinds that want more than the servers have."""
    random, slots = np.random.default_rng(seed), 6
    rows = [
        {
            "arrival_slot": random.integers(0, 4),
            "epochs": random.integers(1, 4),
            "chunks": random.integers(2, 6),
            "minibatch_slots": random.uniform(0.3, 0.8),
            "worker": (random.uniform(0.1, 0.8), random.uniform(0.1, 0.8)),
            "ps": (0.0, random.uniform(0.8, 2.0)),
            "worth": random.uniform(1, 100),
            "steepness": random.choice([0.0, 0.5, 5.0]),
            "target_slots": random.uniform(1, 6),
        }
        for _ in range(8)
    ]
    jobs = ps_jobs(*sorted(rows, key=lambda row: row["arrival_slot"]))
    capacity = np.full((1, 2), 4.0)
    best = optimum(jobs, capacity, capacity, slots)
    for least_share in (0.0, 1e-3, 1.0):
        cluster = empty_cluster(jobs, capacity, capacity, slots, Estimate(least_share=least_share))
        admitted, _ = run(jobs, cluster, slots)
        utility = sum(schedule.utility for schedule in admitted.values())
        assert 0 < utility <= best.bound * (1 + 1e-5)
        assert best.bound < 2 * alpha(cluster) * utility


@given(cases(most_jobs=3))
def test_appendix_a_an_empty_cluster_admits_any_job_that_fits(case):
    jobs, workers, ps, slots = case
    cluster = empty_cluster(jobs, workers, ps, slots, LITERAL)
    for job in range(len(jobs)):
        schedule, _ = offer(jobs.request(job, slots), cluster)
        assert schedule is None or schedule.payoff > 0


@pytest.mark.parametrize(
    ("estimate", "admitted"),
    [(LITERAL, True), (Estimate(), True), (Estimate(least_share=0.0, price_floor=1e-3), False)],
)
def test_appendix_a_fails_for_long_jobs_where_l_is_a_share_of_u(estimate, admitted):
    """2,000 worker-slots on an empty cluster."""
    jobs = ps_jobs(epochs=20, chunks=100)
    servers = np.full((1, 2), 100.0)
    cluster = empty_cluster(jobs, servers, servers, 30, estimate)
    _, after = offer(jobs.request(0, 30), cluster)
    assert (after is not cluster) == admitted


@given(cases(most_jobs=3), st.data())
def test_appendix_a_where_a_resource_is_exhausted_nobody_is_let_in(case, data):
    """By capacity, and by price alone: one worker there costs more than its job is worth."""
    jobs, workers, ps, slots = case
    resource = data.draw(st.integers(0, 1))
    assume((workers[:, resource] > 0).all())
    cluster = empty_cluster(jobs, workers, ps, slots, LITERAL)
    full = np.zeros_like(cluster.workers.used)
    full[:, :, resource] = workers[:, resource]
    prices = PriceRange(cluster.workers.high, 1.0, 1.0)
    cluster = Cluster(Market.of(workers, full, prices, LITERAL), cluster.ps)
    for job in range(len(jobs)):
        wanted = jobs.worker[job, resource]
        if wanted > 0:
            request = jobs.request(job, slots)
            assert best_schedule(request, cluster) is None
            fastest = jobs.utility(job, jobs.fastest_slots[job] - 1)
            assert cluster.workers.price[..., resource].min() * wanted >= fastest * (1 - ROUNDING)


def test_the_optimum_in_hindsight_keeps_room_for_the_better_job():
    jobs = ps_jobs({"worth": 2.0}, {"worth": 20.0, "arrival_slot": 1})
    best = optimum(jobs, np.ones((1, 2)), np.ones((1, 2)), 2)
    assert best.utility == pytest.approx(11.0) and best.completion_slot.tolist() == [0, 1]
    both_now = replace(jobs, arrival_slot=np.array([0, 0]))
    best = optimum(both_now, np.ones((1, 2)), np.ones((1, 2)), 1)
    assert best.utility == pytest.approx(10.0) and best.completion_slot.tolist() == [-1, 0]


def test_the_optimum_is_one_where_the_presolve_of_highs_is_wrong():
    """Found by Theorem 4's test: the third job fits into slots 3 and 4, two workers in each."""
    stuck = {"worker": (0.0, 1.0), "ps": (0.0, 0.5)}
    fits = {"arrival_slot": 3, "chunks": 2, "minibatch_slots": 1.9, "worker": (0.0, 0.5)}
    jobs = ps_jobs(stuck, stuck, fits, worth=1.0)
    best = optimum(jobs, np.array([[0.0, 2.0]]), np.array([[0.0, 2.0], [0.0, 2.0]]), 5)
    assert best.utility == pytest.approx(0.5)
