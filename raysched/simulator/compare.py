"""One trace under several policies: `raysched simulate`."""

from __future__ import annotations

import json
import re
from collections.abc import Callable, Iterator
from dataclasses import dataclass
from pathlib import Path
from typing import Any, TypeAlias

from policies import registry
from raysched.engine import Engine
from raysched.errors import UserError
from raysched.simulator import traces
from raysched.simulator.assume import elasticflow_cap, elasticflow_costs
from raysched.simulator.body import Outcome, Simulator
from raysched.simulator.metrics import metrics, write_jobs
from raysched.simulator.models import Costs, Settings
from raysched.simulator.scenario import Scenario, training_servers
from raysched.simulator.traces.elasticflow import no_cap

Metrics: TypeAlias = dict[str, Any]

Watch: TypeAlias = Callable[[str, int, int], None]
"""Told now and then: the policy, how many jobs are over, and of how many."""

WATCH_EVERY = 200
"""Events between two looks."""


@dataclass(frozen=True, slots=True)
class Comparison:
    """What to simulate. `servers`: of how many GPUs each; `slot_s`, `report_every_s`: of
    `Settings`; `assume`: whose simulator to follow ("": a resize waits for its boundary)."""

    trace: Path
    policies: tuple[str, ...]
    servers: tuple[int, int]
    profiles: Path | None = None
    slot_s: float | None = None
    report_every_s: float = 0.0
    assume: str = ""
    skip_bad: bool = False


def servers_of(text: str) -> tuple[int, int]:
    """Servers and GPUs of each, written `16x8`. Raises `UserError`."""
    found = re.fullmatch(r"([1-9]\d*)x([1-9]\d*)", text)
    if found is None:
        raise UserError(f"--servers: {text!r} is not SERVERSxGPUS, such as 16x8")
    return int(found[1]), int(found[2])


def compare(asked: Comparison, out: Path, watch: Watch = lambda *_: None) -> dict[str, Metrics]:
    """Simulate each policy; its metrics. What is written to `out`: `metrics.json`,
    `POLICY/jobs.csv` for each, and `gpus.png`.

    Raises `UserError` and `PolicyError` before anything is simulated.
    """
    for policy in asked.policies:
        registry.load(policy, {})
    outcomes = {
        policy: _simulate(scenario, settings, watch) for policy, scenario, settings in _runs(asked)
    }
    found = {policy: metrics(outcome) for policy, outcome in outcomes.items()}
    write(found, outcomes, out)
    return found


def write(found: dict[str, Metrics], outcomes: dict[str, Outcome], out: Path) -> None:
    """Keep what was found in a folder."""
    from raysched.simulator.picture import draw  # matplotlib is slow to import

    out.mkdir(parents=True, exist_ok=True)
    (out / "metrics.json").write_text(json.dumps(found, indent=2) + "\n")
    for policy, outcome in outcomes.items():
        (out / policy).mkdir(exist_ok=True)
        write_jobs(outcome, out / policy / "jobs.csv")
    draw({policy: outcome.history for policy, outcome in outcomes.items()}, out / "gpus.png")


def _runs(asked: Comparison) -> Iterator[tuple[str, Scenario, Settings]]:
    servers = training_servers(*asked.servers)
    for policy in asked.policies:
        follows = asked.assume == "elasticflow"
        cap = elasticflow_cap(policy) if follows else no_cap
        trace = traces.load(asked.trace, profiles=asked.profiles, skip_bad=asked.skip_bad, cap=cap)
        if not trace.arrivals:
            raise UserError(f"{asked.trace}: has no jobs")
        settings = Settings(
            policy,
            costs=elasticflow_costs(policy) if follows else Costs(),
            slot_s=asked.slot_s,
            report_every_s=asked.report_every_s,
        )
        yield policy, Scenario(trace.arrivals, servers), settings


def _simulate(scenario: Scenario, settings: Settings, watch: Watch) -> Outcome:
    total = len(scenario.arrivals)

    def look(engine: Engine) -> None:
        if engine.state.events % WATCH_EVERY == 0:
            over = len(simulator.outcome.history.jobs) - len(engine.state.live)
            watch(settings.policy, over, total)

    simulator = Simulator(scenario, settings, watch=look)
    return simulator.run()
