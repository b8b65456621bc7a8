"""Scenes that read like sentences: `simulate([job("a", epochs=4)], servers=(1, 4))`."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass
from typing import Any

from policies import registry
from policies.problem import NO_MEMORY, Allocation, Decision, Problem
from policies.reason import because
from raysched.jobs import JobSpec
from raysched.simulator.body import Outcome, Simulator
from raysched.simulator.models import Costs, Linear, Settings, epoch_curve
from raysched.simulator.scenario import Arrival, Outside, Scenario, training_servers

Sizes = Callable[[Problem], dict[str, int]]
"""Workers, or the batch size, by job, as a test wants them."""


@dataclass(frozen=True)
class Scripted:
    """A policy that does what a test says, and remembers what it saw."""

    sizes: Sizes
    interval_s: float | None = None
    batch_sizes: Sizes = lambda _: {}
    name = "scripted"
    source = "a test"
    default_loaning = "off"

    def decide(self, problem, memory):
        wanted, batch = self.sizes(problem), self.batch_sizes(problem)
        why = because("as the test says")
        allocations = {
            job: Allocation(n, why, batch_size=batch.get(job)) for job, n in wanted.items()
        }
        return Decision(allocations), NO_MEMORY


def job(
    name: str,
    at_s: float = 0.0,
    *,
    epochs: int = 4,
    epoch_s: float = 10.0,
    workers: tuple[int, int] | int = 1,
    **rest: Any,
) -> Arrival:
    """A job whose epoch takes `epoch_s` on one worker and scales linearly."""
    low, high = (workers, workers) if isinstance(workers, int) else workers
    curve = epoch_curve(Linear(), epochs * epoch_s, epochs, (low, high))
    described: dict[str, Any] = {"batch_size": 64, "profile_epoch_s": curve, **rest}
    return Arrival(at_s, name, JobSpec(name, epochs, low, high, **described), curve)


def simulator(
    jobs: Sequence[Arrival],
    servers: tuple[int, int] = (1, 4),
    *,
    sizes: Sizes | None = None,
    batch_sizes: Sizes = lambda _: {},
    interval_s: float | None = None,
    outside: Sequence[Outside] = (),
    journal: Any = None,
    watch: Any = None,
    **settings: Any,
) -> Simulator:
    """A simulator of these jobs, under fifo unless a policy is named or `sizes` are given."""

    def load(name, parameters):
        if sizes is None:
            return registry.load(name, parameters)
        return Scripted(sizes, interval_s, batch_sizes)

    pool = training_servers(*servers)
    scene = Scenario(jobs, sorted([*pool, *outside], key=lambda event: event.at_s))
    return Simulator(scene, Settings(**settings), journal=journal, load_policy=load, watch=watch)


def simulate(jobs: Sequence[Arrival], servers: tuple[int, int] = (1, 4), **rest: Any) -> Outcome:
    """Run it to the end."""
    return simulator(jobs, servers, **rest).run()


def ended_s(outcome: Outcome) -> dict[str, float | None]:
    """When each job finished."""
    return {job.job: job.ended_s for job in outcome.history.jobs.values()}


def stretches(outcome: Outcome, name: str) -> list[tuple[float, float, int]]:
    """When a job held how many workers: from, to, workers."""
    return [(s.from_s, s.to_s, s.workers) for s in outcome.history.jobs[name].stretches]


__all__ = ["Costs", "ended_s", "job", "simulate", "simulator", "stretches"]
