"""`exact` against brute force, Algorithm 1 and its own bound."""

from itertools import combinations

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from loaning import reclaim_exact
from loaning.occupancy import Occupancy
from loaning.orchestrator import Aryl
from loaning.problem import NO_MEMORY, LoaningError, OnLoan
from loaning.reclaim import choose_aryl, reclaim
from loaning.reclaim_exact import choose_exact
from tests.loaning.builders import on_loan, problem
from tests.loaning.literal import choose_literally
from tests.loaning.test_reclaim import FIGURE_5, jobs_preempted, loans

# Server 1 costs 1/3 + 1/3 and seems cheap, but its two jobs leave five servers half empty; 6, 7
# and 8 are one job's, at a cost of 1/3 each, and come later only.
TEMPTING = on_loan(
    ("1", "2", "3", "4", "5", "6", "7", "8"),
    {
        "a": {"1": 1, "2": 1, "3": 1, "4": 1},
        "b": {"1": 1, "3": 1, "4": 1, "5": 1},
        "c": {"2": 1, "5": 1},
        "d": {"6": 1, "7": 1, "8": 1},
    },
)


def heuristic(lent: OnLoan, count: int):
    return choose_exact(lent, count, nodes=0)


def random_loan(seed: int, servers: int = 30, jobs: int = 40) -> OnLoan:
    """Jobs of 1 to 6 workers on servers at random, a third of them elastic."""
    rng = np.random.default_rng(seed)
    workers = np.zeros((jobs, servers), dtype=np.int64)
    for row in workers:
        np.add.at(row, rng.integers(0, servers, rng.integers(1, 7)), 1)
    total = workers.sum(axis=1)
    least = np.where(rng.random(jobs) < 1 / 3, np.maximum(1, total // 2), total)
    return OnLoan(
        servers=tuple(f"s{i}" for i in range(servers)),
        jobs=tuple(f"j{i}" for i in range(jobs)),
        workers=workers,
        elsewhere=np.zeros(jobs, dtype=np.int64),
        min_workers=least,
        gpus_per_worker=np.ones(jobs, dtype=np.int64),
        checkpoints=np.ones(jobs, dtype=np.bool_),
    )


@pytest.mark.parametrize(("count", "preempted"), [(1, 1), (2, 1), (3, 2), (4, 3), (5, 3), (6, 4)])
def test_figure_5(count, preempted):
    found = reclaim(FIGURE_5, count, choose_exact)
    assert len(found.preempted) == preempted
    assert found.optimal


def test_the_whole_of_a_job_instead_of_many_halves():
    assert reclaim(TEMPTING, 3, choose_exact).preempted == ("d",)


def test_algorithm_1_stands_unless_it_is_beaten():
    assert choose_exact(FIGURE_5, 2).servers == choose_aryl(FIGURE_5, 2).servers == [0, 1]


def test_the_reason_says_the_bound():
    assert str(reclaim(FIGURE_5, 1, choose_exact).reason).endswith(
        "8 workers elsewhere leave with them, whatever returns preempts 1 or more"
    )


@pytest.mark.parametrize("count", [0, -1])
def test_nothing_asked_nothing_returned(count):
    assert reclaim(FIGURE_5, count, choose_exact).servers == ()


def starts_over(lent: OnLoan) -> set[str]:
    """Jobs that lose all their progress when they are preempted."""
    return {job for job, saves in zip(lent.jobs, lent.checkpoints, strict=True) if not saves}


@pytest.mark.parametrize("choose", [choose_aryl, choose_exact])
def test_of_equally_many_preemptions_those_that_lose_less(choose):
    """a would start over, b has checkpoints."""
    lent = on_loan(["s1", "s2"], {"a": {"s1": 1}, "b": {"s2": 1}}, starts_over=["a"])
    assert reclaim(lent, 1, choose).preempted == ("b",)


def test_but_no_more_preemptions_to_spare_progress():
    standing = {"a": {"s1": 1}, "b": {"s2": 1}, "c": {"s2": 1}}
    lent = on_loan(["s1", "s2"], standing, starts_over=["a"])
    assert reclaim(lent, 1, choose_exact).preempted == ("a",)


@settings(max_examples=300)
@given(loans(), st.integers(0, 7))
def test_as_few_as_brute_force_finds_and_proven_so(lent, count):
    found = reclaim(lent, count, choose_exact)
    size = min(count, len(lent.servers))
    assert len(set(found.servers)) == len(found.servers) == size
    chosen = [jobs_preempted(lent, set(some)) for some in combinations(lent.servers, size)]
    best = min((len(jobs), len(jobs & starts_over(lent))) for jobs in chosen)
    assert (len(found.preempted), len({*found.preempted} & starts_over(lent))) == best
    assert found.bound == best[0]
    assert found.optimal and not found.capped


@given(loans(), st.integers(0, 7))
def test_the_same_question_has_the_same_answer(lent, count):
    assert choose_exact(lent, count) == choose_exact(lent, count)


@settings(max_examples=300)
@given(loans(), st.integers(0, 7))
def test_the_heuristic_alone_lies_between_the_best_and_algorithm_1(lent, count):
    found = reclaim(lent, count, heuristic)
    assert found.bound <= len(found.preempted) <= len(reclaim(lent, count).preempted)
    assert len(found.servers) == min(count, len(lent.servers))


@settings(max_examples=300)
@given(loans(), st.integers(0, 7))
def test_algorithm_1_chooses_what_its_literal_form_does(lent, count):
    assert choose_aryl(lent, count) == choose_literally(lent, count)


@given(loans(), st.integers(1, 6))
def test_peeling_keeps_enough_and_preempts_nobody_new(lent, count):
    table = Occupancy.of(lent)
    everything = np.ones(table.servers, dtype=np.bool_)
    peeled = table.spare(everything, count)
    assert peeled.sum() >= min(count, table.servers)
    assert not (table.preempted(peeled) & ~table.preempted(everything)).any()
    names = {s for s, is_back in zip(lent.servers, peeled, strict=True) if is_back}
    named = {j for j, leaves in zip(lent.jobs, table.preempted(peeled), strict=True) if leaves}
    assert named == jobs_preempted(lent, names)


@pytest.mark.parametrize("seed", range(2))
@pytest.mark.parametrize("share", [0.1, 0.3, 0.6])
def test_on_large_loans_fewer_than_algorithm_1_and_above_the_bound(seed, share):
    lent = random_loan(seed)
    count = int(share * len(lent.servers))
    literal, exact = reclaim(lent, count), reclaim(lent, count, choose_exact)
    assert choose_literally(lent, count) == choose_aryl(lent, count)
    assert exact.bound <= len(exact.preempted) <= len(literal.preempted)
    assert len(exact.preempted) <= len(reclaim(lent, count, heuristic).preempted)
    assert len(exact.servers) == count


def test_cut_at_once_the_heuristic_stands(monkeypatch):
    monkeypatch.setattr(reclaim_exact, "BACKSTOP_S", 0.0)
    lent = random_loan(1)
    found = reclaim(lent, 20, choose_exact)
    assert found.capped and not found.optimal
    assert found.bound < len(found.preempted) == len(reclaim(lent, 20, heuristic).preempted)


def test_beyond_its_nodes_the_bound_is_said(monkeypatch):
    """One node need not prove the best, but says how few it could be."""
    monkeypatch.setattr(reclaim_exact, "BACKSTOP_S", float("inf"))
    lent = random_loan(0, servers=40, jobs=60)
    found = reclaim(lent, 20, lambda lent, count: choose_exact(lent, count, nodes=1))
    assert 0 < found.bound <= len(found.preempted) <= len(reclaim(lent, 20).preempted)
    assert not found.capped


class TestOrchestrator:
    NEED_FOUR = [60.0] * 40

    def test_reclaims_as_its_parameter_says(self):
        now = problem(self.NEED_FOUR, serving=1, lent=TEMPTING)
        exact, _ = Aryl(reclaim="exact").decide(now, NO_MEMORY)
        literal, _ = Aryl().decide(now, NO_MEMORY)
        assert exact.preempted == ("d",)
        assert len(literal.preempted) >= len(exact.preempted)
        assert exact.reason.numbers["bound"] == 1

    def test_another_way_is_refused_by_name(self):
        with pytest.raises(
            LoaningError, match=r"^reclaim is 'fewest'; it must be aryl or exact or random"
        ):
            Aryl(reclaim="fewest")  # type: ignore[arg-type]
