"""What goes wrong: servers that fail, users who give up, code that raises, wrong estimates."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, replace

import numpy as np

from raysched.errors import UserError
from raysched.events import JobEnded, ServerAdded, ServerLost
from raysched.simulator.scenario import Arrival, Outside, Scenario


@dataclass(frozen=True, slots=True)
class Mishaps:
    """Shares of jobs to which something happens, from 0 to 1; no job belongs to two of them.

    `misjudged`: the scheduler is told times that are wrong by up to ± `error` of the true ones
    (004 §7.5: up to 60 % of jobs by at most 25 %; 000 §5.4: all by 10 %). It learns the true times
    of sizes at which it sees a job train. `buggy`: the job's code raises within `bug_within_s` of
    training, or before its end if that comes sooner (000 §5.4: 15 % within 5 minutes). `cancelled`:
    its user ends it within the time that it would take with the workers asked for and no queue
    (000 §5.4: 10 % at any time); one that is over by then is not hit.

    Raises `UserError`.
    """

    misjudged: float = 0.0
    error: float = 0.1
    buggy: float = 0.0
    bug_within_s: float = 300.0
    cancelled: float = 0.0

    def __post_init__(self) -> None:
        shares = (self.misjudged, self.buggy, self.cancelled)
        if min(shares) < 0 or sum(shares) > 1 + 1e-9:
            raise UserError(f"misjudged, buggy, cancelled: {shares} must be shares of 1 together")
        if not 0 <= self.error < 1:
            raise UserError(f"error is {self.error}; use a share from 0 to below 1")
        if not self.bug_within_s > 0:
            raise UserError(f"bug_within_s is {self.bug_within_s}; use a time above 0")


def disturb(scenario: Scenario, mishaps: Mishaps, seed: int) -> Scenario:
    """The same jobs, some of them hit: exactly the shares asked for, rounded to whole jobs."""
    rng = np.random.default_rng(seed)
    jobs = len(scenario.arrivals)
    hit, sizes = rng.permutation(jobs), rng.uniform(size=jobs)
    shares = np.cumsum([mishaps.misjudged, mishaps.buggy, mishaps.cancelled])
    misjudged, buggy, cancelled, _ = np.split(hit, np.rint(shares * jobs).astype(int))
    arrivals = list(scenario.arrivals)
    for job in misjudged:
        arrivals[job] = _misjudge(arrivals[job], 1 + mishaps.error * (2 * sizes[job] - 1))
    for job in buggy:
        arrivals[job] = _break(arrivals[job], mishaps.bug_within_s, 1 - sizes[job])
    leaving: list[Outside] = []
    for job in cancelled:
        at_s = arrivals[job].at_s + (1 - sizes[job]) * arrivals[job].alone_s
        leaving.append(JobEnded(float(at_s), arrivals[job].job, "cancelled"))
    return replace(scenario, arrivals=arrivals).and_also(leaving)


def failures(
    servers: Sequence[ServerAdded], until_s: float, *, mtbf_s: float, mttr_s: float, seed: int
) -> list[ServerAdded | ServerLost]:
    """Servers that are lost and come back, with exponential times between the failures of each
    server (mean `mtbf_s`) and to its repair (mean `mttr_s`).

    Each server has its own stream: what happens to it is the same whatever others are there. The
    last repair may be after `until_s`.
    """
    happened: list[ServerAdded | ServerLost] = []
    for number, server in enumerate(servers):
        rng = np.random.default_rng((seed, number))
        at_s = server.at_s + rng.exponential(mtbf_s)
        while at_s < until_s:
            happened.append(ServerLost(at_s, server.server))
            at_s += rng.exponential(mttr_s)
            happened.append(replace(server, at_s=at_s))
            at_s += rng.exponential(mtbf_s)
    return sorted(happened, key=lambda event: event.at_s)


def _misjudge(arrival: Arrival, factor: float) -> Arrival:
    """Times as told are `factor` of what they would have been."""
    spec, profile, expected_s = arrival.spec, arrival.spec.profile_epoch_s, arrival.spec.expected_s
    told = replace(
        spec,
        profile_epoch_s=None if profile is None else tuple(s and factor * s for s in profile),
        expected_s=None if expected_s is None else factor * expected_s,
    )
    return replace(arrival, spec=told)


def _break(arrival: Arrival, within_s: float, share: float) -> Arrival:
    """Its code raises after this share of the time in which it may."""
    epoch_s = arrival.alone_s / arrival.spec.epochs
    fails = share * min(within_s, arrival.alone_s) / epoch_s
    return replace(arrival, fails_epochs=float(fails))
