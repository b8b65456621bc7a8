"""The loanings by name: entry-point group `raysched.loaning`."""

from __future__ import annotations

from loaning.problem import Loaning
from policies.plugins import BadParameter, Registry, UnknownPolicy

__all__ = ["GROUP", "BadParameter", "UnknownPolicy", "describe", "load", "names"]

GROUP = "raysched.loaning"

_loanings: Registry[Loaning] = Registry(GROUP, "loaning")

names = _loanings.names
load = _loanings.load
describe = _loanings.describe
