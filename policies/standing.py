"""Jobs that run keep what they have; where servers were lost, somebody must go."""

from __future__ import annotations

import numpy as np

from policies.problem import Bools, Ints, Jobs


def kept(jobs: Jobs, demand_gpus: Ints, capacity_gpus: int) -> Bools:
    """[jobs] The running jobs that stay, each with `demand_gpus`, within the capacity.

    All of them unless servers were lost. Then the latest submitted give way: jobs stay in the
    order of submission, those passed over that no longer fit.
    """
    stays = jobs.workers > 0
    if demand_gpus[stays].sum() <= capacity_gpus:
        return stays
    left = capacity_gpus
    for row in np.flatnonzero(stays):
        stays[row] = demand_gpus[row] <= left
        left -= int(demand_gpus[row]) if stays[row] else 0
    return stays
