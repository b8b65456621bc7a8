"""The scheduler's loop keeps going, whatever an event or a policy does. Needs no Ray cluster."""

from __future__ import annotations

import asyncio
from dataclasses import dataclass
from typing import ClassVar

import pytest

from policies import registry
from policies.problem import Decision, Memory, Problem
from raysched.actions import Grant
from raysched.events import DemandObserved, JobSubmitted, PolicySwitched, ServerAdded
from raysched.journal import Journal
from raysched.replay import recover
from raysched.runtime.body import Body
from raysched.runtime.protocol import Standing
from raysched.runtime.scheduler import Scheduler
from raysched.state import Job
from tests.pretend_cluster import spec

pytestmark = pytest.mark.real  # imports Ray

PATIENCE_S = 5.0  # for what needs no time


@dataclass(frozen=True)
class Odd:
    """A policy that raises, or answers what cannot be written down."""

    name: ClassVar[str] = "odd"
    source: ClassVar[str] = "the tests"
    default_loaning: ClassVar[str] = "off"
    raises: bool = False
    interval_s: float | None = None

    def decide(self, problem: Problem, memory: Memory) -> tuple[Decision, Memory]:
        if self.raises:
            raise RuntimeError("no idea")
        return Decision({}, objective=float("nan")), memory


@pytest.fixture
def odd(monkeypatch):
    load = registry.load
    monkeypatch.setattr(
        registry, "load", lambda name, p: Odd(**p) if name == "odd" else load(name, p)
    )


def live(tmp_path, *events) -> Body:
    """Tell a body these events, each until all that follows is done; what it said of failures."""

    async def life() -> Body:
        body = Body(Journal(tmp_path / "journal.db"))
        running = asyncio.ensure_future(body.run())
        for event in events:
            try:
                await asyncio.wait_for(body.tell(event), 10)
            except ValueError:
                assert isinstance(event, DemandObserved)
            while body._tasks:
                await asyncio.wait(list(body._tasks), timeout=10)
        running.cancel()
        return body

    return asyncio.run(life())


@pytest.mark.parametrize(("raises", "said"), [(True, "no idea"), (False, "ValueError")])
def test_a_policy_that_fails_is_said_and_asked_again(odd, tmp_path, raises, said):
    body = live(
        tmp_path,
        ServerAdded(0.0, "t1", "training", 4),
        PolicySwitched(0.0, "odd", {"raises": raises}),
    )
    assert said in body.engine.state.policy.error
    assert body.engine.state.policy.outstanding is None  # so that the next trigger asks


def test_an_event_that_cannot_be_written_is_refused_and_leaves_no_trace(tmp_path):
    body = live(
        tmp_path,
        ServerAdded(0.0, "t1", "training", 4),
        DemandObserved(1.0, float("nan")),
        JobSubmitted(2.0, "a", spec("a")),
    )
    assert list(body.engine.state.live) == ["a"]
    assert body.engine.state.live["a"].offer is not None  # it was decided on
    kinds = [row.event.kind for row in body.journal.rows()]
    assert "demand_observed" not in kinds
    again = recover(body.journal, registry.load)
    assert again.state == body.engine.state


def test_a_job_that_leaves_is_told_at_once_that_nobody_can_join_it(tmp_path):
    """All its workers wait at the boundary for that answer."""
    leaving = Job("job", spec(), 0.0, phase="leaving")
    leaving.running, leaving.offer = Grant(1, "job", {"t1": 1}), Grant(2, "job", {"t1": 2})

    async def ask() -> Standing:
        scheduler = Scheduler.__new__(Scheduler)  # without the actor's journal and watchers
        scheduler._ready = asyncio.Event()
        scheduler._ready.set()
        scheduler._body = Body(Journal(tmp_path / "journal.db"))
        scheduler._body.engine.state.live["job"] = leaving
        return await asyncio.wait_for(scheduler.offered("job", running=1, known=0), PATIENCE_S)

    assert asyncio.run(ask()) == Standing()
