"""The optimal allocator against the greedy one, by number of nodes: runs and what they compare."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from itertools import pairwise
from statistics import mean

import numpy as np

from raysched.simulator.reproductions.experiment import Effort, Results, Run
from raysched.simulator.reproductions.modelarts.measures import simulated

POOLS = (70, 90, 110, 130, 150, 170, 190)
"""Nodes (000 §5.2)."""

FEW_POOLS = (70, 110, 150, 190)
"""Those of quick runs, and of what the paper does not show."""

CASE_POOLS = (70, 110, 150)
"""Those of cases that the paper tells from its baseline by few jobs."""

Values = tuple[float, ...]
"""One a seed."""

_CPU_S = {"optimal": 4.2, "greedy": 2.0, "greedy_remaining": 2.0, "greedy_once": 2.0, "fixed": 1.5}
_ALL_JOBS = 1.6  # times as long with small jobs


def runs_of(
    policies: Sequence[str], pools: Sequence[int] = POOLS, cases: Sequence[str] = ("baseline",)
) -> Callable[[Effort], list[Run]]:
    """These allocators in these cases. Quick: in `FEW_POOLS` only."""

    def runs(effort: Effort) -> list[Run]:
        chosen = [n for n in pools if n in FEW_POOLS or not effort.quick]
        return [
            _run(case, policy, nodes, seed)
            for case in cases
            for policy in policies
            for nodes in chosen
            for seed in effort.seeds()
        ]

    return runs


def _run(case: str, policy: str, nodes: int, seed: int) -> Run:
    parameters = {"case": case, "policy": policy, "nodes": nodes, "seed": seed}
    cpu_s = _CPU_S[policy] * (_ALL_JOBS if case == "all_jobs" else 1.0)
    return Run(simulated, parameters, cpu_s)


class Compared:
    """One case: values by number of nodes, against one reading of the greedy allocator.

    `pools`: where that reading was simulated."""

    def __init__(self, results: Results, case: str = "baseline", than: str = "greedy") -> None:
        self._results, self._case, self._than = results, case, than
        found = results.where(case=case, policy=than)
        self.pools = list(dict.fromkeys(int(run["nodes"]) for run in found))

    def of(self, metric: str, policy: str, nodes: int) -> Values:
        """[seeds] What was measured."""
        return self._results.values(metric, case=self._case, policy=policy, nodes=nodes)

    def queuing_percent(self, nodes: int) -> Values:
        """[seeds] By how much the optimal allocator's mean queuing time differs."""
        return tuple(100 * (ours / theirs - 1) for ours, theirs in self._pairs("queuing_s", nodes))

    def extra_jobs(self, nodes: int) -> Values:
        """[seeds] Jobs that the optimal allocator trains beyond 100 while the other trains 100, by
        their mean total times."""
        return tuple(100 * (theirs / ours - 1) for ours, theirs in self._pairs("total_s", nodes))

    def extra_of_first_jobs(self, nodes: int) -> Values:
        """[seeds] Jobs that it has done beyond 100 at the time the other has done its first 100."""
        where = {"case": self._case, "nodes": nodes}
        ours = self._results.where(policy="optimal", **where)
        theirs = self._results.where(policy=self._than, **where)
        return tuple(
            float(np.searchsorted(a["ends_s"], b["ends_s"][99], side="right") - 100)
            for a, b in zip(ours, theirs, strict=True)
        )

    def means(self, measure: Callable[[int], Values]) -> dict[int, float]:
        """By number of nodes: the mean over seeds."""
        return {nodes: mean(measure(nodes)) for nodes in self.pools}

    def means_of(self, metric: str, policy: str) -> dict[int, float]:
        """By number of nodes: the mean over seeds of what was measured."""
        return {nodes: mean(self.of(metric, policy, nodes)) for nodes in self.pools}

    def _pairs(self, metric: str, nodes: int) -> list[tuple[float, float]]:
        ours, theirs = (self.of(metric, policy, nodes) for policy in ("optimal", self._than))
        return list(zip(ours, theirs, strict=True))


def top(by_nodes: dict[int, float]) -> int:
    """Where it is largest."""
    return max(by_nodes, key=by_nodes.__getitem__)


def falls(by_nodes: dict[int, float]) -> bool:
    """Whether it falls with each larger pool."""
    values = [by_nodes[nodes] for nodes in sorted(by_nodes)]
    return all(larger < smaller for smaller, larger in pairwise(values))
