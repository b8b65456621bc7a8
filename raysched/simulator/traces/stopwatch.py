"""How long everything took in a run that a journal holds."""

from __future__ import annotations

from collections.abc import Callable, Iterable
from dataclasses import dataclass, field
from typing import Any, get_args

from raysched import events
from raysched.actions import Action, Offer, ReleaseGrant, ScaleReplicas
from raysched.events import Event
from raysched.history import History
from raysched.journal import Row
from raysched.performance import rate_of
from raysched.profile import Profiles
from raysched.simulator.scenario import Outside

_OUTSIDE = get_args(Outside)


@dataclass(slots=True)
class Mean:
    """A mean of seconds, taken in one by one."""

    total_s: float = 0.0
    count: float = 0.0

    def add(self, total_s: float, count: float = 1.0) -> None:
        """Take in seconds that so many took together."""
        self.total_s += total_s
        self.count += count

    def value_s(self, otherwise_s: float = 0.0) -> float:
        """The mean, where there is anything to take it of."""
        return self.total_s / self.count if self.count else otherwise_s


@dataclass(slots=True)
class MeanOfJobs:
    """A mean of seconds over all jobs, and over each."""

    of_all: Mean = field(default_factory=Mean)
    _of_job: dict[str, Mean] = field(default_factory=dict)

    def add(self, job: str, seconds: float) -> None:
        """Take one in."""
        self.of_all.add(seconds)
        self._of_job.setdefault(job, Mean()).add(seconds)

    def value_s(self, job: str, otherwise_s: float = 0.0) -> float:
        """The job's own mean; else that of all; else `otherwise_s`."""
        return self._of_job.get(job, self.of_all).value_s(otherwise_s)


@dataclass(slots=True)
class _Began:
    """A grant that trains: since when, and how many epochs were done then."""

    at_s: float
    epochs: float
    workers: int
    last_s: float
    """When it last told how far it was."""


@dataclass(slots=True)
class _Offered:
    """An offer: when it was made, and for what kind of start."""

    at_s: float
    change: str


@dataclass
class Stopwatch:
    """Walks through the rows and notes how long everything took, from event to event."""

    rows: Iterable[Row]
    history: History = field(default_factory=History)
    outside: list[Outside] = field(default_factory=list)
    chosen: events.PolicySwitched | None = None
    epochs: dict[str, dict[int, Mean]] = field(default_factory=dict)
    """By job and number of workers: of an epoch, from boundary to boundary."""
    profiled: dict[str, events.JobProfiled] = field(default_factory=dict)
    """What jobs measured of their models."""
    profiles: Profiles = field(default_factory=Profiles)
    """All that was."""
    joinable: set[str] = field(default_factory=set)
    """Jobs that others could join."""
    ready: MeanOfJobs = field(default_factory=MeanOfJobs)
    """From a submission to the first pick-up, of jobs to which GPUs were offered for most of that
    time: it was not GPUs that they lacked."""
    pick_up: Mean = field(default_factory=Mean)
    """From an offer, or the stop of the workers before, to its pick-up, of jobs that were ready:
    that had workers before, or waited for GPUs for longer than any job in `ready` took."""
    starts: dict[str, MeanOfJobs] = field(default_factory=dict)
    """By what changed: from pick-up to training."""
    warm: MeanOfJobs = field(default_factory=MeanOfJobs)
    """From an offer to a job that trains until those who join are warm."""
    exchange: Mean = field(default_factory=Mean)
    """From a boundary, or from there on until those who joined were warm, until workers were
    resized in place."""
    pause: MeanOfJobs = field(default_factory=MeanOfJobs)
    """From there until all trained again."""
    stop: Mean = field(default_factory=Mean)
    """From a job's last report until its workers stopped."""
    free: Mean = field(default_factory=Mean)
    """From giving GPUs up until they were seen free."""
    end: Mean = field(default_factory=Mean)
    """From the last epoch of a job to its end."""
    vacate: Mean = field(default_factory=Mean)
    """From a wish for fewer replicas until some were seen gone."""
    _done: dict[str, float] = field(default_factory=dict)
    _reported_s: dict[str, float] = field(default_factory=dict)
    _began: dict[str, _Began] = field(default_factory=dict)
    _waits_s: dict[str, float] = field(default_factory=dict)
    """Since when a job has no workers: its submission, or their stop."""
    _first_taken: list[tuple[str, float, float]] = field(default_factory=list)
    """Jobs: how long GPUs were offered to them before their first pick-up, and were not."""
    _withdrawn: dict[str, float] = field(default_factory=dict)
    """By job: how long offers stood that were withdrawn before its first pick-up."""
    _taken_s: dict[str, float] = field(default_factory=dict)
    _warm_s: dict[str, float] = field(default_factory=dict)
    _goes_over_s: dict[str, float] = field(default_factory=dict)
    _offers: dict[tuple[str, int], _Offered] = field(default_factory=dict)
    _releasing: dict[tuple[str, str], float] = field(default_factory=dict)
    _replicas: int = 0
    _fewer_s: float | None = None

    def __post_init__(self) -> None:
        measures: dict[type, Callable[[Any], None]] = {
            events.PolicySwitched: self._switched,
            events.JobSubmitted: self._submitted,
            events.GrantTaken: self._taken,
            events.WorkersStarted: self._started,
            events.JobProfiled: self._profiled,
            events.OfferReady: self._warmed,
            events.EpochFinished: self._reported,
            events.SafePointReached: self._saved,
            events.WorkersResized: self._resized,
            events.WorkersStopped: self._stopped,
            events.GpusFreed: self._freed,
            events.JobEnded: self._ended,
            events.ReplicasObserved: self._observed,
        }
        for row in self.rows:
            if (measure := measures.get(type(row.event))) is not None:
                measure(row.event)
            elif isinstance(row.event, _OUTSIDE):
                self.outside.append(row.event)
            self.history.take(row.event, row.actions)
            self._note(row.event, row.actions)
        self._tell_ready_from_waiting()

    @property
    def start(self) -> Mean:
        """From pick-up to training, whatever changed."""
        kinds = [of_kind.of_all for of_kind in self.starts.values()]
        return Mean(sum(kind.total_s for kind in kinds), sum(kind.count for kind in kinds))

    def _note(self, event: Event, actions: list[Action]) -> None:
        for action in actions:
            if isinstance(action, Offer):
                grant = action.grant
                ran = bool(self.history.jobs[grant.job].stretches)
                again = action.change == "restart" or (action.change == "start" and ran)
                change = "again" if again else action.change
                self._offers[grant.job, grant.grant] = _Offered(event.at_s, change)
            elif isinstance(action, ReleaseGrant):
                self._releasing.update({(action.job, s): event.at_s for s in action.servers})
                offer = self._offers.get((action.job, action.grant))
                if offer is not None and not self.history.jobs[action.job].stretches:
                    stood_s = self._withdrawn.get(action.job, 0.0) + event.at_s - offer.at_s
                    self._withdrawn[action.job] = stood_s
            elif isinstance(action, ScaleReplicas) and action.replicas < self._replicas:
                self._fewer_s = event.at_s

    def _switched(self, event: events.PolicySwitched) -> None:
        if self.chosen is None and not self.history.jobs:
            self.chosen = event
        else:
            self.outside.append(event)

    def _submitted(self, event: events.JobSubmitted) -> None:
        self._waits_s[event.job] = event.at_s

    def _taken(self, event: events.GrantTaken) -> None:
        offered_s, since_s = self._offers[event.job, event.grant].at_s, self._waits_s[event.job]
        waited_s = event.at_s - max(offered_s, since_s)
        if self.history.jobs[event.job].stretches:
            self.pick_up.add(waited_s)
        else:
            waited_s += self._withdrawn.get(event.job, 0.0)
            self._first_taken.append((event.job, waited_s, event.at_s - since_s - waited_s))
        self._taken_s[event.job] = event.at_s

    def _tell_ready_from_waiting(self) -> None:
        """Whether GPUs waited for a job or it for them is seen by which took longer; where that is
        close it may have been either."""
        longest_s = 0.0
        for job, offered_s, lacked_s in self._first_taken:
            if offered_s > lacked_s:
                self.ready.add(job, offered_s + lacked_s)
                longest_s = max(longest_s, offered_s + lacked_s)
        for _, offered_s, lacked_s in self._first_taken:
            if offered_s <= lacked_s and lacked_s >= longest_s:
                self.pick_up.add(offered_s)

    def _started(self, event: events.WorkersStarted) -> None:
        if event.joinable:
            self.joinable.add(event.job)
        stretch = self.history.jobs[event.job].stretches[-1]
        if event.job in self._began or stretch.grant != event.grant:
            return  # said twice, or too late
        if stretch.in_place:
            cost, since_s = self.pause, self._goes_over_s[event.job]
        else:
            change = self._offers[event.job, event.grant].change
            cost, since_s = self.starts.setdefault(change, MeanOfJobs()), self._taken_s[event.job]
        cost.add(event.job, event.at_s - since_s)
        done = self._done.get(event.job, 0)
        self._began[event.job] = _Began(event.at_s, done, stretch.workers, event.at_s)

    def _profiled(self, event: events.JobProfiled) -> None:
        job, servers = self.history.jobs[event.job], self.history.servers
        here = [
            (workers, servers[server].gpu_type, servers[server].gpu_rate)
            for server, workers in job.stretches[-1].servers.items()
        ]
        gpu_type = "+".join(sorted({gpu_type for _, gpu_type, _ in here}))
        profile = event.profile.at_rate(rate_of(here))
        self.profiles.take(job.spec, gpu_type, profile, event.all_reduce_s)
        self.profiled[event.job] = event

    def _warmed(self, event: events.OfferReady) -> None:
        offer, began = self._offers.get((event.job, event.grant)), self._began.get(event.job)
        self._warm_s[event.job] = event.at_s
        if offer is not None and began is not None:
            self.warm.add(event.job, event.at_s - max(offer.at_s, began.at_s))

    def _reported(self, event: events.EpochFinished) -> None:
        self._reported_s[event.job] = event.at_s
        self._come_to(event.job, event.epoch + 1, event.at_s)

    def _saved(self, event: events.SafePointReached) -> None:
        self._come_to(event.job, event.epoch + event.part, event.at_s)

    def _come_to(self, job: str, epochs: float, at_s: float) -> None:
        self._done[job] = max(self._done.get(job, 0.0), epochs)
        if job in self._began:
            self._began[job].last_s = at_s

    def _resized(self, event: events.WorkersResized) -> None:
        if event.job not in self._began:
            return  # said twice
        boundary_s, warm_s = self._began[event.job].last_s, self._warm_s.get(event.job, 0.0)
        self._goes_over_s[event.job] = max(boundary_s, warm_s)
        self.exchange.add(event.at_s - self._goes_over_s[event.job])
        self._leave(event.job, lost=False)

    def _stopped(self, event: events.WorkersStopped) -> None:
        if event.job in self._began and not event.lost:
            self.stop.add(event.at_s - self._began[event.job].last_s)
        self._leave(event.job, lost=event.lost)
        self._waits_s[event.job] = event.at_s

    def _leave(self, job: str, *, lost: bool) -> None:
        """A grant is over. Where it left in order, its last report was at a boundary."""
        began = self._began.pop(job, None)
        if began is None or lost:
            return
        epochs = self._done.get(job, 0) - began.epochs
        if epochs > 0:
            mean = self.epochs.setdefault(job, {}).setdefault(began.workers, Mean())
            mean.add(began.last_s - began.at_s, epochs)

    def _freed(self, event: events.GpusFreed) -> None:
        since_s = self._releasing.pop((event.job, event.server), None)
        if since_s is not None:
            self.free.add(event.at_s - since_s)

    def _ended(self, event: events.JobEnded) -> None:
        finished = event.outcome == "finished"
        if finished and event.job in self._reported_s:
            self.end.add(event.at_s - self._reported_s[event.job])
        elif not finished:
            self.outside.append(event)
        self._leave(event.job, lost=not finished)

    def _observed(self, event: events.ReplicasObserved) -> None:
        replicas = sum(event.present.values())
        if self._fewer_s is not None and replicas < self._replicas:
            self.vacate.add(event.at_s - self._fewer_s)
            self._fewer_s = None
        self._replicas = replicas
