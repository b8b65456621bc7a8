"""One trace under several policies: `raysched simulate`."""

from __future__ import annotations

import json
import re
from collections.abc import Callable, Sequence
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Any, TypeAlias

from policies import registry
from raysched.engine import Engine
from raysched.errors import UserError
from raysched.events import PolicySwitched
from raysched.simulator import traces
from raysched.simulator.assume import elasticflow_cap, elasticflow_costs
from raysched.simulator.body import Outcome, Simulator
from raysched.simulator.metrics import metrics, write_jobs
from raysched.simulator.models import Costs, Settings
from raysched.simulator.scenario import Outside, Scenario, training_servers
from raysched.simulator.traces import journal
from raysched.simulator.traces.elasticflow import no_cap

Metrics: TypeAlias = dict[str, Any]

Watch: TypeAlias = Callable[[str, int, int], None]
"""Told now and then: the policy, how many jobs are over, and of how many."""

WATCH_EVERY = 200
"""Events between two looks."""


MEASURED = "measured"
"""The run that a journal holds, beside those that are simulated."""


@dataclass(frozen=True, slots=True)
class Comparison:
    """What to simulate.

    `trace`: a table of jobs, or a journal. A journal names its own servers, and its own policy
    where none is asked for; a table needs `servers`: how many, of how many GPUs each. `slot_s` and
    `report_every_s` are those of `Settings`. `assume`: whose simulator's costs to take ("": none).
    """

    trace: Path
    policies: tuple[str, ...] = ()
    servers: tuple[int, int] | None = None
    profiles: Path | None = None
    slot_s: float | None = None
    report_every_s: float = 0.0
    assume: str = ""
    skip_bad: bool = False


@dataclass(frozen=True, slots=True)
class Compared:
    """What was found: metrics by policy, and how many bad rows of the trace were passed over."""

    metrics: dict[str, Metrics]
    skipped: int = 0


@dataclass(frozen=True, slots=True)
class _Run:
    """One policy on one scenario."""

    settings: Settings
    scenario: Scenario
    skipped: int = 0


def servers_of(text: str) -> tuple[int, int]:
    """Servers and GPUs of each, written `16x8`. Raises `UserError`."""
    found = re.fullmatch(r"([1-9]\d*)x([1-9]\d*)", text)
    if found is None:
        raise UserError(f"--servers: {text!r} is not SERVERSxGPUS, such as 16x8")
    return int(found[1]), int(found[2])


def compare(asked: Comparison, out: Path, watch: Watch = lambda *_: None) -> Compared:
    """Simulate each policy; its metrics, and for a journal those of the run itself first.

    Written to `out`: `metrics.json`, `POLICY/jobs.csv` for each, and `gpus.png`. Raises `UserError`
    and `PolicyError` before anything is simulated.
    """
    for policy in asked.policies:
        registry.load(policy, {})
    outcomes: dict[str, Outcome] = {}
    if traces.is_journal(asked.trace):
        recorded = journal.read(asked.trace)
        curves = {arrival.job: arrival.epoch_s for arrival in recorded.scenario.arrivals}
        outcomes[MEASURED] = Outcome(recorded.history, recorded.settings, epoch_s=curves)
        runs = _runs_of_journal(asked, recorded)
    else:
        runs = _runs_of_table(asked)
    for run in runs:
        outcomes[run.settings.policy] = _simulate(run, watch)
    found = {policy: metrics(outcome) for policy, outcome in outcomes.items()}
    _write(found, outcomes, out)
    return Compared(found, runs[0].skipped)


def _runs_of_table(asked: Comparison) -> list[_Run]:
    if asked.servers is None:
        raise UserError(f"--servers: {asked.trace} names no servers; pass some, such as 16x8")
    servers = training_servers(*asked.servers)
    return [_run_of_table(asked, policy, servers) for policy in asked.policies or ("fifo",)]


def _run_of_table(asked: Comparison, policy: str, servers: Sequence[Outside]) -> _Run:
    follows = asked.assume == "elasticflow"
    trace = traces.load(
        asked.trace,
        profiles=asked.profiles,
        skip_bad=asked.skip_bad,
        cap=elasticflow_cap(policy) if follows else no_cap,
    )
    if not trace.arrivals:
        raise UserError(f"{asked.trace}: has no jobs")
    settings = Settings(
        policy,
        costs=elasticflow_costs(policy) if follows else Costs(),
        slot_s=asked.slot_s,
        report_every_s=asked.report_every_s,
    )
    return _Run(settings, Scenario(trace.arrivals, servers), trace.skipped)


def _runs_of_journal(asked: Comparison, recorded: journal.Recorded) -> list[_Run]:
    """The journal's own policy with whatever its operators switched, or others from the start."""
    if asked.servers is not None:
        raise UserError("--servers: a journal names its own servers; leave it out")
    own = replace(recorded.settings, slot_s=asked.slot_s, report_every_s=asked.report_every_s)
    if not asked.policies:
        return [_Run(own, recorded.scenario)]
    outside = [e for e in recorded.scenario.outside if not isinstance(e, PolicySwitched)]
    scenario = replace(recorded.scenario, outside=outside)
    return [_Run(_under(policy, own), scenario) for policy in asked.policies]


def _under(policy: str, own: Settings) -> Settings:
    """The same costs and loaning under another policy, with its own parameters."""
    return own if policy == own.policy else replace(own, policy=policy, policy_parameters={})


def _simulate(run: _Run, watch: Watch) -> Outcome:
    total = len(run.scenario.arrivals)

    def look(engine: Engine) -> None:
        if engine.state.events % WATCH_EVERY == 0:
            over = len(simulator.outcome.history.jobs) - len(engine.state.live)
            watch(run.settings.policy, over, total)

    simulator = Simulator(run.scenario, run.settings, watch=look)
    return simulator.run()


def _write(found: dict[str, Metrics], outcomes: dict[str, Outcome], out: Path) -> None:
    """Keep what was found in a folder."""
    from raysched.simulator.picture import draw  # matplotlib is slow to import

    out.mkdir(parents=True, exist_ok=True)
    (out / "metrics.json").write_text(json.dumps(found, indent=2) + "\n")
    for policy, outcome in outcomes.items():
        (out / policy).mkdir(exist_ok=True)
        write_jobs(outcome, out / policy / "jobs.csv")
    draw({policy: outcome.history for policy, outcome in outcomes.items()}, out / "gpus.png")
