"""The rolling-horizon model of paper 000 exactly, as integer programs for HiGHS.

The compact program serves decisions with few jobs. The literal one is the paper's (15)-(20), for
comparison. Both hold s_{i,t} / d_i, the share served by the end of a step, as a variable.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any, TypeAlias

import numpy as np
import scipy.sparse as sp
from scipy.optimize import Bounds, LinearConstraint, milp

from policies.problem import Floats, Ints
from policies.ragged import lengths_of
from policies.rolling_horizon_model import Model, Plans, loads_gpus, objective_value

EXACT_GAP = 1e-6
"""Relative gap at which a solution counts as optimal."""

BACKSTOP_S = 20.0
"""Wall-clock limit of a program: an emergency, the cap is on nodes."""

_LIMIT = 1  # the solver's status where nodes or time ran out

Matrix: TypeAlias = Any  # of scipy.sparse, which has no types


@dataclass(frozen=True, slots=True)
class Exact:
    """What an integer program came to."""

    plans: Plans | None  # None: the solver found none that holds
    value: float  # of `plans`, evaluated anew; -inf without
    bound: float  # inf where the solver gave none
    optimal: bool
    capped: bool  # the wall-clock backstop cut it, not the nodes


def solve_compact(model: Model, nodes: int = 100_000, gap: float = EXACT_GAP) -> Exact:
    """One binary x_{o,t} for each option o of a job and each step t.

    sum_o x_{o,t} = 1 for each job; sum gpus_o x_{o,t} <= N;
    s_{i,t} <= s_{i,t-1} + sum_o served_o x_{o,t}; 0 <= s <= 1.
    """
    jobs, steps, options = _shape(model)
    each = sp.identity(steps)
    variables = _Variables({"x": steps * options, "s": steps * jobs})
    program = [
        variables.constraint(1, 1, x=sp.kron(each, _owner(model))),
        variables.constraint(-np.inf, model.capacity_gpus, x=sp.kron(each, model.gpus)),
        variables.constraint(-np.inf, 0, x=-_served(model), s=_made(model)),
    ]
    found = milp(
        -variables.row(s=_reward(model)),
        constraints=program,
        bounds=Bounds(0, 1),
        integrality=variables.row(x=1),
        options=_options(nodes, gap),
    )
    return _read(model, found, lambda x: x[: steps * options], nodes)


def solve_literal(model: Model, nodes: int = 100_000, gap: float = EXACT_GAP) -> Exact:
    """The paper's final formulation (§4.4): n and s, and binaries delta- and delta+ for each k.

    M = max K. Departures: K is each job's own set of legal sizes, from n_min to n_max; s counts
    shares of the demand; the first step may serve less than the others.
    """
    jobs, steps, options = _shape(model)
    deltas = steps * options
    variables = _Variables({"n": steps * jobs, "s": steps * jobs, "minus": deltas, "plus": deltas})
    each = sp.identity(steps)
    owner, served = sp.kron(each, _owner(model)), _served(model)
    n_of_option, k = owner.T, np.tile(model.gpus, steps).astype(np.float64)
    one_more = np.tile(lengths_of(model.offset), steps) + 1  # |K| + 1
    served_by_all = np.asarray(served.sum(axis=1)).ravel()
    program = [
        *_indicators(variables, "minus", n_of_option, k, k.max()),  # (16)
        *_indicators(variables, "plus", -n_of_option, -k, k.max()),  # (17)
        variables.constraint(one_more, one_more, minus=owner, plus=owner),  # (18)
        variables.constraint(  # (19), (20)
            -np.inf, -served_by_all, s=_made(model), minus=-served, plus=-served
        ),
        variables.constraint(  # (6)
            -np.inf, model.capacity_gpus, n=sp.kron(each, np.ones(jobs))
        ),
    ]
    least, most = model.gpus[model.offset[:-1]], model.gpus[model.offset[1:] - 1]
    found = milp(
        -variables.row(s=_reward(model)),
        constraints=program,
        bounds=Bounds(  # (2), (5), (15)
            variables.row(n=np.tile(least, steps)),
            variables.row(n=np.tile(most, steps), s=1, minus=1, plus=1),
        ),
        integrality=variables.row(n=1, minus=1, plus=1),
        options=_options(nodes, gap),
    )
    return _read(model, found, lambda x: -np.abs(n_of_option @ x[: steps * jobs] - k), nodes)


def _indicators(
    variables: _Variables, block: str, n: Matrix, k: Floats, big_m: float
) -> list[LinearConstraint]:
    """-M delta + (1 - delta) / M <= n - k <= M (1 - delta): delta = 1 means n <= k, else n > k."""
    delta = sp.identity(len(k))
    return [
        variables.constraint(k + 1 / big_m, np.inf, n=n, **{block: (big_m + 1 / big_m) * delta}),
        variables.constraint(-np.inf, k + big_m, n=n, **{block: big_m * delta}),
    ]


@dataclass(frozen=True, slots=True)
class _Variables:
    """A program's variables: blocks by name, step by step, over jobs or options."""

    widths: Mapping[str, int]

    def constraint(self, low: Any, high: Any, **blocks: Matrix) -> LinearConstraint:
        """low <= sum of blocks <= high; a block that is not named counts nothing."""
        height = next(iter(blocks.values())).shape[0]
        empty = {name: sp.csr_matrix((height, width)) for name, width in self.widths.items()}
        return LinearConstraint(sp.hstack([*(empty | blocks).values()], format="csr"), low, high)

    def row(self, **blocks: Any) -> Floats:
        """One number for each variable, 0 in the blocks that are not named."""
        return np.concatenate(
            [np.broadcast_to(blocks.get(name, 0.0), width) for name, width in self.widths.items()]
        ).astype(np.float64)


def _shape(model: Model) -> tuple[int, int, int]:
    return model.jobs, len(model.worth), len(model.gpus)


def _owner(model: Model) -> Matrix:
    """[jobs, options] 1 where the option is the job's."""
    jobs, _, options = _shape(model)
    return sp.csr_matrix(
        (np.ones(options), np.arange(options), model.offset), shape=(jobs, options)
    )


def _served(model: Model) -> Matrix:
    """[steps * jobs, steps * options] Share that each option serves in each step."""
    owner = _owner(model)
    later = [owner.multiply(model.served)] * (len(model.worth) - 1)
    return sp.block_diag([owner.multiply(model.first_served), *later], format="csr")


def _made(model: Model) -> Matrix:
    """[steps * jobs, steps * jobs] s_t - s_{t-1}."""
    jobs, steps, _ = _shape(model)
    return sp.kron(sp.identity(steps) - sp.eye(steps, k=-1), sp.identity(jobs))


def _reward(model: Model) -> Floats:
    """[steps * jobs] What the share served by the end of each step adds to the objective."""
    falls = model.worth - np.append(model.worth[1:], 0.0)
    reward: Floats = np.repeat(falls, model.jobs)
    return reward


def _options(nodes: int, gap: float) -> dict[str, float]:
    return {"node_limit": nodes, "time_limit": BACKSTOP_S, "mip_rel_gap": gap}


def _read(model: Model, found: Any, scores: Any, nodes: int) -> Exact:
    """The solver's answer, checked: `scores(x)` [steps * options] are highest where chosen."""
    limit = found.status == _LIMIT
    capped = limit and (found.mip_node_count or 0) < nodes
    known = found.mip_dual_bound is not None and (limit or found.status == 0)
    bound = -float(found.mip_dual_bound) if known else np.inf
    if found.x is None:
        return Exact(None, -np.inf, bound, optimal=False, capped=capped)
    plans = _highest(model, scores(found.x))
    if (loads_gpus(model, plans) > model.capacity_gpus).any():  # outside the solver's tolerance
        return Exact(None, -np.inf, bound, optimal=False, capped=capped)
    return Exact(plans, objective_value(model, plans), bound, found.status == 0, capped)


def _highest(model: Model, scores: Floats) -> Plans:
    """[jobs, steps] Each job's option of the highest score in each step."""
    by_step = scores.reshape(len(model.worth), -1)
    plans: Ints = np.stack(
        [
            first + by_step[:, first:end].argmax(axis=1)
            for first, end in zip(model.offset[:-1], model.offset[1:], strict=True)
        ]
    )
    return plans
