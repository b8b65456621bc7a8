"""One trace under several policies: `raysched simulate`."""

from __future__ import annotations

import json
import re
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field, replace
from functools import cache
from pathlib import Path
from typing import Any, TypeAlias

from loaning import registry as loaning_registry
from policies import registry
from raysched.durations import DAY_S
from raysched.engine import Engine
from raysched.errors import UserError
from raysched.events import PolicySwitched
from raysched.history import History
from raysched.simulator import traces
from raysched.simulator.assume import ASSUMED, Assumption
from raysched.simulator.body import Outcome, Simulator
from raysched.simulator.completions import completion_order, order_tau, widest_swap_s
from raysched.simulator.demand import EVERY_S, inference_pool
from raysched.simulator.metrics import metrics, write_jobs
from raysched.simulator.models import Settings
from raysched.simulator.scenario import Arrival, Outside, Scenario, ServerSet, pool_of
from raysched.simulator.traces import demand, journal
from raysched.simulator.traces.elasticflow import Cap

Metrics: TypeAlias = dict[str, Any]

Watch: TypeAlias = Callable[[str, int, int], None]
"""Told now and then: the policy, how many jobs are over, and of how many."""

WATCH_EVERY = 200
"""Events between two looks."""


_Load: TypeAlias = Callable[[bool, Cap, int, bool], traces.Trace]
"""Reads a trace: with the speeds measured or not, the most GPUs and epochs of a job."""

_QUEUE_S = 7 * DAY_S
"""How long the last job may wait, for all that demand knows: afterwards it stays as it was."""

MEASURED = "measured"
"""The run that a journal holds, beside those that are simulated."""


@dataclass(frozen=True, slots=True)
class Comparison:
    """What to simulate.

    `trace`: a table of jobs, or a journal. A journal names its own servers, and its own policy
    where none is asked for; a table needs `servers`, and may have `inference` servers on which
    `demand`, a table too, keeps `peak_replicas` busy at its highest. `loaning`: "" is what the
    policy comes with, or the journal's own. `slot_s` and `report_every_s` are those of `Settings`.
    `assume`: as whose simulator to count ("": our own). `parameters`: of policies by name, over
    those that are assumed.
    """

    trace: Path
    policies: tuple[str, ...] = ()
    servers: tuple[ServerSet, ...] = ()
    inference: tuple[ServerSet, ...] = ()
    demand: Path | None = None
    peak_replicas: float | None = None
    loaning: str = ""
    profiles: Path | None = None
    slot_s: float | None = None
    report_every_s: float = 0.0
    assume: str = ""
    parameters: Mapping[str, Mapping[str, object]] = field(default_factory=dict)
    skip_bad: bool = False


@dataclass(frozen=True, slots=True)
class Compared:
    """What was found: metrics by policy, jobs in the order of their completion by policy, and how
    many rows of the trace were bad and passed over, or left out because they give GPUs nothing to
    do."""

    metrics: dict[str, Metrics]
    completions: dict[str, tuple[str, ...]]
    skipped: int = 0
    left_out: int = 0


@dataclass(frozen=True, slots=True)
class Run:
    """One policy on one scenario."""

    settings: Settings
    scenario: Scenario
    skipped: int = 0
    left_out: int = 0


def servers_of(text: str, option: str = "--servers") -> tuple[ServerSet, ...]:
    """Servers and GPUs of each, written `16x8`, or with the type and rate of their GPUs
    `16x8:V100,4x8:T4:0.25`. Raises `UserError`."""
    sets = []
    for part in text.split(","):
        found = re.fullmatch(r"([1-9]\d*)x([1-9]\d*)(?::([^:]+)(?::(\d*\.?\d+))?)?", part)
        if found is None or float(found[4] or 1) == 0:
            raise UserError(
                f"{option}: {part!r} is not SERVERSxGPUS[:TYPE[:RATE]], such as 16x8 or 4x8:T4:0.25"
            )
        sets.append(
            ServerSet(int(found[1]), int(found[2]), found[3] or "GPU", float(found[4] or 1))
        )
    return tuple(sets)


def compare(asked: Comparison, out: Path, watch: Watch = lambda *_: None) -> Compared:
    """Simulate each policy; its metrics, and for a journal those of the run itself first. Then
    `completion_order_tau` says how far a policy completes jobs in the order that was measured, and
    `completion_swap_s` how far apart jobs ended, at the most, that it completes in the other one.

    Written to `out`: `metrics.json`, `POLICY/jobs.csv` for each, `gpus.png` and `cdf.png`. Raises
    `UserError` and `PolicyError` before anything is written.
    """
    _check_policies(asked)
    outcomes: dict[str, Outcome] = {}
    if traces.is_journal(asked.trace):
        recorded = journal.read(asked.trace)
        curves = {arrival.job: arrival.epoch_s for arrival in recorded.scenario.arrivals}
        outcomes[MEASURED] = Outcome(recorded.history, recorded.settings, epoch_s=curves)
        runs = _runs_of_journal(asked, recorded)
    else:
        runs = _runs_of_table(asked)
    for run in runs:
        outcome = _simulate(run, watch)
        _check_some_fit(asked.trace, run, outcome)
        outcomes[run.settings.policy] = outcome
    found = {policy: metrics(outcome) for policy, outcome in outcomes.items()}
    histories = {policy: outcome.history for policy, outcome in outcomes.items()}
    if MEASURED in histories:
        for policy in found.keys() - {MEASURED}:
            both = histories[MEASURED], histories[policy]
            found[policy]["completion_order_tau"] = order_tau(*both)
            found[policy]["completion_swap_s"] = widest_swap_s(*both)
    _write(found, outcomes, histories, out)
    completions = {policy: completion_order(history) for policy, history in histories.items()}
    return Compared(found, completions, runs[0].skipped, runs[0].left_out)


def _check_policies(asked: Comparison) -> None:
    for policy in asked.policies:
        registry.load(policy, asked.parameters.get(policy, {}))
    for policy in asked.parameters:
        if policy not in asked.policies:
            chosen = ", ".join(asked.policies) or "none"
            raise UserError(f"--set: {policy} is not simulated; --policy names {chosen}")
    if asked.loaning:
        loaning_registry.load(asked.loaning, {})


def _runs_of_table(asked: Comparison) -> list[Run]:
    if not asked.servers:
        raise UserError(f"--servers: {asked.trace} names no servers; pass some, such as 16x8")
    if bool(asked.inference) != (asked.demand is not None):
        raise UserError("--inference, --demand: an inference pool needs both")
    if not asked.inference and (asked.loaning or asked.peak_replicas is not None):
        raise UserError("--inference: without such servers there is none to lend; pass some")
    load = _loader(asked)
    return [_run_of_table(asked, policy, load) for policy in asked.policies or ("fifo",)]


def run_of_table(asked: Comparison, policy: str) -> Run:
    """What one policy runs on a table of jobs. Raises `UserError`, also for a bad table."""
    return _run_of_table(asked, policy, _loader(asked))


def _run_of_table(asked: Comparison, policy: str, load: _Load) -> Run:
    assumed = ASSUMED[asked.assume].get(policy, Assumption()) if asked.assume else None
    reading = assumed or Assumption()
    trace = load(reading.work == "iterations", reading.cap, reading.most_epochs, reading.tuned)
    if not trace.arrivals:
        passed_over = f" for GPUs: {trace.left_out} rows are left out" if trace.left_out else ""
        raise UserError(f"{asked.trace}: has no jobs{passed_over}")
    parameters = dict(asked.parameters.get(policy, {}))
    loaning = asked.loaning or registry.load(policy, parameters).default_loaning
    settings = Settings(
        policy,
        parameters,
        loaning=loaning if asked.inference else "off",
        loaning_parameters=_smoothed(loaning) if asked.inference else {},
        slot_s=asked.slot_s,
        report_every_s=asked.report_every_s,
    )
    if assumed is not None:
        settings = assumed.applied(settings)
    outside = [*pool_of("training", *asked.servers), *_inference(asked, trace.arrivals)]
    return Run(settings, Scenario(trace.arrivals, outside), trace.skipped, trace.left_out)


def _loader(asked: Comparison) -> _Load:
    """Reads the trace once for all policies that take it alike."""

    @cache
    def load(with_profiles: bool, cap: Cap, most_epochs: int, tuned: bool) -> traces.Trace:
        return traces.load(
            asked.trace,
            profiles=asked.profiles if with_profiles else None,
            skip_bad=asked.skip_bad,
            cap=cap,
            most_epochs=most_epochs,
            tuned=tuned,
        )

    return load


def _inference(asked: Comparison, arrivals: Sequence[Arrival]) -> list[Outside]:
    """The inference pool, with demand for as long as jobs are expected to run."""
    if asked.demand is None:
        return []
    series, _ = demand.read(asked.demand, skip_bad=asked.skip_bad)
    until_s = arrivals[-1].at_s + 2 * max(arrival.alone_s for arrival in arrivals) + _QUEUE_S
    servers = pool_of("inference", *asked.inference)
    return inference_pool(servers, series, until_s, peak_replicas=asked.peak_replicas)


def _smoothed(loaning: str) -> dict[str, object]:
    """A loaning that smooths demand has to do so over as long as passes between two samples."""
    known = loaning_registry.describe(loaning)["parameters"]
    return {"smooth_s": EVERY_S} if "smooth_s" in known else {}


def _runs_of_journal(asked: Comparison, recorded: journal.Recorded) -> list[Run]:
    """The journal's own policy with whatever its operators switched, or others from the start."""
    if asked.servers or asked.inference or asked.demand:
        raise UserError("--servers, --inference, --demand: a journal names its own; leave them out")
    own = replace(recorded.settings, slot_s=asked.slot_s, report_every_s=asked.report_every_s)
    if asked.loaning:
        own = replace(own, loaning=asked.loaning, loaning_parameters={})
    if not asked.policies:
        return [Run(own, recorded.scenario)]
    outside = [e for e in recorded.scenario.outside if not isinstance(e, PolicySwitched)]
    scenario = replace(recorded.scenario, outside=outside)
    return [
        Run(_under(policy, own, asked.parameters.get(policy, {})), scenario)
        for policy in asked.policies
    ]


def _under(policy: str, own: Settings, parameters: Mapping[str, object]) -> Settings:
    """The same costs and loaning under another policy, with its own parameters."""
    known = own.policy_parameters if policy == own.policy else {}
    return replace(own, policy=policy, policy_parameters={**known, **parameters})


def _simulate(run: Run, watch: Watch) -> Outcome:
    total = len(run.scenario.arrivals)

    def look(engine: Engine) -> None:
        if engine.state.events % WATCH_EVERY == 0:
            over = len(simulator.outcome.history.jobs) - len(engine.state.live)
            watch(run.settings.policy, over, total)

    simulator = Simulator(run.scenario, run.settings, watch=look)
    return simulator.run()


def _check_some_fit(trace: Path, run: Run, outcome: Outcome) -> None:
    """One job too large is dropped and counted. All of them are a mistake."""
    if len(outcome.refused) == len(run.scenario.arrivals):
        job, why = next(iter(outcome.refused.items()))
        raise UserError(f"{trace}: no job fits on the servers; job {job}: {why}")


def _write(
    found: dict[str, Metrics],
    outcomes: dict[str, Outcome],
    histories: dict[str, History],
    out: Path,
) -> None:
    """Keep what was found in a folder."""
    from raysched.simulator.picture import draw_cdfs, draw_gpus  # matplotlib is slow to import

    out.mkdir(parents=True, exist_ok=True)
    (out / "metrics.json").write_text(json.dumps(found, indent=2) + "\n")
    for policy, outcome in outcomes.items():
        (out / policy).mkdir(exist_ok=True)
        write_jobs(outcome, out / policy / "jobs.csv")
    draw_gpus(histories, out / "gpus.png")
    draw_cdfs(histories, out / "cdf.png")
