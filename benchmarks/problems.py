"""Random problems of realistic shape, as columns: the same seed, the same problem.

Sizes are powers of two and mostly small, work is log-uniform from minutes to days, curves are
concave or, for ffdl, step where ceil(batch / GPUs) does. Part of the jobs run, the others queue.
"""

from __future__ import annotations

from dataclasses import dataclass, fields, replace
from typing import Any

import numpy as np

from loaning.problem import OnLoan
from policies.oasis.model import PsJobs
from policies.problem import Curves, Decision, Floats, Ints, Jobs, Problem, Servers

Random = np.random.Generator

SERVER_GPUS = 8
NOW_S = 90_000.0
WEEK_S = 7 * 86_400.0
GPUS_PER_JOB = 4
"""Of a cluster for so many jobs: a little more than they need at the least."""


@dataclass(frozen=True, slots=True)
class Demand:
    """[jobs] What jobs may have."""

    least: Ints  # workers
    most: Ints
    worker_gpus: Ints

    def __len__(self) -> int:
        return len(self.least)


def mixed(jobs: int, random: Random) -> Demand:
    """Powers of two, mostly small; three in four are elastic."""
    least = random.choice([1, 2, 4, 8], jobs, p=[0.6, 0.2, 0.15, 0.05])
    times = random.choice([1, 2, 4, 8], jobs, p=[0.25, 0.25, 0.25, 0.25])
    worker_gpus = random.choice([1, 2, 4, 8], jobs, p=[0.7, 0.15, 0.1, 0.05])
    return Demand(least, least * times, worker_gpus)


def single_gpus(jobs: int, most: int) -> Demand:
    """Every job on 1 to `most` workers of one GPU each: the jobs of 003."""
    ones = np.ones(jobs, dtype=np.int64)
    return Demand(ones, ones * most, ones)


def concave_curves(demand: Demand, random: Random) -> Curves:
    """One batch size; throughput rises as workers^a, a from 0.6 to 1."""
    exponent, first_s = random.uniform(0.6, 1.0, len(demand)), log_uniform(random, 10, 60, demand)
    spread = demand.most - demand.least + 1
    job = np.repeat(np.arange(len(demand)), spread)
    offset = np.concatenate(([0], np.cumsum(spread)))
    workers = demand.least[job] + np.arange(len(job)) - offset[job]
    return Curves(
        epoch_s=first_s[job] * (demand.least[job] / workers) ** exponent[job],
        offset=offset,
        batch_size=np.full(len(demand), 64),
        batch_offset=np.arange(len(demand) + 1),
    )


def step_curves(demand: Demand, random: Random) -> Curves:
    """Up to four batch sizes b; b samples on k GPUs take ceil(b / k) turns, and an AllReduce."""
    jobs = len(demand)
    batches = random.integers(1, 5, jobs)
    spread = demand.most - demand.least + 1
    offset = np.concatenate(([0], np.cumsum(batches * spread)))
    batch_offset = np.concatenate(([0], np.cumsum(batches)))
    job = np.repeat(np.arange(jobs), batches * spread)
    row, column = np.divmod(np.arange(len(job)) - offset[job], spread[job])
    smallest = demand.most * demand.worker_gpus  # a sample for each GPU at the least
    owner = np.repeat(np.arange(jobs), batches)
    batch_size = smallest[owner] * 2 ** (np.arange(len(owner)) - batch_offset[owner])
    gpus = (demand.least[job] + column) * demand.worker_gpus[job]
    batch = batch_size[batch_offset[job] + row]
    allreduce = random.uniform(0, 20, jobs)  # in samples' time on one GPU
    turns = -(-batch // gpus) + np.where(gpus > 1, allreduce[job] * (1 + np.log2(gpus)) / 4, 0.0)
    sample_s, samples = random.uniform(1e-3, 1e-2, jobs), random.integers(5_000, 50_000, jobs)
    epoch_s = sample_s[job] * turns * samples[job] / batch
    return Curves(epoch_s, offset, batch_size, batch_offset)


def log_uniform(random: Random, low: float, high: float, like: Demand) -> Floats:
    """[jobs] Log-uniform from `low` to `high`."""
    drawn: Floats = np.exp(random.uniform(np.log(low), np.log(high), len(like)))
    return drawn


def problem(
    demand: Demand, curves: Curves, gpus: int, random: Random, server_gpus: int = SERVER_GPUS
) -> Problem:
    """These jobs on servers of `server_gpus` GPUs; about two in three run, where they fit."""
    jobs = len(demand)
    servers = -(-gpus // server_gpus)
    first_s = curves.epoch_s[curves.offset[:-1]]
    return _placed(
        Problem(
            now_s=NOW_S,
            jobs=Jobs(
                ids=tuple(f"job{row:05d}" for row in range(jobs)),
                submitted_s=np.sort(random.uniform(0, NOW_S, jobs)),
                deadline_s=np.full(jobs, np.inf),
                priority=np.zeros(jobs, dtype=np.int64),
                min_workers=demand.least,
                requested_workers=demand.least,
                max_workers=demand.most,
                gpus_per_worker=demand.worker_gpus,
                workers_per_parameter_server=np.zeros(jobs, dtype=np.int64),
                workers=_running(demand, gpus, random),
                batch_size=curves.batch_size[curves.batch_offset[:-1]],
                remaining_epochs=log_uniform(random, 900, 2 * 86_400, demand) / first_s,
                attained_gpu_s=np.zeros(jobs),
                worth=np.full(jobs, np.nan),
                steepness_per_s=np.full(jobs, np.nan),
                target_s=np.full(jobs, np.nan),
                gpu_type=("",) * jobs,
                mixes_gpus=np.zeros(jobs, dtype=bool),
                checkpoints=np.ones(jobs, dtype=bool),
                gpu_memory_gib=np.full(jobs, np.nan),
                curves=curves,
            ),
            servers=Servers(
                ids=tuple(f"server{row:04d}" for row in range(servers)),
                gpus=np.full(servers, server_gpus),
                on_loan=np.zeros(servers, dtype=bool),
                gpu_type=("GPU",) * servers,
                gpu_rate=np.ones(servers),
                gpu_memory_gib=np.full(servers, np.nan),
            ),
            placed=np.zeros((0, 0), dtype=np.int64),
        )
    )


def _running(demand: Demand, gpus: int, random: Random) -> Ints:
    """[jobs] Two in three run, on their least or twice that, as long as GPUs last."""
    twice = demand.least * random.integers(1, 3, len(demand))
    workers: Ints = np.minimum(twice, demand.most)
    workers[random.random(len(demand)) < 1 / 3] = 0
    order = random.permutation(len(demand))
    fits = np.cumsum((workers * demand.worker_gpus)[order]) <= gpus
    workers[order[~fits]] = 0
    return workers


def _placed(case: Problem) -> Problem:
    """The problem with each worker on a server: largest workers first, which leaves no gaps."""
    jobs, servers = case.jobs, case.servers
    order = np.argsort(-jobs.gpus_per_worker, kind="stable")
    job = np.repeat(order, jobs.workers[order])
    first_gpu = np.cumsum(jobs.gpus_per_worker[job]) - jobs.gpus_per_worker[job]
    placed = np.zeros((len(jobs), len(servers.ids)), dtype=np.int64)
    np.add.at(placed, (job, first_gpu // servers.gpus[0]), 1)
    return replace(case, placed=placed)


def with_deadlines(case: Problem, random: Random) -> Problem:
    """All queued, with deadlines all over the next week, 0.7 to 1.5 times as far off as they take
    at their least; 1.1 times at the least for a job of one size, which cannot be faster."""
    jobs = case.jobs
    within_s = random.uniform(1_800, WEEK_S, len(jobs))
    left_s = within_s / random.uniform(np.where(jobs.elastic, 0.7, 1.1), 1.5)
    jobs = replace(
        jobs,
        workers=np.zeros_like(jobs.workers),
        deadline_s=case.now_s + within_s,
        remaining_epochs=left_s / jobs.curves.epoch_s[jobs.curves.offset[:-1]],
    )
    return _placed(replace(case, jobs=jobs))


def first(case: Problem, count: int) -> Problem:
    """The problem of the first `count` jobs; one batch size each."""
    jobs, curves = case.jobs, case.jobs.curves
    columns = {column.name: getattr(jobs, column.name) for column in fields(jobs)}
    columns = {name: column[:count] for name, column in columns.items() if name != "curves"}
    entries = int(curves.offset[count])
    kept = Curves(
        curves.epoch_s[:entries],
        curves.offset[: count + 1],
        curves.batch_size[:count],
        curves.batch_offset[: count + 1],
    )
    return replace(case, jobs=Jobs(**columns, curves=kept), placed=case.placed[:count])


def later(case: Problem, decision: Decision, seconds: float) -> Problem:
    """The problem `seconds` after a decision, in which each job had what it was given."""
    jobs, workers = case.jobs, given(case.jobs, decision)
    entry = jobs.curves.offset[:-1] + np.maximum(workers - jobs.min_workers, 0)
    done = np.where(workers > 0, seconds / jobs.curves.epoch_s[entry], 0.0)
    left = np.maximum(jobs.remaining_epochs - done, 0.0)
    jobs = replace(jobs, workers=workers, remaining_epochs=left)
    return _placed(replace(case, now_s=case.now_s + seconds, jobs=jobs))


def given(jobs: Jobs, decision: Decision) -> Ints:
    """[jobs] Workers by a decision; 0 for those that it does not speak of."""
    allocations = decision.allocations
    workers = [allocations[job].workers if job in allocations else 0 for job in jobs.ids]
    return np.array(workers, dtype=np.int64)


def on_loan(servers: int, random: Random) -> OnLoan:
    """Nearly full servers of 8 GPUs: jobs packed by best fit, but for churn (three in ten).

    One job in three is elastic, down to half of its workers; one in five has workers elsewhere.
    """
    free = np.full(servers, SERVER_GPUS)
    rows: list[Ints] = []
    worker_gpus: list[int] = []
    while free.sum() > 0.05 * servers * SERVER_GPUS:
        workers = int(random.choice([1, 2, 4, 8, 16, 32], p=[0.4, 0.25, 0.15, 0.1, 0.06, 0.04]))
        gpus = int(random.choice([1, 2, 4, 8], p=[0.5, 0.2, 0.2, 0.1]))
        standing = np.zeros(servers, dtype=np.int64)
        for _ in range(workers):
            server = _best_fit(free, gpus, random)
            if server is not None:
                standing[server] += 1
                free[server] -= gpus
        if standing.any():
            rows.append(standing)
            worker_gpus.append(gpus)
    whole = np.array([row.sum() for row in rows])
    elsewhere = np.where(random.random(len(rows)) < 0.2, random.integers(1, 5, len(rows)), 0)
    elastic = random.random(len(rows)) < 1 / 3
    return OnLoan(
        servers=tuple(f"server{row:03d}" for row in range(servers)),
        jobs=tuple(f"job{row:04d}" for row in range(len(rows))),
        workers=np.stack(rows),
        elsewhere=elsewhere,
        min_workers=np.where(elastic, -(-(whole + elsewhere) // 2), whole + elsewhere),
        gpus_per_worker=np.array(worker_gpus),
        checkpoints=np.ones(len(rows), dtype=bool),
    )


def _best_fit(free: Ints, gpus: int, random: Random) -> int | None:
    """A server with room for so many GPUs; None: there is none."""
    room = np.flatnonzero(free >= gpus)
    if not len(room):
        return None
    if random.random() < 0.3:
        return int(random.choice(room))
    return int(room[free[room].argmin()])


def ps_jobs(jobs: int, random: Random) -> PsJobs:
    """Jobs of 002 §V-A, all at slot 0: its ranges, but tau a thousandth, with slots of an hour.

    With tau as printed most jobs could not end within the span.
    """
    bandwidth = random.uniform(0.1, 5, jobs)
    kind = random.choice(3, jobs, p=[0.1, 0.55, 0.35])
    steepness = np.choose(kind, [0.0, random.uniform(0.01, 1, jobs), random.uniform(4, 6, jobs)])
    gigabits = random.uniform(30, 575, jobs) * 8 / 1000
    return PsJobs(
        arrival_slot=np.zeros(jobs, dtype=np.int64),
        epochs=random.integers(50, 201, jobs),
        chunks=random.integers(5, 101, jobs),
        minibatches=random.integers(10, 101, jobs),
        minibatch_slots=random.uniform(0.001, 0.1, jobs) / 1000,
        gradient=gigabits / 3600,
        worker=np.column_stack((_amounts(random, jobs, (0, 4)), bandwidth)),
        ps=np.column_stack((_amounts(random, jobs, (0, 0)), random.uniform(5, 20, jobs))),
        worth=random.uniform(1, 100, jobs),
        steepness=steepness,
        target_slots=random.uniform(1, 15, jobs),
    )


def _amounts(random: Random, jobs: int, gpus: tuple[int, int]) -> Floats:
    """[jobs, 4] GPUs, CPUs, GB of memory and of disk of a worker or a parameter server."""
    ranges = (gpus, (1, 10), (2, 32), (5, 10))
    return np.column_stack([random.integers(a, b + 1, jobs) for a, b in ranges]).astype(np.float64)


def ps_servers(servers: int, random: Random) -> tuple[Floats, Floats]:
    """[servers, resources] twice: those for workers, with 8 or 16 GPUs, and those without."""
    twice: Any = random.choice([1.0, 2.0], (2, servers, 1))
    for_workers = np.array([8, 36, 60, 500, 25.0])
    for_ps = np.array([0, 32, 244, 500, 25.0])
    return twice[0] * for_workers, twice[1] * for_ps
