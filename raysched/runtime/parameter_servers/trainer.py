"""The trainer of jobs with parameter servers."""

from __future__ import annotations

import functools
import inspect
import os
import uuid
from collections.abc import Callable, Mapping
from typing import Any

import ray
from ray.exceptions import RayTaskError
from ray.train import Checkpoint, Result
from ray.train.v2.api.exceptions import TrainingFailedError

from raysched.errors import CheckpointError, JobStopped
from raysched.jobs import JobSpec, Utility
from raysched.runtime import device_time, driver
from raysched.runtime.arguments import at_least, bounds, duration, storage, whole
from raysched.runtime.assignment import Assignment
from raysched.runtime.parameter_servers.coordinator import Coordinator
from raysched.runtime.parameter_servers.protocol import Saved

CHUNKS_PER_WORKER = 4
"""So many chunks for the most workers, where a job does not say: those who are quick take more."""

WORKERS_PER_PARAMETER_SERVER = 4
"""How many workers one server's bandwidth carries, where a job does not say: about what the ranges
of 002 §V-A (as remembered) come to in the mean, 12.5 Gbps a server over 2.6 Gbps a worker."""


class ParameterServerTrainer:
    """Trains asynchronously with as many workers as the scheduler grants, and parameter servers.

    As paper 002 §III describes it. The training function is that of a `raysched.TorchTrainer`, but
    for these: each worker goes its own way, `optimizer.step()` is done by the servers (with any of
    `loop.ELEMENTWISE`), `raysched.batches` yields mini-batches of the chunks that are dealt to this
    worker, with weight 1, and `raysched.epochs` may yield an epoch again where a server was lost.
    A parameter that a step has no gradient for counts as one of gradient 0. Statistics of batch
    normalization are each worker's own: those of the worker that is longest there are kept.

    Args:
        train_loop_per_worker: Runs on every worker, with `train_loop_config` if it takes one.
        epochs: How many the job runs.
        workers: A fixed number, or the least and the most.
        batch_size: Samples in a mini-batch, of one worker.
        chunks: Into how many parts the data of an epoch is dealt; each is trained once.
        workers_per_parameter_server: How many workers one server's bandwidth carries; w workers
            have w / this of servers, rounded up, where the policy names no other number (002 (6)).
        gpus_per_worker: GPUs of each worker. A server has one CPU, and none.
        deadline: By when it shall be done after submission: `"2h"`, `"90s"`, or seconds.
        utility: What its completion is worth over time.
        priority: Higher goes first, where the policy looks at it.
        tenant: On whose account it runs.
        gpu_type: What its workers must run on; GPUs of any one type if left out.
        mixes_gpus: Its workers may run on GPUs of several types at once.
        expected: The whole running time on the least number of workers, as far as known.
        checkpoint: Directory or URI for the boundaries' checkpoints, seen by all nodes; as with
            Ray, `~/ray_results` if left out.
        name: How it is called in tables; the training function's name if left out.

    Raises:
        InvalidJob: An argument cannot be; the message names it and the mend.
    """

    def __init__(
        self,
        train_loop_per_worker: Callable[..., Any],
        *,
        epochs: int,
        workers: int | tuple[int, int],
        batch_size: int,
        chunks: int | None = None,
        workers_per_parameter_server: int = WORKERS_PER_PARAMETER_SERVER,
        gpus_per_worker: int = 1,
        deadline: str | float | None = None,
        utility: Utility | None = None,
        priority: int = 0,
        tenant: str = "default",
        gpu_type: str = "",
        mixes_gpus: bool = False,
        expected: str | float | None = None,
        checkpoint: str | os.PathLike[str] | None = None,
        name: str = "",
        train_loop_config: Mapping[str, Any] | None = None,
    ) -> None:
        least, most = bounds("workers", workers)
        self.spec = JobSpec(
            name=name or getattr(train_loop_per_worker, "__name__", "job"),
            epochs=whole("epochs", epochs),
            min_workers=least,
            max_workers=most,
            batch_size=whole("batch_size", batch_size),
            gpus_per_worker=whole("gpus_per_worker", gpus_per_worker),
            deadline_s=duration("deadline", deadline),
            utility=utility,
            priority=priority,
            tenant=tenant,
            expected_s=duration("expected", expected),
            gpu_type=gpu_type,
            mixes_gpus=mixes_gpus,
            workers_per_parameter_server=at_least(
                "workers_per_parameter_server", workers_per_parameter_server, 1
            ),
        )
        self.chunks = CHUNKS_PER_WORKER * most
        if chunks is not None:  # (3): a chunk is with one worker at a time
            self.chunks = at_least("chunks", chunks, most)
        self.run = f"{storage(os.fspath(checkpoint or '~/ray_results'))}/{self._unique_name()}"
        self.simulated_samples_per_s = device_time.samples_per_s()
        self._function = ray.cloudpickle.dumps(
            _without_arguments(train_loop_per_worker, dict(train_loop_config or {}))
        )
        self._job = ""

    @property
    def job(self) -> str:
        """The job's id, once `fit` has submitted it; empty before."""
        return self._job

    def fit(self) -> Result:
        """Submit the job, wait for its turn, train, and return the result of the last epoch.

        May run in several threads of a driver, one trainer in each.

        Raises:
            NoScheduler: None runs on this Ray cluster.
            InvalidJob: The scheduler cannot ever run it; the message says why.
            JobStopped: It was cancelled or rejected.
            CheckpointError: The checkpoint of a boundary could not be written.
            ray.train.TrainingFailedError: The training function raised; its traceback is told.
        """
        self._job = driver.submit(self.spec)
        with driver.telling_outcome(self._job):
            saved = self._train()
        return Result(
            metrics=dict(saved.metrics),
            checkpoint=Checkpoint(saved.path),
            error=None,
            path=self.run,
        )

    def _train(self) -> Saved:
        assignment = Assignment(
            job=self._job,
            epochs=self.spec.epochs,
            batch_size=self.spec.batch_size,
            gpus_per_worker=self.spec.gpus_per_worker,
            simulated_samples_per_s=self.simulated_samples_per_s,
        )
        options = driver.controller_options(self._job)
        coordinator: Any = (
            ray.remote(Coordinator).options(**options).remote(assignment, self.chunks, self.run)
        )
        try:
            saved: Saved = ray.get(coordinator.train.remote(self._function))
            return saved
        except RayTaskError as error:
            if isinstance(error.cause, JobStopped | CheckpointError):
                raise error.cause from None
            raise TrainingFailedError(str(error)) from None
        finally:
            ray.kill(coordinator)  # its workers and servers, if any are left, die with it

    def _unique_name(self) -> str:
        return f"{self.spec.name}-{uuid.uuid4().hex[:8]}"


def _without_arguments(function: Callable[..., Any], config: dict[str, Any]) -> Callable[[], Any]:
    """The function, with its configuration if it takes one."""
    takes_one = bool(inspect.signature(function).parameters)
    return functools.partial(function, config) if takes_one else function
