"""What a journal tells of jobs, loans and demand over time, for summaries and pictures."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping
from dataclasses import dataclass, field
from typing import Any

from raysched import events
from raysched.actions import Action, EndWorkers, Grant, Offer, Reject
from raysched.events import Event
from raysched.jobs import JobSpec
from raysched.journal import Row


@dataclass(slots=True)
class Stretch:
    """A job held these workers (server -> workers) from `from_s` to `to_s`."""

    from_s: float
    to_s: float
    servers: dict[str, int]
    grant: int
    training_s: float | None = None
    """When all its workers were up."""
    start_s: float | None = None
    """What starting them, or going over to them in place, took as its workers measured it."""
    in_place: bool = False
    """Workers of the stretch before trained on in it."""
    open: bool = True
    """Whether it still goes on."""

    @property
    def workers(self) -> int:
        """Workers over all servers."""
        return sum(self.servers.values())


@dataclass(slots=True)
class Epoch:
    """An epoch that was run to its boundary."""

    at_s: float
    epoch: int
    workers: int
    epoch_s: float


@dataclass(slots=True)
class EpochCount:
    """Epochs that were run to their boundaries and reported: how many, and how many of them anew.

    A bit for each epoch: a simulation reports millions of them.
    """

    run: int = 0
    repeated: int = 0
    last: int = -1
    """The furthest of them, counted from 0."""
    _seen: bytearray = field(default_factory=bytearray)

    def take(self, epoch: int) -> None:
        """One was reported."""
        if epoch > self.last:
            self.last = epoch
        at, bit = epoch >> 3, 1 << (epoch & 7)
        if at >= len(self._seen):
            self._seen.extend(bytes(at + 1 - len(self._seen)))
        if self._seen[at] & bit:
            self.repeated += 1
        else:
            self._seen[at] |= bit
            self.run += 1


@dataclass(slots=True)
class JobHistory:
    """One job from submission to its end."""

    job: str
    spec: JobSpec
    submitted_s: float
    ended_s: float | None = None
    outcome: str = ""
    stretches: list[Stretch] = field(default_factory=list)
    epochs: list[Epoch] = field(default_factory=list)
    """As reported; of those that took equally long on the same workers the last one in a row."""
    counted: EpochCount = field(default_factory=EpochCount)
    metrics: Mapping[str, float] = field(default_factory=dict)
    resizes: int = 0
    resizes_in_place: int = 0
    preemptions: int = 0
    losses: int = 0
    """Times that its workers were lost."""
    safe_part: float = 0
    """Of the epoch under way, what its last safe point holds."""
    redone: float = 0
    """Epochs begun again after its workers were lost or ended; of each all but its safe part."""

    @property
    def epochs_repeated(self) -> float:
        """Epochs begun again after a loss, and epochs reported twice."""
        return self.redone + self.counted.repeated

    @property
    def queuing_s(self) -> float | None:
        """From submission to its first GPUs."""
        return self.stretches[0].from_s - self.submitted_s if self.stretches else None

    @property
    def jct_s(self) -> float | None:
        """Job completion time: from submission to its end; None while it is not finished."""
        finished = self.outcome == "finished" and self.ended_s is not None
        return self.ended_s - self.submitted_s if finished else None  # type: ignore[operator]


@dataclass(slots=True)
class Loan:
    """A server that training could use from `from_s`; given back at `to_s`, serving at
    `serving_s`."""

    server: str
    from_s: float
    reclaimed_s: float | None = None
    to_s: float | None = None
    serving_s: float | None = None


@dataclass(frozen=True, slots=True)
class Reclaim:
    """Servers that were asked back at one time, and jobs that could not but be preempted for it."""

    at_s: float
    servers: tuple[str, ...]
    preempted: tuple[str, ...]


@dataclass(frozen=True, slots=True)
class Demand:
    """A sample of inference demand."""

    at_s: float
    rps: float
    p50_ms: float | None
    p99_ms: float | None


@dataclass(frozen=True, slots=True)
class PoolServer:
    """A server as it joined."""

    server: str
    pool: str
    gpus: int
    gpu_type: str
    gpu_rate: float


class History:
    """Everything that happened, by job, server and time."""

    def __init__(self, rows: Iterable[Row] = ()) -> None:
        self.jobs: dict[str, JobHistory] = {}
        self.servers: dict[str, PoolServer] = {}
        self.loans: list[Loan] = []
        self.reclaims: list[Reclaim] = []
        self.demand: list[Demand] = []
        self.replicas: list[tuple[float, dict[str, int]]] = []
        self.inference: events.InferenceConfigured | None = None
        self.policies: list[tuple[float, str, str]] = []
        self.end_s = 0.0
        self.events = 0
        self._offers: dict[str, Offer] = {}
        self._grants: dict[tuple[str, int], Grant] = {}
        self._cut_short: set[tuple[str, int]] = set()
        self._take_in: dict[type, Callable[[Any], None]] = {
            events.ServerAdded: self._server_added,
            events.JobSubmitted: self._job_submitted,
            events.GrantTaken: self._grant_taken,
            events.WorkersStarted: self._workers_started,
            events.WorkersResized: self._workers_resized,
            events.EpochFinished: self._epoch_finished,
            events.SafePointReached: self._safe_point_reached,
            events.WorkersStopped: self._workers_stopped,
            events.JobEnded: self._job_ended,
            events.LoanOpened: self._loan_opened,
            events.LoaningDecided: self._loaning_decided,
            events.LoanClosed: self._loan_closed,
            events.ReplicasObserved: self._replicas_observed,
            events.DemandObserved: self._demand_observed,
            events.InferenceConfigured: self._inference_configured,
            events.PolicySwitched: self._policy_switched,
        }
        for row in rows:
            self.take(row.event, row.actions)

    @property
    def gpus(self) -> dict[str, int]:
        """GPUs by pool."""
        total = {"training": 0, "inference": 0}
        for server in self.servers.values():
            total[server.pool] += server.gpus
        return total

    def take(self, event: Event, actions: list[Action]) -> None:
        """Take in the next event, with the actions that followed from it."""
        self.events += 1
        if event.at_s > self.end_s:
            self.end_s = event.at_s
        take_in = self._take_in.get(type(event))
        if take_in is not None:
            take_in(event)
        for action in actions:
            if isinstance(action, Offer):
                self._offers[action.grant.job] = action
                self._grants[action.grant.job, action.grant.grant] = action.grant
            elif isinstance(action, EndWorkers):
                self._cut_short.add((action.job, action.grant))
            elif isinstance(action, Reject):
                job = self.jobs[action.job]
                job.outcome, job.ended_s = "rejected", event.at_s

    def _server_added(self, event: events.ServerAdded) -> None:
        self.servers[event.server] = PoolServer(
            event.server, event.pool, event.gpus, event.gpu_type, event.gpu_rate
        )

    def _job_submitted(self, event: events.JobSubmitted) -> None:
        self.jobs[event.job] = JobHistory(event.job, event.spec, event.at_s)

    def _grant_taken(self, event: events.GrantTaken) -> None:
        job = self.jobs[event.job]
        job.resizes += self._is_resize(event.job, event.grant)
        self._stand_on(job, event.grant, event.at_s)

    def _workers_resized(self, event: events.WorkersResized) -> None:
        job = self.jobs[event.job]
        if job.stretches and job.stretches[-1].grant == event.grant:
            return  # said twice
        is_resize = self._is_resize(event.job, event.grant)
        job.resizes += is_resize
        job.resizes_in_place += is_resize
        self._close(job, event.at_s)
        self._stand_on(job, event.grant, event.at_s).in_place = True

    def _is_resize(self, job: str, grant: int) -> bool:
        offered = self._offers[job]
        return offered.grant.grant == grant and offered.change == "resize"

    def _stand_on(self, job: JobHistory, grant: int, at_s: float) -> Stretch:
        servers = dict(self._grants[job.job, grant].servers)
        job.stretches.append(Stretch(at_s, at_s, servers, grant))
        return job.stretches[-1]

    def _workers_started(self, event: events.WorkersStarted) -> None:
        stretches = self.jobs[event.job].stretches
        if not stretches or stretches[-1].grant != event.grant:
            return
        stretches[-1].training_s = event.at_s
        stretches[-1].start_s = event.start_s

    def _epoch_finished(self, event: events.EpochFinished) -> None:
        job = self.jobs[event.job]
        if job.stretches:
            stretch = job.stretches[-1]
            last = job.epochs[-1] if job.epochs else None
            stretch.to_s = event.at_s
            if last and last.epoch_s == event.epoch_s and last.at_s > stretch.from_s:
                last.at_s, last.epoch = event.at_s, event.epoch
            else:
                job.epochs.append(Epoch(event.at_s, event.epoch, stretch.workers, event.epoch_s))
            job.counted.take(event.epoch)
        job.safe_part = 0
        self._cut_short.discard((event.job, event.grant))
        job.metrics = event.metrics

    def _safe_point_reached(self, event: events.SafePointReached) -> None:
        job = self.jobs[event.job]
        self._cut_short.discard((event.job, event.grant))
        if event.epoch > job.counted.last:
            job.redone += max(job.safe_part - event.part, 0)
            job.safe_part = event.part

    def _workers_stopped(self, event: events.WorkersStopped) -> None:
        job = self.jobs[event.job]
        self._close(job, event.at_s)
        if event.lost or (event.job, event.grant) in self._cut_short:
            job.redone += 1 - job.safe_part
        if event.lost:
            job.losses += 1
        elif (offered := self._offers.get(event.job)) and offered.change == "preempt":
            job.preemptions += 1

    def _job_ended(self, event: events.JobEnded) -> None:
        job = self.jobs[event.job]
        if not job.outcome:
            self._close(job, event.at_s)
            job.outcome, job.ended_s = event.outcome, event.at_s

    def _close(self, job: JobHistory, at_s: float) -> None:
        """End the stretch that is open: one that was stopped is not stretched again."""
        if job.stretches and job.stretches[-1].open:
            job.stretches[-1].to_s = at_s
            job.stretches[-1].open = False

    def _loan_opened(self, event: events.LoanOpened) -> None:
        self.loans.append(Loan(event.server, event.at_s))

    def _loaning_decided(self, event: events.LoaningDecided) -> None:
        decision = event.decision
        if decision.reclaim:
            self.reclaims.append(Reclaim(event.at_s, decision.reclaim, decision.preempted))
        for loan in self._on_loan(set(decision.reclaim)):
            if loan.reclaimed_s is None:
                loan.reclaimed_s = event.at_s

    def _loan_closed(self, event: events.LoanClosed) -> None:
        for loan in self._on_loan({event.server}):
            loan.to_s = event.at_s

    def _on_loan(self, servers: set[str]) -> list[Loan]:
        return [loan for loan in self.loans if loan.server in servers and loan.to_s is None]

    def _replicas_observed(self, event: events.ReplicasObserved) -> None:
        self.replicas.append((event.at_s, dict(event.running)))
        whole = self.inference.replicas_per_server if self.inference else 0
        for loan in self.loans:
            returned = loan.to_s is not None and loan.serving_s is None
            if returned and event.running.get(loan.server, 0) >= whole:
                loan.serving_s = event.at_s

    def _demand_observed(self, event: events.DemandObserved) -> None:
        self.demand.append(Demand(event.at_s, event.rps, event.p50_ms, event.p99_ms))

    def _inference_configured(self, event: events.InferenceConfigured) -> None:
        self.inference = event

    def _policy_switched(self, event: events.PolicySwitched) -> None:
        self.policies.append((event.at_s, event.policy, event.loaning))
