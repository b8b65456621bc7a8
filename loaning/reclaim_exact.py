"""`exact`: the fewest preemptions, proven or with a bound (004 §4: "minimize preemptions").

The paper's problem as an integer program. z_j: job j is preempted; y_s: server s is returned.

    min Σ_j z_j   subject to   Σ_s y_s >= N_R
                               y_s <= z_j                          where w_js > slack_j
                               Σ_s w_js y_s <= slack_j + (W_j - slack_j) z_j

with w_js the workers of job j on server s, W_j their sum and slack_j how many the job can lose
and go on: 0 for an inelastic job, whose last line says nothing new.

A capped search of it may end far above a good heuristic, so the heuristic comes first: peeling
(return everything, then keep servers to spare jobs, those first that cost the fewest servers) and
a local search from the better of that and Algorithm 1. Then the integer program, for its bound and
what it finds; the better of the two counts. Algorithm 1's own servers stand unless beaten.

Of equally many preemptions the better choice is the one by which fewer jobs start over, having no
checkpoints: such a z_j weighs a little more, less in total than one preemption.
"""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np
from scipy.optimize import Bounds, LinearConstraint, milp
from scipy.sparse import csr_array

from loaning.occupancy import Occupancy
from loaning.problem import Bools, Ints, OnLoan
from loaning.reclaim import Choice, choose_aryl

ROUNDS = 40
"""Of local search: each spares some preempted jobs and fills up again."""

NODES = 30
"""Cap on the branch and bound of the integer program, which mostly ends at its first."""

BACKSTOP_S = 5.0
"""Emergency stop of the integer program: where jobs stand at random, its first node may be long."""

_HARMLESS = (0, 0)  # no job preempted, so none that starts over
_NOISE = (0.7, 1.3)  # by which local search perturbs costs, so that it does not repeat itself
_INTEGRAL = 1e-6  # a bound that exceeds an integer by less is that integer
_TIMED_OUT = 1  # scipy's status code of `milp`


def choose_exact(
    on_loan: OnLoan, count: int, *, rounds: int = ROUNDS, nodes: int = NODES
) -> Choice:
    """`count` servers, or all there are, that preempt as few jobs as could be found.

    Never more than Algorithm 1. `bound` is proven; the choice is optimal where it preempts as
    many. `nodes` = 0: the heuristic alone, with no bound.
    """
    literal = choose_aryl(on_loan, count)
    count = len(literal.servers)
    table = Occupancy.of(on_loan)
    start = np.zeros(table.servers, dtype=np.bool_)
    start[literal.servers] = True
    literal_harm = table.harm(start)
    if literal_harm == _HARMLESS:
        return literal
    found = _local_search(table, start, count, rounds)
    proof = _solve(table, count, nodes) if nodes else _Proof(found, 0, capped=False)
    best = min(found, proof.returned, key=table.harm)
    if table.harm(best) == literal_harm:
        return Choice(literal.servers, proof.bound, proof.capped)
    return Choice(np.flatnonzero(best)[:count].tolist(), proof.bound, proof.capped)


def _local_search(table: Occupancy, start: Bools, count: int, rounds: int) -> Bools:
    """[servers] At least `count` to return: the best of peeling, and of sparing and refilling.

    A round that finds nothing worse is kept, so that the search crosses plateaus.
    """
    start = _with(start, table.fill(start, count))
    peeled = table.spare(np.ones(table.servers, dtype=np.bool_), count)
    best = min(peeled, table.spare(start, count), key=table.harm)
    rng = np.random.default_rng(0)  # the same question has the same answer
    for _ in range(rounds):
        preempted = np.flatnonzero(table.preempted(best))
        if not len(preempted):
            break
        spared = rng.choice(preempted, rng.integers(1, 2 + len(preempted) // 3), replace=False)
        tried = best.copy()
        tried[table.server[np.isin(table.job, spared)]] = False
        tried = _with(tried, table.fill(tried, count, rng.uniform(*_NOISE, table.servers)))
        tried = table.spare(tried, count, rng.uniform(*_NOISE, len(table.slack)))
        if table.harm(tried) <= table.harm(best):
            best = tried
    return best


def _with(returned: Bools, added: Ints) -> Bools:
    more = returned.copy()
    more[added] = True
    return more


@dataclass(frozen=True, slots=True)
class _Proof:
    """What the integer program found."""

    returned: Bools  # [servers]
    bound: int
    capped: bool


def _solve(table: Occupancy, count: int, nodes: int) -> _Proof:
    """The integer program, as far as `nodes` reach."""
    jobs, servers = len(table.slack), table.servers
    is_job = np.arange(jobs + servers) < jobs
    restart = 1 / (jobs + 1)  # so that all restarts together weigh less than a preemption
    solved = milp(
        np.concatenate((1 + restart * table.restarts, np.zeros(servers))),
        integrality=np.ones(jobs + servers),
        bounds=Bounds(0, 1),
        constraints=[
            LinearConstraint((~is_job)[None, :].astype(np.float64), count, np.inf),
            *_losses(table),
        ],
        options={"node_limit": nodes, "time_limit": BACKSTOP_S},
    )
    capped = solved.status == _TIMED_OUT
    if solved.x is None:  # nothing yet, and scipy passes on no bound then: return everything
        return _Proof(np.ones(servers, dtype=np.bool_), 0, capped)
    preemptions = solved.mip_dual_bound - restart * table.restarts.sum()
    bound = max(0, int(np.ceil(preemptions - _INTEGRAL)))
    return _Proof(solved.x[jobs:] > 0.5, bound, capped)


def _losses(table: Occupancy) -> list[LinearConstraint]:
    """What each job can lose: y_s <= z_j, and the sums of the elastic jobs."""
    jobs, width = len(table.slack), len(table.slack) + table.servers
    each = np.flatnonzero(table.workers > table.slack[table.job])
    row = np.arange(len(each))
    alone = csr_array(
        (
            np.repeat([1.0, -1.0], len(each)),
            (np.tile(row, 2), np.concatenate((jobs + table.server[each], table.job[each]))),
        ),
        shape=(len(each), width),
    )
    total = np.bincount(table.job, weights=table.workers, minlength=jobs)
    tight = np.flatnonzero((table.slack > 0) & (total > table.slack))
    cells = np.flatnonzero(np.isin(table.job, tight))
    together = csr_array(
        (
            np.concatenate((table.workers[cells], (table.slack - total)[tight])),
            (
                np.concatenate((np.searchsorted(tight, table.job[cells]), np.arange(len(tight)))),
                np.concatenate((jobs + table.server[cells], tight)),
            ),
        ),
        shape=(len(tight), width),
    )
    return [
        LinearConstraint(alone, -np.inf, 0),
        LinearConstraint(together, -np.inf, table.slack[tight]),
    ]
