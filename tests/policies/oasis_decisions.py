"""oasis on the contract: problems decided, and decisions read."""

from __future__ import annotations

import json
from dataclasses import replace

import numpy as np

from policies.oasis import Oasis
from policies.problem import NO_MEMORY
from tests.builders import problem

OASIS = Oasis(slot_s=10.0, horizon_slots=20)
NOW = {"now_s": 0.0}  # `problem` lets 1000 s pass otherwise


def decide(jobs, servers, memory=NO_MEMORY, policy=OASIS, **kwargs):
    """The decision and the memory, as the journal would give it back."""
    decision, memory = policy.decide(problem(jobs, servers, **(NOW | kwargs)), memory)
    return decision, json.loads(json.dumps(memory))


def sizes(decision):
    return {name: allocation.workers for name, allocation in decision.allocations.items()}


def number(reason, name):
    value = reason.numbers[name]
    assert isinstance(value, int | float)
    return value


def ends_s(allocation):
    """When it is promised to end."""
    assert allocation.promise is not None
    return allocation.promise.until_s


def remembered(memory):
    """Job -> its blocks: slots from, until before, server, workers."""
    admitted = memory["admitted"]
    servers = [admitted["servers"][column] for column in admitted["server"]]
    columns = (admitted["start"], admitted["end"], servers, admitted["workers"])
    blocks = iter(zip(*columns, strict=True))
    numbers = zip(admitted["jobs"], admitted["blocks"], strict=True)
    return {name: [next(blocks) for _ in range(number)] for name, number in numbers}


def why(decision, name):
    return str(decision.allocations[name].reason)


def with_column(case, **columns):
    columns = {name: np.array(values) for name, values in columns.items()}
    return replace(case, jobs=replace(case.jobs, **columns))
