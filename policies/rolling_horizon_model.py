"""The rolling-horizon model of paper 000 (§4.3-4.4) as columns: sizes, progress, capacity.

max over plans n of sum_i sum_t min(1, sum_{tau <= t} v_i(n_i^tau) / D_i), the objective (1), where
n_i^t is one of the legal sizes of job i and sum_i n_i^t <= N in each step (6). v_i is what a size
serves in a step, D_i the demand, so only v_i(k) / D_i matters: the share of the job's demand that
one step at k nodes serves. Jobs that have finished still hold their minimum (15).

With worth_t = the number of steps from t to the end, a unit of progress made in step t counts
worth_t times in (1), and the objective is sum_i sum_t worth_t (progress made in step t). With
worth_t = 1 it is the "total served demand during T" of §4.2's prose: the progress at the end.
"""

from __future__ import annotations

from typing import Literal, NamedTuple, TypeAlias

import numpy as np
from numba import types

from policies.problem import Bools, Floats, Ints
from policies.ragged import offsets

Objective: TypeAlias = Literal["cumulative", "final"]

Plans: TypeAlias = Ints
"""[jobs, steps] The option that each job takes in each step, an index into the model's options."""


class Model(NamedTuple):
    """One instance. Options are the legal sizes, ragged over jobs; a named tuple, so that
    compiled kernels take it whole."""

    offset: Ints  # [jobs + 1] into the options; at least one each
    gpus: Ints  # [options] what the size takes, strictly ascending within a job
    served: Floats  # [options] share of the job's demand that one step at this size serves
    first_served: Floats  # [options] the same in the first step, where a resize may cost time
    worth: Floats  # [steps] of a unit of progress made in the step, falling or level
    capacity_gpus: int  # N

    @property
    def jobs(self) -> int:
        """How many jobs there are."""
        return len(self.offset) - 1

    @property
    def least_gpus(self) -> int:
        """GPUs in use where every job is at its smallest size."""
        return int(self.gpus[self.offset[:-1]].sum())


MODEL = types.NamedTuple(
    (
        types.int64[::1],
        types.int64[::1],
        types.float64[::1],
        types.float64[::1],
        types.float64[::1],
        types.int64,
    ),
    Model,
)
"""The compiled kernels' type of a model."""


def worth(objective: Objective, steps: int) -> Floats:
    """[steps] What a unit of progress made in each step adds to the objective."""
    if objective == "final":
        return np.ones(steps)
    return np.arange(steps, 0, -1, dtype=np.float64)


def progress(model: Model, plans: Plans) -> Floats:
    """[jobs, steps] Share of each job's demand served by the end of each step: s_i^t / d_i."""
    served = model.served[plans]
    served[:, 0] = model.first_served[plans[:, 0]]
    done: Floats = np.minimum(np.cumsum(served, axis=1), 1.0)
    return done


def objective_value(model: Model, plans: Plans) -> float:
    """The objective (1) of these plans, whether or not they fit the capacity."""
    made = np.diff(progress(model, plans), axis=1, prepend=0.0)
    return float((made @ model.worth).sum())


def loads_gpus(model: Model, plans: Plans) -> Ints:
    """[steps] GPUs that the plans take in each step: the left side of (6)."""
    loads: Ints = model.gpus[plans].sum(axis=0)
    return loads


def modelarts_speed(nodes: Ints) -> Floats:
    """[...] Training speed k * 0.8^log2(k) relative to one node (§4.2, Fig. 6)."""
    speed: Floats = nodes * 0.8 ** np.log2(nodes)
    return speed


def modelarts_model(
    demand_node_h: Floats,
    *,
    nodes: int,
    most_nodes: Ints,
    least_nodes: Ints | int = 1,
    sizes: tuple[int, ...] = (1, 2, 4, 8, 16),
    steps: int = 5,
    step_s: float = 300.0,
    objective: Objective = "cumulative",
) -> Model:
    """The paper's own instance: demands d_i in node-hours, N nodes, the speed of Fig. 6.

    `most_nodes` and `least_nodes` are n_max and n_min [jobs]; each job needs a size between them.
    """
    size = np.broadcast_to(np.array(sizes, dtype=np.int64), (len(demand_node_h), len(sizes)))
    least = np.broadcast_to(least_nodes, len(demand_node_h))
    legal = (least[:, None] <= size) & (size <= np.asarray(most_nodes)[:, None])
    served = modelarts_speed(size) * (step_s / 3600) / demand_node_h[:, None]
    return model_of(legal, size, served, served, worth(objective, steps), nodes)


def model_of(
    legal: Bools,
    gpus: Ints,
    served: Floats,
    first_served: Floats,
    worth: Floats,
    capacity_gpus: int,
) -> Model:
    """A model of the legal sizes of [jobs, sizes] columns, sizes ascending in GPUs."""
    return Model(
        offset=offsets(legal.sum(axis=1)),
        gpus=np.ascontiguousarray(gpus[legal], dtype=np.int64),
        served=served[legal],
        first_served=first_served[legal],
        worth=worth,
        capacity_gpus=capacity_gpus,
    )
