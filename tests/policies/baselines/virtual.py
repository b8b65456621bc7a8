"""A body that costs nothing: jobs run exactly as their curves say, and resizes are free."""

from dataclasses import dataclass, field, replace

import numpy as np

from policies.problem import NO_MEMORY, Decision, Problem
from tests.builders import problem

ROUNDING_S = 1e-6  # by which a job may seem to end late: sums of floating point


@dataclass
class Run:
    """What became of the jobs, and every decision with what it was taken on."""

    ended_s: dict[str, float] = field(default_factory=dict)
    rejected: set[str] = field(default_factory=set)
    decisions: list[tuple[Problem, Decision]] = field(default_factory=list)


def run(policy, jobs, servers, *, arrives_s=None, until_s=np.inf):
    """Run to the end of all jobs, or `until_s`. `arrives_s`: at 0 where it does not say."""
    arrives_s = {job.id: 0.0 for job in jobs} | (arrives_s or {})
    left = {job.id: job.epochs for job in jobs}
    attained = dict.fromkeys(left, 0.0)
    workers = {job.id: job.running for job in jobs}
    live, now_s, memory, done = list(jobs), 0.0, NO_MEMORY, Run()
    live.sort(key=lambda job: (arrives_s[job.id], job.id))
    while live and now_s < until_s:
        here = [job for job in live if arrives_s[job.id] <= now_s]
        rows = [replace(job, epochs=left[job.id], running=workers[job.id]) for job in here]
        case = problem(rows, servers, now_s=now_s)
        columns = replace(
            case.jobs,
            submitted_s=np.array([arrives_s[job.id] for job in here], dtype=float),
            attained_gpu_s=np.array([attained[job.id] for job in here], dtype=float),
        )
        case = replace(case, jobs=columns)
        decision, memory = policy.decide(case, memory)
        done.decisions.append((case, decision))
        done.rejected |= set(decision.rejected)
        live = [job for job in live if job.id not in decision.rejected]
        here = [job for job in here if job.id not in decision.rejected]
        workers |= {job.id: decision.allocations[job.id].workers for job in here}
        rate = {job.id: 1 / job.epoch_s[workers[job.id] - job.workers[0]]
                for job in here if workers[job.id]}  # fmt: skip
        times_s = [now_s + left[job] / rate[job] for job in rate]
        times_s += [arrives_s[job.id] for job in live if arrives_s[job.id] > now_s]
        times_s += [decision.review_at_s] if decision.review_at_s is not None else []
        times_s += [now_s + policy.interval_s] if policy.interval_s is not None else []
        if not times_s:
            break
        next_s = min(times_s)
        for job in [job for job in here if job.id in rate]:
            left[job.id] -= (next_s - now_s) * rate[job.id]
            attained[job.id] += (next_s - now_s) * workers[job.id] * job.gpus
            if left[job.id] <= ROUNDING_S * rate[job.id]:
                done.ended_s[job.id] = next_s
                live.remove(job)
        now_s = next_s
    return done
