"""What is simulated for 000 §5, and what is kept of it."""

from __future__ import annotations

import time
from dataclasses import dataclass, field, replace
from typing import Any

import numpy as np

from policies.modelarts import ModelArts
from policies.problem import Decision, Memory, Problem
from raysched.simulator.body import Outcome, Simulator
from raysched.simulator.models import SCALING_DELAY, Costs, Settings
from raysched.simulator.reproductions.experiment import Measured
from raysched.simulator.scenario import Scenario, training_servers
from raysched.simulator.workloads.disturbances import Mishaps, disturb
from raysched.simulator.workloads.modelarts import ALL_JOBS, ModelArtsWorkload, modelarts

POLICIES: dict[str, tuple[str, dict[str, Any]]] = {
    # By prices alone: the integer program for few jobs would take nine tenths of the time.
    "optimal": ("modelarts", {"exact_jobs": 0}),
    "greedy": ("modelarts_greedy", {"training_time": "elapsed"}),
    "greedy_remaining": ("modelarts_greedy", {}),
    "greedy_once": ("modelarts_greedy", {"training_time": "elapsed", "halvings": 1}),
    "fixed": ("fifo", {}),
}
"""Who allocates: the policy and its parameters."""

MISHAPS = {
    "wrong_estimates": Mishaps(misjudged=1.0, error=0.1),
    "bugs": Mishaps(misjudged=0.75, error=0.1, buggy=0.15, bug_within_s=300.0, cancelled=0.1),
}
"""000 §5.4."""

DECISION_NODES = 70
"""000 §5.6."""

STEP_S = 300.0
"""From one scaling decision to the next (000 §5.1)."""

MOST_ENDS = 200


def simulated(case: str, policy: str, nodes: int, seed: int) -> Measured:
    """Means over all jobs, times in seconds, and when the first `MOST_ENDS` of them ended.

    `ends_in_step_s`: from the last scaling decision to a job's end; None without resizes.

    `case`: "baseline" (447 jobs, nothing goes wrong), "all_jobs" (1,252), "scaling_delay", or one
    of `MISHAPS`. A job's total time is that from submission to its end, whatever its end is.
    """
    name, parameters = POLICIES[policy]
    delay = SCALING_DELAY if case == "scaling_delay" else Costs()
    settings = Settings(name, parameters, costs=replace(delay, at_boundaries=False))
    outcome = Simulator(_scenario(case, nodes, seed), settings).run()
    return {
        "nodes": nodes,
        **_times(outcome),
        "ends_s": [round(s, 1) for s in _ends_s(outcome)[:MOST_ENDS]],
    }


def _scenario(case: str, nodes: int, seed: int) -> Scenario:
    """A worker is a node. Where a job's nodes are makes no difference in 000: they are the GPUs of
    one server, which is quicker to place on than as many servers."""
    workload = ALL_JOBS if case == "all_jobs" else ModelArtsWorkload()
    scenario = Scenario(modelarts(workload, seed), training_servers(1, nodes))
    return disturb(scenario, MISHAPS[case], seed) if case in MISHAPS else scenario


def _times(outcome: Outcome) -> Measured:
    jobs = list(outcome.history.jobs.values())
    total_s = [job.ended_s - job.submitted_s for job in jobs if job.ended_s is not None]
    queuing_s = [job.queuing_s for job in jobs if job.queuing_s is not None]
    return {
        "ended": len(total_s),
        "queuing_s": float(np.mean(queuing_s)),
        "total_s": float(np.mean(total_s)),
        "resizes": float(np.mean([job.resizes for job in jobs])),
        "ends_in_step_s": _ends_in_step_s(outcome),
    }


def _ends_in_step_s(outcome: Outcome) -> float | None:
    """Sizes change at scaling decisions only: the last change tells when these are."""
    jobs = outcome.history.jobs.values()
    resized_s = np.sort([stretch.from_s for job in jobs for stretch in job.stretches[1:]])
    ends_s = np.array(_ends_s(outcome))
    ends_s = ends_s[ends_s > resized_s[0]] if len(resized_s) else ends_s[:0]
    since_s = ends_s - resized_s[np.searchsorted(resized_s, ends_s) - 1]
    return float(np.mean(since_s % STEP_S)) if len(ends_s) else None


def _ends_s(outcome: Outcome) -> list[float]:
    ends_s = (job.ended_s for job in outcome.history.jobs.values() if job.ended_s is not None)
    return sorted(ends_s)


# -- 000 §5.6


@dataclass(frozen=True)
class _Timed(ModelArts):
    """The policy, and the wall-clock seconds that each of its scaling decisions took."""

    took_s: list[float] = field(default_factory=list)

    def decide(self, problem: Problem, memory: Memory) -> tuple[Decision, Memory]:
        began_s = time.perf_counter()
        decision, memory = super().decide(problem, memory)
        if decision.bound is not None:  # not one between scaling decisions
            self.took_s.append(time.perf_counter() - began_s)
        return decision, memory


def decisions(seed: int) -> Measured:
    """How long scaling decisions take at `DECISION_NODES`, in seconds, in ascending order.

    Thinned to `MOST_ENDS` of them, the longest among them; `mean_s` is that of all.
    """
    scenario = _scenario("baseline", DECISION_NODES, seed)
    _timed(replace(scenario, arrivals=scenario.arrivals[:20]))  # compiles what is compiled
    took_s = np.sort(_timed(scenario))
    kept = np.linspace(0, len(took_s) - 1, min(MOST_ENDS, len(took_s))).round().astype(int)
    return {
        "mean_s": float(took_s.mean()),
        "median_s": float(np.median(took_s)),
        "p95_s": float(np.percentile(took_s, 95)),
        "max_s": float(took_s[-1]),
        "took_s": took_s[kept].round(5).tolist(),
    }


def _timed(scenario: Scenario) -> list[float]:
    policy = _Timed()
    settings = Settings("modelarts", costs=Costs(at_boundaries=False))
    Simulator(scenario, settings, load_policy=lambda *_: policy).run()
    return policy.took_s
