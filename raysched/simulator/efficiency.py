"""How well jobs used the GPUs they held, by the definitions of the papers.

What an epoch took is as it was reported; what it takes on one GPU is the true curve's. A job that
needs several GPUs at the least is taken to use these perfectly: what it would do on one is not
known.
"""

from __future__ import annotations

from collections.abc import Iterator

from raysched.history import History, JobHistory, Stretch
from raysched.jobs import JobSpec
from raysched.performance import rate_of
from raysched.simulator.body import Outcome


def one_gpu_s(spec: JobSpec, epoch_s: tuple[float, ...]) -> float:
    """Seconds of an epoch on one GPU of rate 1, with the batch that is the best one there."""
    sizes = spec.max_workers - spec.min_workers + 1
    return spec.base_gpus * min(epoch_s[::sizes])


def trained(outcome: Outcome) -> Iterator[tuple[float, float, float]]:
    """From when to when jobs trained, and the part that servers of the training pool had in their
    throughput, over that on one GPU of the same rate. Workers that start are not counted."""
    for job in outcome.history.jobs.values():
        reports = iter(job.epochs)
        report = next(reports, None)
        alone_s = one_gpu_s(job.spec, outcome.epoch_s[job.job])
        for stretch in job.stretches:
            from_s = stretch.training_s
            rate, share = _standing(outcome.history, stretch)
            while from_s is not None and report is not None and report.at_s <= stretch.to_s:
                yield from_s, report.at_s, share * alone_s / (rate * report.epoch_s)
                from_s, report = report.at_s, next(reports, None)


def _standing(history: History, stretch: Stretch) -> tuple[float, float]:
    """The mean rate of a job's GPUs, and the share of them that is in the training pool."""
    there = [(history.servers[server], workers) for server, workers in stretch.servers.items()]
    rate = rate_of([(n, server.gpu_type, server.gpu_rate) for server, n in there], mixing=1.0)
    return rate, sum(n for server, n in there if server.pool == "training") / stretch.workers


def cluster_efficiency(outcome: Outcome, begin_s: float, end_s: float) -> float | None:
    """Mean over time of 001 eq. 8: the speed-ups of all jobs, added, over the GPUs of the training
    pool. Taken per GPU, as the paper prints it, a job would count once for each of its GPUs, and
    the sum exceed 1; its figures are below 1, so a job's throughput is shared among its GPUs."""
    capacity = outcome.history.gpus["training"] * (end_s - begin_s)
    useful = sum((to_s - from_s) * amount for from_s, to_s, amount in trained(outcome))
    return round(useful / capacity, 4) if capacity > 0 else None


def sjs_efficiency(outcome: Outcome) -> float | None:
    """Scheduled Job Scaling of 003 §IV-C: what the finished jobs would have taken on one GPU each,
    over the GPU-seconds that they held."""
    finished = [job for job in outcome.history.jobs.values() if job.outcome == "finished"]
    held_s = sum(map(held_gpu_s, finished))
    alone_s = sum(
        job.spec.epochs * one_gpu_s(job.spec, outcome.epoch_s[job.job]) for job in finished
    )
    return round(alone_s / held_s, 4) if held_s else None


def held_gpu_s(job: JobHistory) -> float:
    """GPU-seconds that a job held."""
    held_s = sum((s.to_s - s.from_s) * s.workers for s in job.stretches)
    return held_s * job.spec.gpus_per_worker


def collateral_damage(history: History) -> float | None:
    """004 §7.3: GPUs vacated in excess of what reclaims asked for, over what they asked for. These
    are the GPUs that preempted jobs held on other servers."""
    asked = beyond = 0
    for reclaim in history.reclaims:
        asked += sum(history.servers[server].gpus for server in reclaim.servers)
        for job in (history.jobs[name] for name in reclaim.preempted):
            for stretch in job.stretches:
                if stretch.from_s <= reclaim.at_s <= stretch.to_s:
                    kept = (n for s, n in stretch.servers.items() if s not in reclaim.servers)
                    beyond += sum(kept) * job.spec.gpus_per_worker
    return round(beyond / asked, 4) if asked else None
