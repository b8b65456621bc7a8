"""dorm by hand, and against every allocation of small clusters."""

import math
from itertools import product

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from policies.baselines.dorm import Dorm
from policies.baselines.drf import fair_workers
from policies.problem import NO_MEMORY, Policy, PolicyError
from tests.builders import job, on_loan, problem, training
from tests.policies.baselines.laws import decided, sizes, why
from tests.strategies import problems

FREE = Dorm(fairness_loss=1.0, adjusted_share=1.0)


def placed(decision, case):
    """[jobs, servers] Workers by server, as the decision says."""
    return np.array(
        [
            [
                (decision.allocations[name].servers or {}).get(server, 0)
                for server in case.servers.ids
            ]
            for name in case.jobs.ids
        ],
        dtype=int,
    ).reshape(case.placed.shape)


def test_is_a_policy():
    assert isinstance(Dorm(), Policy)
    assert (Dorm().name, Dorm().default_loaning, Dorm().interval_s) == ("dorm", "off", None)


@pytest.mark.parametrize(
    ("parameters", "error"),
    [
        ({"fairness_loss": 2}, "fairness_loss is 2; use 0 to 1"),
        ({"adjusted_share": -1}, "adjusted_share is -1; use 0 to 1"),
        ({"nodes": 0}, "nodes is 0; use 1 or more"),
    ],
)
def test_parameters_make_sense(parameters, error):
    with pytest.raises(PolicyError, match=error):
        Dorm(**parameters)


def test_bad_problems_are_refused_by_job_and_field():
    with pytest.raises(PolicyError, match="job a: epoch_s at 1 workers is nan"):
        Dorm().decide(problem([job("a", epoch_s=float("nan"))], [training(1)]), NO_MEMORY)


def test_a_cluster_that_is_too_large_is_refused():
    case = problem([job(f"j{n}") for n in range(41)], [training(8)] * 25)
    with pytest.raises(PolicyError, match="solves up to 1000 jobs x servers, not 41 x 25; use drf"):
        Dorm().decide(case, NO_MEMORY)


def test_the_most_gpus_are_in_use():
    """Workers of 3 GPUs waste one of 4; the job of 2 fills both servers."""
    jobs = [job("three", (1, 2), gpus=3), job("two", (1, 4), gpus=2), job("one", 1)]
    case = problem(jobs, [training(4), on_loan(4)])
    decision = decided(FREE, case)
    assert decision.objective == decision.bound == 8
    assert sizes(decision) == {"three": 1, "two": 2, "one": 1}


def test_fairness_bounds_what_one_may_take():
    """a alone could use 8 GPUs, b 3; fair are 5 and 3, and at most 2 x 0.05 x 8 may be missed."""
    jobs = [job("a", (1, 8), running=8, on={"t1": 8}), job("b", (1, 3))]
    decision = decided(Dorm(fairness_loss=0.05), problem(jobs, [training(8)]))
    assert sizes(decision) == {"a": 5, "b": 3}
    assert why(decision, "a") == (
        "shrinks from 8 to 5 workers: 5 GPUs, 5 would be fair; "
        "fairness loss 0.0 of at most 0.8 GPUs, 1 of at most 1 jobs moved"
    )


def test_few_jobs_may_change():
    """The newcomer needs 3 GPUs: two jobs would have to shrink, one may."""
    jobs = [job(name, (1, 2), on={server: 2}) for name, server in (("a", "t1"), ("b", "t2"))]
    wide = job("wide", 3)
    servers = [training(2), training(2), training(1)]
    strict = Dorm(fairness_loss=1.0, adjusted_share=0.5)
    decision = decided(strict, problem([*jobs, wide], servers))
    assert sizes(decision) == {"a": 2, "b": 2, "wide": 0}
    assert why(decision, "wide") == (
        "waits: no allocation of all with it meets the limits; 2 jobs run, "
        "fairness loss 0.0 of at most 10.0 GPUs, 0 of at most 1 jobs moved"
    )
    decision = decided(FREE, problem([*jobs, wide], servers))
    assert sizes(decision) == {"a": 1, "b": 1, "wide": 3}


def test_of_equally_full_allocations_nobody_is_moved():
    jobs = [job("a", (1, 4), on={"t1": 1, "t2": 2}), job("b", (1, 4), on={"t1": 1})]
    case = problem(jobs, [training(2), training(2)])
    assert (placed(decided(FREE, case), case) == case.placed).all()


def test_the_latest_submitted_waits_where_not_all_fit():
    jobs = [job("a", 2), job("b", 2), job("c", 1)]
    assert sizes(decided(FREE, problem(jobs, [training(4)]))) == {"a": 2, "b": 2, "c": 0}


def test_where_nothing_meets_the_limits_running_jobs_keep_what_they_have():
    jobs = [job(f"j{n}", (1, 4), on={"t1": 4} if n == 0 else {"t1": 1}) for n in range(5)]
    decision = decided(
        Dorm(fairness_loss=0.0, adjusted_share=0.0), problem([*jobs, job("new")], [training(8)])
    )
    assert sizes(decision) == {"j0": 4, "j1": 1, "j2": 1, "j3": 1, "j4": 1, "new": 0}
    assert why(decision, "new") == (
        "waits: no allocation of 8 GPUs meets the limits on fairness and on changes"
    )


def test_jobs_that_lost_a_server_may_move_without_being_counted():
    jobs = [job("lost", (1, 2), running=2, on={"t1": 1}), job("stays", (1, 2), on={"t2": 2})]
    decision = decided(
        Dorm(fairness_loss=1.0, adjusted_share=0.0), problem(jobs, [training(2), training(2)])
    )
    assert sizes(decision) == {"lost": 2, "stays": 2}


small = st.builds(
    lambda low, more, gpus, row: (low, low + more, gpus, row),
    st.integers(1, 2),
    st.integers(0, 2),
    st.integers(1, 2),
    st.lists(st.integers(0, 2), min_size=2, max_size=2),
)


@settings(max_examples=60)
@given(
    st.lists(small, min_size=1, max_size=3),
    st.tuples(st.integers(0, 4), st.integers(0, 4)),
    st.sampled_from([0.0, 0.1, 0.3, 1.0]),
    st.sampled_from([0.0, 0.4, 1.0]),
)
def test_uses_as_many_gpus_as_any_allocation_within_the_limits(shapes, gpus, theta1, theta2):
    free, jobs = list(gpus), []
    for number, (low, high, of_worker, row) in enumerate(shapes):
        fits = all(n * of_worker <= left for n, left in zip(row, free, strict=True))
        on = {f"t{s}": n for s, n in enumerate(row, 1) if n} if fits else {}
        on = on if low <= sum(on.values()) <= high else {}
        free = [left - on.get(f"t{s}", 0) * of_worker for s, left in enumerate(free, 1)]
        jobs.append(job(f"j{number}", (low, high), gpus=of_worker, on=on))
    case = problem(jobs, [training(n) for n in gpus])
    decision = decided(Dorm(fairness_loss=theta1, adjusted_share=theta2, nodes=10_000), case)
    best = by_force(case, theta1, theta2)
    if best is None:
        assert decision.objective is None
        running = case.jobs.workers > 0
        assert (np.array([*sizes(decision).values()])[running] == case.jobs.workers[running]).all()
        return
    assert decision.objective == decision.bound == best[0]
    found = placed(decision, case)
    assert (case.jobs.gpus_per_worker @ found <= case.servers.gpus).all()
    moved = (found != case.placed).any(axis=1) & (case.jobs.workers > 0)
    assert moved.sum() == best[1]


def by_force(case, theta1, theta2):
    """(GPUs in use, jobs moved) of the best allocation of the most jobs that have one."""
    running = np.flatnonzero(case.jobs.workers)
    queued = np.flatnonzero(case.jobs.workers == 0)
    for started in range(len(queued), -1, -1):
        rows = np.sort(np.concatenate((running, queued[:started])))
        if not len(rows):
            continue
        jobs, capacity = case.jobs.take(rows), case.servers.total_gpus
        fair = fair_workers(jobs, capacity) * jobs.gpus_per_worker
        possible = []
        for sides in product(*(each_way(jobs, row, case.servers.gpus) for row in range(len(rows)))):
            x = np.array(sides, dtype=int).reshape(len(rows), -1)
            if (jobs.gpus_per_worker @ x > case.servers.gpus).any():
                continue
            held = x.sum(axis=1) * jobs.gpus_per_worker
            moved = int(((x != case.placed[rows]).any(axis=1) & (jobs.workers > 0)).sum())
            loss = np.abs(held - fair).sum()
            fits = moved <= math.ceil(theta2 * len(running))
            if loss <= 2 * theta1 * capacity + 1e-9 and fits:
                possible.append((held.sum(), -moved))
        if possible:
            used, moved = max(possible)
            return used, -moved
    return None


def each_way(jobs, row, server_gpus):
    most = [range(int(gpus // jobs.gpus_per_worker[row]) + 1) for gpus in server_gpus]
    low, high = jobs.min_workers[row], jobs.max_workers[row]
    return [cells for cells in product(*most) if low <= sum(cells) <= high]


@given(problems(lost_servers=True))
def test_survives_whatever_it_is_switched_to(case):
    decision = decided(Dorm(), case)
    assert (case.jobs.gpus_per_worker @ placed(decision, case) <= case.servers.gpus).all()
