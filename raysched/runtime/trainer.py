"""A Ray `TorchTrainer` whose workers the scheduler grants."""

from __future__ import annotations

import os
import uuid
from collections.abc import Callable, Mapping
from dataclasses import replace
from typing import Any, Literal

from ray.train import Result
from ray.train.v2.api.config import CheckpointConfig, LoggingConfig, RunConfig, ScalingConfig
from ray.train.v2.api.exceptions import TrainingFailedError

from raysched.errors import JobStopped
from raysched.jobs import InvalidJob, JobSpec, Utility
from raysched.runtime import device_time, driver
from raysched.runtime.arguments import at_least, bounds, duration, storage, whole
from raysched.runtime.assignment import Assignment
from raysched.runtime.learning_rate import RULES, Following
from raysched.runtime.process_group import ProcessGroup
from raysched.runtime.ray_train import check_ray_version
from raysched.runtime.ray_train.trainer import GrantedTrainer

_UNNAMED_RUN = "ray_train_run-"  # what Ray calls a run without a name
_KEPT_CHECKPOINTS = 2


class TorchTrainer(GrantedTrainer):
    """Trains `train_loop_per_worker` for `epochs` on as many workers as the scheduler grants.

    The training function walks its epochs with `raysched.epochs`; the number of workers changes
    between two of them. One that is written for Ray Train alone runs as it is: each report of its
    rank 0 that carries a checkpoint ends an epoch, and where other workers are granted, these start
    from `ray.train.get_checkpoint()`.

    A worker is a process with `gpus_per_worker` GPUs and one CPU.

    Args:
        train_loop_per_worker: Runs on every worker, with `train_loop_config` if it takes one.
        epochs: How many the job runs.
        workers: A fixed number, or the least and the most.
        batch_size: Samples in a step, of all workers together, at any number of workers. Or the
            least and the most: it begins with the least, and the policy may choose that one
            doubled any number of times, up to the most.
        learning_rate: How the optimizers' learning rate, which is for the least batch size, goes
            with the batch: `"linear"`, `"sqrt"` (of their ratio) or `"fixed"`.
        warmup_steps: Over which it goes up or down after the batch size has changed.
        max_local_batch: Samples that a worker can hold at once. A larger share of the batch comes
            in several parts, whose gradients are summed.
        gpus_per_worker: GPUs of each worker.
        deadline: By when it shall be done after submission: `"2h"`, `"90s"`, or seconds.
        utility: What its completion is worth over time.
        priority: Higher goes first, where the policy looks at it.
        tenant: On whose account it runs.
        gpu_type: What its workers must run on, as Ray's label `ray.io/accelerator-type` names it;
            GPUs of any one type if left out.
        mixes_gpus: Its workers may run on GPUs of several types at once. They have shares of each
            batch by how fast they are.
        checkpoints: Whether epoch boundaries are saved. Without, a job whose workers stop starts
            over at epoch 0, so that it must have a fixed number of them; its result has neither
            checkpoint nor metrics.
        every: Time between safe points within an epoch: `"30s"`, `"10m"`, or seconds. There the job
            is saved, and leaves a server that inference takes back, in place where it can. They lie
            between two steps of the epoch's first pass by `raysched.batches`. Left out: a job is
            saved at epoch boundaries alone.
        expected: The whole running time on the least number of workers, as far as known.
        pre_run: Whether its throughput is measured before it trains, on as many workers as it gets
            then and on fewer, where the scheduler does not know it. Without, it is predicted from a
            few steps of single workers.
        checkpoint: Directory or URI for the boundaries' checkpoints, seen by all nodes; Ray's
            default is `~/ray_results`.
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
        batch_size: int | tuple[int, int],
        learning_rate: Literal["linear", "sqrt", "fixed"] = "linear",
        warmup_steps: int = 0,
        max_local_batch: int | None = None,
        gpus_per_worker: int = 1,
        deadline: str | float | None = None,
        utility: Utility | None = None,
        priority: int = 0,
        tenant: str = "default",
        gpu_type: str = "",
        mixes_gpus: bool = False,
        checkpoints: bool = True,
        every: str | float | None = None,
        expected: str | float | None = None,
        pre_run: bool = False,
        checkpoint: str | os.PathLike[str] | None = None,
        name: str = "",
        train_loop_config: Mapping[str, Any] | None = None,
        run_config: RunConfig | None = None,
        datasets: Mapping[str, Any] | None = None,
    ) -> None:
        check_ray_version()
        least, most = bounds("workers", workers)
        batch_sizes = _batch_sizes(batch_size)
        self.spec = JobSpec(
            name=name or getattr(train_loop_per_worker, "__name__", "job"),
            epochs=whole("epochs", epochs),
            min_workers=least,
            max_workers=most,
            batch_size=batch_sizes[0],
            batch_sizes=batch_sizes,
            gpus_per_worker=whole("gpus_per_worker", gpus_per_worker),
            deadline_s=duration("deadline", deadline),
            utility=utility,
            priority=priority,
            tenant=tenant,
            every_s=duration("every", every),
            expected_s=duration("expected", expected),
            gpu_type=gpu_type,
            mixes_gpus=mixes_gpus,
            checkpoints=checkpoints,
            pre_run=pre_run,
        )
        self._following = _following(learning_rate, batch_sizes[0], warmup_steps)
        self._max_local_batch = None
        if max_local_batch is not None:
            self._max_local_batch = at_least("max_local_batch", max_local_batch, 1)
        self.simulated_samples_per_s = device_time.samples_per_s()
        super().__init__(
            train_loop_per_worker,
            train_loop_config=None if train_loop_config is None else dict(train_loop_config),
            torch_config=ProcessGroup(),
            scaling_config=ScalingConfig(
                num_workers=most,
                use_gpu=True,
                resources_per_worker={"CPU": 1, "GPU": self.spec.gpus_per_worker},
            ),
            run_config=_run_config(run_config, checkpoint, self.spec.name),
            datasets=None if datasets is None else dict(datasets),
        )

    @property
    def job(self) -> str:
        """The job's id, once `fit` has submitted it."""
        return self._assignment.job

    @property
    def _is_joinable(self) -> bool:
        """Whether workers may join while it trains: what they would miss can be brought to them."""
        return self.spec.checkpoints and not self.datasets

    def fit(self) -> Result:
        """Submit the job, wait for its turn, train, and return Ray's result of the last epoch.

        May run in several threads of a driver, one trainer in each.

        Raises:
            NoScheduler: None runs on this Ray cluster.
            InvalidJob: The scheduler cannot ever run it; the message says why.
            JobStopped: It was cancelled or rejected.
            ray.train.TrainingFailedError: The training function raised; its traceback is told.
        """
        self._assignment = Assignment(
            job=driver.submit(self.spec),
            epochs=self.spec.epochs,
            batch_size=self.spec.batch_size,
            gpus_per_worker=self.spec.gpus_per_worker,
            simulated_samples_per_s=self.simulated_samples_per_s,
            checkpoints=self.spec.checkpoints,
            every_s=self.spec.every_s,
            joinable=self._is_joinable,
            learning_rate=self._following,
            max_local_batch=self._max_local_batch,
            mixes_gpus=self.spec.mixes_gpus,
        )
        with driver.telling_outcome(self.job):
            try:
                return super().fit()
            except TrainingFailedError as error:
                stop = getattr(error, "controller_failure", None)
                if isinstance(stop, JobStopped):
                    raise stop from None
                raise


def _batch_sizes(given: int | tuple[int, int]) -> tuple[int, ...]:
    """The least, doubled as long as that is not above the most."""
    least, most = bounds("batch_size", given)
    if at_least("batch_size", least, 1) > most:
        raise InvalidJob("batch_size", f"the minimum {least} is above the maximum {most}")
    return tuple(least << doubled for doubled in range((most // least).bit_length()))


def _following(rule: str, first_batch_size: int, warmup_steps: int) -> Following:
    if rule not in RULES:
        known = ", ".join(map(repr, RULES))
        raise InvalidJob("learning_rate", f"is {rule!r}; use one of {known}")
    return Following(first_batch_size, rule, at_least("warmup_steps", warmup_steps, 0))


def _run_config(
    given: RunConfig | None, checkpoint: str | os.PathLike[str] | None, job_name: str
) -> RunConfig:
    """Ray resumes a run that has the same name in the same place: only a name that was given."""
    config = given or RunConfig(
        checkpoint_config=CheckpointConfig(_KEPT_CHECKPOINTS),
        logging_config=LoggingConfig(log_level="WARNING"),  # Ray Train says a line per report
    )
    if (config.name or "").startswith(_UNNAMED_RUN):
        config = replace(config, name=f"{job_name}-{uuid.uuid4().hex[:8]}")
    if checkpoint is not None:
        config = replace(config, storage_path=storage(os.fspath(checkpoint)))
    return config
