"""What coordinator, workers and parameter servers of one job say to each other."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import Any

from raysched.runtime.parameter_servers.shards import Numbers, Range


@dataclass(frozen=True, slots=True)
class Round:
    """One run through the chunks of an epoch. A server that is lost has it begun anew."""

    number: int  # counts rounds, those that were broken off included
    epoch: int
    servers: tuple[Any, ...]  # actors
    ranges: tuple[Range, ...]  # of each server
    loaded: int  # the number of the loading that its servers had: what is older is not applied
    seed: int


@dataclass(frozen=True, slots=True)
class RoundDone:
    """What a worker says when it finds no chunk left."""

    number: int
    epoch: int
    metrics: Mapping[str, float] = field(default_factory=dict)


@dataclass(frozen=True, slots=True)
class Saved:
    """An epoch boundary and its checkpoint."""

    epoch: int
    seed: int
    metrics: Mapping[str, float]
    path: str  # of its directory


@dataclass(frozen=True, slots=True)
class First:
    """What the servers and workers of a job that was never saved begin with."""

    values: Numbers
    carried: bytes
