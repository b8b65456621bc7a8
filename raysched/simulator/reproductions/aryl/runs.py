"""What 004's experiments run: its fifteen days under a scheme."""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from typing import Any, TypeAlias

from policies.problem import MIXING
from raysched.simulator.body import Outcome, Simulator
from raysched.simulator.models import Costs, Settings
from raysched.simulator.reproductions.aryl.measures import measure, times
from raysched.simulator.reproductions.experiment import Effort, Measured, Run
from raysched.simulator.workloads.aryl import DEMAND_S, Workload, scenario
from raysched.simulator.workloads.disturbances import Mishaps, disturb

PREEMPTED_S = 63.0
"""§7.5. A resize costs nothing there, and jobs leave at once."""

REPORT_S = 1800.0
"""Jobs train for hours: that they tell how far they are each half hour is enough to plan with."""

HEADROOM = 0.9
"""Of an inference server. With it a quarter of the pool is lent in the mean, as row 7 of Table 5
implies: overall use rises by 14 % of both pools."""

ERROR = 0.25
"""Of an estimate that is wrong (Table 9)."""

Scheme: TypeAlias = Mapping[str, Any]
"""All parameters of `simulate` but seed and scale."""


def scheme(policy: str, reclaim: str = "", **other: Any) -> Scheme:
    """A policy and how it is run. `reclaim`: how servers on loan are chosen that go back; where it
    is "", none is lent. The other parameters, and their values where they are left out:

    - `elastic`, `mixing`, `imperfect`: as in `Workload`, by default the Basic scenario;
    - `keeps`: the share of its speed that a job keeps on GPUs of two types (§7.1: 0.7);
    - `tuned`: jobs that scale have larger batches too, and aryl chooses among these;
    - `apart`: aryl places elastic jobs by §5.3;
    - `misjudged`: share of the jobs whose time is estimated wrong by up to a quarter (Table 9).
    """
    basic = {"elastic": 0.05, "mixing": 0.0, "imperfect": False, "keeps": MIXING}
    plain = {"tuned": False, "apart": True, "misjudged": 0.0}
    return {"policy": policy, "reclaim": reclaim, **basic, **plain, **other}


FULL, PART, BESIDE_POLLUX, QUICK = 1.0, 1 / 8, 1 / 16, 1 / 64
"""Scales: as printed, of most experiments, of those with Pollux, which refuses to search for more
jobs and GPUs than that, and of all of them when quick."""

FULL_SLOT_S = 60.0
"""At full scale a run with a decision at each event takes more than ten minutes. With one a minute
at most it takes one to seven."""

OTHERS: Mapping[str, Scheme] = {
    "pollux": {"interval_s": None, "generations": 5, "population": 20, "pauses": False},
}
"""Parameters of other policies. Pollux's own 100 generations of 100 would take a day."""

FIXED: Scheme = {"elastic": 0.0}
ADVANCED: Scheme = {"mixing": 0.1}
IDEAL: Scheme = {"elastic": 1.0, "mixing": 1.0, "keeps": 1.0}
"""Scenarios of §7.1 beside Basic; FIXED is Basic without scaling."""

BASELINE = scheme("fifo")
BASIC = scheme("aryl", "aryl")
LOANING = scheme("aryl", "aryl", **FIXED)
SCALING = scheme("aryl")


def runs(effort: Effort, schemes: Iterable[Scheme], *, scale: float = PART) -> list[Run]:
    """Each scheme with each seed. `scale` shrinks jobs and servers together, unless quick."""
    size = QUICK if effort.quick else scale
    return [
        Run(simulate, {**each, "seed": seed, "scale": size}, _cpu_s(each) * size)
        for each in schemes
        for seed in effort.seeds()
    ]


def runs_at_full_scale(effort: Effort, schemes: Iterable[Scheme]) -> list[Run]:
    """Each scheme once, with a decision a minute at most; when quick at the quick scale."""
    size = QUICK if effort.quick else FULL
    return [
        Run(
            simulate, {**each, "seed": 0, "scale": size, "slot_s": FULL_SLOT_S}, _cpu_s(each) * size
        )
        for each in schemes
    ]


def _cpu_s(each: Scheme) -> float:
    """At full scale, as measured there; with a decision at each event more than that."""
    by_policy = {"fifo": 50.0, "gandiva_elastic": 430.0, "afs": 180.0, "pollux": 600.0}
    return by_policy.get(each["policy"], 140.0) * (1 + float(each["elastic"]))


def simulate(
    *,
    seed: int,
    scale: float,
    elastic: float,
    mixing: float,
    imperfect: bool,
    slot_s: float | None = None,
    **how: Any,
) -> Measured:
    """The days of a seed under a scheme. `slot_s`: as in `Settings`."""
    drawn = Workload(
        scale=scale, elastic=elastic, mixing=mixing, imperfect=imperfect, tunable=how["tuned"]
    )
    return measure(play(drawn, seed, how, slot_s), drawn, seed)


def on_loan(*, seed: int, scale: float) -> Measured:
    """Queuing and JCT of the jobs that ran on loan under loaning alone, and of the same jobs under
    FIFO (Table 7): `aryl_queuing_s_mean`, `fifo_jct_s_p95` …"""
    drawn = Workload(scale=scale, **FIXED)
    lent = play(drawn, seed, LOANING).history
    loaned = {loan.server for loan in lent.loans}
    jobs = [
        name
        for name, job in lent.jobs.items()
        if any(not loaned.isdisjoint(stretch.servers) for stretch in job.stretches)
    ]
    fifo = play(drawn, seed, BASELINE).history
    found = {"aryl": lent.jobs, "fifo": fifo.jobs}
    return {
        f"{policy}_{name}": value
        for policy, history in found.items()
        for name, value in times([history[job] for job in jobs]).items()
    }


def play(drawn: Workload, seed: int, how: Scheme, slot_s: float | None = None) -> Outcome:
    """Simulate to the end."""
    policy, reclaim, keeps = how["policy"], how["reclaim"], how["keeps"]
    days = scenario(drawn, seed, lends=bool(reclaim))
    if how["misjudged"]:
        days = disturb(days, Mishaps(misjudged=how["misjudged"], error=ERROR), seed)
    lending = {"headroom": HEADROOM, "smooth_s": DEMAND_S, "reclaim": reclaim}
    settings = Settings(
        policy=policy,
        policy_parameters=_parameters(how) if policy == "aryl" else OTHERS.get(policy, {}),
        loaning="aryl" if reclaim else "off",
        loaning_parameters=lending if reclaim else {},
        costs=Costs(preempted_s=PREEMPTED_S, at_boundaries=False, mixing=keeps),
        slot_s=slot_s,
        report_every_s=REPORT_S,
    )
    return Simulator(days, settings).run()


def _parameters(how: Scheme) -> dict[str, Any]:
    """Of aryl. It is asked when something happened, and not each minute besides: where times are
    known its answers would be the same."""
    return {
        "interval_s": None,
        "mixing": how["keeps"],
        "tuned": how["tuned"],
        "apart": how["apart"],
    }
