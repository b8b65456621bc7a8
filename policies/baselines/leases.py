"""Packing jobs into leases, slots of equal length that a job holds whole or not at all."""

from __future__ import annotations

from collections.abc import Collection
from dataclasses import dataclass

import numpy as np
import scipy.sparse as sp
from scipy.optimize import Bounds, LinearConstraint, milp

from policies.problem import Bools, Ints
from policies.ragged import counted, rows_of

MOST_CELLS = 5_000
"""Jobs x leases of the integer program; beyond it nothing is solved."""

BACKSTOP_S = 10.0
"""Wall-clock limit of one search: an emergency, the cap is on nodes."""

_TIMED_OUT = 1  # scipy's status where nodes or time ran out


@dataclass(frozen=True, slots=True)
class Demands:
    """Jobs that must hold `needed` of their first `usable` leases, on `gpus` GPUs each."""

    gpus: Ints  # [jobs]
    needed: Ints  # [jobs]
    usable: Ints  # [jobs] at least `needed`


def latest(
    free_gpus: Ints, gpus: int, needed: int, usable: int, preferred: Collection[int] = ()
) -> list[int] | None:
    """The latest leases in which a job fits, `preferred` ones before others; None: too few."""
    fits = np.flatnonzero(free_gpus[:usable] >= gpus).tolist()
    order = sorted(fits, key=lambda lease: (lease not in preferred, -lease))
    return sorted(order[:needed]) if len(order) >= needed else None


def assign(
    demands: Demands, capacity_gpus: int, busy_now: bool, nodes: int
) -> tuple[Bools | None, bool]:
    """Who holds which lease, [jobs, leases], and whether the wall-clock backstop cut the search.

    Of all assignments one with as many GPUs as possible in the first lease, or with as few where
    not `busy_now`. None where there is none, or none was found.
    """
    usable, leases = demands.usable, int(demands.usable.max(initial=0))
    cells = int(usable.sum())
    if not 0 < cells <= MOST_CELLS:
        return None, False
    job = rows_of(usable)
    lease = counted(np.zeros_like(usable), usable)
    gpus, cell = demands.gpus[job], np.arange(cells)
    held_by_job = sp.csr_matrix((np.ones(cells), (job, cell)), shape=(len(usable), cells))
    held_in_lease = sp.csr_matrix((gpus, (lease, cell)), shape=(leases, cells))
    result = milp(
        np.where(lease == 0, -gpus if busy_now else gpus, 0),
        integrality=np.ones(cells),
        bounds=Bounds(0, 1),
        constraints=[
            LinearConstraint(held_by_job, demands.needed, demands.needed),
            LinearConstraint(held_in_lease, -np.inf, capacity_gpus),
        ],
        # Presolve is off: it gave a wrong optimum of a like program in scipy 1.17.
        options={"node_limit": nodes, "time_limit": BACKSTOP_S, "presolve": False},
    )
    capped = result.status == _TIMED_OUT and (result.mip_node_count or 0) < nodes
    if result.x is None:
        return None, capped
    held = np.zeros((len(usable), leases), dtype=np.bool_)
    held[job, lease] = result.x > 0.5
    fits = (demands.gpus @ held <= capacity_gpus).all()
    return (held if fits and (held.sum(axis=1) == demands.needed).all() else None), capped
