"""themis by hand, finish-time fairness, that its shares are the best, and what always holds."""

import json

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from policies.baselines.themis import Fairness, Themis, fair_shares
from policies.fifo import Fifo
from policies.problem import NO_MEMORY, Policy, PolicyError
from tests.builders import job, problem, training
from tests.policies.baselines.sound import assert_sound, busy
from tests.policies.baselines.virtual import run


def shares_of(elapsed_s, left_s, isolated_s, gpus, capacity):
    columns = (np.array(column, dtype=float) for column in (elapsed_s, left_s, isolated_s))
    return fair_shares(Fairness(*columns), np.array(gpus), capacity)


def decide(jobs, servers, memory=NO_MEMORY, now_s=1000.0):
    return Themis().decide(problem(jobs, servers, now_s=now_s), memory)


def running(decision):
    return {name for name, allocation in decision.allocations.items() if allocation.workers}


def test_is_a_policy():
    assert isinstance(Themis(), Policy)
    policy = Themis()
    assert (policy.name, policy.default_loaning, policy.interval_s) == ("themis", "off", None)


def test_equal_jobs_have_equal_shares():
    assert shares_of([0, 0], [10, 10], [20, 20], [1, 1], 1) == pytest.approx([0.5, 0.5])


def test_who_has_waited_has_more():
    """(0 + 10 / x) / 20 = (10 + 10 / y) / 20 and x + y = 1."""
    x, y = shares_of([0, 10], [10, 10], [20, 20], [1, 1], 1)
    assert 10 / x == pytest.approx(10 + 10 / y) and x + y == pytest.approx(1)


def test_where_gpus_suffice_everybody_has_all_of_the_time():
    assert shares_of([5, 0], [10, 10], [20, 20], [3, 1], 4).tolist() == [1, 1]


def test_who_cannot_be_helped_runs_all_the_time_and_the_others_share_the_rest():
    shares = shares_of([1000, 0, 0], [10, 10, 10], [20, 20, 20], [1, 1, 1], 2)
    assert shares == pytest.approx([1, 0.5, 0.5])


def test_a_job_that_never_fits_has_no_share():
    assert shares_of([0, 0], [10, 10], [20, 20], [8, 1], 4).tolist() == [0, 1]


times = st.floats(0.1, 1e5)


@given(
    st.lists(st.tuples(st.floats(0, 1e5), times, times, st.integers(1, 8)), min_size=1, max_size=6),
    st.integers(1, 16),
)
def test_no_shares_have_a_smaller_largest_rho(drawn, capacity):
    elapsed_s, left_s, more_s, gpus = (np.array(column) for column in zip(*drawn, strict=True))
    fits = gpus <= capacity
    fairness = Fairness(elapsed_s, left_s, left_s + more_s)
    shares = fair_shares(fairness, gpus, capacity)
    assert gpus @ shares <= capacity and (shares <= 1).all() and (shares[~fits] == 0).all()
    if fits.any():
        worst = fairness.rho(np.where(fits, shares, 1.0))[fits].max()
        least = fairness.shares_for(worst * (1 - 1e-6))[fits]
        better = fairness.rho(1.0)[fits].max() < worst * (1 - 1e-6)
        assert not better or gpus[fits] @ least > capacity


def test_leases_go_to_those_whose_finish_is_delayed_most():
    """(1000 + 1000 / x) / 2900 = (999 + 1000 / (1 - x)) / 2000 at x = 0.37 for who was served."""
    jobs = [job("served", epochs=100, running=1), job("held", epochs=100)]
    memory = {
        "version": 2,
        "lease_ends_s": 1000,
        "changed_s": 0,
        "jobs": {"served": [900, 100, 0.5]},
    }
    decision, _ = decide(jobs, [training(1)], memory)
    assert (running(decision), decision.review_at_s) == ({"held"}, 1240)
    assert str(decision.allocations["held"].reason) == (
        "starts on 1 workers: it asked for 1 GPUs, its fair share of the time is 0.63; it ends "
        "after 1.00 times its isolated time if it runs from now on; leases end in 240 s"
    )


def test_within_a_lease_nobody_is_preempted_and_free_gpus_are_used():
    jobs = [job("a"), job("b"), job("c")]
    _, memory = decide(jobs, [training(2)])
    stand = [job("a", running=1), job("c")]
    decision, _ = decide(stand, [training(2)], memory, now_s=1001)
    assert (running(decision), decision.review_at_s) == ({"a", "c"}, None)


def test_isolated_time_is_that_on_an_equal_part_of_the_cluster():
    """Of 4 jobs on 8 GPUs each has 2: 5 epochs of 10 s on 8 GPUs take 4 times as long there."""
    jobs = [job(str(n), 8, epochs=100) for n in range(4)]
    _, memory = decide(jobs, [training(8)])
    jobs[0] = job("0", 8, epochs=95, running=8)
    _, memory = decide(jobs, [training(8)], memory, now_s=1050)
    assert memory["jobs"]["0"] == pytest.approx([5 * 10 * 4, 95, 0.25])
    assert json.loads(json.dumps(memory)) == memory


def final_rho(policy, jobs, gpus):
    """Of jobs of one GPU that arrive together: end over the time on 1/m of the cluster."""
    ended_s = run(policy, jobs, [training(gpus)]).ended_s
    alone_s = {one.id: one.epoch_s[0] * one.epochs for one in jobs}
    part = min(1, gpus / len(jobs))
    return [ended_s[one.id] * part / alone_s[one.id] for one in jobs]


def test_equal_jobs_end_at_about_the_same_time():
    jobs = [job(name, epoch_s=2400) for name in "abc"]
    rho = final_rho(Themis(), jobs, 1)
    assert max(rho) <= 1 + 1e-6 and min(rho) > 1 - 2.5 * 240 / 7200
    assert final_rho(Fifo(), jobs, 1) == pytest.approx([1 / 3, 2 / 3, 1])


def test_a_short_job_is_not_held_back_by_a_long_one():
    jobs = [job("long", epoch_s=240 * 60), job("short", epoch_s=240 * 10)]
    assert max(final_rho(Fifo(), jobs, 1)) == pytest.approx(70 / 20)
    assert max(final_rho(Themis(), jobs, 1)) <= 1 + 1e-6


@given(st.lists(st.integers(10, 60), min_size=2, max_size=5), st.integers(1, 2))
def test_nobody_ends_much_later_than_on_an_equal_part_of_the_cluster(leases, gpus):
    jobs = [job(str(n), epoch_s=240 * count) for n, count in enumerate(leases)]
    assert max(final_rho(Themis(), jobs, gpus)) <= 1 + 1 / min(leases)


@given(busy(), busy(lost_servers=True))
def test_always_holds(before, after):
    assert_sound(Themis(), before, after)


def test_parameters_make_sense():
    with pytest.raises(PolicyError, match="lease_s is 0; use a positive number of seconds"):
        Themis(lease_s=0)


def test_as_published_rho_divides_by_epochs_and_not_by_their_seconds():
    """Both have 100 s to go, which is the same 1/m; in epochs b's is longer, so its rho is less."""
    jobs = [job("b", epoch_s=1.0, epochs=100), job("a", epoch_s=50.0, epochs=2)]
    case = problem(jobs, [training(1)])
    decision, memory = Themis(reading="published").decide(case, NO_MEMORY)
    assert running(decision) == {"a"}
    assert running(Themis().decide(case, NO_MEMORY)[0]) == {"b"}
    assert memory["changed_s"] == case.now_s
