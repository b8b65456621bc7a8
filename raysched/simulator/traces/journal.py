"""A journal as a trace: the jobs that came, what else happened, and what everything took."""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass, field
from pathlib import Path
from typing import get_args

from raysched import events
from raysched.actions import Action, Offer, ReleaseGrant
from raysched.events import Event, JobEnded, PolicySwitched
from raysched.history import History, JobHistory
from raysched.jobs import JobSpec
from raysched.journal import Journal, Row
from raysched.performance import EpochTimes, predicted_epoch_s, shape_of
from raysched.simulator.models import Costs, Settings
from raysched.simulator.scenario import Arrival, Outside, Scenario
from raysched.simulator.traces.rows import TraceError

_OUTSIDE = get_args(Outside)


@dataclass(slots=True)
class Recorded:
    """What a journal holds: the run as it was, and all that is needed to run it again."""

    history: History
    scenario: Scenario
    settings: Settings


@dataclass(slots=True)
class _Mean:
    """A mean of seconds, taken in one by one."""

    total_s: float = 0.0
    count: float = 0.0

    def add(self, total_s: float, count: float = 1.0) -> None:
        self.total_s += total_s
        self.count += count

    def value_s(self, otherwise_s: float = 0.0) -> float:
        return self.total_s / self.count if self.count else otherwise_s


def read(path: Path) -> Recorded:
    """Read a journal through. Raises `JournalError`, and `TraceError` where it has no job."""
    journal = Journal(path, must_exist=True)
    try:
        stopwatch = _Stopwatch(journal.rows())
    finally:
        journal.close()
    history = stopwatch.history
    if not history.jobs:
        raise TraceError(f"{path}: no job was ever submitted")
    by_shape = _by_shape(stopwatch, history)
    arrivals = [_arrival(job, stopwatch, by_shape) for job in history.jobs.values()]
    scenario = Scenario(arrivals, stopwatch.outside)
    return Recorded(history, scenario, _settings(stopwatch))


@dataclass(slots=True)
class _Began:
    """A grant that trains: since when, and how many epochs were done then."""

    at_s: float
    epochs: int
    last_s: float
    workers: int


@dataclass
class _Stopwatch:
    """Walks through the rows and notes how long everything took."""

    rows: Iterable[Row]
    history: History = field(default_factory=History)
    outside: list[Outside] = field(default_factory=list)
    chosen: PolicySwitched | None = None
    epochs: dict[str, dict[int, _Mean]] = field(default_factory=dict)
    """By job and number of workers: seconds of an epoch, boundary to boundary."""
    starts: dict[str, _Mean] = field(default_factory=dict)
    """By what changed: seconds from pick-up to training."""
    stop: _Mean = field(default_factory=_Mean)
    free: _Mean = field(default_factory=_Mean)
    _done: dict[str, int] = field(default_factory=dict)
    _began: dict[str, _Began] = field(default_factory=dict)
    _change: dict[tuple[str, int], str] = field(default_factory=dict)
    _releasing: dict[tuple[str, str], float] = field(default_factory=dict)

    def __post_init__(self) -> None:
        for row in self.rows:
            self._measure(row.event)
            self.history.take(row.event, row.actions)
            self._note(row.event, row.actions)

    def _note(self, event: Event, actions: list[Action]) -> None:
        for action in actions:
            if isinstance(action, Offer):
                grant = action.grant
                ran = bool(self.history.jobs[grant.job].stretches)
                again = action.change == "restart" or (action.change == "start" and ran)
                self._change[grant.job, grant.grant] = "again" if again else action.change
            elif isinstance(action, ReleaseGrant):
                self._releasing.update({(action.job, s): event.at_s for s in action.servers})

    def _measure(self, event: Event) -> None:
        if isinstance(event, PolicySwitched) and self.chosen is None and not self.history.jobs:
            self.chosen = event
        elif isinstance(event, JobEnded):
            self._leave(event.job, lost=event.outcome != "finished")
            if event.outcome != "finished":
                self.outside.append(event)
        elif isinstance(event, _OUTSIDE):
            self.outside.append(event)
        elif isinstance(event, events.WorkersStarted):
            self._start(event)
        elif isinstance(event, events.EpochFinished):
            self._done[event.job] = max(self._done.get(event.job, 0), event.epoch + 1)
            if event.job in self._began:
                self._began[event.job].last_s = event.at_s
        elif isinstance(event, events.WorkersStopped):
            if event.job in self._began and not event.lost:
                self.stop.add(event.at_s - self._began[event.job].last_s)
            self._leave(event.job, lost=event.lost)
        elif isinstance(event, events.GpusFreed):
            since_s = self._releasing.pop((event.job, event.server), None)
            if since_s is not None:
                self.free.add(event.at_s - since_s)

    def _start(self, event: events.WorkersStarted) -> None:
        change = self._change.get((event.job, event.grant), "start")
        self.starts.setdefault(change, _Mean()).add(event.start_s)
        workers = self.history.jobs[event.job].stretches[-1].workers
        done = self._done.get(event.job, 0)
        self._began[event.job] = _Began(event.at_s, done, event.at_s, workers)

    def _leave(self, job: str, *, lost: bool) -> None:
        """A grant is over. Where it left in order, its last report was at a boundary."""
        began = self._began.pop(job, None)
        if began is None or lost:
            return
        epochs = self._done.get(job, 0) - began.epochs
        if epochs > 0:
            of_job = self.epochs.setdefault(job, {})
            of_job.setdefault(began.workers, _Mean()).add(began.last_s - began.at_s, epochs)


def _by_shape(stopwatch: _Stopwatch, history: History) -> dict[str, EpochTimes]:
    """What epochs took over all jobs of the same name and shape, by number of workers."""
    joined: dict[str, dict[int, _Mean]] = {}
    for job, sizes in stopwatch.epochs.items():
        of_shape = joined.setdefault(_shape(history.jobs[job].spec), {})
        for workers, mean in sizes.items():
            of_shape.setdefault(workers, _Mean()).add(mean.total_s, mean.count)
    return {
        shape: EpochTimes({workers: mean.value_s() for workers, mean in sizes.items()})
        for shape, sizes in joined.items()
    }


def _arrival(job: JobHistory, stopwatch: _Stopwatch, by_shape: dict[str, EpochTimes]) -> Arrival:
    """Sizes that were seen take what was measured, others what the scheduler would predict."""
    seen = stopwatch.epochs.get(job.job, {})
    times = EpochTimes({workers: mean.value_s() for workers, mean in seen.items()})
    own = {job.spec.batch_size: times} if seen else {}
    curves = predicted_epoch_s(job.spec, own, by_shape)
    return Arrival(job.submitted_s, job.job, job.spec, tuple(curves.ravel().tolist()))


def _shape(spec: JobSpec) -> str:
    """A journal tells what epochs took with the first batch size of each job."""
    return shape_of(spec, spec.batch_size)


def _settings(stopwatch: _Stopwatch) -> Settings:
    """The first policy that was chosen, and the means of what was measured.

    Where a kind of start never occurred, it is taken to last as long as all others.
    """
    whole = _Mean()
    for mean in stopwatch.starts.values():
        whole.add(mean.total_s, mean.count)
    start_s, resize_s, move_s, again_s = (
        stopwatch.starts.get(change, _Mean()).value_s(whole.value_s())
        for change in ("start", "resize", "move", "again")
    )
    chosen = stopwatch.chosen or PolicySwitched(0.0, "fifo")
    costs = Costs(
        start_s=start_s,
        resize_s=resize_s,
        move_s=move_s,
        preempted_s=again_s,
        stop_s=stopwatch.stop.value_s(),
        free_s=stopwatch.free.value_s(),
    )
    return Settings(
        policy=chosen.policy,
        policy_parameters=chosen.policy_parameters,
        loaning=chosen.loaning,
        loaning_parameters=chosen.loaning_parameters,
        costs=costs,
        weighs_resizes=chosen.weighs_resizes,
    )
