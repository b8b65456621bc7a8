"""Which resizes pay: a job grows where it saves more time than the resize costs.

Some policies weigh the cost of a resize in what they maximise, others give whatever is idle to
whoever runs. What none of them means is a job that would be done later for growing. This holds for
all policies, as the last thing between an answer and the targets, and is no more than that: what
others need is never held back. Starts, shrinks, moves, changes of batch, preemptions, and whatever
a promise rests on stay as decided, and so does growth on GPUs for which somebody shrinks.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace
from typing import TypeAlias

from policies.problem import Allocation
from policies.reason import because
from raysched.performance import PRIOR
from raysched.state import Job, State

Change: TypeAlias = tuple[Job, Allocation]
Changes: TypeAlias = Sequence[Change]
"""Jobs that are not to stay as they are, and what they are to have."""


def worthwhile(state: State, changes: Changes) -> Changes:
    """The changes with growth that does not pay left out: the job is to keep its workers.

    Growth pays where the epochs that are left after the next boundary are predicted to get shorter
    by more, together, than resizes were measured to cost: in place where workers can join the
    job's, else a restart. Of a job that nothing is known of, while none was measured, and where
    resizes are not weighed, all growth pays.
    """
    if not state.weighs_resizes or not (state.restart_s or state.resize_s):
        return changes
    kept = [_kept(state, job, allocation) for job, allocation in changes]
    if not any(kept) or _given_gpus(changes, kept) > 0:
        return changes
    return [keeps or change for change, keeps in zip(changes, kept, strict=True)]


def _given_gpus(changes: Changes, kept: Sequence[Change | None]) -> int:
    """GPUs that jobs give up beyond those that others take whose change is worthwhile: more than
    none, and somebody would shrink for growth that was left out."""
    return sum(
        (job.workers - allocation.workers) * job.spec.gpus_per_worker
        for (job, allocation), keeps in zip(changes, kept, strict=True)
        if keeps is None
    )


def _kept(state: State, job: Job, allocation: Allocation) -> Change | None:
    """What it has as an allocation, where it would grow and does not pay for that."""
    now, more = job.workers_now, min(allocation.workers, job.spec.max_workers)
    if not 0 < now < more or not _only_grows(state, job, allocation):
        return None
    cost_s = state.resize_s if job.joinable else state.restart_s
    if not cost_s or state.source(job) == PRIOR:
        return None
    epoch_s = state.curve(job, job.batch_size) / state.rate(job)
    left = max(job.spec.epochs - job.epochs_done - 1, 0)  # after the one under way
    least = job.spec.min_workers
    saved_s = left * float(epoch_s[now - least] - epoch_s[more - least])
    if saved_s > cost_s:
        return None
    reason = because(
        "keeps its {workers} workers: {more} would save {saved_s:.0f} s, and a resize costs "
        "{resize_s:.0f} s",
        workers=now,
        more=more,
        saved_s=saved_s,
        resize_s=cost_s,
    )
    return job, replace(allocation, workers=now, reason=reason)


def _only_grows(state: State, job: Job, allocation: Allocation) -> bool:
    """Whether more workers are all that is decided anew: nothing is under way, nothing promised."""
    return (
        job.offer is None
        and job.wanted is None
        and job.promise is None
        and allocation.promise is None
        and allocation.servers is None
        and allocation.batch_size in (None, job.batch_size)
        and allocation.gpu_type in (None, state.gpu_type(job))
        and all(state.trainable(server) for server in job.standing)
    )
