"""What a training worker is told when it is started, and where it keeps it.

Read by the controller too, which must stay small: nothing here imports torch.
"""

from __future__ import annotations

from dataclasses import dataclass

from raysched.runtime.learning_rate import FIXED, Following


@dataclass(frozen=True, slots=True)
class ToProfile:
    """What the first workers of an unknown model measure (`raysched.profile`); empty: nothing."""

    local_batches: tuple[int, ...] = ()  # for which steps are timed
    groups: tuple[int, ...] = ()  # of the first so many workers, whose all-reduces are timed
    sizes: tuple[int, ...] = ()  # the first so many workers time steps of all of them, too
    batch_sizes: tuple[int, ...] = ()  # with these global batches


NOTHING = ToProfile()


@dataclass(frozen=True, slots=True)
class Assignment:
    """One worker's part in a grant."""

    job: str
    epochs: int
    batch_size: int  # of all workers together
    gpus_per_worker: int
    grant: int = 0
    granted_at_s: float = 0.0  # wall clock, when the grant was picked up
    simulated_samples_per_s: float | None = None  # of one simulated GPU of rate 1
    gpu_rate: float = 1.0  # of this worker's GPUs
    checkpoints: bool = True  # whether epoch boundaries are saved
    every_s: float | None = None  # between safe points within an epoch; None: it has none
    joinable: bool = True  # whether others can join its workers while they train
    epochs_done: int = 0  # at whose end the checkpoint was saved that it starts from
    joins: bool = False  # whether it joins workers that have trained before
    profiles: ToProfile = NOTHING  # what its workers measure before they train
    learning_rate: Following = FIXED  # how it goes with `batch_size`
    max_local_batch: int | None = None  # samples that a worker can hold at once
    mixes_gpus: bool = False  # whether workers have shares of the batch by their speed


_current: Assignment | None = None
_walks_epochs = False


def assign(assignment: Assignment) -> None:
    """Give this worker process its assignment."""
    global _current  # noqa: PLW0603 - one worker process, one assignment
    _current = assignment


def current() -> Assignment:
    """Return this worker's assignment.

    Raises:
        RuntimeError: This process is not a worker of a `raysched.TorchTrainer`.
    """
    if _current is None:
        raise RuntimeError("not in a training worker; run the function by raysched.TorchTrainer")
    return _current


def walk_epochs() -> None:
    """Note that this worker's function walks its epochs with `raysched.epochs`."""
    global _walks_epochs  # noqa: PLW0603 - one worker process, one function
    _walks_epochs = True


def walks_epochs() -> bool:
    """Whether it does. One that does not is a function for Ray Train alone."""
    return _walks_epochs
