"""Reclaiming (004 §4): Algorithm 1, the local search, and the integer program."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from functools import partial

import numpy as np

from benchmarks.measure import Question, Sample, require
from benchmarks.problems import on_loan
from benchmarks.row import Row, Target
from loaning.problem import OnLoan
from loaning.reclaim import Reclaim, reclaim
from loaning.reclaim_exact import choose_exact
from tests.loaning.literal import choose_literally

_ASKED_BACK = 0.3  # of the servers on loan

_choose_by_search = partial(choose_exact, nodes=0)


def algorithm_1(name: str, servers: int, target: Target | None = None) -> Row:
    """Algorithm 1 with counts that are kept up to date, beside it as it reads."""
    return Row(name, _sample(servers, 5, _ask_algorithm_1), target, "Algorithm 1 as it reads")


def searched(name: str, servers: int, target: Target | None = None) -> Row:
    """The local search alone, beside the integer program on top of it."""
    return Row(name, _sample(servers, 10, _ask_search), target, "search, then MILP (HiGHS)")


def _sample(servers: int, seeds: int, ask: Callable[[int, OnLoan], Question]) -> Sample:
    count = round(_ASKED_BACK * servers)

    def ask_seed(seed: int) -> Question:
        return ask(count, on_loan(servers, np.random.default_rng(seed)))

    return Sample(f"{servers} servers, {_ASKED_BACK:.0%} asked back", ask_seed, seeds)


def _ask_algorithm_1(count: int, lent: OnLoan) -> Question:
    return Question(
        fast=partial(reclaim, lent, count),
        check=_check_algorithm_1,
        naive=partial(reclaim, lent, count, choose_literally),
    )


def _check_algorithm_1(fast: Reclaim, naive: Reclaim) -> Mapping[str, float]:
    """The same servers in the same order."""
    require(fast.servers == naive.servers, f"servers {fast.servers}, as it reads {naive.servers}")
    return {"preempted": len(fast.preempted)}


def _ask_search(count: int, lent: OnLoan) -> Question:
    return Question(
        fast=partial(reclaim, lent, count, _choose_by_search),
        check=partial(_check_search, count, reclaim(lent, count)),
        naive=partial(reclaim, lent, count, choose_exact),
    )


def _check_search(
    count: int, printed: Reclaim, fast: Reclaim, exact: Reclaim
) -> Mapping[str, float]:
    """Enough servers; bound <= integer program <= search <= Algorithm 1 in preemptions."""
    for found in (fast, exact):
        require(len(set(found.servers)) == count, f"{len(found.servers)} servers of {count}")
    by_milp, preempted, by_algorithm_1 = (len(f.preempted) for f in (exact, fast, printed))
    order = [exact.bound, by_milp, preempted, by_algorithm_1]
    require(order == sorted(order), f"bound, MILP, search, Algorithm 1 preempt {order}")
    return {
        "preempted": preempted,
        "by_algorithm_1": by_algorithm_1,
        "by_milp": by_milp,
        "bound": exact.bound,
        "unproven": float(not exact.optimal),
    }
