from itertools import combinations

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from loaning.problem import OnLoan
from loaning.reclaim import preemption_cost, reclaim
from tests.loaning.builders import on_loan

# 004 Fig. 5: servers of 8 GPUs, one GPU a worker; jobs c and d have 80 % of their GPUs on one
# server and 20 % on server 5. All are inelastic.
FIGURE_5 = on_loan(
    ("1", "2", "3", "4", "5", "6"),
    {
        "a": {"1": 8, "2": 8},
        "b": {"3": 8},
        "c": {"4": 8, "5": 2},
        "d": {"5": 2, "6": 8},
    },
)


class TestFigure5:
    def test_table_1_sum_of_server_fractions(self):
        assert preemption_cost(FIGURE_5).tolist() == [0.5, 0.5, 1, 0.5, 1, 0.5]

    def test_two_servers_cost_one_preemption(self):
        found = reclaim(FIGURE_5, 2)
        assert found.servers == ("1", "2")
        assert found.preempted == ("a",)
        assert found.collateral_workers == 0
        assert found.collateral_servers == 0

    def test_one_server_costs_one_preemption_and_the_rest_of_its_job(self):
        found = reclaim(FIGURE_5, 1)
        assert found.servers == ("1",)
        assert found.preempted == ("a",)
        assert found.collateral_workers == 8
        assert found.collateral_servers == 1

    def test_three_servers_go_on_to_the_next_lowest_cost(self):
        found = reclaim(FIGURE_5, 3)
        assert found.servers == ("1", "2", "3")
        assert found.preempted == ("a", "b")

    def test_five_servers_take_the_coupled_ones_last(self):
        # After 1, 2: servers 4 and 6 cost 0.5, 3 and 5 cost 1. Taking 4 leaves d alone on 5 and 6.
        assert reclaim(FIGURE_5, 4).servers == ("1", "2", "4", "3")
        assert reclaim(FIGURE_5, 5).servers == ("1", "2", "4", "5", "6")

    def test_the_reason_holds_its_numbers(self):
        assert str(reclaim(FIGURE_5, 1).reason) == (
            "1 of 6 servers on loan return: 0 jobs shrink, 1 are preempted, "
            "8 workers elsewhere leave with them"
        )


def test_collateral_damage_is_counted_in_gpus_too():
    """Three workers of 2 GPUs leave with the job, one of them on a training server."""
    lent = on_loan(("1", "2"), {"a": {"1": 1, "2": 2}}, elsewhere={"a": 1}, gpus={"a": 2})
    found = reclaim(lent, 1)
    assert (found.collateral_workers, found.collateral_gpus) == (3, 6)
    assert found.reason.numbers["collateral_gpus"] == 6


class TestElasticWorkersLeaveFirst:
    def test_empty_servers_first_of_all(self):
        lent = on_loan(("1", "2", "3"), {"a": {"1": 2}}, elsewhere={"a": 4}, min_workers={"a": 2})
        assert reclaim(lent, 2).servers == ("2", "3")

    def test_flexible_workers_leave_without_a_preemption(self):
        lent = on_loan(("1", "2"), {"rigid": {"1": 4}, "elastic": {"2": 4}},
                       elsewhere={"elastic": 2}, min_workers={"elastic": 2})  # fmt: skip
        found = reclaim(lent, 1)
        assert found.servers == ("2",)
        assert found.shrunk == ("elastic",)
        assert found.preempted == ()

    def test_servers_taken_together_share_the_slack_of_a_job(self):
        """Either server could leave alone, both cannot."""
        lent = on_loan(("1", "2", "3"), {"e": {"1": 4, "2": 4}, "rigid": {"3": 1}},
                       min_workers={"e": 4})  # fmt: skip
        assert reclaim(lent, 1).preempted == ()
        assert len(reclaim(lent, 2).preempted) == 1

    def test_slack_is_spent_where_it_buys_most_servers(self):
        lent = on_loan(("1", "2", "3"), {"e": {"1": 2, "2": 1, "3": 1}}, elsewhere={"e": 1},
                       min_workers={"e": 3})  # fmt: skip
        found = reclaim(lent, 2)
        assert found.servers == ("2", "3")
        assert found.preempted == ()

    def test_a_job_below_its_minimum_can_lose_nothing_and_stands_where_it_stands(self):
        lent = on_loan(("1", "2"), {"a": {"1": 1}, "b": {"2": 2}}, min_workers={"a": 2, "b": 0})
        returned = reclaim(lent, 1)
        assert (returned.servers, returned.preempted) == (("2",), ())

    def test_a_preemption_frees_servers_that_are_taken_next(self):
        lent = on_loan(("1", "2", "3"), {"b": {"1": 1}, "a": {"2": 1, "3": 1}})
        assert reclaim(lent, 2).servers == ("2", "3")


def test_the_last_server_is_the_one_with_fewest_jobs():
    """Line 18 counts jobs: server 1 has the lower cost (2/3) and two jobs, server 4 one job."""
    lent = on_loan(
        ("1", "2", "3", "4"),
        {"a": {"1": 1, "2": 1, "3": 1}, "b": {"1": 1, "2": 1, "3": 1}, "c": {"4": 1}},
    )
    assert reclaim(lent, 1).servers == ("4",)
    assert reclaim(lent, 3).servers == ("1", "2", "3")


@pytest.mark.parametrize("count", [0, -1])
def test_nothing_asked_nothing_returned(count):
    assert reclaim(FIGURE_5, count).servers == ()


def test_no_server_on_loan():
    assert reclaim(on_loan(()), 2).servers == ()


@st.composite
def loans(draw) -> OnLoan:
    """Up to six servers and five jobs, elastic or not, some with workers elsewhere."""
    servers = draw(st.integers(1, 6))
    jobs = draw(st.integers(0, 5))
    cell = st.sampled_from([0, 0, 0, 1, 2, 4])
    workers = np.array(
        [[draw(cell) for _ in range(servers)] for _ in range(jobs)], dtype=np.int64
    ).reshape(jobs, servers)
    elsewhere = np.array([draw(st.integers(0, 4)) for _ in range(jobs)], dtype=np.int64)
    most = workers.sum(axis=1) + elsewhere
    least = [draw(st.integers(min(1, int(m)), int(m))) for m in most]
    return OnLoan(
        servers=tuple(f"s{i}" for i in range(servers)),
        jobs=tuple(f"j{i}" for i in range(jobs)),
        workers=workers,
        elsewhere=elsewhere,
        min_workers=np.array(least, dtype=np.int64),
        gpus_per_worker=np.array([draw(st.integers(1, 8)) for _ in range(jobs)], dtype=np.int64),
        checkpoints=np.array([draw(st.booleans()) for _ in range(jobs)], dtype=np.bool_),
    )


def jobs_preempted(lent: OnLoan, returned: set[str]) -> set[str]:
    """By the definition, job by job: a preempted job leaves for good, nobody else is affected."""
    preempted = set()
    for j, job in enumerate(lent.jobs):
        here = dict(zip(lent.servers, lent.workers[j].tolist(), strict=True))
        lost = sum(n for s, n in here.items() if s in returned)
        kept = int(lent.elsewhere[j]) + sum(n for s, n in here.items() if s not in returned)
        if lost and kept < lent.min_workers[j]:
            preempted.add(job)
    return preempted


@given(loans(), st.integers(0, 8))
def test_returns_as_many_as_asked_or_all_there_are(lent, count):
    found = reclaim(lent, count)
    assert len(set(found.servers)) == len(found.servers) == min(count, len(lent.servers))
    assert set(found.servers) <= set(lent.servers)


@given(loans(), st.integers(0, 6))
def test_what_is_said_of_the_jobs_is_so(lent, count):
    found = reclaim(lent, count)
    preempted = jobs_preempted(lent, set(found.servers))
    assert set(found.preempted) == preempted
    rows = [lent.jobs.index(job) for job in found.preempted]
    staying = [s not in found.servers for s in lent.servers]
    spilled = lent.workers[rows][:, staying].sum() + lent.elsewhere[rows].sum()
    assert found.collateral_workers == spilled
    gpus = lent.gpus_per_worker[rows]
    spilled_gpus = gpus @ (lent.workers[rows][:, staying].sum(axis=1) + lent.elsewhere[rows])
    assert found.collateral_gpus == spilled_gpus
    left = np.delete(lent.workers, rows, axis=0)[:, staying].any(axis=0)
    before = lent.workers[:, staying].any(axis=0)
    assert found.collateral_servers == int((before & ~left).sum())


@given(loans(), st.integers(1, 6))
def test_no_server_that_could_leave_freely_is_passed_over_for_a_preempting_one(lent, count):
    servers = reclaim(lent, count).servers
    for k, server in enumerate(servers):
        before = jobs_preempted(lent, set(servers[:k]))
        if jobs_preempted(lent, {*servers[:k], server}) == before:
            continue
        others = set(lent.servers) - set(servers[:k])
        assert all(jobs_preempted(lent, {*servers[:k], s}) != before for s in others)


@given(loans(), st.integers(1, 6))
def test_preemptions_lie_between_the_best_and_every_job_on_the_servers(lent, count):
    found = reclaim(lent, count)
    size = len(found.servers)
    best = min(len(jobs_preempted(lent, set(some))) for some in combinations(lent.servers, size))
    there = lent.workers[:, [lent.servers.index(s) for s in found.servers]].any(axis=1).sum()
    assert best <= len(found.preempted) <= there
    if size == 1:
        assert len(found.preempted) == best


@given(loans(), st.integers(0, 6))
def test_the_same_question_has_the_same_answer_and_is_left_as_it_was(lent, count):
    before = lent.workers.copy()
    assert reclaim(lent, count) == reclaim(lent, count)
    assert (lent.workers == before).all()


def test_shares_of_a_third_tie_with_a_whole():
    """Server 1: three jobs on three servers each; server 2: one job. Both cost 1: by index."""
    thirds = {job: {"1": 1, f"{job}2": 1, f"{job}3": 1} for job in ("x", "y", "z")}
    names = ["1", "2", *(s for job in thirds for s in thirds[job] if s != "1")]
    others = {f"full-{s}": {s: 1} for s in names[2:]}
    lent = on_loan(names, {**thirds, "one": {"2": 1}, **others})
    assert reclaim(lent, 2).servers[0] == "1"
