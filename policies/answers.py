"""Answers to thousands of jobs as columns, and why only where it is read."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import replace
from functools import cached_property
from types import MappingProxyType

import numpy as np

from policies.problem import Allocation, Ints, PlacementRule, PlanStep, Promise
from policies.reason import Reason, Reasons


def _no_plan(_: int) -> tuple[PlanStep, ...]:
    return ()


class Answers(Mapping[str, Allocation]):
    """An allocation for each job, put together where it is read.

    Most jobs keep what they have at most decisions: then it is enough to look at the columns.
    """

    def __init__(
        self,
        jobs: Sequence[str],
        workers: Ints,
        tell: Callable[[int], Reason],
        placement: PlacementRule = PlacementRule.PACK,
        *,
        batch_size: Ints | None = None,
        gpu_type: Sequence[str | None] | None = None,
        promises: Mapping[int, Promise] = MappingProxyType({}),
        plan: Callable[[int], tuple[PlanStep, ...]] = _no_plan,
    ) -> None:
        """[jobs] What each shall have, in the order of submission, as `Allocation` has it, but that
        a batch size of 0 stays as it is; `tell` says why and `plan` what is meant to come, given a
        row. `promises`: by row."""
        self.jobs = jobs
        self.workers = workers
        self.batch_size = np.zeros_like(workers) if batch_size is None else batch_size
        self.gpu_type = [None] * len(jobs) if gpu_type is None else gpu_type
        self.placement = placement
        self.promises = promises
        self.reasons = Reasons(jobs, tell)
        self._tell, self._plan = tell, plan

    def of(self, jobs: Sequence[str]) -> Answers:
        """Those to some of the jobs."""
        rows = [self._rows[job] for job in jobs]
        return Answers(
            jobs,
            self.workers[rows],
            lambda row: self._tell(rows[row]),
            self.placement,
            batch_size=self.batch_size[rows],
            gpu_type=[self.gpu_type[row] for row in rows],
            promises={
                at: self.promises[row] for at, row in enumerate(rows) if row in self.promises
            },
            plan=lambda row: self._plan(rows[row]),
        )

    def allocation(self, row: int) -> Allocation:
        """That of one job, without its plan; its reason is that of all of them."""
        return Allocation(
            int(self.workers[row]),
            self.reasons,
            self.placement,
            batch_size=int(self.batch_size[row]) or None,
            gpu_type=self.gpu_type[row],
            promise=self.promises.get(row),
        )

    def __getitem__(self, job: str) -> Allocation:
        row = self._rows[job]
        return replace(self.allocation(row), reason=self._tell(row), plan=self._plan(row))

    def __iter__(self) -> Iterator[str]:
        return iter(self.jobs)

    def __len__(self) -> int:
        return len(self.jobs)

    @cached_property
    def _rows(self) -> Mapping[str, int]:
        return {job: row for row, job in enumerate(self.jobs)}
