"""oasis, the algorithm: Theorems 1 to 4 and Appendix A of 002 as properties, prices by hand."""

import math
from dataclasses import replace
from itertools import product

import numpy as np
import pytest
from hypothesis import assume, given
from hypothesis import strategies as st

from policies.oasis.literal import best_payoff
from policies.oasis.market import Cluster, Estimate, Market, PriceRange, alpha, empty_cluster
from policies.oasis.model import NEVER, PsJobs, sigmoid
from policies.oasis.offline import optimum
from policies.oasis.schedule import _pass_forward, best_schedule, offer
from policies.problem import PolicyError

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


def test_the_work_counts_gradients_both_ways():
    jobs = ps_jobs(
        epochs=3, chunks=4, minibatches=5, minibatch_slots=0.02, gradient=0.01, worker=(1.0, 0.5)
    )
    assert jobs.work_slots == [4]  # 3 * 4 * 5 * (0.02 + 2 * 0.01 / 0.5) = 3.6
    assert jobs.fastest_slots == [1]


def test_parameter_servers_match_the_bandwidth_and_are_no_more_than_workers():
    jobs = ps_jobs(chunks=4, worker=(1.0, 1.0), ps=(0.0, 2.0))
    assert jobs.request(0, 1).ps_of.tolist() == [0, 1, 1, 2, 2]
    narrow = ps_jobs(chunks=2, worker=(1.0, 1.0), ps=(0.0, 0.6))
    assert narrow.request(0, 1).ps_of.tolist() == [0, NEVER, NEVER]


def test_the_sigmoid():
    assert sigmoid(10.0, 0.0, 3.0, 99.0) == 5.0  # time-insensitive
    assert sigmoid(10.0, 6.0, 3.0, 3.0) == 5.0
    assert sigmoid(10.0, 6.0, 3.0, 300.0) >= 0.0


def test_prices_of_an_empty_a_half_full_and_an_exhausted_server():
    """U = max f / w = 10 / 2; need = 4 worker-slots * 3; 1 / eta = 12 / (2 slots * 8)."""
    jobs = ps_jobs(epochs=4, worth=20.0, worker=(2.0, 1.0), ps=(0.0, 2.0))
    market = empty_cluster(jobs, np.array([[4.0, 4.0]]), np.array([[0.0, 9.0]]), 2).workers
    low = 10 / 12 * (12 / 16) / 4
    assert market.price[0, 0] == pytest.approx([low, low])
    half = market.book(np.array([[1], [0]]), jobs.worker[0])
    assert half.price[0, 0, 0] == pytest.approx(math.sqrt(low * 5))
    assert half.book(np.array([[1], [0]]), jobs.worker[0]).price[0, 0, 0] == pytest.approx(5)
    assert half.price[1, 0] == pytest.approx([low, low])
    assert market.price[0, 0, 0] == pytest.approx(low)  # a value: booking makes another


def test_estimates_scale_u_and_l_and_keep_l_up():
    jobs = ps_jobs({"steepness": 5.0, "target_slots": 1.0}, {"epochs": 5})
    capacity = np.array([[4.0, 4.0]])

    def ends(**parameters):
        market = empty_cluster(jobs, capacity, capacity, 300, Estimate(**parameters)).workers
        return market.low[0], market.high[0]

    low, high = ends(least_share=0.0)
    assert low < 1e-200
    assert ends(least_share=0.0, low_factor=2.0, high_factor=3.0) == pytest.approx(
        (2 * low, 3 * high)
    )
    assert ends(least_share=0.0, price_floor=1e-3)[0] == pytest.approx(high / 1000)
    assert low < ends(least_share=0.1)[0] < ends(least_share=1.0)[0]


def test_the_range_over_more_jobs_is_wider_whichever_came_first():
    one = PriceRange(np.array([1.0, 4.0]), low=0.1, need=9.0)
    other = PriceRange(np.array([2.0, 3.0]), low=0.2, need=5.0)
    for both in (one.widened(other), other.widened(one)):
        assert (both.high.tolist(), both.low, both.need) == ([2.0, 4.0], 0.1, 5.0)


def test_an_empty_population_has_prices_too():
    none = np.zeros((0, 2))
    low, high = PriceRange.of(none[:, 0], none[:, 0], none, none[:, 0]).ends(9.0, Estimate())
    assert (low == high).all()


@pytest.mark.parametrize("reading", ["work", "fewest"])
def test_the_readings_of_the_parameter_servers_price(reading):
    jobs = ps_jobs(epochs=8, chunks=1, ps=(0.0, 4.0))
    market = empty_cluster(jobs, np.ones((1, 2)), np.ones((1, 2)) * 9, 1, LITERAL, reading).ps
    slots = {"work": 8, "fewest": 2}[reading]
    need = slots * 4
    assert market.low[1] == pytest.approx(5 / need * min(1, need / 18) / 4)


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


@given(cases(slots=5, most_jobs=6, steepness=2.0))
def test_theorem_4_the_ratio_to_the_optimum_in_hindsight_is_under_2_alpha(case):
    jobs, workers, ps, slots = case
    cluster = empty_cluster(jobs, workers, ps, slots, LITERAL)
    admitted, _ = run(jobs, cluster, slots)
    utility = sum(schedule.utility for schedule in admitted.values())
    best = optimum(jobs, workers, ps, slots)
    assert best.optimal
    assert_feasible(jobs, (workers, ps), best.workers, best.ps, best.completion_slot)
    assert utility <= best.bound * (1 + 1e-5) + ROUNDING
    assert best.utility <= 2 * booked_alpha(jobs, admitted, cluster) * utility + ROUNDING


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


@pytest.mark.parametrize(("steepness", "slot"), [(0.0, 1), (5.0, 0)])
def test_a_job_waits_for_a_cheap_slot_if_it_is_worth_the_same_then(steepness, slot):
    jobs = ps_jobs(worth=20.0, steepness=steepness, target_slots=0.5)
    cluster = empty_cluster(jobs, np.full((1, 2), 4.0), np.full((1, 2), 9.0), 4)
    half_full_now = cluster.workers.book(np.array([[2], [0], [0], [0]]), jobs.worker[0])
    schedule = best_schedule(jobs.request(0, 4), Cluster(half_full_now, cluster.ps))
    assert schedule and schedule.completion_slot == slot


def gpus_at(*prices):
    """One server with room, whose GPU costs so much in each slot; all else is free."""
    nothing = PriceRange(np.zeros(2), 1.0, 1.0)
    used = np.zeros((len(prices), 1, 2))
    market = Market.of(np.full((1, 2), 9.0), used, nothing, LITERAL)
    price = np.zeros_like(used)
    price[:, 0, 0] = prices
    return Cluster(replace(market, price=price), replace(market, price=np.zeros_like(used)))


@pytest.mark.parametrize(("price", "admitted"), [(4.9, True), (5.0, False), (5.1, False)])
def test_admitted_is_exactly_a_positive_payoff(price, admitted):
    jobs, cluster = ps_jobs(worth=10.0), gpus_at(price)
    schedule, after = offer(jobs.request(0, 1), cluster)
    assert schedule and schedule.payoff == pytest.approx(5.0 - price)
    assert (after is not cluster) == admitted


def test_the_pass_goes_on_while_a_later_end_may_pay_more():
    schedule = best_schedule(ps_jobs(worth=10.0).request(0, 3), gpus_at(1.2, 1.0, 1.0))
    assert schedule and schedule.completion_slot == 1


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


@pytest.mark.parametrize(
    ("column", "message"),
    [
        ({"arrival_slot": -1}, "job 1: arrival_slot must be from 0"),
        ({"epochs": 0}, "job 1: epochs must be from 1"),
        ({"minibatch_slots": math.nan}, "job 1: minibatch_slots must be finite and positive"),
        ({"worth": -1.0}, "job 1: worth must be finite and positive"),
        ({"steepness": math.inf}, "job 1: steepness must be finite and from 0"),
        ({"target_slots": math.inf}, "job 1: target_slots must be finite"),
        ({"worker": (-1.0, 1.0)}, "job 1: worker must be finite and from 0"),
        (
            {"worker": (1.0, 0.0), "gradient": 1.0},
            "job 1: bandwidth of a worker must be positive where there are gradients to send",
        ),
        (
            {"ps": (1.0, 0.0)},
            "job 1: bandwidth of a parameter server must be positive where its workers' is",
        ),
    ],
)
def test_jobs_that_make_no_sense_are_refused(column, message):
    with pytest.raises(PolicyError, match=f"^{message}$"):
        ps_jobs({}, column)


@pytest.mark.parametrize(
    ("parameters", "message"),
    [
        ({"high_factor": 0.0}, "high_factor is 0.0; use a positive number"),
        ({"least_share": 1.5}, "least_share is 1.5; use 0 to 1"),
        ({"price_floor": math.nan}, "price_floor is nan; use 0 to 1"),
    ],
)
def test_estimates_that_make_no_sense_are_refused(parameters, message):
    with pytest.raises(PolicyError, match=message):
        Estimate(**parameters)
