"""FfDL with the batch size of each job fixed for life: what its own baselines are."""

from __future__ import annotations

import zlib
from dataclasses import dataclass, replace
from typing import ClassVar, Literal

import numpy as np

from policies.curves import curve_start
from policies.ffdl import Ffdl
from policies.problem import Curves, Ints, Jobs, PolicyError
from policies.ragged import counted, offsets
from policies.scaling import Scaling, scaling


@dataclass(frozen=True)
class FfdlFixed(Ffdl):
    """003 §IV-B: the optimizer and autoscaler of `ffdl`, over GPUs alone.

    Each job keeps one total batch size for life: its largest admissible one (Max-BS), its
    smallest (Min-BS), or one drawn uniformly (Random-BS). GPUs stay elastic, which makes it a
    strong baseline. Factors count from the same baseline as ffdl's, the largest batch on one GPU,
    so that both maximise sums of the same things.

    Departures, beside those of `ffdl`: the draw is among the batch sizes that the job's curve
    knows, and its seed is the job's id, so that it needs no memory and no policy in between
    changes it.
    """

    batch: Literal["max", "min", "random"] = "max"
    """Which batch size a job keeps."""

    name: ClassVar[str] = "ffdl_fixed"
    source: ClassVar[str] = "003 §IV-B (Max-BS, Min-BS, Random-BS)"
    default_loaning: ClassVar[str] = "off"

    def __post_init__(self) -> None:
        super().__post_init__()
        if self.batch not in ("max", "min", "random"):
            raise PolicyError(f"batch is {self.batch!r}; use max, min or random")

    def _rates(self, jobs: Jobs) -> Scaling:
        free, fixed = scaling(jobs), scaling(_at_one_batch(jobs, self._batch(jobs)), self.max_gpus)
        sizes = fixed.sizes
        factor = sizes.value * (free.gpu_s / fixed.gpu_s)[sizes.job]
        return replace(fixed, sizes=replace(sizes, value=factor), gpu_s=free.gpu_s)

    def _batch(self, jobs: Jobs) -> Ints:
        """[jobs] The batch size that each one keeps."""
        known = [jobs.curves.batch_sizes(row) for row in range(len(jobs))]
        if self.batch == "random":
            chosen = [_draw(job, sizes) for job, sizes in zip(jobs.ids, known, strict=True)]
        else:
            chosen = [sizes[-1 if self.batch == "max" else 0] for sizes in known]
        return np.array(chosen, dtype=np.int64)


def _draw(job: str, batch_sizes: Ints) -> int:
    return int(np.random.default_rng(zlib.crc32(job.encode())).choice(batch_sizes))


def _at_one_batch(jobs: Jobs, batch_size: Ints) -> Jobs:
    """The jobs as if this were the only batch size that each one can have."""
    jobs = replace(jobs, batch_size=batch_size)
    epoch_s = jobs.curves.epoch_s[counted(curve_start(jobs), jobs.span)]
    curves = Curves(epoch_s, offsets(jobs.span), batch_size, np.arange(len(jobs) + 1))
    return replace(jobs, curves=curves)
