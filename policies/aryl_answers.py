"""What aryl answers: the size of each job, the type of its GPUs, and why."""

from __future__ import annotations

from itertools import compress
from typing import TypeAlias

import numpy as np

from policies.aryl_base import Base
from policies.aryl_gpus import Fleet
from policies.problem import Allocation, Floats, Ints, PlacementRule
from policies.reason import Reason

Numbers: TypeAlias = dict[str, int | float | str]


def allocations(fleet: Fleet, base: Base, workers: Ints, others: str) -> dict[str, Allocation]:
    """An allocation for each job on [jobs, types] `workers`, with its reason.

    `others` says why a job does not get the GPUs that others have.
    """
    jobs, columns = fleet.problem.jobs, _columns(fleet, workers)
    rows = zip(*(column.tolist() for column in columns.values()), strict=True)
    batch_size = fleet.batch_sizes(workers)
    told = fleet.tuned | (batch_size != jobs.batch_size)
    types = [each.name for each in fleet.types]
    moves = _moves(fleet, workers)
    rule = PlacementRule.APART if fleet.apart else PlacementRule.PACK
    each_job = zip(
        jobs.ids,
        rows,
        jobs.elastic.tolist(),
        fleet.mixes.tolist(),
        (workers > 0).tolist(),
        np.where(told, batch_size, 0).tolist(),
        strict=True,
    )
    answers = {}
    for row, (job, values, elastic, mixes, there, batch) in enumerate(each_job):
        numbers: Numbers = dict(zip(columns, values, strict=True))
        numbers["resize_s"] = fleet.problem.resize_s
        if len(types) > 1:
            numbers["gpu_type"] = " and ".join(compress(types, there))
        sentence = _change(numbers, row in moves) + _limit(elastic, numbers, others)
        runs = any(there)
        answers[job] = Allocation(
            workers=values[0],
            reason=base.waits.get(row) or Reason(sentence, numbers),
            placement=rule,
            batch_size=batch if batch and runs else None,
            gpu_type=types[there.index(True)] if len(types) > 1 and runs and not mixes else None,
        )
    return answers


def _columns(fleet: Fleet, workers: Ints) -> dict[str, Ints | Floats]:
    """[jobs] each: the numbers in a job's reason."""
    jobs, count = fleet.problem.jobs, workers.sum(axis=1)
    left_s = _left_s(fleet, workers, count)
    standing = np.maximum(jobs.workers, jobs.min_workers)
    larger = np.clip(count + 1, jobs.min_workers, jobs.max_workers)
    return {
        "workers": count,
        "before": jobs.workers,
        "most": jobs.max_workers,
        "gpus": jobs.gpus_per_worker,
        "left_s": left_s,
        "before_s": _left_s(fleet, _before(fleet, workers), standing),
        "next_s": left_s - _left_s(fleet, workers, larger),
        "free": (workers > 0) @ _free(fleet, workers),
    }


def _left_s(fleet: Fleet, workers: Ints, count: Ints) -> Floats:
    """[jobs] Seconds to go on `count` workers, shared among types as `workers` are; 0 for those
    that do not run."""
    left_s = np.zeros(len(count))
    runs = np.flatnonzero(workers.any(axis=1))
    left_s[runs] = fleet.left_s(runs, workers[runs], count[runs])
    return left_s


def _before(fleet: Fleet, workers: Ints) -> Ints:
    """[jobs, types] Where the jobs stand now; where they will, for those that stand nowhere."""
    stands = fleet.standing.sum(axis=1) * (len(fleet.types) > 1) > 0
    before: Ints = np.where(stands[:, None], fleet.standing, workers)
    return before


def _free(fleet: Fleet, workers: Ints) -> Ints:
    """[types] GPUs that nobody gets."""
    taken = workers * fleet.problem.jobs.gpus_per_worker[:, None]
    free: Ints = fleet.gpus - taken.sum(axis=0)
    return free


def _moves(fleet: Fleet, workers: Ints) -> set[int]:
    """Jobs that keep to one type and leave it for another one."""
    stands = np.flatnonzero((fleet.home >= 0) & ~fleet.mixes)
    leaves = workers[stands, fleet.home[stands]] == 0
    return set(stands[leaves].tolist())


def _change(numbers: Numbers, moves: bool) -> str:
    """The first half of a reason: what happens to a job that runs."""
    workers, before = int(numbers["workers"]), int(numbers["before"])
    gpus = " with {gpu_type} GPUs" if "gpu_type" in numbers else ""
    if before == 0:
        return "starts on {workers} workers" + gpus + ", {left_s:.0f} s to go; "
    if workers == before and not moves:
        return "keeps its {workers} workers" + gpus + ", {left_s:.0f} s to go; "
    verb = "moves" if workers == before else "grows" if workers > before else "shrinks"
    return (
        verb
        + " from {before} to {workers} workers"
        + gpus
        + ": {left_s:.0f} s to go, not {before_s:.0f} s; "
    )


def _limit(elastic: bool, numbers: Numbers, others: str) -> str:
    """The second half: why it does not get more."""
    if not elastic:
        return "its size is fixed"
    if numbers["workers"] == numbers["most"]:
        return "it can use no more"
    if int(numbers["gpus"]) > int(numbers["free"]):
        return "one more would save {next_s:.1f} s for {gpus} GPUs, {free} are free and " + others
    return "one more would save {next_s:.1f} s, too little where a resize costs {resize_s:.1f} s"
