"""Choosing which servers on loan to return (004 §4, §5.3, Appendix B).

A way of choosing (`Chooser`) names servers; `reclaim` says what returning them does to the jobs
on them. The two are apart so that every way of choosing is measured by the same ruler.

Of the servers named, a job loses its workers there. If at least `min_workers` are left elsewhere
it shrinks; if not it is preempted, and its workers on all other servers go too: those are
*collateral damage* (004 §7), capacity vacated in excess of what was asked for.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from typing import TypeAlias

import numpy as np

from loaning.occupancy import Occupancy
from loaning.problem import Bools, Floats, OnLoan
from policies.reason import Reason, because


@dataclass(frozen=True, slots=True)
class Choice:
    """Servers to return, and what the way of choosing knows of how good they are."""

    servers: list[int]  # columns, distinct, in the order in which they were chosen
    bound: int = 0  # no choice of as many servers preempts fewer jobs
    capped: bool = False  # a wall-clock backstop cut the search: another run may find better


Chooser: TypeAlias = Callable[[OnLoan, int], Choice]
"""Chooses that many servers, or all there are."""


@dataclass(frozen=True, slots=True)
class Reclaim:
    """Servers to return and what that does to the jobs on them, jobs in the problem's order."""

    servers: tuple[str, ...]  # in the order in which they were chosen
    preempted: tuple[str, ...]  # jobs that keep too few workers: they leave altogether
    shrunk: tuple[str, ...]  # jobs that go on with fewer workers
    collateral_workers: int  # workers of preempted jobs on servers that are not returned
    collateral_gpus: int  # their GPUs: what the paper counts (§7.2)
    collateral_servers: int  # servers on loan that this empties, though not returned
    bound: int  # preemptions that no choice of as many servers can avoid, as far as is known
    capped: bool  # a wall-clock backstop cut the search
    reason: Reason

    @property
    def optimal(self) -> bool:
        """Whether it is known that no choice preempts fewer jobs."""
        return len(self.preempted) == self.bound


def choose_aryl(on_loan: OnLoan, count: int) -> Choice:
    """Algorithm 1, after every server that can leave without a preemption (§5.3).

    Departure from print: line 18, where one server is asked for, returns the one with the fewest
    jobs to preempt; here this holds for the last of several as well, since what comes after it no
    longer matters. Ties break by how many jobs without checkpoints start over (§4: their "entire
    progress is lost"), then by index: in Fig. 5 four servers tie, and starting at 4 or 6 would cost
    two preemptions instead of one.
    """
    count = min(max(count, 0), len(on_loan.servers))
    nothing = np.zeros(len(on_loan.servers), dtype=np.bool_)
    return Choice(Occupancy.of(on_loan).fill(nothing, count)[:count].tolist())


def reclaim(on_loan: OnLoan, count: int, choose: Chooser = choose_aryl) -> Reclaim:
    """Return `count` servers, or all there are, and say what that does to the jobs."""
    choice = choose(on_loan, count)
    returned = np.zeros(len(on_loan.servers), dtype=np.bool_)
    returned[choice.servers] = True
    taken = on_loan.workers @ returned
    kept = on_loan.elsewhere + on_loan.workers.sum(axis=1) - taken
    preempted = (taken > 0) & (kept < on_loan.min_workers)
    occupied = on_loan.workers.any(axis=0)
    emptied = ~returned & occupied & ~on_loan.workers[~preempted].any(axis=0)
    shrunk = (taken > 0) & ~preempted
    collateral_workers = int(kept[preempted].sum())
    collateral_gpus = int((kept * on_loan.gpus_per_worker)[preempted].sum())
    return Reclaim(
        servers=tuple(on_loan.servers[s] for s in choice.servers),
        preempted=_named(on_loan, preempted),
        shrunk=_named(on_loan, shrunk),
        collateral_workers=collateral_workers,
        collateral_gpus=collateral_gpus,
        collateral_servers=int(emptied.sum()),
        bound=choice.bound,
        capped=choice.capped,
        reason=because(
            "{returned} of {on_loan} servers on loan return: {shrunk} jobs shrink, {preempted} "
            "are preempted, {collateral_workers} workers elsewhere leave with them"
            + (", whatever returns preempts {bound} or more" if choice.bound else ""),
            returned=len(choice.servers),
            on_loan=len(on_loan.servers),
            shrunk=int(shrunk.sum()),
            preempted=int(preempted.sum()),
            collateral_workers=collateral_workers,
            collateral_gpus=collateral_gpus,
            bound=choice.bound,
        ),
    )


def preemption_cost(on_loan: OnLoan) -> Floats:
    """[servers] Server preemption cost: Σ over its jobs of 1 / servers of that job (§4, Table 1).

    Only jobs that returning this server would preempt count, and of a job's servers those on loan:
    so over the servers of an inelastic job its shares add up to one preemption.
    """
    return Occupancy.of(on_loan).costs(np.zeros(len(on_loan.servers), dtype=np.bool_))[0]


def _named(on_loan: OnLoan, which: Bools) -> tuple[str, ...]:
    return tuple(on_loan.jobs[j] for j in np.flatnonzero(which))
