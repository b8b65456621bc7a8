"""What other simulators take for granted, so that like is compared with like."""

from __future__ import annotations

from raysched.simulator.models import Costs
from raysched.simulator.traces.elasticflow import Cap, no_cap

_MOST_GPUS = {
    ("bert", 64): 8,
    ("bert", 128): 16,
    ("bert", 384): 16,
    ("gpt2", 128): 16,
    ("gpt2", 256): 32,
    ("inception3", 64): 16,
    ("inception3", 128): 32,
    ("resnet50", 64): 32,
    ("vgg16", 64): 32,
    ("cifar10", 2048): 16,
    ("cifar10", 4096): 16,
    ("ncf", 32768): 1,
    ("yolov3", 64): 4,
}

PLANNERS = frozenset({"elasticflow", "edf_elastic"})
"""Only 001's own schedules know from how many GPUs on a model gains nothing."""

PAYERS = PLANNERS | {"edf_admission"}

DECISION_S = 2.0
"""A job on GPUs that were used before pays its stop alone; after few decisions all were."""


def elasticflow_costs(policy: str) -> Costs:
    """As the simulator of 001's authors counts: a resize waits for no boundary and costs nothing
    by itself, but under some policies every running job pays at every decision.

    Departures: GPUs that no job had yet, and a restart every `slot` decisions, cost no more.
    """
    decision_s = DECISION_S if policy in PAYERS else 0.0
    return Costs(start_s=decision_s, decision_s=decision_s, at_boundaries=False)


def elasticflow_cap(policy: str) -> Cap:
    """The most GPUs of a job, by model and batch size."""
    if policy not in PLANNERS:
        return no_cap
    return lambda model, batch_size: _MOST_GPUS.get((model, batch_size), no_cap(model, batch_size))
