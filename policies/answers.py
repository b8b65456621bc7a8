"""Answers to thousands of jobs: what they share is said once, and why only where it is read."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import replace
from functools import cached_property
from itertools import repeat
from typing import TypeAlias

from policies.problem import Allocation, PlacementRule
from policies.reason import LaterReason, Reason

Terms: TypeAlias = tuple[int, int | None, str | None]
"""Workers, batch size and type of GPU, as `Allocation` has them."""

_UNTOLD = Reason("each job has its own")


class Answers(Mapping[str, Allocation]):
    """An allocation for each job, put together where it is read.

    Most jobs keep what they have at most decisions: then it is enough to look at `shared`.
    """

    def __init__(
        self,
        jobs: Sequence[str],
        terms: Sequence[Terms],
        tell: Callable[[int], Reason],
        placement: PlacementRule = PlacementRule.PACK,
    ) -> None:
        """What each job shall have, in the order of submission; `tell` says why, given its row."""
        of_terms = {
            each: Allocation(each[0], _UNTOLD, placement, None, each[1], each[2])
            for each in set(terms)
        }
        self.jobs = jobs
        self.shared = [of_terms[each] for each in terms]
        """[jobs] What each shall have, but not why: the same object for jobs on the same terms."""
        self.reasons: Sequence[Reason] = [
            *map(LaterReason, repeat(tell, len(jobs)), range(len(jobs)))
        ]
        """[jobs] Why."""

    def __getitem__(self, job: str) -> Allocation:
        row = self._rows[job]
        return replace(self.shared[row], reason=self.reasons[row].told)

    def __iter__(self) -> Iterator[str]:
        return iter(self.jobs)

    def __len__(self) -> int:
        return len(self.jobs)

    @cached_property
    def _rows(self) -> Mapping[str, int]:
        return {job: row for row, job in enumerate(self.jobs)}
