"""Problems that read like sentences: `problem(jobs=[job("a", workers=(1, 4))], servers=[...])`.

A job's curve is linear in its workers unless the test gives one.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any

import numpy as np

from policies.problem import Curves, Jobs, Problem, Servers
from raysched.placement_problem import Rooms

BATCH_SIZE = 64


@dataclass(frozen=True)
class Job:
    """One row of the columns, as tests write it."""

    id: str
    workers: tuple[int, int]
    epoch_s: tuple[float, ...]  # at min .. max workers
    epochs: float
    gpus: int
    running: int
    on: Mapping[str, int] = field(default_factory=dict)
    requested: int = 0  # 0: the minimum
    deadline_s: float = np.inf
    utility: tuple[float, float, float] = (np.nan, np.nan, np.nan)  # worth, steepness, target
    gpu_type: str = ""
    mixes_gpus: bool = False
    checkpoints: bool = True
    workers_per_parameter_server: int = 0
    gpu_memory_gib: float = np.nan


@dataclass(frozen=True)
class Server:
    """One server that training may use. `problem` numbers them: t1, t2, ... and l1, l2, ..."""

    gpus: int
    on_loan: bool
    gpu_type: str = "GPU"
    gpu_rate: float = 1.0
    gpu_memory_gib: float = np.nan


def job(
    name: str,
    workers: tuple[int, int] | int = 1,
    *,
    epoch_s: float | Sequence[float] = 10.0,
    epochs: float = 1.0,
    gpus: int = 1,
    running: int = 0,
    on: Mapping[str, int] | None = None,
    **rest: Any,
) -> Job:
    """A job that waits, or has `running` workers, or stands `on` servers (id -> workers).

    `workers`: (min, max), or a fixed number. `epoch_s`: of one epoch on the minimum, falling as
    1 / workers; or one value for each number of workers. `gpus`: of one worker. `rest`: of `Job`.
    """
    low, high = (workers, workers) if isinstance(workers, int) else workers
    if isinstance(epoch_s, int | float):
        epoch_s = [epoch_s * low / n for n in range(low, high + 1)]
    on = on or {}
    running = running or sum(on.values())
    return Job(name, (low, high), tuple(epoch_s), epochs, gpus, running, on, **rest)


def training(
    gpus: int, gpu_type: str = "GPU", gpu_rate: float = 1.0, gpu_memory_gib: float = np.nan
) -> Server:
    """A server of the training pool."""
    return Server(gpus, False, gpu_type, gpu_rate, gpu_memory_gib)


def on_loan(
    gpus: int, gpu_type: str = "GPU", gpu_rate: float = 1.0, gpu_memory_gib: float = np.nan
) -> Server:
    """An inference server that is on loan."""
    return Server(gpus, True, gpu_type, gpu_rate, gpu_memory_gib)


def problem(
    jobs: Sequence[Job] = (),
    servers: Sequence[Server] = (),
    *,
    now_s: float = 1000.0,
    resize_s: float = 0.0,
) -> Problem:
    """The jobs, submitted in this order one second apart, and the servers as columns."""
    ids = server_ids(servers)
    return Problem(
        now_s=now_s,
        jobs=_job_columns(jobs),
        servers=Servers(
            ids=ids,
            gpus=_ints(server.gpus for server in servers),
            on_loan=np.array([server.on_loan for server in servers], dtype=bool),
            gpu_type=tuple(server.gpu_type for server in servers),
            gpu_rate=_floats(server.gpu_rate for server in servers),
            gpu_memory_gib=_floats(server.gpu_memory_gib for server in servers),
        ),
        placed=_ints(job.on.get(server, 0) for job in jobs for server in ids).reshape(
            len(jobs), len(ids)
        ),
        resize_s=resize_s,
    )


def server_ids(servers: Sequence[Server]) -> tuple[str, ...]:
    """t1, t2, ... for training servers, l1, l2, ... for those on loan."""
    counts = {False: 0, True: 0}
    names = []
    for server in servers:
        counts[server.on_loan] += 1
        names.append(f"{'l' if server.on_loan else 't'}{counts[server.on_loan]}")
    return tuple(names)


def _job_columns(jobs: Sequence[Job]) -> Jobs:
    return Jobs(
        ids=tuple(job.id for job in jobs),
        submitted_s=np.arange(len(jobs), dtype=np.float64),
        deadline_s=_floats(job.deadline_s for job in jobs),
        priority=np.zeros(len(jobs), dtype=np.int64),
        min_workers=_ints(job.workers[0] for job in jobs),
        max_workers=_ints(job.workers[1] for job in jobs),
        requested_workers=_ints(job.requested or job.workers[0] for job in jobs),
        gpus_per_worker=_ints(job.gpus for job in jobs),
        workers_per_parameter_server=_ints(job.workers_per_parameter_server for job in jobs),
        workers=_ints(job.running for job in jobs),
        batch_size=np.full(len(jobs), BATCH_SIZE, dtype=np.int64),
        remaining_epochs=np.array([job.epochs for job in jobs], dtype=np.float64),
        attained_gpu_s=np.zeros(len(jobs)),
        worth=_floats(job.utility[0] for job in jobs),
        steepness_per_s=_floats(job.utility[1] for job in jobs),
        target_s=_floats(job.utility[2] for job in jobs),
        gpu_type=tuple(job.gpu_type for job in jobs),
        mixes_gpus=np.array([job.mixes_gpus for job in jobs], dtype=bool),
        checkpoints=np.array([job.checkpoints for job in jobs], dtype=bool),
        gpu_memory_gib=_floats(job.gpu_memory_gib for job in jobs),
        curves=Curves(
            epoch_s=np.array([s for job in jobs for s in job.epoch_s], dtype=np.float64),
            offset=_ints([0, *np.cumsum([len(job.epoch_s) for job in jobs])]),
            batch_size=np.full(len(jobs), BATCH_SIZE, dtype=np.int64),
            batch_offset=np.arange(len(jobs) + 1),
        ),
    )


def _floats(values):
    return np.array(list(values), dtype=np.float64)


def _ints(values):
    return np.array(list(values), dtype=np.int64)


@dataclass(frozen=True)
class Room:
    """A server as placement sees it: `free_gpus` beyond what the jobs to be placed stand on."""

    server: str
    gpus: int
    free_gpus: int
    on_loan: bool = False
    gpu_type: str = "GPU"
    gpu_rate: float = 1.0


def rooms_of(rooms: Sequence[Room], settled: Mapping[str, int] | None = None) -> Rooms:
    """As columns; `settled`: base workers by server of jobs that are not to be placed."""
    servers = Servers(
        ids=tuple(room.server for room in rooms),
        gpus=_ints(room.gpus for room in rooms),
        on_loan=np.array([room.on_loan for room in rooms], dtype=bool),
        gpu_type=tuple(room.gpu_type for room in rooms),
        gpu_rate=_floats(room.gpu_rate for room in rooms),
        gpu_memory_gib=np.full(len(rooms), np.nan),
    )
    return Rooms(
        servers,
        free_gpus=_ints(room.free_gpus for room in rooms),
        settled_workers=_ints((settled or {}).get(room.server, 0) for room in rooms),
    )
