"""Profiles of Pollux's authors: step times by placement and batch, and gradients by batch."""

from __future__ import annotations

import math
import tarfile
import tempfile
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from functools import cached_property
from pathlib import Path
from typing import TypeAlias

import numpy as np
from scipy.interpolate import LinearNDInterpolator
from scipy.spatial import QhullError

from policies.problem import Floats
from raysched.simulator.traces.rows import Row, TraceError, rows

SERVER_GPUS = 4
"""GPUs of the servers on which the profiles were measured."""

MOST_SERVERS, MOST_GPUS = 16, 64
"""Of the cluster on which they were."""

LARGEST_LOCAL = {"yolov3": 8}
"""Samples on a GPU that the authors allow, where these are fewer than were profiled."""

ON_ONE_GPU = frozenset({"ncf"})
"""What they run on one GPU only."""


Placement: TypeAlias = tuple[int, ...]
"""GPUs on each server."""

_Step: TypeAlias = tuple[int, float, float]
"""Samples on a GPU, seconds of the step, of its synchronisation."""

_Point: TypeAlias = tuple[tuple[int, int, int], Sequence[float]]
"""Servers, GPUs and samples on a GPU; and both times."""


@dataclass(frozen=True, slots=True)
class Steps:
    """Of one placement, by batch size of a GPU: seconds of a step, and of its
    synchronisation."""

    local_batch: Floats  # ascending
    step_s: Floats
    sync_s: Floats

    def iteration_s(self, each: int, steps: int) -> float:
        """An iteration of so many steps with so many samples a GPU; only the last one
        synchronises."""
        step_s = float(np.interp(each, self.local_batch, self.step_s))
        sync_s = float(np.interp(each, self.local_batch, self.sync_s))
        return steps * step_s - (steps - 1) * sync_s


class Profile:
    """Steps by placement: as measured, or on the plane between measurements on about as many
    servers and GPUs."""

    def __init__(self, measured: Mapping[Placement, list[_Step]], more: list[_Point]) -> None:
        """`measured`: by placement; `more`: of any placement on so many servers and GPUs."""
        self._steps = {key: Steps(*np.array(sorted(each)).T) for key, each in measured.items()}
        self._points = [
            ((len(placement), sum(placement), local), times)
            for placement, each in measured.items()
            for local, *times in each
        ] + more
        self.local_batch = self._steps[(1,)].local_batch

    @classmethod
    def read(cls, path: Path) -> Profile:
        """From `placements.csv`, and `scalability.csv` beside it where there is one."""
        measured: dict[Placement, list[_Step]] = {}
        for row in rows(path):
            placement = _normal(tuple(map(int, str(row.whole("placement", least=1)))))
            measured.setdefault(placement, []).append(_step(row))
        if (1,) not in measured:
            raise TraceError(f"{path}: has no row of placement 1; one GPU must be profiled")
        scalability, more = path.parent / "scalability.csv", list[_Point]()
        for row in rows(scalability) if scalability.is_file() else ():
            local, *times = _step(row)
            more.append(((row.whole("num_nodes"), row.whole("num_replicas"), local), times))
        return cls(measured, more)

    def steps(self, placement: Placement) -> Steps:
        """On these GPUs. Its times are nan outside of what was measured."""
        placement = _normal(placement)
        if placement not in self._steps:
            servers, gpus = min(len(placement), MOST_SERVERS), sum(placement)
            asked = [(servers, gpus, local) for local in self.local_batch]
            times = np.full((len(asked), 2), np.nan) if self._plane is None else self._plane(asked)
            self._steps[placement] = Steps(self.local_batch, *times.T)
        return self._steps[placement]

    @cached_property
    def _plane(self) -> LinearNDInterpolator | None:
        """None: too little was measured."""
        grouped: dict[tuple[float, ...], list[Sequence[float]]] = {}
        for point, times in self._points:
            grouped.setdefault(point, []).append(times)
        values = [np.mean(each, axis=0) for each in grouped.values()]
        try:
            return LinearNDInterpolator(np.array([*grouped], dtype=float), np.array(values))
        except QhullError:
            return None


@dataclass(frozen=True, slots=True)
class Validation:
    """A training at one batch size, by epoch."""

    progress: Floats  # iterations at the initial batch that do the same
    sqr: Floats  # square of the gradient
    var: Floats  # its variance


@dataclass(frozen=True, slots=True)
class Application:
    """A model as it was profiled."""

    profile: Profile
    validations: Mapping[int, Validation]  # by global batch size
    largest_local: int
    most_gpus: int

    @property
    def smallest_local(self) -> int:
        """The fewest samples on a GPU that were profiled."""
        return int(self.profile.local_batch[0])

    @property
    def initial_batch(self) -> int:
        """The smallest global batch, for which its learning rate was tuned."""
        return min(self.validations)

    def split(self, batch_size: int, gpus: int) -> tuple[int, int]:
        """Samples on a GPU in a step, and steps of an iteration. One GPU alone takes two steps
        at least of a batch above the initial one, as it cannot tell its noise from one."""
        local = math.ceil(batch_size / gpus)
        steps = math.ceil(local / self.largest_local)
        if gpus == 1 and batch_size > self.initial_batch:
            steps = max(steps, 2)
        return math.ceil(local / steps), steps

    def iteration_s(self, batch_size: int, placement: Placement) -> float:
        """Seconds of an iteration; nan where nothing is known of such placements."""
        each, steps = self.split(batch_size, sum(placement))
        return self.profile.steps(placement).iteration_s(each, steps)

    def iterations(self, batch_size: int) -> Floats:
        """[epochs] Of a training at a batch size, in each epoch of the validation: its progress
        over the gain of an iteration then (Qiao et al., OSDI 2021, equation 5). Between two batch
        sizes that were validated gradients are on the line between theirs."""
        scale, batches = batch_size / self.initial_batch, list(self.validations)
        epochs = min(len(each.progress) for each in self.validations.values())
        known = [
            np.array([v.progress, v.sqr, v.var])[:, :epochs] for v in self.validations.values()
        ]
        progress = np.min(known, axis=0)[0]
        upper = min(int(np.searchsorted(batches, batch_size)), len(batches) - 1)
        lower = max(upper - 1, 0)
        part = float(np.interp(batch_size, (batches[lower], batches[upper]), (0.0, 1.0)))
        _, sqr, var = (1 - part) * known[lower] + part * known[upper]
        gain = (var + sqr) / (var / scale + sqr)
        iterations: Floats = np.diff(progress, prepend=0.0) / gain
        return iterations

    def most(self, batch_size: int) -> int:
        """The most GPUs of a job: each has the smallest batch profiled at least."""
        return max(min(batch_size // self.smallest_local, self.most_gpus), 1)


def read(path: Path) -> dict[str, Application]:
    """Applications by name, from a folder of folders or such a one packed by tar.

    Raises `TraceError`.
    """
    if path.is_dir():
        return _applications(path)
    try:
        with tarfile.open(path) as packed, tempfile.TemporaryDirectory() as folder:
            packed.extractall(folder, filter="data")
            return _applications(Path(folder))
    except (OSError, tarfile.TarError) as error:
        raise TraceError(f"{path}: is no folder of profiles, nor one packed: {error}") from None


def _applications(folder: Path) -> dict[str, Application]:
    tables = sorted(folder.glob("*/placements.csv"))
    return {path.parent.name: _application(path) for path in tables}


def _application(placements: Path) -> Application:
    name, profile = placements.parent.name, Profile.read(placements)
    return Application(
        profile,
        validations=_validations(placements.parent),
        largest_local=LARGEST_LOCAL.get(name, int(profile.local_batch[-1])),
        most_gpus=1 if name in ON_ONE_GPU else MOST_GPUS,
    )


def packed(gpus: int) -> Placement:
    """The fewest servers: full ones, and one for what is left."""
    full, rest = divmod(gpus, SERVER_GPUS)
    return ((rest,) if rest else ()) + (SERVER_GPUS,) * full


def _normal(placement: Placement) -> Placement:
    """The smallest rotation: GPUs are synchronised in a ring."""
    return min(placement[at:] + placement[:at] for at in range(len(placement)))


def _step(row: Row) -> _Step:
    return row.whole("local_bsz", least=1), row.number("step_time"), row.number("sync_time")


def _validations(folder: Path) -> dict[int, Validation]:
    found = {}
    for path in folder.glob("validation-*.csv"):
        batch_size = path.stem.removeprefix("validation-")
        if batch_size.isdigit():
            columns = [
                (row.number("progress"), row.number("grad_sqr"), row.number("grad_var"))
                for row in rows(path)
            ]
            found[int(batch_size)] = Validation(*np.array(columns).T)
    if not found:
        raise TraceError(f"{folder}: has no validation-BATCH.csv")
    return dict(sorted(found.items()))
