"""Time ahead in pieces, and plans as steps: between a policy's arrays and its memory."""

from __future__ import annotations

import math
from dataclasses import dataclass, replace
from typing import Any

import numpy as np

from policies.problem import Floats, Ints, Jobs, Memory, PlanStep
from policies.share import Claims, Plans
from policies.sizes import Sizes


@dataclass(frozen=True, slots=True)
class Timeline:
    """Pieces of time from now on, without gaps."""

    start_s: Floats  # [pieces]
    length_s: Floats  # [pieces]

    @classmethod
    def until(
        cls, now_s: float, end_s: float, slot_s: float, most: int, also_s: Floats
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
        also = also_s[(also_s > now_s) & (also_s < cuts_s[-1])]
        edges_s = np.unique(np.concatenate(([now_s], cuts_s, also)))
        return cls(edges_s[:-1], np.diff(edges_s))

    def claims(self, sizes: Sizes, deadline_s: Floats, needed: Floats) -> Claims:
        """What jobs have to do, with their deadlines (inf: none) as pieces."""
        within = np.where(np.isfinite(deadline_s), deadline_s, self.start_s[0])
        pieces = np.searchsorted(self.start_s, within, side="left")
        last_s = np.where(pieces > 0, within - self.start_s[np.maximum(pieces - 1, 0)], 0.0)
        return Claims(sizes, pieces, last_s, needed)

    def gpu_s(self, claims: Claims, plans: Plans, job: int) -> float:
        """GPU-seconds of one job's plan before its deadline."""
        pieces = int(claims.pieces[job])
        length_s = self.length_s[:pieces].copy()
        length_s[-1:] = claims.last_s[job]
        return float(claims.sizes.gpus_of(job)[plans.of(job, pieces)] @ length_s)


@dataclass(frozen=True, slots=True)
class Steps:
    """Plans as times and workers, ragged over jobs: what decisions tell, and memory holds."""

    rows: Ints  # [plans] of their jobs
    counts: Ints  # [plans] steps of each, at least one
    start_s: Floats  # [steps] ascending within a plan
    workers: Ints  # [steps] from then on

    @classmethod
    def of(cls, timeline: Timeline, jobs: Jobs, sizes: Sizes, plans: Plans, rows: Ints) -> Steps:
        """The plans of these jobs, those that have one."""
        rows = rows[plans.end[rows] > plans.begin[rows]]
        runs, counts = plans.runs(rows)
        job = np.repeat(rows, counts)
        gpus = sizes.gpus[sizes.offset[job] + plans.size[runs]]
        start_s = timeline.start_s[plans.piece[runs]]
        return cls(rows, counts, start_s, gpus // jobs.gpus_per_worker[job])

    @classmethod
    def remembered(cls, memory: Memory, jobs: Jobs) -> Steps:
        """What `to_memory` wrote, without jobs that are gone."""
        row_of = {job: row for row, job in enumerate(jobs.ids)}
        rows = np.array([row_of.get(job, -1) for job in memory.get("jobs", ())], dtype=np.int64)
        counts = np.array(memory.get("steps", ()), dtype=np.int64)
        there, step_there = rows >= 0, np.repeat(rows, counts) >= 0
        start_s = np.array(memory.get("start_s", ()), dtype=np.float64)
        workers = np.array(memory.get("workers", ()), dtype=np.int64)
        return cls(rows[there], counts[there], start_s[step_there], workers[step_there])

    def to_memory(self, jobs: Jobs) -> dict[str, Any]:
        """The same as lists, with jobs by id: read and written at once, not plan by plan."""
        return {
            "jobs": [jobs.ids[row] for row in self.rows.tolist()],
            "steps": self.counts.tolist(),
            "start_s": self.start_s.tolist(),
            "workers": self.workers.tolist(),
        }

    def by_row(self) -> dict[int, tuple[PlanStep, ...]]:
        """Row of the job -> its plan."""
        steps = tuple(map(PlanStep, self.start_s.tolist(), self.workers.tolist()))
        ends = np.cumsum(self.counts)
        slices = map(slice, (ends - self.counts).tolist(), ends.tolist())
        return dict(zip(self.rows.tolist(), map(steps.__getitem__, slices), strict=True))

    def plans(self, timeline: Timeline, jobs: Jobs, sizes: Sizes, pieces: Ints) -> Plans:
        """On the pieces from now to each deadline, with the largest sizes within the workers."""
        job = np.repeat(self.rows, self.counts)
        piece = np.searchsorted(timeline.start_s, self.start_s)
        follows = np.append(job[1:], -1) == job
        over = follows & (np.append(piece[1:], -1) == piece)  # the next one begins before now too
        ahead = (piece < pieces[job]) & ~over
        job, piece = job[ahead], piece[ahead]
        size = sizes.within(job, self.workers[ahead] * jobs.gpus_per_worker[job])
        counts = np.bincount(job, minlength=len(jobs))
        plans = Plans.empty(len(jobs))
        order = np.argsort(job, kind="stable")
        end = np.cumsum(counts)
        return replace(plans, begin=end - counts, end=end, piece=piece[order], size=size[order])
