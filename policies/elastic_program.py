"""Sizes for elastic jobs that must all run: the program of paper 003, equations (3) to (5).

Maximise the sum over jobs of the value of the size that each one gets, every job having one of
its sizes, within a number of GPUs. The paper solves it by the recurrence

    P(j, K) = max over sizes g of job j of [P(j - 1, K - g) + value_j(g)],  P(0, K) = 0.

Since every job runs at least on its smallest size, what remains to be chosen are the GPUs beyond
it: a multiple-choice knapsack. Its upper hull is the marginal selection, which alone is exact
where the curves are concave (and wherever the hull's steps happen to fill the GPUs); elsewhere,
as with the steps of ceil(b / k), it leaves the dynamic program only the few jobs in doubt.
"""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np

from policies.knapsack import NONE, Groups, Solution
from policies.knapsack import solve as solve_knapsack
from policies.problem import Floats, Ints
from policies.ragged import lengths_of, rows_of


@dataclass(frozen=True, slots=True)
class Sizes:
    """The sizes that each job can have, ragged: those of job j from `offset[j]` to `offset[j+1]`.

    Every job has one at least; the first is its smallest.
    """

    offset: Ints  # [jobs + 1]
    gpus: Ints  # [sizes] at least 1, ascending within a job
    value: Floats  # [sizes] finite

    def __len__(self) -> int:
        return len(self.offset) - 1

    @property
    def job(self) -> Ints:
        """[sizes] The job of each size."""
        return rows_of(lengths_of(self.offset))

    @property
    def smallest_gpus(self) -> Ints:
        """[jobs] GPUs that the job needs to run at all."""
        smallest: Ints = self.gpus[self.offset[:-1]]
        return smallest


def solve(sizes: Sizes, capacity_gpus: int) -> Solution:
    """One size for each job, of greatest value in total: exact unless `optimal` says otherwise.

    The choice [jobs] indexes `sizes`. Of equal values the one of fewest GPUs, of those the one
    that gives most to the earliest job. Raises `ValueError` where the smallest sizes exceed the
    capacity: then, and only then, no choice exists.
    """
    needed = int(sizes.smallest_gpus.sum())
    if needed > capacity_gpus:
        raise ValueError(f"the smallest sizes need {needed} GPUs of {capacity_gpus}")
    smallest, job = sizes.offset[:-1], sizes.job
    larger = np.delete(np.arange(len(sizes.gpus)), smallest)
    beyond = Groups(
        offset=sizes.offset - np.arange(len(sizes) + 1),
        weight=(sizes.gpus - sizes.gpus[smallest][job])[larger],
        value=(sizes.value - sizes.value[smallest][job])[larger],
    )
    found = solve_knapsack(beyond, capacity_gpus - needed)
    choice = smallest.copy()
    grows = found.choice != NONE
    choice[grows] = larger[found.choice[grows]]
    smallest_value = float(sizes.value[smallest].sum())
    return Solution(
        choice, smallest_value + found.value, smallest_value + found.bound, found.optimal
    )


def solve_by_recurrence(sizes: Sizes, capacity_gpus: int) -> tuple[list[int], float]:
    """Algorithm 1 of the paper, loop by loop in plain Python: the oracle of tests and benchmarks.

    Returns the choice [jobs] and its value. Corrected against print, which recalls the factor at
    k instead of g, reads P(j - 1, k - g + 1) instead of k - g, stores k as the solution instead
    of g, and on the way back leaves job j before it has read its GPUs.
    """
    offset, gpus, value = sizes.offset.tolist(), sizes.gpus.tolist(), sizes.value.tolist()
    best = [[0.0] * (capacity_gpus + 1)]
    solution = []
    for j in range(len(sizes)):
        row, chosen = [-np.inf] * (capacity_gpus + 1), [NONE] * (capacity_gpus + 1)
        for k in range(1, capacity_gpus + 1):
            for g in range(offset[j], offset[j + 1]):
                if k - gpus[g] >= 0:
                    p = value[g] + best[j][k - gpus[g]]
                    if p > row[k]:
                        row[k], chosen[k] = p, g
        best.append(row)
        solution.append(chosen)
    if best[-1][-1] == -np.inf:
        raise ValueError("the smallest sizes exceed the capacity")
    choice, k = [], capacity_gpus
    for chosen in reversed(solution):
        choice.append(chosen[k])
        k -= gpus[chosen[k]]
    return choice[::-1], best[-1][-1]
