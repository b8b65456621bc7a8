"""ModelArts (paper 000): sizes for the next steps at once, by a rolling horizon."""

from __future__ import annotations

import math
from dataclasses import dataclass
from typing import ClassVar, Literal

import numpy as np

from policies.checks import check
from policies.modelarts_answers import Scaling, between, scaled
from policies.modelarts_sizes import Sizes, admitted, model, resizing_s, sizes_of, spend_idle
from policies.problem import Decision, Floats, Memory, PolicyError, Problem
from policies.rolling_horizon import GAP, solve
from policies.rolling_horizon_model import worth

_MEMORY_VERSION = 1
_LONGEST_HORIZON = 8  # steps; beyond it, each job's search of K^T is cut and gaps grow


@dataclass(frozen=True)
class ModelArts:
    """000 §4.4: the optimal resource allocator, every `interval_s`; §2, §5.1 in between.

    Scaling decisions maximise sum_i sum_t s_i^t / d_i (1), the progress of all jobs over the
    next `horizon` steps, with sizes that are powers of two; only the first step is carried out,
    the others are the plan. Between them ("regular times") running jobs keep their sizes, and
    queued jobs start on idle GPUs, first come first served, each on as many as it can use. The
    memory is the time of the next scaling decision and the last prices, the search's start.

    Departures from print:
    - progress comes from the job's predicted curve, not from k * 0.8^log2(k): a step at k nodes
      serves step_s / (remaining epochs * epoch_s(k)) of what is left. With such a curve it is the
      paper's (`rolling_horizon_model.modelarts_model` is its instance);
    - a node is `unit_gpus` GPUs; N is all GPUs that training may use. A job whose range holds no
      size in K runs on its minimum;
    - the model is infeasible where sum n_min > N: running jobs are admitted, then the queue first
      come first served while it holds; the rest wait;
    - in the first step a running job that changes its size loses `problem.resize_s`, so that a
      resize is made where it pays within a step. With 0 it is the paper's, whose §5.5 finds that
      15 s matter little;
    - of plans of equal objective, GPUs that are idle in the first step go to jobs that end in it,
      first come first served: they end sooner, which (1) does not see;
    - loss of servers that leaves running jobs too large is answered by a scaling decision;
    - (15) holds in the model, but the plan ends with 0 workers where a job finishes (Fig. 7).
    """

    interval_s: float | None = 300.0  # elastic frequency f; None: every event is a scaling decision
    step_s: float = 300.0  # length of a time step; the paper's is f
    horizon: int = 5  # T, steps looked ahead
    max_nodes: int = 16  # K = {1, 2, 4, ... max_nodes}
    unit_gpus: int | None = None  # GPUs of a node; None: one worker's
    objective: Literal["cumulative", "final"] = "cumulative"  # (1), or §4.2's prose: at the end
    gap: float = GAP  # relative, at which the search for better prices ends
    rounds: int = 200  # cap on that search
    exact_jobs: int = 20  # up to so many jobs the integer program is solved exactly
    exact_nodes: int = 2000  # cap on that; the first of them takes most of the time

    name: ClassVar[str] = "modelarts"
    source: ClassVar[str] = "000 §4, (1)-(20)"
    default_loaning: ClassVar[str] = "off"

    def __post_init__(self) -> None:
        for field, good, what in (
            ("interval_s", _positive(self.interval_s), "a positive number of seconds, or None"),
            ("step_s", _positive(self.step_s), "a positive number of seconds"),
            ("horizon", 1 <= self.horizon <= _LONGEST_HORIZON, f"1 to {_LONGEST_HORIZON}"),
            ("max_nodes", self.max_nodes.bit_count() == 1 <= self.max_nodes, "a power of two"),
            ("unit_gpus", _positive(self.unit_gpus), "a positive number of GPUs, or None"),
            ("objective", self.objective in ("cumulative", "final"), "'cumulative' or 'final'"),
            ("gap", 0 <= self.gap < 1, "from 0, less than 1"),
            ("rounds", self.rounds >= 1, "from 1"),
            ("exact_jobs", self.exact_jobs >= 0, "from 0"),
            ("exact_nodes", self.exact_nodes >= 1, "from 1"),
        ):
            if not good:
                raise PolicyError(f"{field} is {getattr(self, field)}; use {what}")

    def decide(self, problem: Problem, memory: Memory) -> tuple[Decision, Memory]:
        """Allocations; `objective` and `bound` are the progress summed over jobs and steps."""
        check(problem)
        sizes = sizes_of(problem.jobs, self.max_nodes, self.unit_gpus)
        next_s = _next_scaling_s(memory)
        if next_s is not None and problem.now_s < next_s and _standing_fits(problem):
            return Decision(between(problem, sizes, next_s), review_at_s=next_s), memory
        return self._scale(problem, sizes, _prices(memory, self.horizon))

    def _scale(
        self, problem: Problem, sizes: Sizes, start: Floats | None
    ) -> tuple[Decision, Memory]:
        """A scaling decision: the first step of the best plans."""
        jobs, capacity = problem.jobs, problem.servers.total_gpus
        rows = np.flatnonzero(admitted(jobs, sizes, capacity))
        costs_s = resizing_s(jobs, sizes, problem.resize_s)
        reward = worth(self.objective, self.horizon)
        instance = model(sizes, costs_s, rows, capacity, self.step_s, reward)
        solution = solve(
            instance,
            start,
            gap=self.gap,
            rounds=self.rounds,
            exact_jobs=self.exact_jobs,
            exact_nodes=self.exact_nodes,
        )
        legal = sizes.legal[rows]
        spend_idle(instance, solution.plans, (sizes.left_s + costs_s)[rows][legal])
        workers = sizes.workers[rows][legal]
        next_s = None if self.interval_s is None else problem.now_s + self.interval_s
        decision = Decision(
            scaled(problem, sizes, Scaling(rows, workers, instance, solution, self.step_s)),
            review_at_s=next_s,
            objective=solution.value,
            bound=solution.bound,
            capped=solution.capped,
        )
        return decision, _memory(next_s, solution.prices)


def _positive(value: float | None) -> bool:
    return value is None or 0 < value < math.inf


def _standing_fits(problem: Problem) -> bool:
    """Whether the running jobs still fit: servers may have been lost."""
    jobs = problem.jobs
    return int((jobs.workers * jobs.gpus_per_worker).sum()) <= problem.servers.total_gpus


def _memory(next_s: float | None, prices: Floats) -> Memory:
    return {"version": _MEMORY_VERSION, "next_scaling_s": next_s, "prices": prices.tolist()}


def _next_scaling_s(memory: Memory) -> float | None:
    """When the next scaling decision is due; None: now."""
    return memory["next_scaling_s"] if memory.get("version") == _MEMORY_VERSION else None


def _prices(memory: Memory, horizon: int) -> Floats | None:
    """Those of the last scaling decision, unless GPUs were free throughout or T has changed."""
    prices = memory["prices"] if memory.get("version") == _MEMORY_VERSION else []
    return np.array(prices) if len(prices) == horizon and any(prices) else None
