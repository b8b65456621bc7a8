"""Everything the scheduler knows, as one value that a snapshot holds and a replay rebuilds."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import Any, Literal, TypeAlias

import numpy as np
from numpy.typing import NDArray

from policies.problem import MIXING, Promise
from policies.reason import Reason, because
from raysched.actions import Grant
from raysched.events import InferenceConfigured, Pool
from raysched.jobs import JobSpec
from raysched.ledger import Ledger
from raysched.performance import PRIOR, EpochTimes, predicted_epoch_s, rate_of, source
from raysched.profile import Profiles, to_measure

Phase: TypeAlias = Literal["queued", "starting", "running", "leaving", "ended"]
"""queued: no workers, `offer` may wait to be picked up. starting: picked up, workers on their way.
running. leaving: told at a boundary to leave for `offer`, workers still there."""

Loan: TypeAlias = Literal["none", "opening", "open", "reclaiming", "closing"]
"""Of an inference server. Training may use it while `open`; while `reclaiming` it only leaves."""

KEPT_ENDED = 1000

SHORT_S = 300.0
"""A job that is known to take less on its minimum is not profiled: too little would be gained."""

Outcome: TypeAlias = Literal["", "finished", "failed", "cancelled", "rejected"]


@dataclass(slots=True)
class Job:
    """One job: what was asked, how far it is, and what it has, is offered and shall have."""

    id: str
    spec: JobSpec
    submitted_s: float
    owner: str = ""
    token: str = ""
    phase: Phase = "queued"
    outcome: Outcome = ""
    error: str = ""
    running: Grant | None = None
    """What its workers stand on."""
    offer: Grant | None = None
    """Reserved and ready: taken at pick-up or at the next boundary."""
    wanted: dict[str, int] | None = None
    """Decided, but some of its GPUs are not free yet."""
    reason: Reason = field(default_factory=lambda: because("waits for the first decision"))
    epochs_done: int = 0
    part: float = 0.0
    """Of the epoch under way, what its last safe point holds: 0 to 1."""
    epochs_repeated: float = 0.0
    """At most so many were trained again: of one that was cut off, all but its safe part."""
    reported: int = 0
    """The grant on which the last epoch, or part of one, was reported."""
    ready: int = 0
    """The last grant whose workers were said to be warm beside those that train."""
    joinable: bool = False
    """Workers can join those that train."""
    cut_short: bool = False
    """Its workers are being ended within an epoch: where they stand they had to be gone by now."""
    in_place: bool = False
    """Its workers went over to the running grant in place."""
    batch_size: int = 0
    """The global batch that is decided; `running` has that under which its workers train."""
    parameter_servers: int = 0
    """What a policy named for its next grants; 0: none, as many as its workers need."""
    attained_gpu_s: float = 0.0
    times: dict[int, EpochTimes] = field(default_factory=dict)
    """What its epochs took, by global batch size."""
    profiling: tuple[int, ...] | None = None
    """Local batches for which its workers measure a step before they train: on its first grant
    where its model is unknown. None: no workers yet."""
    promise: Promise | None = None
    """The plan that was promised when the job was admitted."""
    inherited: bool = False
    """The policy that gave the promise is gone: the engine keeps it."""
    promise_over: str = ""
    """Why the last promise does not hold any more."""
    ended_s: float | None = None

    @property
    def why(self) -> Reason:
        """The reason, put together where it was left for later."""
        return self.reason.of(self.id)

    @property
    def alive(self) -> bool:
        """Whether the job still runs or waits."""
        return self.phase != "ended"

    @property
    def trained(self) -> bool:
        """Whether all its epochs are run: only its end is waited for."""
        return self.epochs_done >= self.spec.epochs

    @property
    def must_stop(self) -> bool:
        """Whether its workers are to be ended at once: they are not about to leave."""
        return self.cut_short and self.phase != "leaving"

    @property
    def standing(self) -> Mapping[str, int]:
        """Where its workers are now."""
        return self.running.servers if self.running else {}

    @property
    def held(self) -> Mapping[str, int]:
        """Workers by server that its running grant and its offer need together: on a server that
        is in both, those who stay count once."""
        held: dict[str, int] = {}
        for grant in (self.running, self.offer):
            for server, workers in (grant.servers if grant else {}).items():
                held[server] = max(held.get(server, 0), workers)
        return held

    @property
    def target(self) -> Mapping[str, int]:
        """Where it shall stand by all that is decided: the standing target."""
        if self.wanted is not None:
            return self.wanted
        if self.offer is not None:
            return self.offer.servers
        return self.standing

    @property
    def workers(self) -> int:
        """Workers of the standing target."""
        return sum(self.target.values())

    @property
    def workers_now(self) -> int:
        """Workers that are there now."""
        return self.running.workers if self.running else 0


@dataclass(slots=True)
class Server:
    """One server of a pool. Its GPUs stand in the ledger."""

    id: str
    pool: Pool
    gpu_type: str
    gpu_rate: float = 1.0
    loan: Loan = "none"
    leave_by_s: float | None = None
    """While it is reclaimed: workers that stand on it then are ended. None: they leave by
    themselves, or were told to end."""


@dataclass(slots=True)
class Inference:
    """The inference deployment that may lend, and what was seen of it."""

    config: InferenceConfigured
    demand_at_s: list[float] = field(default_factory=list)
    demand_rps: list[float] = field(default_factory=list)
    present: dict[str, int] = field(default_factory=dict)
    running: dict[str, int] = field(default_factory=dict)
    vacating: int = 0
    """Servers asked to empty, not yet fenced: Serve chooses which."""
    replicas: int = 0
    """What the deployment was last scaled to."""


@dataclass(slots=True)
class Setting:
    """A chosen policy or loaning: its name, parameters, memory, and when it last decided."""

    name: str
    parameters: dict[str, Any] = field(default_factory=dict)
    memory: Mapping[str, Any] = field(default_factory=dict)
    asked_s: float | None = None
    due: str = ""
    """Why it has to be asked; empty: it has not."""
    outstanding: int | None = None
    """The ask that was not answered yet."""
    review_at_s: float | None = None
    error: str = ""


@dataclass(slots=True)
class State:
    """The scheduler's state. Changed by the engine alone, by events alone."""

    now_s: float = 0.0
    live: dict[str, Job] = field(default_factory=dict)
    """Jobs that run or wait, in (submit time, id) order: the order they were taken in."""
    ended: dict[str, Job] = field(default_factory=dict)
    """The last `KEPT_ENDED` jobs that are over."""
    names: dict[str, int] = field(default_factory=dict)
    """Jobs submitted so far by name: later ones get a number behind theirs."""
    servers: dict[str, Server] = field(default_factory=dict)
    ledger: Ledger = field(default_factory=Ledger)
    inference: Inference | None = None
    policy: Setting = field(default_factory=lambda: Setting("fifo"))
    loaning: Setting = field(default_factory=lambda: Setting("off"))
    history: dict[str, EpochTimes] = field(default_factory=dict)
    profiles: Profiles = field(default_factory=Profiles)
    restart_s: float = 0.0
    """Measured seconds from a grant's pick-up to training: a running mean."""
    weighs_resizes: bool = True
    """Growth that does not pay for its resize is left out (`raysched.resizing`)."""
    resize_s: float = 0.0
    """Measured seconds that an in-place resize keeps a job from training: a running mean."""
    events: int = 0
    """Events taken in so far: random seeds come from it."""
    plan_step_s: float | None = None
    """When a plan that the engine keeps for a job takes its next step, or is over."""
    last_grant: int = 0
    last_ask: int = 0
    reconciling: bool = False
    """Between a restart and the end of looking around: nothing is decided."""

    @property
    def jobs(self) -> dict[str, Job]:
        """Jobs that are still known, those that ended first."""
        return {**self.ended, **self.live}

    def live_jobs(self) -> list[Job]:
        """The live jobs, in order; they may end while this list is walked."""
        return list(self.live.values())

    def retire(self, job: Job) -> None:
        """A live job is over. The oldest one that ended is forgotten where there are many."""
        job.reason = job.why  # and holds on to no others'
        self.ended[job.id] = self.live.pop(job.id)
        if len(self.ended) > KEPT_ENDED:
            del self.ended[next(iter(self.ended))]

    def trainable(self, server: str) -> bool:
        """Whether training may be placed on this server now."""
        known = self.servers.get(server)
        return known is not None and (known.pool == "training" or known.loan == "open")

    def rate(self, job: Job, mixing: float = MIXING) -> float:
        """Speed of a job where its workers are now, over that on GPUs of rate 1."""
        if len(job.standing) == 1:  # most jobs: one server, one type
            server = self.servers.get(next(iter(job.standing)))
            return 1.0 if server is None else server.gpu_rate
        known = {s: self.servers[s] for s in job.standing if s in self.servers}
        workers = [(job.standing[s], of.gpu_type, of.gpu_rate) for s, of in known.items()]
        return rate_of(workers, mixing)

    def predicted_s(self, job: Job) -> float:
        """What an epoch of a job is predicted to take on the workers that it has now."""
        batch_size = job.running.batch_size if job.running else job.batch_size
        workers = max(job.workers_now, job.spec.min_workers)
        measured = job.times.get(batch_size)
        if measured and workers in measured.mean_s and job.spec.profile_epoch_s is not None:
            return measured.mean_s[workers] / self.rate(job)  # the curve has it as it is
        return float(self.curve(job, batch_size)[workers - job.spec.min_workers]) / self.rate(job)

    def curve(self, job: Job, batch_size: int) -> NDArray[np.float64]:
        """Predicted seconds of an epoch of a job on min … max workers, on GPUs of rate 1."""
        profiled_s = self.profiles.epoch_s(job.spec)
        curves = predicted_epoch_s(job.spec, job.times, self.history, profiled_s)
        of_batch: NDArray[np.float64] = curves[job.spec.admissible.index(batch_size)]
        return of_batch

    def source(self, job: Job) -> str:
        """What the prediction of a job's epochs rests on, in words."""
        return source(job.spec, job.times, self.history, self.profiles.of(job.spec) is not None)

    def fits(self, job: Job, batch_size: int, workers: int) -> bool:
        """Whether a batch size of its own can run on so many workers, as far as is known."""
        spec = job.spec
        return spec.fits(batch_size, workers) and self.profiles.fits(spec, batch_size, workers)

    def to_profile(self, job: Job) -> tuple[int, ...]:
        """Local batches for which the workers that a job has got now are to measure a step.

        None where its model is known on these GPUs, by a profile or by its user, and where the job
        is known to be short and was not asked to be pre-run.
        """
        told = job.spec.profile_epoch_s is not None
        if told or self.profiles.knows(job.spec, self.gpu_type(job)):
            return ()
        if self.source(job) != PRIOR and not job.spec.pre_run:
            expected_s = job.spec.epochs * float(self.curve(job, job.batch_size)[0])
            if expected_s < SHORT_S:
                return ()
        return to_measure(job.spec)

    def gpu_type(self, job: Job) -> str:
        """Of the GPUs that a job's workers stand on: where they differ, all of them."""
        known = {self.servers[s].gpu_type for s in job.standing if s in self.servers}
        return "+".join(sorted(known))

    def next_grant(self) -> int:
        """A fresh grant id."""
        self.last_grant += 1
        return self.last_grant

    def check(self) -> None:
        """Raise where the state contradicts itself. For tests and for after a recovery."""
        self.ledger.check()
        for job in self.live_jobs():
            _check_books(self, job)
            _check_gang(job)


def _check_books(state: State, job: Job) -> None:
    """A job holds exactly what its grants need, on servers that exist."""
    gpus = job.spec.gpus_per_worker
    needed = {s: workers * gpus for s, workers in job.held.items() if s in state.servers}
    held = state.ledger.held(job.id)
    if held != needed:
        raise RuntimeError(f"{job.id} holds {held} by the ledger and {needed} by its grants")


def _check_gang(job: Job) -> None:
    for grant in (job.running, job.offer):
        if (
            grant
            and grant.workers
            and not (job.spec.min_workers <= grant.workers <= job.spec.max_workers)
        ):
            raise RuntimeError(f"{job.id} was granted {grant.workers} workers against its range")
