"""Four ways to change the number of workers of one job, each on a real Ray cluster of its own.

In place and by restart are ours, driven by the policy of a live scheduler. Stock Ray Train is
resized in the two ways that its users have: by its own elasticity, as GPUs become free, and by
letting the function return and calling `fit` again.
"""

from __future__ import annotations

import os
import time
from collections.abc import Callable, Sequence
from concurrent.futures import ThreadPoolExecutor
from contextlib import suppress
from pathlib import Path
from typing import Any

from ray.train.torch import TorchConfig
from ray.train.v2.api.config import RunConfig, ScalingConfig
from ray.train.v2.torch.torch_trainer import TorchTrainer as StockTorchTrainer

import raysched
from benchmarks import resize_training as training
from raysched.errors import JobStopped
from raysched.runtime.local import LocalCluster

MONITOR_S = 1.0
"""Stock Ray Train looks for free GPUs this often here; its default is 60 s."""

PATIENCE_S = 180.0
POLL_S = 0.25

POLICIES = Path(__file__).parents[1] / "tests" / "real" / "third_party"


class Stuck(RuntimeError):
    """A size was not reached."""


class _Unjoined(raysched.TorchTrainer):
    """Resized by restart alone."""

    _is_joinable = False


def cluster(servers: int = 2, gpus: int = 2) -> LocalCluster:
    """Servers of simulated GPUs, on which the policy `sized` is installed."""
    path = os.pathsep.join(filter(None, [str(POLICIES), os.environ.get("PYTHONPATH", "")]))
    environment = {
        "PYTHONPATH": path,
        "RAYSCHED_SIMULATED_SAMPLES_PER_S": str(training.SAMPLES_PER_S),
    }
    return LocalCluster(training=servers, inference=0, gpus=gpus, environment=environment)


def in_place(folder: Path, sizes: Sequence[int], epochs: int, say: Callable[[str], None]) -> float:
    """Train `epochs` on `sizes` in turn, each as soon as the last is reached; the last loss."""
    _, outcome = _start(raysched.TorchTrainer, folder, epochs)
    _go_through(folder, sizes, outcome, say)
    return float(outcome.result().metrics["loss"])


def by_restart(folder: Path, sizes: Sequence[int], say: Callable[[str], None]) -> None:
    """The same without joiners; what is left of the job after the last size is cancelled."""
    run, outcome = _start(_Unjoined, folder, epochs=100)
    _go_through(folder, sizes, outcome, say)
    raysched.cancel(run.job)
    with suppress(JobStopped):
        outcome.result()


def _start(
    trainer: type[raysched.TorchTrainer], folder: Path, epochs: int
) -> tuple[raysched.TorchTrainer, _InThread]:
    marks = folder / "marks"
    marks.mkdir(parents=True)
    run = trainer(
        training.ours,
        epochs=epochs,
        workers=(1, 4),
        batch_size=training.BATCH_SIZE,
        name=folder.name,
        expected=60.0,  # known to be short: no steps are timed before it trains
        checkpoint=folder / "checkpoints",
        train_loop_config={"marks": str(marks)},
    )
    return run, _InThread(run.fit)


def _go_through(
    folder: Path, sizes: Sequence[int], outcome: _InThread, say: Callable[[str], None]
) -> None:
    for size in sizes:
        raysched.set_policy("sized", policy_parameters={"workers": size})
        _until_size(folder / "marks", size, outcome)
        say(f"{folder.name}: {size} workers")


def by_fit_again(folder: Path, sizes: Sequence[int], say: Callable[[str], None]) -> None:
    """The function returns after two epochs at each size; its driver calls `fit` with the next."""
    for turn, size in enumerate(sizes):
        config = {"epochs": 2 * len(sizes), "last_epoch": 2 * turn + 1}
        _stock_trainer(folder, size, config).fit()  # one name: it goes on where the last one ended
        say(f"{folder.name}: {size} workers")


def by_own_elasticity(folder: Path, say: Callable[[str], None]) -> None:
    """Stock Ray Train grows from one worker to two and to four as nodes of one GPU join."""
    with cluster(servers=1, gpus=1) as nodes:
        outcome = _InThread(_stock_trainer(folder, (1, 4), {"epochs": 12}).fit)
        for size in (1, 2, 4):
            while len(nodes.nodes) < size:
                nodes.add_server("training")
            _until_size(folder / "marks", size, outcome)
            say(f"{folder.name}: {size} workers")
        outcome.result()


def _stock_trainer(folder: Path, workers: int | tuple[int, int], config: dict[str, Any]) -> Any:
    marks = folder / "marks"
    marks.mkdir(parents=True, exist_ok=True)
    return StockTorchTrainer(
        training.stock,
        train_loop_config={**config, "marks": str(marks)},
        torch_config=TorchConfig(backend="gloo"),
        scaling_config=ScalingConfig(
            num_workers=workers,
            use_gpu=True,
            resources_per_worker={"CPU": 1, "GPU": 1},
            elastic_resize_monitor_interval_s=MONITOR_S,
        ),
        run_config=RunConfig(name="run", storage_path=str(folder / "checkpoints")),
    )


class _InThread:
    """A call under way in a thread of its own."""

    def __init__(self, work: Callable[[], Any]) -> None:
        self._pool = ThreadPoolExecutor(1)
        self._future = self._pool.submit(work)

    @property
    def is_over(self) -> bool:
        """Whether it has come to its end."""
        return self._future.done()

    def check(self) -> None:
        """Raise what it raised, if it is over."""
        if self._future.done():
            self._future.result()

    def result(self) -> Any:
        """Wait for its end."""
        with self._pool:
            return self._future.result()


def _until_size(marks: Path, size: int, outcome: _InThread) -> None:
    """Wait until rank 0 has made a step among so many workers."""
    deadline_s = time.monotonic() + PATIENCE_S
    while True:
        steps = [line for line in training.read(marks) if line.get("rank") == 0]
        if steps and steps[-1]["workers"] == size:
            return
        outcome.check()
        if outcome.is_over or time.monotonic() > deadline_s:
            raise Stuck(f"{size} workers were not reached")
        time.sleep(POLL_S)
