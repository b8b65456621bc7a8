"""The end of an epoch: it is told, saved, and workers hear whether they go on as they are."""

from __future__ import annotations

import ray.train
import torch.distributed as dist

from raysched.runtime import link, state
from raysched.runtime.assignment import current
from raysched.runtime.protocol import NEXT_GRANT, BoundaryReport

GATE_S = 120.0
"""For a controller to let workers go on, or to stop them, once their boundary is registered."""


def reach(
    stateful: tuple[state.Stateful, ...],
    seed: int,
    epoch: int,
    epoch_s: float,
    metrics: dict[str, float],
) -> bool:
    """Tell of an epoch that took `epoch_s`, and save it; whether its job goes over to another
    grant now."""
    assignment = current()
    next_grant = assignment.grant
    if dist.get_rank() == 0:
        next_grant, _ = link.call(
            "boundary", BoundaryReport(assignment.job, assignment.grant, epoch, epoch_s, metrics)
        )
    next_grant = state.integer_from_rank_zero(next_grant)
    if epoch == assignment.epochs - 1:
        next_grant = assignment.grant  # nothing is left that other workers could do
    workers = dist.get_world_size()
    reported = {"epoch": epoch, "workers": workers, NEXT_GRANT: next_grant, **metrics}
    if dist.get_rank() != 0:
        ray.train.report({})  # all ranks take part
    elif assignment.checkpoints:
        state.save(stateful, seed, epoch, reported)
    else:
        ray.train.report(reported)
    return next_grant != assignment.grant
