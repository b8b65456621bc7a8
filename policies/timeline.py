"""Time ahead in pieces, and plans as steps: between a policy's arrays and its memory."""

from __future__ import annotations

import math
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np

from policies.problem import Floats, Ints, Jobs, PlanStep
from policies.share import Claims, Plans
from policies.sizes import Sizes

Steps = Mapping[str, Sequence[Any]]
"""A plan in memory: `start_s` and, from each of them on, `workers`."""


@dataclass(frozen=True, slots=True)
class Timeline:
    """Pieces of time from now on, without gaps."""

    start_s: Floats  # [pieces]
    length_s: Floats  # [pieces]

    @classmethod
    def until(
        cls, now_s: float, end_s: float, slot_s: float, most: int, also_s: Iterable[float] = ()
    ) -> Timeline:
        """From now past `end_s`, cut at multiples of `slot_s` and at `also_s`.

        Multiples, and not steps from now, so that the cuts of one decision are cuts of the next.
        Where more than `most` would be needed, slots are doubled until they are not: so cuts
        stay cuts.
        """
        doublings = max(math.ceil(math.log2(max(end_s - now_s, slot_s) / (slot_s * most))), 0)
        slot_s *= 2**doublings
        first = math.floor(now_s / slot_s) + 1
        cuts_s = np.arange(first, max(math.ceil(end_s / slot_s), first) + 1) * slot_s
        also = np.fromiter(also_s, np.float64)
        also = also[(also > now_s) & (also < cuts_s[-1])]
        edges_s = np.unique(np.concatenate(([now_s], cuts_s, also)))
        return cls(edges_s[:-1], np.diff(edges_s))

    def claims(self, sizes: Sizes, deadline_s: Floats, needed: Floats) -> Claims:
        """What jobs have to do, with their deadlines (inf: none) as pieces."""
        within = np.where(np.isfinite(deadline_s), deadline_s, self.start_s[0])
        pieces = np.searchsorted(self.start_s, within, side="left")
        last_s = np.where(pieces > 0, within - self.start_s[np.maximum(pieces - 1, 0)], 0.0)
        return Claims(sizes, pieces, last_s, needed)

    def seconds(self, claims: Claims, job: int) -> Floats:
        """[pieces of the job] Seconds of each piece that lie before the job's deadline."""
        length_s = self.length_s[: claims.pieces[job]].copy()
        length_s[-1:] = claims.last_s[job]
        return length_s


def to_steps(
    timeline: Timeline, jobs: Jobs, sizes: Sizes, plans: Plans, rows: Ints
) -> dict[int, tuple[PlanStep, ...]]:
    """The plans of these jobs (rows ascending) as steps, one for each change."""
    pieces = np.diff(plans.offset)
    job = np.repeat(np.arange(len(jobs)), pieces)
    changes = np.empty(len(job), dtype=bool)
    changes[1:] = plans.size[1:] != plans.size[:-1]
    changes[plans.offset[:-1][pieces > 0]] = True
    at = np.flatnonzero(changes & np.isin(job, rows))
    job = job[at]
    starts = timeline.start_s[at - plans.offset[job]].tolist()
    workers = sizes.gpus[sizes.offset[job] + plans.size[at]] // jobs.gpus_per_worker[job]
    steps = [PlanStep(*step) for step in zip(starts, workers.tolist(), strict=True)]
    ends = np.searchsorted(job, rows, side="right").tolist()
    begins = [0, *ends[:-1]]
    return {
        row: tuple(steps[begin:end])
        for row, begin, end in zip(rows.tolist(), begins, ends, strict=False)
    }


def from_steps(
    timeline: Timeline, jobs: Jobs, sizes: Sizes, job: int, steps: Steps, pieces: int
) -> Ints:
    """[pieces] The sizes that a plan in memory has for one job, the largest within its workers."""
    step = np.searchsorted(steps["start_s"], timeline.start_s[:pieces], side="right") - 1
    workers = np.where(step >= 0, np.asarray(steps["workers"], dtype=np.int64)[step], 0)
    gpus = workers * jobs.gpus_per_worker[job]
    index: Ints = np.searchsorted(sizes.gpus_of(job), gpus, side="right") - 1
    return index
