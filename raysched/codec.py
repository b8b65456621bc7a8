"""Events, actions and state as JSON and back, in one canonical form.

Canonical: keys sorted, no spaces, no NaN or infinity, floats as Python writes them (which reads
back to the same float). The journal's hash chain rests on it.
"""

from __future__ import annotations

import json
from dataclasses import replace
from typing import Any

from pydantic import TypeAdapter

from raysched.actions import Action
from raysched.events import Event, PolicyDecided
from raysched.state import State

_EVENT: TypeAdapter[Event] = TypeAdapter(Event)
_ACTIONS: TypeAdapter[list[Action]] = TypeAdapter(list[Action])
_STATE: TypeAdapter[State] = TypeAdapter(State)


def canonical(value: Any) -> str:
    """JSON in the one form that is hashed and compared."""
    return json.dumps(value, sort_keys=True, separators=(",", ":"), allow_nan=False)


def event_to_json(event: Event) -> str:
    """One event, canonically."""
    return canonical(_EVENT.dump_python(_written_out(event), mode="json"))


def event_from_json(text: str) -> Event:
    """The event that `event_to_json` wrote. Raises `pydantic.ValidationError`."""
    return _EVENT.validate_json(text)


def as_journaled(event: Event) -> Event:
    """The event as it will be read from the journal: what is live then equals what is replayed,
    whatever order and types of containers a policy used."""
    return event_from_json(event_to_json(event))


def actions_to_json(actions: list[Action]) -> str:
    """Actions in their order, canonically."""
    return canonical(_ACTIONS.dump_python(actions, mode="json"))


def actions_from_json(text: str) -> list[Action]:
    """The actions that `actions_to_json` wrote."""
    return _ACTIONS.validate_json(text)


def state_to_json(state: State) -> str:
    """The whole state, for a snapshot. Keys keep their order: that of the jobs has a meaning."""
    for job in state.live.values():
        job.reason = job.why  # what was left for later is put together once and for all
    return json.dumps(_STATE.dump_python(state, mode="json"), allow_nan=False)


def state_from_json(text: str) -> State:
    """The state that `state_to_json` wrote."""
    return _STATE.validate_json(text)


def _written_out(event: Event) -> Event:
    """With each allocation put together, where a decision leaves that for later."""
    if not isinstance(event, PolicyDecided):
        return event
    allocations = dict(event.decision.allocations)
    return replace(event, decision=replace(event.decision, allocations=allocations))
