"""oasis, the schedule of one arrival: constraints (2)-(10), Theorems 1 to 3 of 002, ties."""

import math
from dataclasses import replace
from itertools import product

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from policies.oasis.literal import best_payoff
from policies.oasis.market import Cluster, Market, PriceRange, empty_cluster
from policies.oasis.model import NEVER
from policies.oasis.schedule import _pass_forward, _Supply, best_schedule, offer
from tests.policies.oasis_cases import LITERAL, ROUNDING, assert_feasible, busy, cases, ps_jobs, run


def brute_force(request, cluster):
    """The greatest payoff over every placement in every slot; -inf if none ends."""

    def placements(market, slot, demand, count):
        """Costs of all ways to place `count` instances within the capacity."""
        free = market.capacity - market.used[slot]
        for placed in product(range(count + 1), repeat=len(free)):
            takes = np.array(placed)[:, None] * demand
            if sum(placed) == count and (takes <= free + ROUNDING).all():
                yield float((takes * market.price[slot]).sum())

    def cost(t, w):
        slot, ps = request.arrival_slot + t, request.ps_of[w]
        if ps == NEVER:
            return math.inf
        workers = min(placements(cluster.workers, slot, request.worker, w), default=math.inf)
        return workers + min(placements(cluster.ps, slot, request.ps, ps), default=math.inf)

    slots = len(request.utility)
    costs = [[cost(t, w) for w in range(request.most_workers + 1)] for t in range(slots)]
    best = -math.inf
    for counts in product(range(request.most_workers + 1), repeat=slots):
        done = np.cumsum(request.progress[np.arange(slots), counts])
        if done[-1] >= request.work:
            end = int(np.argmax(done >= request.work))
            if not any(counts[end + 1 :]):
                paid = sum(costs[t][w] for t, w in enumerate(counts))
                best = max(best, request.utility[end] - paid)
    return best


@given(cases(most_jobs=2), st.integers(0, 99))
def test_theorem_1_the_subroutine_is_optimal(case, seed):
    jobs, workers, ps, slots = case
    cluster = busy(empty_cluster(jobs, workers, ps, slots), seed)
    for job in range(len(jobs)):
        request = jobs.request(job, slots)
        best = brute_force(request, cluster)
        schedule, after = offer(request, cluster)
        literal, end = best_payoff(request, cluster)
        if schedule is None:
            assert best == literal == -math.inf
        else:
            assert schedule.payoff == pytest.approx(best, rel=1e-6, abs=1e-6)
            assert schedule.payoff == pytest.approx(literal, rel=1e-6, abs=1e-6)
            assert schedule.completion_slot == end
        assert (after is not cluster) == (schedule is not None and schedule.payoff > 0)
        cluster = after


@given(
    st.lists(st.tuples(st.sampled_from([1.0, 2.0, 3.0, 4.0]), st.integers(0, 3)), max_size=9),
    st.integers(0, 7),
)
def test_instances_go_to_the_cheapest_servers_and_of_equal_ones_to_the_first(servers, most):
    price, room = np.array(servers).reshape(-1, 2).T.copy()
    nothing = PriceRange(np.zeros(1), 1.0, 1.0)
    market = Market.of(room[:, None] * 2.0, np.zeros((1, len(room), 1)), nothing, LITERAL)
    market = replace(market, price=price.reshape(1, -1, 1))
    supply = _Supply.of(market, 0, np.array([2.0]), most)
    one_by_one = [
        server
        for server in sorted(range(len(price)), key=lambda server: price[server])
        for _ in range(int(room[server]))
    ]
    for count in range(most + 1):
        chosen = one_by_one[:count]
        if len(chosen) < count:
            assert supply.cost[0, count] == np.inf
        else:
            assert supply.cost[0, count] == 2 * price[chosen].sum()
            placed = supply.place(np.array([count]), 0)
            assert placed.tolist() == [np.bincount(chosen, minlength=len(price)).tolist()]


@given(cases())
def test_theorem_2_schedules_are_feasible_and_cost_what_they_say(case):
    jobs, workers, ps, slots = case
    cluster = empty_cluster(jobs, workers, ps, slots)
    y = np.zeros((len(jobs), slots, len(workers)), dtype=int)
    z = np.zeros((len(jobs), slots, len(ps)), dtype=int)
    ends = np.full(len(jobs), -1)
    for job in range(len(jobs)):
        schedule, after = offer(jobs.request(job, slots), cluster)
        if schedule and after is not cluster:
            y[job], z[job], ends[job] = schedule.workers, schedule.ps, schedule.completion_slot
            paid = (y[job][..., None] * jobs.worker[job] * cluster.workers.price).sum()
            paid += (z[job][..., None] * jobs.ps[job] * cluster.ps.price).sum()
            assert schedule.cost == pytest.approx(paid)
            assert schedule.utility == jobs.utility(job, ends[job] - jobs.arrival_slot[job])
        cluster = after
    assert_feasible(jobs, (workers, ps), y, z, ends)


@given(cases())
def test_prices_never_fall_while_jobs_arrive(case):
    jobs, workers, ps, slots = case
    cluster = empty_cluster(jobs, workers, ps, slots)
    for job in range(len(jobs)):
        _, after = offer(jobs.request(job, slots), cluster)
        for before, now in ((cluster.workers, after.workers), (cluster.ps, after.ps)):
            assert (now.price >= before.price * (1 - ROUNDING)).all()
            assert (now.price <= now.high * (1 + ROUNDING)).all()
        cluster = after


@pytest.mark.parametrize("work", [10, 20, 40])
def test_theorem_3_the_table_grows_with_slots_and_work(work):
    cost, progress = np.tile([0.0, 1.0, 2.0], (7, 1)), np.tile([0, 1, 2], (7, 1))
    _, _, choice = _pass_forward(cost, progress, np.zeros(7), work)
    assert choice.size == 7 * (work + 1)


@given(cases())
def test_the_same_arrivals_get_the_same_schedules(case):
    jobs, workers, ps, slots = case
    first, _ = run(jobs, empty_cluster(jobs, workers, ps, slots), slots)
    second, _ = run(jobs, empty_cluster(jobs, workers, ps, slots), slots)
    assert first.keys() == second.keys()
    for job, schedule in first.items():
        assert (schedule.workers == second[job].workers).all()
        assert schedule.payoff == second[job].payoff


def test_of_equal_payoffs_the_earliest_completion():
    jobs = ps_jobs(epochs=3, chunks=3, minibatch_slots=0.7)
    cluster = empty_cluster(jobs, np.full((3, 2), 9.0), np.full((3, 2), 9.0), 50)
    schedule = best_schedule(jobs.request(0, 50), cluster)
    assert schedule and schedule.completion_slot == 2  # 6.3 worker-slots on 3 workers


def gpus_at(*prices):
    """One server with room, whose GPU costs so much in each slot; all else is free."""
    nothing = PriceRange(np.zeros(2), 1.0, 1.0)
    used = np.zeros((len(prices), 1, 2))
    market = Market.of(np.full((1, 2), 9.0), used, nothing, LITERAL)
    price = np.zeros_like(used)
    price[:, 0, 0] = prices
    return Cluster(replace(market, price=price), replace(market, price=np.zeros_like(used)))


@pytest.mark.parametrize(
    ("steepness", "price", "slot"),
    [(0.0, 0.1, 3), (0.1, 0.1, 0), (0.1, 3.0, 3), (5.0, 3.0, 0)],
)
def test_a_job_pays_for_an_early_slot_what_its_utility_loses_later(steepness, price, slot):
    """Time-insensitive ones nothing, time-sensitive ones a little, time-critical ones all."""
    jobs = ps_jobs(worth=20.0, steepness=steepness, target_slots=1.0)
    schedule = best_schedule(jobs.request(0, 4), gpus_at(price, 99.0, 99.0, 0.0))
    assert schedule and schedule.completion_slot == slot


@pytest.mark.parametrize(("price", "admitted"), [(4.9, True), (5.0, False), (5.1, False)])
def test_admitted_is_exactly_a_positive_payoff(price, admitted):
    jobs, cluster = ps_jobs(worth=10.0), gpus_at(price)
    schedule, after = offer(jobs.request(0, 1), cluster)
    assert schedule and schedule.payoff == pytest.approx(5.0 - price)
    assert (after is not cluster) == admitted


def test_the_pass_goes_on_while_a_later_end_may_pay_more():
    schedule = best_schedule(ps_jobs(worth=10.0).request(0, 3), gpus_at(1.2, 1.0, 1.0))
    assert schedule and schedule.completion_slot == 1
