"""The five rules of aryl's `rollout` in plain Python, job by job: what the kernels must equal."""

from __future__ import annotations

import math
from collections.abc import Callable
from dataclasses import dataclass
from itertools import product

from tests.builders import Job

Urgency = Callable[[Job, float, int, int], float]
"""Of a job with so many epochs left, to grow from one number of extra workers to another."""


def epoch_s(job: Job, extra: int) -> float:
    return job.epoch_s[extra]


def largest(job: Job) -> int:
    """Extra workers at which an epoch is shortest, the fewest of equals."""
    return job.epoch_s.index(min(job.epoch_s))


def by_recip(job: Job, left: float, extra: int, more: int) -> float:
    rise = 1 / epoch_s(job, more) - 1 / epoch_s(job, extra)
    return rise / ((more - extra) * job.gpus) / left


def by_mckp(job: Job, left: float, extra: int, more: int) -> float:
    return (epoch_s(job, extra) - epoch_s(job, more)) / ((more - extra) * job.gpus) * left


def _in_one_step(key: Callable[[Job, float, float], float]) -> Urgency:
    """Straight to the largest size W, by the smallest key of (job, L / W, W D)."""

    def urgency(job: Job, left: float, extra: int, more: int) -> float:
        if more != largest(job):
            return 0.0
        return 1 / key(job, left * epoch_s(job, more), (job.workers[0] + more) * job.gpus)

    return urgency


RULES: list[Urgency] = [
    by_recip,
    by_mckp,
    _in_one_step(lambda job, shortest_s, gpus: shortest_s),
    _in_one_step(lambda job, shortest_s, gpus: gpus),
    _in_one_step(lambda job, shortest_s, gpus: shortest_s * gpus * gpus),
]


def share(rule: Urgency, jobs: list[Job], left: dict[str, float], free: int) -> dict[str, int]:
    """Extra workers: always the job that is most urgent, until nothing fits."""
    extra = {job.id: 0 for job in jobs}
    growing = list(jobs)
    while growing and free:
        steps = [
            (rule(job, left[job.id], extra[job.id], more), more, job)
            for job in growing
            for more in range(extra[job.id] + 1, len(job.epoch_s))
        ]
        urgency, more, job = max(steps, key=lambda step: step[0], default=(0.0, 0, jobs[0]))
        if urgency <= 0:
            break
        given = min(more - extra[job.id], free // job.gpus)
        if given < more - extra[job.id]:
            growing.remove(job)
            while given and epoch_s(job, extra[job.id] + given) >= epoch_s(
                job, extra[job.id] + given - 1
            ):
                given -= 1
        extra[job.id] += given
        free -= given * job.gpus
    return extra


@dataclass
class Rollout:
    """All jobs to their end under one rule."""

    jobs: list[Job]
    gpus: int
    resize_s: float
    rule: Urgency

    def total_s(self, running: list[Job], first: dict[str, int]) -> float:
        """Sum of completion times if `running` have the extra workers `first` to begin with."""
        left = {job.id: job.epochs for job in self.jobs}
        size = {job.id: job.running for job in running}
        paused_s = dict.fromkeys(left, 0.0)
        waiting = sorted(
            (job for job in self.jobs if job not in running),
            key=lambda job: job.epochs * job.epoch_s[0],
        )
        running, extra, now_s, total_s = list(running), first, 0.0, 0.0
        while running:
            for job in running:
                target = job.workers[0] + extra[job.id]
                if size[job.id] not in (0, target):
                    paused_s[job.id] = self.resize_s
                size[job.id] = target
            end_s = {
                job.id: paused_s[job.id] + left[job.id] * epoch_s(job, extra[job.id])
                for job in running
            }
            step_s = min(end_s.values())
            now_s += step_s
            for job in list(running):
                if math.isclose(end_s[job.id], step_s, rel_tol=1e-12):
                    total_s += now_s
                    running.remove(job)
                    continue
                stood_s = min(paused_s[job.id], step_s)
                paused_s[job.id] -= stood_s
                left[job.id] -= (step_s - stood_s) / epoch_s(job, extra[job.id])
            free = self.gpus - sum(job.workers[0] * job.gpus for job in running)
            for job in list(waiting):
                if job.workers[0] * job.gpus <= free:
                    free -= job.workers[0] * job.gpus
                    waiting.remove(job)
                    running.append(job)
                    size[job.id] = 0
            running.sort(key=self.jobs.index)
            extra = share(self.rule, running, left, free)
        return total_s


def best_knapsack(
    jobs: list[Job], free: int, resize_s: float, worth: Callable[[float], float]
) -> dict[str, int]:
    """Extra workers of the greatest worth, by trying all."""

    def left_s(job: Job, extra: int) -> float:
        resized = job.running and job.running != job.workers[0] + extra
        return job.epochs * epoch_s(job, extra) + (resize_s if resized else 0.0)

    fitting = (
        extras
        for extras in product(*(range(len(job.epoch_s)) for job in jobs))
        if sum(n * job.gpus for n, job in zip(extras, jobs, strict=True)) <= free
    )
    best = max(
        fitting,
        key=lambda extras: sum(worth(left_s(job, n)) for n, job in zip(extras, jobs, strict=True)),
    )
    return {job.id: n for job, n in zip(jobs, best, strict=True)}


def least_total_s(jobs: list[Job], left: list[float], gpus: int) -> float:
    """The least sum of completion times of jobs that all fit: every allocation at every end."""
    if not jobs:
        return 0.0
    free = gpus - sum(job.workers[0] * job.gpus for job in jobs)
    best = math.inf
    for extras in product(*(range(len(job.epoch_s)) for job in jobs)):
        spare = free - sum(n * job.gpus for n, job in zip(extras, jobs, strict=True))
        grows = [
            n + 1 < len(j.epoch_s) and j.gpus <= spare for n, j in zip(extras, jobs, strict=True)
        ]
        if spare < 0 or any(grows):
            continue  # a job more could only help where throughput rises
        each_s = [epoch_s(job, n) for job, n in zip(jobs, extras, strict=True)]
        end_s = [epochs * s for epochs, s in zip(left, each_s, strict=True)]
        step_s = min(end_s)
        on = [i for i, s in enumerate(end_s) if s > step_s * (1 + 1e-12)]
        then_left = [left[i] - step_s / each_s[i] for i in on]
        rest_s = least_total_s([jobs[i] for i in on], then_left, gpus)
        best = min(best, len(jobs) * step_s + rest_s)
    return best
