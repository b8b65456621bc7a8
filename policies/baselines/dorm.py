"""Dorm: the fullest cluster that is nearly fair and moves few jobs, by an integer program."""

from __future__ import annotations

import math
from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any, ClassVar

import numpy as np

from policies.baselines.dorm_program import MOST_CELLS, Found, Program, solve
from policies.baselines.drf import fair_workers
from policies.checks import check
from policies.problem import (
    NO_MEMORY,
    Allocation,
    Bools,
    Decision,
    Ints,
    Memory,
    PolicyError,
    Problem,
)
from policies.reason import Reason
from policies.sentences import change
from policies.standing import kept


@dataclass(frozen=True)
class Dorm:
    """002 §V-A (iv), after Sun et al. (arXiv 1704.06738): utilisation under two constraints.

    All jobs are admitted. At each arrival and departure an integer program chooses how many
    workers of each job stand on each server, so that the most GPUs are in use while

    - every job has its minimum at least and its maximum at most;
    - the fairness loss, the sum over jobs of |share - share under `drf`|, is at most
      2 x `fairness_loss` (GPUs are the one resource);
    - of the jobs that run, at most a part of `adjusted_share`, rounded up, changes in any way.

    Of equally full ones it takes one that changes fewest jobs; which of those is the solver's
    choice, the same at each run. Where no such allocation exists, or none was found, the latest
    submitted of the waiting jobs is left out and the program solved again, and so on. Where even
    the running jobs alone have none, they keep what they have.

    The forms of the constraints are from memory of the paper on Dorm; 002 prints none. What to do
    where they cannot be met is our choice. Jobs whose workers do not stand where they should,
    because a server was lost or they are about to start, may change without being counted.

    The search is capped by `nodes` of the solver's tree, and problems of more than 1,000 cells
    (jobs x servers) are refused: this is a baseline for small clusters.
    """

    fairness_loss: float = 0.1
    """theta_1, 0 to 1."""
    adjusted_share: float = 0.1
    """theta_2, 0 to 1."""
    nodes: int = 200
    """Most nodes of one search; it then takes the best that it found."""

    name: ClassVar[str] = "dorm"
    source: ClassVar[str] = "002 §V-A (iv)"
    default_loaning: ClassVar[str] = "off"

    def __post_init__(self) -> None:
        for field in ("fairness_loss", "adjusted_share"):
            if not 0 <= getattr(self, field) <= 1:
                raise PolicyError(f"{field} is {getattr(self, field)}; use 0 to 1")
        if self.nodes < 1:
            raise PolicyError(f"nodes is {self.nodes}; use 1 or more")

    @property
    def interval_s(self) -> None:
        """Asked at arrivals and departures."""

    def decide(self, problem: Problem, memory: Memory) -> tuple[Decision, Memory]:
        """Allocations by explicit servers; `objective` and `bound` are GPUs in use."""
        check(problem)
        jobs, servers = problem.jobs, problem.servers
        cells = len(jobs) * len(servers.ids)
        if cells > MOST_CELLS:
            raise PolicyError(
                f"dorm solves up to {MOST_CELLS} jobs x servers, not {len(jobs)} x "
                f"{len(servers.ids)}; use drf"
            )
        queue = np.flatnonzero(jobs.workers == 0)
        capped = False
        for started in range(len(queue), -1, -1):
            part = jobs.workers > 0
            part[queue[:started]] = True
            if not part.any() or jobs.base_gpus[part].sum() > servers.total_gpus:
                continue
            program = self._program(problem, np.flatnonzero(part))
            found, cut = solve(program, self.nodes)
            capped |= cut
            if found is not None:
                return self._adopt(problem, part, program, found, capped), NO_MEMORY
        return Decision(_keep(problem), capped=capped), NO_MEMORY

    def _program(self, problem: Problem, rows: Ints) -> Program:
        """The program over these jobs."""
        jobs, servers = problem.jobs.take(rows), problem.servers
        placed = problem.placed[rows]
        stands = (jobs.workers > 0) & (placed.sum(axis=1) == jobs.workers)
        fair_gpus = fair_workers(jobs, servers.total_gpus) * jobs.gpus_per_worker
        return Program(
            jobs=jobs,
            server_gpus=servers.gpus,
            placed=placed,
            stands=stands & (jobs.gpus_per_worker @ placed <= servers.gpus).all(),
            fair_gpus=fair_gpus,
            most_loss_gpus=2 * self.fairness_loss * servers.total_gpus,
            most_changed=math.ceil(self.adjusted_share * int(stands.sum())),
        )

    def _adopt(
        self, problem: Problem, part: Bools, program: Program, found: Found, capped: bool
    ) -> Decision:
        """What the program found; the others wait."""
        jobs, rows = problem.jobs, np.flatnonzero(part).tolist()
        numbers = {
            "jobs": len(rows),
            "loss": found.loss_gpus,
            "most_loss": program.most_loss_gpus,
            "changed": found.changed,
            "most_changed": program.most_changed,
        }
        under = (
            "fairness loss {loss:.1f} of at most {most_loss:.1f} GPUs, {changed} of at most "
            "{most_changed} jobs moved"
        )
        allocations = {}
        for row, cells, fair in zip(rows, found.workers, program.fair_gpus.tolist(), strict=True):
            gpus = int(cells.sum() * jobs.gpus_per_worker[row])
            template = "{gpus} GPUs, {fair} would be fair; " + under
            more = numbers | {"gpus": gpus, "fair": fair}
            allocations[jobs.ids[row]] = _placed(problem, row, cells, template, more)
        nothing = np.zeros(len(problem.servers.ids), dtype=np.int64)
        template = "no allocation of all with it meets the limits; {jobs} jobs run, " + under
        for row in np.flatnonzero(~part).tolist():
            allocations[jobs.ids[row]] = _placed(problem, row, nothing, template, numbers)
        return Decision(
            allocations, objective=found.used_gpus, bound=found.bound_gpus, capped=capped
        )


def _keep(problem: Problem) -> dict[str, Allocation]:
    """Running jobs keep what they have, as far as it is still there; the others wait."""
    jobs, capacity = problem.jobs, problem.servers.total_gpus
    stays = kept(jobs, jobs.workers * jobs.gpus_per_worker, capacity)
    template = "no allocation of {capacity} GPUs meets the limits on fairness and on changes"
    allocations = {}
    for row, job in enumerate(jobs.ids):
        before = int(jobs.workers[row])
        workers = before if stays[row] else 0
        numbers = {"before": before, "workers": workers, "capacity": capacity}
        allocations[job] = Allocation(
            workers, Reason(change(workers, before) + ": " + template, numbers)
        )
    return allocations


def _placed(
    problem: Problem, row: int, cells: Ints, template: str, numbers: Mapping[str, Any]
) -> Allocation:
    """One job's workers by server."""
    before, workers = int(problem.jobs.workers[row]), int(cells.sum())
    moves = workers == before > 0 and (cells != problem.placed[row]).any()
    opening = ("moves its {workers} workers" if moves else change(workers, before)) + ": "
    where = {problem.servers.ids[s]: int(cells[s]) for s in np.flatnonzero(cells)}
    reason = Reason(opening + template, {"before": before, "workers": workers, **numbers})
    return Allocation(workers, reason, servers=where or None)
