"""The scheduler's loop keeps going, whatever an event or a policy does. Needs no Ray cluster."""

from __future__ import annotations

import asyncio
from dataclasses import dataclass
from typing import ClassVar

import pytest

from policies import registry
from policies.problem import Decision, Memory, Problem
from raysched.events import DemandObserved, JobSubmitted, PolicySwitched, ServerAdded
from raysched.journal import Journal
from raysched.replay import recover
from raysched.runtime.body import Body
from tests.pretend_cluster import spec

pytestmark = pytest.mark.real  # imports Ray


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
