"""The jobs of OASiS: as the paper describes them, and as its scheduler sees one of them."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass

import numpy as np
from scipy.special import expit

from policies.problem import Bools, Floats, Ints, PolicyError

NEVER = -1
"""In `Request.ps_of`: so many workers may not run."""

ROUNDING = 1e-9  # what ceilings and floors forgive: 3 * 0.1 / 0.3 is one


def sigmoid(
    worth: Floats | float,
    steepness: Floats | float,
    target: Floats | float,
    elapsed: Floats | Ints | float,
) -> Floats:
    """Utility of a completion: worth / (1 + exp(steepness (elapsed - target))), from memory.

    002 §V-A lost the formula; its prose names priority, decay factor and target completion time.
    `elapsed` and `target` count from the arrival, in one unit; `steepness` is per that unit.
    """
    utility: Floats = worth * expit(-steepness * (elapsed - target))
    return utility


@dataclass(frozen=True, slots=True)
class PsJobs:
    """Jobs with parameter servers (002 §III) as columns, in the order of their arrival.

    The last of the resource types is the bandwidth of a server's NIC: b_i = worker[i, -1] and
    B_i = ps[i, -1]. One chunk of data is trained by one worker at a time.
    """

    arrival_slot: Ints  # a_i, from 0
    epochs: Ints  # E_i
    chunks: Ints  # N_i: the most workers, (3)
    minibatches: Ints  # M_i, of one chunk
    minibatch_slots: Floats  # tau_i: slots to compute the gradients of one mini-batch
    gradient: Floats  # e_i, in units of bandwidth times slots
    worker: Floats  # [jobs, resources] w_i^r
    ps: Floats  # [jobs, resources] s_i^r
    worth: Floats  # gamma_1
    steepness: Floats  # gamma_2, per slot
    target_slots: Floats  # gamma_3

    def __post_init__(self) -> None:
        for field, bad, good in self._rules():
            if bad.any():
                raise PolicyError(f"job {int(bad.argmax())}: {field} must be {good}")

    def __len__(self) -> int:
        return len(self.arrival_slot)

    @property
    def work_slots(self) -> Ints:
        """[jobs] W_i: worker-slots of the whole training, the right side of (2), rounded up."""
        return _ceil(self.epochs * self.chunks * self.minibatches * self._minibatch_slots)

    @property
    def fastest_slots(self) -> Ints:
        """[jobs] Slots of the whole training with N_i workers throughout."""
        return _ceil(self.epochs * self.minibatches * self._minibatch_slots)

    @property
    def fewest_ps_slots(self) -> Ints:
        """[jobs] Slots of parameter servers that W_i worker-slots need at least, by (6)."""
        return _ceil(self.work_slots * self._ps_per_worker)

    def utility(self, job: Ints | int, elapsed_slots: Ints) -> Floats:
        """f_i(completion slot - a_i)."""
        return sigmoid(self.worth[job], self.steepness[job], self.target_slots[job], elapsed_slots)

    def request(self, job: int, slots: int) -> Request:
        """What one job asks of a span of `slots`; `PolicyError` if it arrives after that."""
        arrival = int(self.arrival_slot[job])
        if arrival >= slots:
            raise PolicyError(f"job {job}: arrival_slot is {arrival}; the span has {slots} slots")
        workers = np.arange(self.chunks[job] + 1)
        ps = np.ceil(workers * self._ps_per_worker[job] - ROUNDING).astype(np.int64)
        span = slots - arrival
        return Request(
            arrival_slot=arrival,
            work=int(self.work_slots[job]),
            progress=np.tile(workers, (span, 1)),
            worker=self.worker[job],
            ps=self.ps[job],
            ps_of=np.where(ps <= workers, ps, NEVER),
            utility=self.utility(job, np.arange(span)),
        )

    @property
    def _minibatch_slots(self) -> Floats:
        """[jobs] tau_i + 2 e_i / b_i: gradients computed and sent, parameters received."""
        sends = self.gradient > 0
        bandwidth = np.where(sends, self.worker[:, -1], 1.0)
        total: Floats = self.minibatch_slots + 2 * self.gradient / bandwidth
        return total

    @property
    def _ps_per_worker(self) -> Floats:
        """[jobs] b_i / B_i: parameter servers for one worker's bandwidth, (6)."""
        needs = self.worker[:, -1] > 0
        ratio: Floats = self.worker[:, -1] / np.where(needs, self.ps[:, -1], 1.0)
        return ratio

    def _rules(self) -> Iterator[tuple[str, Bools, str]]:
        """Field, its bad rows, what a good one is."""
        yield "arrival_slot", self.arrival_slot < 0, "from 0"
        for field in ("epochs", "chunks", "minibatches"):
            yield field, getattr(self, field) < 1, "from 1"
        for field in ("minibatch_slots", "worth"):
            values = getattr(self, field)
            yield field, ~(np.isfinite(values) & (values > 0)), "finite and positive"
        for field in ("gradient", "steepness"):
            values = getattr(self, field)
            yield field, ~(np.isfinite(values) & (values >= 0)), "finite and from 0"
        for field in ("worker", "ps"):
            demands = getattr(self, field)
            yield field, ~(np.isfinite(demands) & (demands >= 0)).all(1), "finite and from 0"
        yield "target_slots", ~np.isfinite(self.target_slots), "finite"
        silent = (self.gradient > 0) & ~(self.worker[:, -1] > 0)
        yield "bandwidth of a worker", silent, "positive where there are gradients to send"
        deaf = (self.worker[:, -1] > 0) & ~(self.ps[:, -1] > 0)
        yield "bandwidth of a parameter server", deaf, "positive where its workers' is"


@dataclass(frozen=True, slots=True)
class Request:
    """One arrival as the scheduler sees it: slots count from its arrival, work in units.

    A unit is a worker-slot where workers scale linearly, as the paper has it; `progress` may be
    any other curve.
    """

    arrival_slot: int
    work: int  # units of the whole training, at least 1
    progress: Ints  # [slots, most + 1] units that w workers get done in a slot
    worker: Floats  # [resources] of one worker, w_i^r
    ps: Floats  # [resources] of one parameter server, s_i^r
    ps_of: Ints  # [most + 1] parameter servers beside w workers, by (6); or NEVER, e.g. by (7)
    utility: Floats  # [slots] of completion in that slot; never rising

    @property
    def most_workers(self) -> int:
        """The most workers it can use in one slot."""
        return len(self.ps_of) - 1


def _ceil(values: Floats) -> Ints:
    """Rounded up, at least one, and no more than an integer holds."""
    up: Ints = np.clip(np.ceil(values - ROUNDING), 1, 2.0**53).astype(np.int64)
    return up
