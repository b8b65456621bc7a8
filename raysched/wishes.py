"""What a policy wishes for live jobs, as columns: most jobs stay as they are at most decisions,
and which do is found for all of them at once."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass

import numpy as np

from policies.answers import Answers
from policies.problem import Allocation, Bools, Ints, PlacementRule, Promise
from policies.reason import Reason
from raysched.state import Job

_BUDDY = PlacementRule.BUDDY  # looking an enumeration's member up takes longer than the comparison


@dataclass(frozen=True, slots=True)
class Wishes:
    """[jobs] Live jobs that are the policy's, in the order of submission, what each shall have and
    why; the whole of it by row from `allocation`."""

    jobs: Sequence[Job]
    workers: Ints
    batch_size: Ints  # 0: as it is
    gpu_type: Sequence[str | None]
    sought: Bools  # servers are named, or looked for wherever the job stands
    reasons: Sequence[Reason]
    promises: Mapping[int, Promise]  # by row
    allocation: Callable[[int], Allocation]

    @classmethod
    def of(cls, live: Mapping[str, Job], allocations: Mapping[str, Allocation]) -> Wishes:
        """Of those that the policy answered for, the jobs that live and are its own."""
        if isinstance(allocations, Answers):
            return cls._of_answers(live, allocations)
        jobs = [job for job in live.values() if job.id in allocations and not job.inherited]
        each = [allocations[job.id] for job in jobs]
        return cls(
            jobs=jobs,
            workers=np.array([shall.workers for shall in each], dtype=np.int64),
            batch_size=np.array([shall.batch_size or 0 for shall in each], dtype=np.int64),
            gpu_type=[shall.gpu_type for shall in each],
            sought=np.array(
                [shall.servers is not None or shall.placement is _BUDDY for shall in each],
                dtype=np.bool_,
            ),
            reasons=[shall.reason for shall in each],
            promises={row: shall.promise for row, shall in enumerate(each) if shall.promise},
            allocation=each.__getitem__,
        )

    @classmethod
    def _of_answers(cls, live: Mapping[str, Job], answers: Answers) -> Wishes:
        jobs = [live[job] for job in answers.jobs if job in live]
        if len(jobs) < len(answers.jobs) or any(job.inherited for job in jobs):
            answers = answers.of([job.id for job in jobs if not job.inherited])
            jobs = [live[job] for job in answers.jobs]
        return cls(
            jobs=jobs,
            workers=answers.workers,
            batch_size=answers.batch_size,
            gpu_type=answers.gpu_type,
            sought=np.full(len(jobs), answers.placement is _BUDDY),
            reasons=[answers.reasons] * len(jobs),
            promises=answers.promises,
            allocation=answers.allocation,
        )
