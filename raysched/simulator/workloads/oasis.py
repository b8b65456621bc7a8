"""Jobs and servers as 002 §V-A draws them, for its model and for the simulator.

The text of the paper that we hold lost the numbers of §V. The ranges here are from memory of it and
nobody here could confirm them; that jobs are time-insensitive, time-sensitive and time-critical,
and what that means for their utility, is printed in words. Chosen by us:

- `minibatch_s`: around the one second that §III-B prints for ResNet-152. As remembered, §V draws a
  mini-batch of 0.001 to 0.1 slots of an hour; most jobs would then need more slots than there are,
  and targets of at most 15 slots would mean nothing. This is a hundredth of it;
- arrivals: the paper follows the Google cluster trace and says no more. Here each slot has a
  gamma-distributed rate (mean 1, variance 1 / `evenness`), so that jobs come in bursts;
- draws are uniform, and whole where servers count whole units (GPUs, vCPUs);
- servers: §V-A puts workers on C4 servers, which have no GPUs, and parameter servers on P2 and G3.
  §III-A has it the other way round, and so do we. Of C4 it is the largest; storage is not the
  instances' own and always enough.
"""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np

from policies.oasis.model import PsJobs
from policies.problem import Floats, Ints
from raysched.durations import HOUR_S
from raysched.jobs import Utility
from raysched.simulator.models import Linear
from raysched.simulator.scenario import Arrival
from raysched.simulator.traces.trace import job

Range = tuple[float, float]
"""Least and most, both possible."""

GIGABITS = 8e-3
"""In a megabyte."""

P2_G3 = ((1, 4, 61), (8, 32, 488), (16, 64, 732), (1, 16, 122), (2, 32, 244), (4, 64, 488))
"""GPUs, vCPUs and GB of memory of Amazon's servers with GPUs."""

C4 = (0, 36, 60)
STORAGE_GB = 1000.0
NIC_GBPS: Range = (20.0, 50.0)


@dataclass(frozen=True, slots=True)
class Workload:
    """How many jobs, over how many slots, and the ranges that they are drawn from."""

    jobs: int = 100
    slots: int = 300
    """In which they arrive."""
    slot_s: float = HOUR_S
    evenness: float = 2.0
    epochs: Range = (50, 200)  # E
    chunks: Range = (5, 100)  # N: the most workers
    minibatches: Range = (10, 100)  # M, of a chunk
    minibatch_s: Range = (0.036, 3.6)  # tau
    gradient_mb: Range = (30.0, 575.0)  # e
    worker_gpus: Range = (0, 4)
    vcpus: Range = (1, 10)  # of a worker, and of a parameter server
    memory_gb: Range = (2.0, 32.0)
    storage_gb: Range = (5.0, 10.0)
    worker_gbps: Range = (0.1, 5.0)  # b
    ps_gbps: Range = (5.0, 20.0)  # B
    fixed_workers: Range = (1, 30)  # under schedulers that never resize
    worth: Range = (1.0, 100.0)  # gamma_1
    insensitive: float = 0.10  # share of jobs with gamma_2 = 0
    critical: float = 0.35  # share with gamma_2 in `critical_decay`; the rest is sensitive
    sensitive_decay: Range = (0.01, 1.0)  # gamma_2, per slot
    critical_decay: Range = (4.0, 6.0)
    target_slots: Range = (1.0, 15.0)  # gamma_3, from the arrival


def ps_jobs(workload: Workload, seed: int) -> PsJobs:
    """The jobs of the paper's model, in the order of arrival.

    Resources are GPUs, vCPUs, GB of memory, GB of storage and Gbps.
    """
    random = np.random.default_rng(seed)
    jobs = workload.jobs

    def amount(least_most: Range) -> Floats:
        return random.uniform(*least_most, jobs)

    def whole(least_most: Range) -> Ints:
        return random.integers(int(least_most[0]), int(least_most[1]), jobs, endpoint=True)

    def server_side(gpus: Ints, gbps: Range) -> Floats:
        amounts = (gpus, whole(workload.vcpus), amount(workload.memory_gb))
        return np.stack((*amounts, amount(workload.storage_gb), amount(gbps)), axis=1)

    return PsJobs(
        arrival_slot=_arrival_slots(workload, random),
        epochs=whole(workload.epochs),
        chunks=whole(workload.chunks),
        minibatches=whole(workload.minibatches),
        minibatch_slots=amount(workload.minibatch_s) / workload.slot_s,
        gradient=amount(workload.gradient_mb) * GIGABITS / workload.slot_s,
        worker=server_side(whole(workload.worker_gpus), workload.worker_gbps),
        ps=server_side(np.zeros(jobs, dtype=np.int64), workload.ps_gbps),
        worth=amount(workload.worth),
        steepness=_decay(workload, random),
        target_slots=amount(workload.target_slots),
    )


def arrivals(workload: Workload, seed: int) -> tuple[Arrival, ...]:
    """The same jobs for the simulator: GPUs are the one resource, and there are no parameter
    servers, whose traffic is in a job's work.

    A worker has a GPU at least. Jobs arrive at the beginning of a slot and scale linearly.
    """
    jobs = ps_jobs(workload, seed)
    least, most = (int(bound) for bound in workload.fixed_workers)
    fixed = np.random.default_rng([seed, 1]).integers(least, most, len(jobs), endpoint=True)
    return tuple(_arrival(jobs, row, int(fixed[row]), workload.slot_s) for row in range(len(jobs)))


def servers(count: int, seed: int) -> tuple[Floats, Floats]:
    """[count, resources] Capacities: servers for workers, and as many for parameter servers."""
    random = np.random.default_rng([seed, 2])
    kinds = np.array(P2_G3)[random.integers(len(P2_G3), size=count)]
    sides = []
    for machines in (kinds, np.tile(C4, (count, 1))):
        storage, nic = np.full(count, STORAGE_GB), random.uniform(*NIC_GBPS, count)
        sides.append(np.column_stack((machines, storage, nic)))
    return sides[0], sides[1]


def _arrival(jobs: PsJobs, row: int, fixed: int, slot_s: float) -> Arrival:
    most = int(jobs.chunks[row])
    return job(
        f"j{row:03}",
        float(jobs.arrival_slot[row]) * slot_s,
        Linear(),
        work=float(jobs.work_slots[row]) * slot_s,
        iterations=int(jobs.epochs[row]),
        workers=(1, most),
        batch_size=most,
        gpus_per_worker=max(int(jobs.worker[row, 0]), 1),
        requested_workers=min(fixed, most),
        utility=Utility(
            worth=float(jobs.worth[row]),
            steepness_per_s=float(jobs.steepness[row]) / slot_s,
            target_s=float(jobs.target_slots[row]) * slot_s,
        ),
    )


def _arrival_slots(workload: Workload, random: np.random.Generator) -> Ints:
    rate = random.gamma(workload.evenness, 1 / workload.evenness, workload.slots)
    slots: Ints = np.sort(random.choice(workload.slots, workload.jobs, p=rate / rate.sum()))
    return slots


def _decay(workload: Workload, random: np.random.Generator) -> Floats:
    kind = random.random(workload.jobs)
    sensitive = random.uniform(*workload.sensitive_decay, workload.jobs)
    critical = random.uniform(*workload.critical_decay, workload.jobs)
    decay: Floats = np.where(kind < workload.critical, critical, sensitive)
    return np.where(kind >= 1 - workload.insensitive, 0.0, decay)
