"""The optimum in hindsight, (1)-(13) of 002 §III-C, as a mixed-integer program: small cases."""

from __future__ import annotations

from dataclasses import dataclass
from itertools import product

import numpy as np
from scipy.optimize import Bounds, LinearConstraint, milp
from scipy.sparse import coo_array

from policies.oasis.model import PsJobs
from policies.problem import Floats, Ints, PolicyError

TIME_LIMIT_S = 60.0
"""A backstop: reached, the best solution so far stands, with its bound."""


@dataclass(frozen=True, slots=True)
class Optimum:
    """The greatest total utility with all arrivals known, and an upper bound on it."""

    utility: float
    bound: float
    optimal: bool
    completion_slot: Ints  # [jobs] -1: not admitted
    workers: Ints  # [jobs, slots, servers for workers]
    ps: Ints  # [jobs, slots, servers for parameter servers]


def optimum(
    jobs: PsJobs,
    worker_capacity: Floats,
    ps_capacity: Floats,
    slots: int,
    time_limit_s: float = TIME_LIMIT_S,
) -> Optimum:
    """Solve the program with HiGHS; capacities [servers, resources] in every slot.

    (8), the completion slot, becomes a binary for each job and slot: x_ic = 1 if job i is
    admitted and ends by slot c; its workers stand in no later one.

    Without presolve: with it, HiGHS (as of scipy 1.17) calls 0 the optimum of small cases whose
    optimum is not.
    """
    program = _Program(jobs, worker_capacity, ps_capacity, slots)
    result = milp(
        -program.utility(),
        constraints=program.constraints(),
        bounds=Bounds(0, program.most()),
        integrality=np.ones(program.size),
        options={"time_limit": time_limit_s, "mip_rel_gap": 1e-6, "presolve": False},
    )
    if result.x is None:
        raise PolicyError(f"no solution within {time_limit_s} s: {result.message}")
    workers, ps = program.split(np.rint(result.x).astype(np.int64))
    last = np.where(workers.any(axis=2), np.arange(slots), -1).max(axis=1)
    return Optimum(
        utility=-float(result.fun),
        bound=-float(result.mip_dual_bound),
        optimal=result.status == 0,
        completion_slot=last,
        workers=workers,
        ps=ps,
    )


class _Program:
    """Variables x [jobs, slots], y [jobs, slots, servers], z likewise, in one vector."""

    def __init__(
        self, jobs: PsJobs, worker_capacity: Floats, ps_capacity: Floats, slots: int
    ) -> None:
        self._jobs, self._slots = jobs, slots
        self._capacities = (worker_capacity, ps_capacity)
        count = len(jobs)
        shapes = [(count, slots), *((count, slots, len(c)) for c in self._capacities)]
        starts = np.cumsum([0, *(int(np.prod(shape)) for shape in shapes)])
        self.size = int(starts[-1])
        self._x, self._y, self._z = (
            np.arange(start, end).reshape(shape)
            for start, end, shape in zip(starts[:-1], starts[1:], shapes, strict=True)
        )
        self._rows: list[tuple[Ints, Floats, float, float]] = []

    def split(self, solution: Ints) -> tuple[Ints, Ints]:
        """y and z of a solution."""
        return solution[self._y], solution[self._z]

    def utility(self) -> Floats:
        """The objective, (1)."""
        gain = np.zeros(self.size)
        for i, arrival in enumerate(self._jobs.arrival_slot):
            elapsed = np.arange(self._slots - arrival)
            gain[self._x[i, arrival:]] = self._jobs.utility(i, elapsed)
        return gain

    def most(self) -> Floats:
        """Upper bounds: 0 before the arrival, (9) and (10)."""
        most = np.zeros(self.size)
        for i, arrival in enumerate(self._jobs.arrival_slot):
            most[self._x[i, arrival:]] = 1
            most[self._y[i, arrival:]] = self._jobs.chunks[i]
            most[self._z[i, arrival:]] = self._jobs.chunks[i]
        return most

    def constraints(self) -> LinearConstraint:
        """(2)-(8), one sparse row each."""
        for i in range(len(self._jobs)):
            self._add_job(i)
        self._add_capacity(self._y, self._capacities[0], self._jobs.worker)  # (4)
        self._add_capacity(self._z, self._capacities[1], self._jobs.ps)  # (5)
        row = np.repeat(np.arange(len(self._rows)), [len(r[0]) for r in self._rows])
        columns, weights, least, most = zip(*self._rows, strict=True)
        cells = (np.concatenate(weights), (row, np.concatenate(columns)))
        matrix = coo_array(cells, shape=(len(self._rows), self.size)).tocsr()
        return LinearConstraint(matrix, np.array(least), np.array(most))

    def _add_job(self, i: int) -> None:
        jobs, x, y, z = self._jobs, self._x[i], self._y[i], self._z[i]
        chunks = float(jobs.chunks[i])
        self._add((x, 1.0), most=1)  # admitted once or not at all
        self._add((y, 1.0), (x, -float(jobs.work_slots[i])), least=0)  # (2)
        for t in range(self._slots):
            self._add((y[t], 1.0), (x[t:], -chunks), most=0)  # (3), and none after the end (8)
            bandwidths = float(jobs.worker[i, -1]), float(jobs.ps[i, -1])
            self._add((y[t], -bandwidths[0]), (z[t], bandwidths[1]), least=0)  # (6)
            self._add((z[t], 1.0), (y[t], -1.0), most=0)  # (7)

    def _add_capacity(self, variables: Ints, capacity: Floats, demand: Floats) -> None:
        for slot, (server, limits) in product(range(self._slots), enumerate(capacity.tolist())):
            for resource, limit in enumerate(limits):
                self._add((variables[:, slot, server], demand[:, resource]), most=limit)

    def _add(
        self, *terms: tuple[Ints, Floats | float], least: float = -np.inf, most: float = np.inf
    ) -> None:
        """One row: least <= sum of weights times variables <= most."""
        columns = np.concatenate([variables.ravel() for variables, _ in terms])
        weights = [np.broadcast_to(w, v.shape).ravel() for v, w in terms]
        self._rows.append((columns, np.concatenate(weights), least, most))
