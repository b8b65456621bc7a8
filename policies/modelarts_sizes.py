"""The sizes that ModelArts (paper 000) may give each job: powers of two nodes, as columns."""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np

from policies.problem import Bools, Floats, Ints, Jobs
from policies.rolling_horizon_model import Model, Plans, loads_gpus, model_of, progress
from policies.sizes import sizes_among
from policies.standing import kept


@dataclass(frozen=True, slots=True)
class Sizes:
    """[jobs, sizes] each, ascending; each job has at least one size, those with less are padded."""

    legal: Bools  # whether there is a size
    workers: Ints  # 0 where not legal
    gpus: Ints
    left_s: Floats  # to the job's end at this size throughout; inf where not legal

    @property
    def least_gpus(self) -> Ints:
        """[jobs] GPUs of the smallest size: n_min."""
        least: Ints = self.gpus[:, 0]
        return least


def sizes_of(jobs: Jobs, max_nodes: int, unit_gpus: int | None) -> Sizes:
    """K = {1, 2, 4, ... max_nodes} nodes of `unit_gpus` GPUs (None: of one worker each).

    A job whose range holds none of them has its minimum as the only size.
    """
    nodes = 2 ** np.arange(max_nodes.bit_length())
    worker_gpus = jobs.gpus_per_worker[:, None]
    gpus = nodes * (worker_gpus if unit_gpus is None else unit_gpus)
    candidate = np.nonzero(gpus % worker_gpus == 0)
    job, workers, epoch_s = sizes_among(jobs, candidate[0], (gpus // worker_gpus)[candidate])

    counts = np.bincount(job, minlength=len(jobs))
    column = np.arange(len(job)) - (np.cumsum(counts) - counts)[job]
    legal = np.arange(counts.max(initial=1)) < counts[:, None]
    padded = np.zeros(legal.shape, dtype=np.int64)
    padded[job, column] = workers
    left_s = np.full(legal.shape, np.inf)
    left_s[job, column] = jobs.remaining_epochs[job] * epoch_s
    return Sizes(legal, padded, padded * worker_gpus, left_s)


def admitted(jobs: Jobs, sizes: Sizes, capacity_gpus: int) -> Bools:
    """[jobs] Running jobs, then the queue first come first served, while sum n_min <= N."""
    least_gpus = sizes.least_gpus
    runs = kept(jobs, least_gpus, capacity_gpus)
    free = capacity_gpus - int(least_gpus[runs].sum())
    queue = np.flatnonzero(jobs.workers == 0)
    runs[queue[np.cumsum(least_gpus[queue]) <= free]] = True
    return runs


def resizing_s(jobs: Jobs, sizes: Sizes, resize_s: float) -> Floats:
    """[jobs, sizes] What going to each size costs: `resize_s` where a running job changes its."""
    standing = jobs.workers[:, None]
    costs: Floats = np.where((standing > 0) & (sizes.workers != standing), resize_s, 0.0)
    return costs


def model(
    sizes: Sizes,
    resizing_s: Floats,
    rows: Ints,
    capacity_gpus: int,
    step_s: float,
    worth: Floats,
) -> Model:
    """The rolling-horizon model of the jobs in `rows`, one option for each legal size.

    A step at one size serves step_s / left_s of what is left, d_i; in the first step the time
    that resizing takes is lost.
    """
    legal, left_s = sizes.legal[rows], sizes.left_s[rows]
    return model_of(
        legal,
        sizes.gpus[rows],
        _share(np.full(legal.shape, step_s), left_s),
        _share(np.maximum(step_s - resizing_s[rows], 0.0), left_s),
        worth,
        capacity_gpus,
    )


def _share(spent_s: Floats, left_s: Floats) -> Floats:
    """Share of the demand that is served; all of it where nothing is left."""
    share = np.ones_like(left_s)
    np.divide(spent_s, left_s, out=share, where=left_s > spent_s)
    return share


@dataclass(frozen=True, slots=True)
class Start:
    """A queued job that starts between scaling decisions."""

    workers: int
    idle_gpus: int  # when its turn came


def spend_idle(model: Model, plans: Plans, ends_s: Floats) -> None:
    """Change `plans`: jobs that end in the first step take GPUs that are idle in it.

    They end sooner, which the objective does not see: sizes that end a job within the step are
    all the same to it. First come first served; `ends_s` [options] is when the job would end.
    """
    idle = model.capacity_gpus - int(loads_gpus(model, plans)[0])
    for row in np.flatnonzero(progress(model, plans)[:, 0] >= 1).tolist():
        if not idle:
            break
        first, now = int(model.offset[row]), int(plans[row, 0])
        gpus = model.gpus[first : model.offset[row + 1]]
        affordable = int(np.searchsorted(gpus, model.gpus[now] + idle, side="right"))
        plans[row, 0] = first + int(ends_s[first : first + affordable].argmin())
        idle -= int(model.gpus[plans[row, 0]] - model.gpus[now])


def started(jobs: Jobs, sizes: Sizes, idle_gpus: int) -> tuple[dict[int, Start], int]:
    """Who of the queue starts on idle GPUs (§2), by row, and how many GPUs stay idle.

    First come first served, each with the largest size that fits; the first that does not fit at
    all blocks those behind it.
    """
    starts = {}
    for row in np.flatnonzero(jobs.workers == 0).tolist():
        fitting = np.flatnonzero(sizes.legal[row] & (sizes.gpus[row] <= idle_gpus))
        if not len(fitting):
            break
        largest = fitting[-1]
        starts[row] = Start(int(sizes.workers[row, largest]), idle_gpus)
        idle_gpus -= int(sizes.gpus[row, largest])
    return starts, idle_gpus
