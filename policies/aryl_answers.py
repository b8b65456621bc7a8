"""What aryl answers: the size of each job, the type of its GPUs, and why."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from functools import cached_property
from itertools import compress
from typing import TypeAlias

import numpy as np

from policies.answers import Answers
from policies.aryl_base import Base
from policies.aryl_gpus import Fleet
from policies.problem import Allocation, Floats, Ints, PlacementRule
from policies.reason import Reason

Numbers: TypeAlias = dict[str, int | float | str]


def allocations(fleet: Fleet, base: Base, workers: Ints, others: str) -> Mapping[str, Allocation]:
    """An allocation for each job on [jobs, types] `workers`, with its reason.

    `others` says why a job does not get the GPUs that others have.
    """
    jobs, count = fleet.problem.jobs, workers.sum(axis=1)
    batch_size = fleet.batch_sizes(workers)
    told = (count > 0) & (fleet.tuned | (batch_size != jobs.batch_size))
    return Answers(
        jobs.ids,
        count,
        _Reasons(fleet, base, workers, others).of,
        PlacementRule.APART if fleet.apart else PlacementRule.PACK,
        batch_size=np.where(told, batch_size, 0),
        gpu_type=_types(fleet, workers),
    )


def _types(fleet: Fleet, workers: Ints) -> list[str | None]:
    """[jobs] The type of GPU that a job is to be on; None: it mixes them, or runs nowhere, or there
    is but one."""
    if len(fleet.types) <= 1:
        return [None] * len(workers)
    names = np.array([*(each.name for each in fleet.types), None], dtype=object)
    one = workers.any(axis=1) & ~fleet.mixes
    types: list[str | None] = names[np.where(one, (workers > 0).argmax(axis=1), -1)].tolist()
    return types


@dataclass(frozen=True)
class _Reasons:
    """Why each job gets what it gets. Nothing is computed until somebody asks."""

    fleet: Fleet
    base: Base
    workers: Ints  # [jobs, types]
    others: str

    def of(self, row: int) -> Reason:
        """That of one job."""
        if (waits := self.base.waits.get(row)) is not None:
            return waits(row)
        fleet, types = self.fleet, [each.name for each in self.fleet.types]
        numbers: Numbers = {name: column[row].item() for name, column in self._columns.items()}
        numbers["resize_s"] = fleet.problem.resize_s
        if len(types) > 1:
            numbers["gpu_type"] = " and ".join(compress(types, self.workers[row] > 0))
        elastic = bool(fleet.problem.jobs.elastic[row])
        sentence = _change(numbers, row in self._moves) + _limit(elastic, numbers, self.others)
        return Reason(sentence, numbers)

    @cached_property
    def _columns(self) -> dict[str, Ints | Floats]:
        """[jobs] each: the numbers in a job's reason."""
        fleet, workers = self.fleet, self.workers
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

    @cached_property
    def _moves(self) -> set[int]:
        return _moves(self.fleet, self.workers)


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
