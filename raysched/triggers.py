"""When the policy and the loaning are asked (ruling 6): on arrival, departure, change of capacity,
drift, their period or their own wish. Boundaries do not decide; triggers coalesce while an ask is
under way.
"""

from __future__ import annotations

from raysched.state import Setting, State


def policy_due(state: State, why: str) -> None:
    """The policy has to be asked. The first reason stands until it is."""
    state.policy.due = state.policy.due or why


def loaning_due(state: State, why: str) -> None:
    """The loaning has to be asked, if there is anything it could lend."""
    if state.inference is not None:
        state.loaning.due = state.loaning.due or why


def ask(state: State, setting: Setting) -> tuple[int, str] | None:
    """The id and trigger of a new ask, where one is due and none is under way."""
    if not setting.due or setting.outstanding is not None:
        return None
    trigger, setting.due = setting.due, ""
    state.last_ask += 1
    setting.outstanding, setting.asked_s = state.last_ask, state.now_s
    return state.last_ask, trigger


def answered(setting: Setting, ask_id: int) -> bool:
    """Whether this answers the ask under way. Anything else is stale, and dropped."""
    if setting.outstanding != ask_id:
        return False
    setting.outstanding, setting.error = None, ""
    return True


def next_due_s(state: State, interval_s: float | None) -> float | None:
    """When the policy's period or its `review_at_s` is up, or a promised plan takes a step.

    None: nothing is waited for.
    """
    if not state.live:
        return None
    setting = state.policy
    times = [at_s for at_s in (setting.review_at_s, state.plan_step_s) if at_s is not None]
    if interval_s is not None:
        times.append((setting.asked_s or 0.0) + interval_s)
    return min(times, default=None)


def periods_over(state: State, interval_s: float | None) -> None:
    """Have the policy asked where its time has come."""
    due_s = next_due_s(state, interval_s)
    if due_s is not None and state.now_s >= due_s:
        policy_due(state, "its period is over")
        state.policy.review_at_s = state.plan_step_s = None
