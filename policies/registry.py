"""The scheduling policies by name: entry-point group `raysched.policies`."""

from __future__ import annotations

from typing import Any

from policies.plugins import BadParameter, Registry, UnknownPolicy
from policies.problem import Policy

__all__ = ["GROUP", "BadParameter", "UnknownPolicy", "describe", "load", "names"]

GROUP = "raysched.policies"

_policies = Registry[Policy](GROUP, "policy")

names = _policies.names
load = _policies.load


def describe(name: str) -> dict[str, Any]:
    """Name, paper, section, readings, default loaning, and parameters with their defaults, as JSON
    values."""
    return _policies.describe(name) | {"default_loaning": _policies.find(name).default_loaning}
