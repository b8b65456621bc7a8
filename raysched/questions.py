"""What a policy or a loaning is asked, as a value that is answered off the scheduler's loop.

A question holds copies of everything it needs, so that the state may move on under it; its answer
is an event. The engine drops an answer to a question that is no longer open.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import dataclass
from typing import Any, TypeAlias

from loaning.problem import Loaning, LoanProblem
from policies.problem import NO_MEMORY, Policy, Problem
from raysched import lending, promises
from raysched.actions import AskLoaning, AskPolicy
from raysched.engine import Engine
from raysched.events import DecisionFailed, LoaningDecided, PolicyDecided

LoadLoaning: TypeAlias = Callable[[str, Mapping[str, Any]], Loaning]


@dataclass(frozen=True, slots=True)
class PolicyQuestion:
    """A scheduling problem as it stood when it was asked."""

    ask: int
    policy: Policy
    problem: Problem
    memory: Mapping[str, Any]

    def answer(self, at_s: float) -> PolicyDecided | DecisionFailed:
        """Decide. Where the policy raises, that is the answer."""
        try:
            decision, memory = self.policy.decide(self.problem, self.memory)
        except Exception as error:  # a third party's policy may raise anything
            return DecisionFailed(at_s, self.ask, "policy", _told(error))
        return PolicyDecided(at_s, self.ask, decision, memory)


@dataclass(frozen=True, slots=True)
class LoaningQuestion:
    """A loaning problem as it stood when it was asked."""

    ask: int
    loaning: Loaning
    problem: LoanProblem
    memory: Mapping[str, Any]

    def answer(self, at_s: float) -> LoaningDecided | DecisionFailed:
        """Decide. Where the loaning raises, that is the answer."""
        try:
            decision, memory = self.loaning.decide(self.problem, self.memory)
        except Exception as error:  # a third party's loaning may raise anything
            return DecisionFailed(at_s, self.ask, "loaning", _told(error))
        return LoaningDecided(at_s, self.ask, decision, memory)


Question: TypeAlias = PolicyQuestion | LoaningQuestion


def question(
    engine: Engine, ask: AskPolicy | AskLoaning, load_loaning: LoadLoaning
) -> Question | None:
    """What `ask` asks, on the state right after the event that led to it."""
    state = engine.state
    if isinstance(ask, AskPolicy):
        return PolicyQuestion(
            ask.ask, engine.policy, engine.problem(promises.inherited(state)), state.policy.memory
        )
    problem = lending.problem(state)
    if problem is None:
        return None
    setting = state.loaning
    loaning = load_loaning(setting.name, setting.parameters)
    return LoaningQuestion(ask.ask, loaning, problem, setting.memory)


def trial(engine: Engine, policy: Policy, *, break_promises: bool) -> PolicyQuestion:
    """What `policy` would be asked first, were it chosen now. Its answer changes nothing."""
    apart = [] if break_promises else promises.promised(engine.state)
    return PolicyQuestion(0, policy, engine.problem(apart), NO_MEMORY)


def _told(error: Exception) -> str:
    return f"{type(error).__name__}: {error}"
