"""A journal as a trace: the jobs that came, what else happened, and what everything took."""

from __future__ import annotations

from dataclasses import dataclass
from pathlib import Path

from raysched.events import PolicySwitched
from raysched.history import History, JobHistory
from raysched.jobs import JobSpec
from raysched.journal import Journal
from raysched.performance import EpochTimes, predicted_epoch_s, shape_of
from raysched.simulator.models import Costs, InPlace, Settings
from raysched.simulator.scenario import Arrival, Scenario
from raysched.simulator.traces.rows import TraceError
from raysched.simulator.traces.stopwatch import Mean, MeanOfJobs, Stopwatch


@dataclass(slots=True)
class Recorded:
    """What a journal holds: the run as it was, and all that is needed to run it again."""

    history: History
    scenario: Scenario
    settings: Settings


def read(path: Path) -> Recorded:
    """Read a journal through. Raises `JournalError`, and `TraceError` where it has no job."""
    journal = Journal(path, must_exist=True)
    try:
        stopwatch = Stopwatch(journal.rows())
    finally:
        journal.close()
    history = stopwatch.history
    if not history.jobs:
        raise TraceError(f"{path}: no job was ever submitted")
    by_shape = _by_shape(stopwatch, history)
    arrivals = [_arrival(job, stopwatch, by_shape) for job in history.jobs.values()]
    scenario = Scenario(arrivals, stopwatch.outside)
    return Recorded(history, scenario, _settings(stopwatch))


def _by_shape(stopwatch: Stopwatch, history: History) -> dict[str, EpochTimes]:
    """What epochs took over all jobs of the same name and shape, by number of workers."""
    joined: dict[str, dict[int, Mean]] = {}
    for job, sizes in stopwatch.epochs.items():
        of_shape = joined.setdefault(_shape(history.jobs[job].spec), {})
        for workers, mean in sizes.items():
            of_shape.setdefault(workers, Mean()).add(mean.total_s, mean.count)
    return {
        shape: EpochTimes({workers: mean.value_s() for workers, mean in sizes.items()})
        for shape, sizes in joined.items()
    }


def _arrival(job: JobHistory, stopwatch: Stopwatch, by_shape: dict[str, EpochTimes]) -> Arrival:
    """Sizes that were seen take what was measured, others what the scheduler would predict."""
    seen = stopwatch.epochs.get(job.job, {})
    times = EpochTimes({workers: mean.value_s() for workers, mean in seen.items()})
    own = {job.spec.batch_size: times} if seen else {}
    curves = predicted_epoch_s(job.spec, own, by_shape, stopwatch.profiles.epoch_s(job.spec))
    return Arrival(
        job.submitted_s,
        job.job,
        job.spec,
        tuple(curves.ravel().tolist()),
        costs=_costs(stopwatch, job.job),
        profiled=stopwatch.profiled.get(job.job),
    )


def _shape(spec: JobSpec) -> str:
    """A journal tells what epochs took with the first batch size of each job."""
    return shape_of(spec, spec.batch_size)


def _settings(stopwatch: Stopwatch) -> Settings:
    """The first policy that was chosen, and what changes of workers took over all jobs."""
    chosen = stopwatch.chosen or PolicySwitched(0.0, "fifo")
    return Settings(
        policy=chosen.policy,
        policy_parameters=chosen.policy_parameters,
        loaning=chosen.loaning,
        loaning_parameters=chosen.loaning_parameters,
        costs=_costs(stopwatch),
        weighs_resizes=chosen.weighs_resizes,
    )


def _costs(stopwatch: Stopwatch, job: str = "") -> Costs:
    """The means of what was measured: of the job itself where it was, else of all jobs; but those
    of all jobs where what is measured is not its own: how soon things are seen.

    A kind of start that never occurred is taken to last as long as all others, and so is the
    warming of those who join. A job that never ran is resized in place where any other was
    joinable.
    """
    start_s, resize_s, move_s, again_s = (
        stopwatch.starts.get(change, MeanOfJobs()).value_s(job, stopwatch.start.value_s())
        for change in ("start", "resize", "move", "again")
    )
    in_place = InPlace(
        warm_s=stopwatch.warm.value_s(job, stopwatch.start.value_s()),
        exchange_s=stopwatch.exchange.value_s(),
        pause_s=stopwatch.pause.value_s(job),
    )
    ran = job in stopwatch.history.jobs and stopwatch.history.jobs[job].stretches
    joinable = job in stopwatch.joinable if ran else bool(stopwatch.joinable)
    return Costs(
        start_s=start_s,
        resize_s=resize_s,
        move_s=move_s,
        preempted_s=again_s,
        stop_s=stopwatch.stop.value_s(),
        free_s=stopwatch.free.value_s(),
        in_place=in_place if joinable else None,
        ready_s=stopwatch.ready.value_s(job),
        pick_up_s=stopwatch.pick_up.value_s(),
        end_s=stopwatch.end.value_s(),
        vacate_s=stopwatch.vacate.value_s(),
    )
