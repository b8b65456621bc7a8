"""The integer program of Dorm, for HiGHS."""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np
import scipy.sparse as sp
from scipy.optimize import Bounds, LinearConstraint, milp

from policies.problem import Bools, Floats, Ints, Jobs

MOST_CELLS = 1_000
"""Jobs x servers; beyond it one decision takes too long."""

BACKSTOP_S = 20.0
"""Wall-clock limit of one search: an emergency, the cap is on nodes."""

_TIMED_OUT = 1  # scipy's status where nodes or time ran out
_ROUNDING = 1e-6


@dataclass(frozen=True, slots=True)
class Program:
    """Maximise the GPUs in use, all jobs running, within limits on unfairness and on changes.

    With x_js workers of job j on server s, l_j its fairness loss and c_j whether it changes:

        max  sum g_j x_js
        sum_j g_j x_js <= gpus of s;   min_j <= sum_s x_js <= max_j;
        l_j >= |g_j sum_s x_js - fair_j|,  sum l_j <= most_loss_gpus;
        |x_js - placed_js| <= M c_j for those that stand,  sum c_j <= most_changed.
    """

    jobs: Jobs
    server_gpus: Ints  # [servers]
    placed: Ints  # [jobs, servers] workers that stand there now
    stands: Bools  # [jobs] whether a change of it counts
    fair_gpus: Ints  # [jobs]
    most_loss_gpus: float
    most_changed: int


@dataclass(frozen=True, slots=True)
class Found:
    """An allocation that meets all constraints."""

    workers: Ints  # [jobs, servers]
    used_gpus: float
    bound_gpus: float  # no allocation uses more
    loss_gpus: float
    changed: int


def solve(program: Program, nodes: int) -> tuple[Found | None, bool]:
    """The best that a search of so many nodes finds, if any, and whether the backstop cut it."""
    jobs, servers = program.placed.shape
    cells = jobs * servers
    gpus = np.repeat(program.jobs.gpus_per_worker, servers)
    result = milp(
        _costs(program),
        constraints=_constraints(program),
        bounds=Bounds(0, np.concatenate((_room(program), np.full(jobs, np.inf), np.ones(jobs)))),
        integrality=np.repeat([1, 0, 1], [cells, jobs, jobs]),
        # Presolve is off: it gave a wrong optimum of a like program in scipy 1.17.
        options={
            "node_limit": nodes,
            "time_limit": BACKSTOP_S,
            "mip_rel_gap": _change_gpus(jobs) / 2 / int(program.server_gpus.sum()),
            "presolve": False,
        },
    )
    stopped = result.status == _TIMED_OUT
    capped = stopped and (result.mip_node_count or 0) < nodes
    if result.x is None:
        return None, capped
    flat = np.rint(result.x[:cells]).astype(np.int64)
    workers = flat.reshape(jobs, servers)
    loss, changed = _loss(program, workers), _changed(program, workers)
    if not _holds(program, workers, loss, changed):
        return None, capped
    used = float(gpus @ flat)
    # GPUs are whole, and all changes together cost at most half of one.
    bound = float(np.floor(-result.mip_dual_bound + 0.5 + _ROUNDING))
    bound = min(max(used, bound), float(program.server_gpus.sum()))
    return Found(workers, used, bound, loss, changed), capped


def _room(program: Program) -> Ints:
    """[cells] Most workers of the job on the server."""
    gpus = program.jobs.gpus_per_worker[:, None]
    most = np.minimum(program.jobs.max_workers[:, None], program.server_gpus // gpus)
    room: Ints = np.maximum(most, np.where(program.stands[:, None], program.placed, 0)).ravel()
    return room


def _costs(program: Program) -> Floats:
    """Less GPUs in use; of ties fewest changes."""
    jobs, servers = program.placed.shape
    gpus = np.repeat(program.jobs.gpus_per_worker, servers)
    return np.concatenate((-gpus, np.zeros(jobs), np.full(jobs, _change_gpus(jobs))))


def _change_gpus(jobs: int) -> float:
    """What one change costs: all together less than a GPU, so that they never outweigh one."""
    return 0.5 / jobs


def _constraints(program: Program) -> LinearConstraint:
    """All of them, over the variables x [cells], l [jobs] and c [jobs]."""
    jobs, servers = program.placed.shape
    gpus, each = program.jobs.gpus_per_worker, sp.identity(jobs)
    of_job = sp.kron(each, np.ones((1, servers)))
    on_server = sp.kron(gpus[None, :], sp.identity(servers))
    held = sp.diags(gpus * 1.0) @ of_job
    counted = np.repeat(program.stands, servers)
    x = sp.identity(jobs * servers, format="csr")[counted]
    c = of_job.T.tocsr()[counted]
    placed, room = program.placed.ravel()[counted], _room(program)[counted]
    matrix = sp.bmat(
        [
            [on_server, None, None],
            [of_job, None, None],
            [held, -each, None],
            [held, each, None],
            [None, np.ones((1, jobs)), None],
            [None, None, np.ones((1, jobs))],
            [x, None, sp.diags((placed - room) * 1.0) @ c],
            [x, None, sp.diags(placed * 1.0) @ c],
        ],
        format="csr",
    )
    least, most, fair = program.jobs.min_workers, program.jobs.max_workers, program.fair_gpus
    limits = [program.most_loss_gpus], [program.most_changed]
    no_server, no_job, no_cell = (np.full(n, np.inf) for n in (servers, jobs, len(placed)))
    low = (-no_server, least, -no_job, fair, [-np.inf], [-np.inf], -no_cell, placed)
    high = (program.server_gpus, most, fair, no_job, *limits, placed, no_cell)
    return LinearConstraint(matrix, np.concatenate(low), np.concatenate(high))


def _loss(program: Program, workers: Ints) -> float:
    """The fairness loss of an allocation, in GPUs."""
    held = workers.sum(axis=1) * program.jobs.gpus_per_worker
    return float(np.abs(held - program.fair_gpus).sum())


def _changed(program: Program, workers: Ints) -> int:
    """How many of the jobs that stand change."""
    moved = (workers != program.placed).any(axis=1)
    return int((moved & program.stands).sum())


def _holds(program: Program, workers: Ints, loss_gpus: float, changed: int) -> bool:
    """Whether an allocation meets all constraints, the solver's tolerances aside."""
    jobs, size = program.jobs, workers.sum(axis=1)
    return bool(
        (workers >= 0).all()
        and (size >= jobs.min_workers).all()
        and (size <= jobs.max_workers).all()
        and (jobs.gpus_per_worker @ workers <= program.server_gpus).all()
        and loss_gpus <= program.most_loss_gpus + _ROUNDING
        and changed <= program.most_changed
    )
