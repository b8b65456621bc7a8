"""The end of an epoch, or a safe point within one: it is told and saved, and workers hear whether
they go on as they are."""

from __future__ import annotations

from dataclasses import replace

import ray.train
import torch.distributed as dist

from raysched.runtime import link, state
from raysched.runtime.assignment import assign, current
from raysched.runtime.protocol import NEXT_GRANT, BoundaryReport, numbers

GATE_S = 120.0
"""For a controller to let workers go on, or to stop them, once their boundary is registered."""


def reach(
    stateful: tuple[state.Stateful, ...],
    position: state.Position,
    epoch_s: float,
    metrics: dict[str, float],
    part: float = 1.0,
) -> bool:
    """Tell and save that training stands here; whether its job goes over to another grant now.
    Workers that stay as they are go on with the global batch that stands from here on.

    `epoch_s` is what the whole epoch takes at the pace of these workers, `part` what is done of it:
    at its end `position` is the start of the next one.
    """
    assignment = current()
    next_grant, batch_size = assignment.grant, assignment.batch_size
    epoch = position.epoch if part < 1 else position.epoch - 1
    if dist.get_rank() == 0:
        next_grant, batch_size = link.call(
            "boundary",
            BoundaryReport(
                assignment.job, assignment.grant, epoch, epoch_s, numbers(metrics), part
            ),
        )
    next_grant, batch_size = state.integers_from_rank_zero(next_grant, batch_size)
    if position.epoch == assignment.epochs:
        next_grant = assignment.grant  # nothing is left that other workers could do
    workers = dist.get_world_size()
    reported = {
        "epoch": epoch,
        "workers": workers,
        "batch_size": assignment.batch_size,
        NEXT_GRANT: next_grant,
        **metrics,
    }
    if dist.get_rank() != 0:
        ray.train.report({})  # all ranks take part
    elif assignment.checkpoints:
        state.save(stateful, position, reported)
    else:
        ray.train.report(reported)
    if next_grant == assignment.grant:
        assign(replace(assignment, batch_size=batch_size))
    return next_grant != assignment.grant
