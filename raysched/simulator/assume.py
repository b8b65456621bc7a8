"""What other simulators take for granted, so that like is compared with like.

Each assumption says how that simulator runs one policy: by which reading and parameters, what work
a job does, when the scheduler is told of things, and what that costs. Neither the policies nor the
engine know of it.
"""

from __future__ import annotations

import sys
from collections.abc import Mapping
from dataclasses import dataclass, field, replace
from typing import Literal

from raysched.simulator.models import Costs, Settings
from raysched.simulator.slots import Told
from raysched.simulator.traces.elasticflow import Cap, no_cap
from raysched.simulator.traces.trace import MOST_EPOCHS

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


def model_cap(model: str, batch_size: int) -> int:
    """From how many GPUs on a model gains nothing, as 001's authors measured it."""
    return _MOST_GPUS.get((model, batch_size), no_cap(model, batch_size))


_FREE = Costs(at_boundaries=False)

_PAYS = replace(_FREE, start_s=2.0, decision_s=2.0)
"""At each decision a job pays its stop. Departures: GPUs that no job had before, a restart every
so many decisions, and clusters of 256 GPUs cost no more; after few decisions all GPUs were used."""


@dataclass(frozen=True, slots=True)
class Assumption:
    """How a simulator runs a policy.

    `parameters` of the policy, of which `slot` is the length of a slot. `work`: jobs run their
    iterations at the speeds measured, or their duration on the trace's GPUs. `told`,
    `rows_when_told` and `costs` are those of `Settings`; `cap` is the most GPUs of a job; `tuned`:
    the policy may choose its batch size. `slot_s`: of slots where nobody says how long they are.
    """

    parameters: Mapping[str, object] = field(default_factory=dict)
    slot: str = ""
    work: Literal["iterations", "duration"] = "iterations"
    told: Told = Told.IN_SLOT
    rows_when_told: bool = False
    costs: Costs = _FREE
    cap: Cap = no_cap
    most_epochs: int = MOST_EPOCHS
    tuned: bool = False
    slot_s: float | None = None

    def applied(self, asked: Settings) -> Settings:
        """These settings as that simulator has them; parameters that were asked for stand."""
        slot_s = self.slot_s if asked.slot_s is None else asked.slot_s
        of_slot = {self.slot: slot_s} if self.slot and slot_s is not None else {}
        return replace(
            asked,
            policy_parameters={**self.parameters, **of_slot, **asked.policy_parameters},
            slot_s=slot_s,
            costs=self.costs,
            told=self.told,
            rows_when_told=self.rows_when_told,
        )


_PUBLISHED = {"reading": "published"}

ELASTICFLOW: Mapping[str, Assumption] = {
    "fifo": Assumption(work="duration"),
    "edf": Assumption(_PUBLISHED),
    "edf_admission": Assumption(_PUBLISHED, slot="slot_s", costs=_PAYS),
    "edf_elastic": Assumption(rows_when_told=True, costs=_PAYS, cap=model_cap),
    "elasticflow": Assumption(rows_when_told=True, costs=_PAYS, cap=model_cap),
    "gandiva": Assumption(_PUBLISHED, slot="quantum_s", work="duration", told=Told.AT_ARRIVALS),
    "tiresias": Assumption(_PUBLISHED, slot="review_s", work="duration"),
    "themis": Assumption(_PUBLISHED, slot="lease_s", told=Told.GRID, most_epochs=sys.maxsize),
    "chronus": Assumption(slot="lease_s", work="duration", told=Told.GRID),
}
"""001's authors' simulator, by policy; others are run like `edf`. A change of size waits for no
boundary and costs nothing by itself.

Departures: what a start costs under tiresias, and every decision under gandiva (4 to 21 s, and up
to 47 s more at times), is left out. Under gandiva the last arrival may wait for the end of a slot
too. elasticflow and edf_elastic are the paper's, not that simulator's readings of them: there jobs
hold their GPUs to the end of a whole slot, arrivals are admitted all or none, and spare GPUs go
where they save least.
"""

_RESTARTS = replace(_FREE, start_s=30.0, resize_s=30.0, move_s=30.0, preempted_s=30.0)

POLLUX: Mapping[str, Assumption] = {
    "tiresias": Assumption(
        {"first_limit_gpu_s": 57_600.0, "second_limit_gpu_s": None},
        slot="review_s",
        told=Told.GRID,
        costs=_RESTARTS,
        slot_s=60.0,
    ),
    "optimus": Assumption(slot="interval_s", told=Told.GRID, costs=_RESTARTS, slot_s=60.0),
    "pollux": Assumption(
        slot="interval_s", told=Told.GRID, costs=_RESTARTS, tuned=True, slot_s=60.0
    ),
}
"""Pollux's authors' simulator: every 60 s, and a start or any change takes 30 s.

Departures: a new placement is the best fit, there it begins where most GPUs are free; service is
counted without restarts; slots begin with the first arrival; and pollux, whose search is ours,
knows speeds and gradients from the start, which jobs report there as they run.
"""

ASSUMED: Mapping[str, Mapping[str, Assumption]] = {"elasticflow": ELASTICFLOW, "pollux": POLLUX}
"""By whose simulator it is."""
