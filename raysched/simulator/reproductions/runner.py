"""Runs in several processes, each once, and those that were done before not again."""

from __future__ import annotations

import multiprocessing
import os
import signal
import time
from collections.abc import Callable, Iterable, Sequence
from concurrent.futures import ProcessPoolExecutor, as_completed
from dataclasses import dataclass

from raysched.simulator.reproductions.experiment import Measured, Results, Run
from raysched.simulator.reproductions.store import Store, digest
from raysched.simulator.solvers import silence_here


@dataclass(frozen=True, slots=True)
class Forecast:
    """What is still to be done, and what that is expected to take."""

    runs: int
    to_do: tuple[Run, ...]
    processes: int

    @property
    def wall_s(self) -> float:
        """With all processes busy; no shorter than the longest run."""
        costs = [run.cpu_s for run in self.to_do]
        return max(sum(costs) / self.processes, max(costs, default=0.0))


def forecast(runs: Iterable[Run], store: Store) -> Forecast:
    """Look up what was done before."""
    once = {digest(run): run for run in runs}
    to_do = tuple(run for run in once.values() if store.get(run) is None)
    return Forecast(len(once), to_do, processes=os.cpu_count() or 1)


def do(forecast: Forecast, store: Store, watch: Callable[[Run], None]) -> None:
    """Do what is to be done, the longest first; `watch` is told of each run that is over.

    What is over is kept, whatever happens to the rest.
    """
    if not forecast.to_do:
        return
    longest_first = sorted(forecast.to_do, key=lambda run: -run.cpu_s)
    context = multiprocessing.get_context("spawn")
    pool = ProcessPoolExecutor(forecast.processes, context, initializer=_begin)
    try:
        runs = {pool.submit(_timed, run): run for run in longest_first}
        for done in as_completed(runs):
            measured, cpu_s = done.result()
            store.keep(runs[done], measured, cpu_s)
            watch(runs[done])
    finally:
        pool.shutdown(cancel_futures=True)


def results(runs: Sequence[Run], store: Store) -> Results:
    """What runs that were done measured. Raises `LookupError` for one that was not."""
    measured = [store.get(run) for run in runs]
    if None in measured:
        raise LookupError("a run was not done")
    return Results(runs, [found for found in measured if found is not None])


def _timed(run: Run) -> tuple[Measured, float]:
    began_s = time.process_time()
    measured = run.measure(**run.parameters)
    return measured, time.process_time() - began_s


def _begin() -> None:
    """On Ctrl-C a process ends at once, without a traceback: there is nothing to save."""
    signal.signal(signal.SIGINT, signal.SIG_DFL)
    silence_here()
