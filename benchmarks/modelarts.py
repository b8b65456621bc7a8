"""modelarts (000): prices with a certificate beside the integer programs."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from functools import partial

import numpy as np

from benchmarks.measure import Question, Sample, agree, require
from benchmarks.row import Row, Target
from policies import rolling_horizon, rolling_horizon_exact
from policies.rolling_horizon import Solution
from policies.rolling_horizon_exact import Exact
from policies.rolling_horizon_model import Model, loads_gpus, modelarts_model, objective_value

GAP = 1e-4
"""At which the integer programs may stop: as close as the prices aim at."""

_ROUNDING = 1e-6  # the solver's tolerance on a bound, relative


def planned(name: str, jobs: int, nodes: int, target: Target | None, beside: Sample | None) -> Row:
    """The compact program beside the prices: at this size, or `beside` it at a smaller one."""
    naive = None if beside else rolling_horizon_exact.solve_compact
    return Row(
        name,
        sample(jobs, nodes, 20 if naive else 10, naive),
        target,
        baseline="compact MILP (HiGHS), gap 1e-4",
        beside=beside,
    )


def as_printed(name: str, jobs: int, nodes: int) -> Row:
    """The paper's own program, (15)-(20), beside the prices."""
    return Row(
        name,
        sample(jobs, nodes, 3, rolling_horizon_exact.solve_literal),
        baseline="the paper's MILP (HiGHS), gap 1e-4",
    )


def sample(jobs: int, nodes: int, seeds: int, naive: Callable[..., Exact] | None = None) -> Sample:
    """Instances of so many jobs; `naive` answers them too."""

    def ask(seed: int) -> Question:
        model = _instance(jobs, nodes, seed)
        return Question(
            fast=partial(rolling_horizon.solve, model),
            check=partial(_check, model),
            naive=partial(naive, model, gap=GAP) if naive else None,
        )

    return Sample(f"{jobs:,} jobs, {nodes:,} nodes", ask, seeds)


def _instance(jobs: int, nodes: int, seed: int) -> Model:
    """The paper's instance: demands of log-normal node-hours (mean 3.9), partly done."""
    random = np.random.default_rng(seed)
    node_h = np.exp(random.normal(np.log(3.9) - 1.5**2 / 2, 1.5, jobs)).clip(1 / 12)
    most = random.choice([1, 2, 4, 8, 16], jobs, p=[0.02, 0.03, 0.05, 0.1, 0.8])
    left = random.uniform(0.02, 1, jobs)
    return modelarts_model(node_h * left, nodes=nodes, most_nodes=most)


def _check(model: Model, fast: Solution, exact: Exact | None) -> Mapping[str, float]:
    """The plans fit and are worth what they say; either form's bound holds for the other's."""
    require(bool((loads_gpus(model, fast.plans) <= model.capacity_gpus).all()), "plans do not fit")
    agree("the objective", fast.value, objective_value(model, fast.plans))
    if exact is not None:
        slack = _ROUNDING * fast.bound
        require(exact.plans is not None, "the integer program found no plans")
        require(fast.bound >= exact.value - slack, f"bound {fast.bound} < optimum {exact.value}")
        require(exact.bound >= fast.value - slack, f"value {fast.value} > bound {exact.bound}")
    return {"gap": fast.gap}
