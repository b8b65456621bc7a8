"""The workload of paper 004: what it prints holds, and a seed is a workload."""

from __future__ import annotations

from collections import deque
from heapq import heappop, heappush

import numpy as np
import pytest

from raysched.durations import DAY_S
from raysched.events import DemandObserved, ServerAdded
from raysched.simulator.workloads.aryl import (
    INFERENCE_GPU,
    TRAINING_GPU,
    Columns,
    Workload,
    arrivals,
    columns,
    scenario,
)

EIGHTH = Workload(scale=1 / 8)
SMALL = Workload(scale=1 / 64)


def _queuing_s(jobs: Columns, gpus: int) -> np.ndarray:
    """Of FIFO that sees a pool as one number: what the fit was made with."""
    started_s, free = np.empty(len(jobs.at_s)), gpus
    running: list[tuple[float, int]] = []
    queue: deque[int] = deque()
    come = deque(enumerate(jobs.at_s.tolist()))
    while come or queue:
        if running and (not come or running[0][0] <= come[0][1]):
            now_s, freed = heappop(running)
            free += freed
        else:
            row, now_s = come.popleft()
            queue.append(row)
        while queue and jobs.gpus[queue[0]] <= free:
            row = queue.popleft()
            started_s[row] = now_s
            free -= int(jobs.gpus[row])
            heappush(running, (now_s + jobs.run_s[row], int(jobs.gpus[row])))
    return started_s - jobs.at_s


def test_what_the_paper_prints_holds_at_full_scale():
    jobs = columns(Workload(), seed=0)
    work = jobs.run_s * jobs.gpus
    large = jobs.rank < 0.05
    assert len(jobs.at_s) == 50_390 and Workload().training_gpus == 3_544
    assert jobs.at_s.min() >= 0 and jobs.at_s.max() <= 15 * DAY_S + 600
    assert np.mean(large) == pytest.approx(0.05, abs=1e-4)
    assert work[large].sum() / work.sum() == pytest.approx(0.36, abs=0.03)
    assert np.mean(jobs.run_s[large]) / 3 == pytest.approx(14.2 * 3600, rel=0.02)


def test_fifo_at_full_scale_is_the_baseline_of_table_5():
    jobs = columns(Workload(), seed=0)
    queuing_s = _queuing_s(jobs, 3_544)
    jct_s = queuing_s + jobs.run_s
    assert np.mean(queuing_s) == pytest.approx(3_072, rel=0.15)
    assert np.mean(jct_s) == pytest.approx(16_610, rel=0.05)
    assert np.median(jct_s) == pytest.approx(791, rel=0.15)
    assert np.percentile(jct_s, 95) == pytest.approx(82_933, rel=0.05)


def test_a_smaller_scale_queues_alike():
    means = [np.mean(_queuing_s(columns(EIGHTH, seed), EIGHTH.training_gpus)) for seed in range(5)]
    assert np.mean(means) == pytest.approx(3_072, rel=0.2)


def test_a_seed_is_a_workload():
    assert scenario(SMALL, 3) == scenario(SMALL, 3)
    assert tuple(arrivals(SMALL, 3)) != tuple(arrivals(SMALL, 4))


def test_lending_changes_no_job():
    assert scenario(SMALL, 1).arrivals == scenario(SMALL, 1, lends=False).arrivals


def test_more_that_scale_are_the_same_jobs_otherwise():
    """Elastic or not, who comes when, and how long on base demand, is the same."""
    sets = {
        share: list(arrivals(Workload(scale=1 / 64, elastic=share), seed=2))
        for share in (0.0, 0.05, 0.6, 1.0)
    }
    elastic = {
        share: {a.job for a in jobs if a.spec.max_workers > a.spec.min_workers}
        for share, jobs in sets.items()
    }
    for jobs in sets.values():
        assert [(a.at_s, a.epoch_s[0], a.spec.base_gpus) for a in jobs] == [
            (a.at_s, a.epoch_s[0], a.spec.base_gpus) for a in sets[0.0]
        ]
    assert elastic[0.0] < elastic[0.05] < elastic[0.6] < elastic[1.0]
    assert len(elastic[1.0]) == len(sets[1.0])


def test_a_job_that_scales_has_three_times_its_base_and_keeps_its_work():
    for arrival in arrivals(Workload(scale=1 / 64, elastic=1.0), seed=0):
        low, high = arrival.spec.min_workers, arrival.spec.max_workers
        assert high == 3 * low
        assert arrival.epoch_s[-1] == pytest.approx(arrival.epoch_s[0] / 3)


def test_who_asks_for_no_type():
    jobs = list(arrivals(Workload(scale=1 / 4), seed=0))
    any_type = [a.spec.gpu_type == "" for a in jobs]
    assert np.mean(any_type) == pytest.approx(0.21, abs=0.02)
    assert {a.spec.gpu_type for a in jobs} == {"", TRAINING_GPU}
    large = [a for a in jobs if a.spec.max_workers > a.spec.min_workers]
    assert all(a.spec.gpu_type == "" for a in large)


def test_who_mixes_may_stand_anywhere():
    jobs = [a.spec for a in arrivals(Workload(scale=1 / 8, mixing=0.1), seed=0)]
    mixing = [spec for spec in jobs if spec.mixes_gpus]
    assert len(mixing) / len(jobs) == pytest.approx(0.1, abs=0.02)
    assert all(spec.gpu_type == "" for spec in mixing)


def test_imperfect_jobs_gain_less_beyond_the_middle():
    imperfect = arrivals(Workload(scale=1 / 64, elastic=1.0, imperfect=True), seed=0)
    perfect = arrivals(Workload(scale=1 / 64, elastic=1.0), seed=0)
    for slow, fast in zip(imperfect, perfect, strict=True):
        assert slow.epoch_s[0] == fast.epoch_s[0]
        assert slow.epoch_s[-1] > fast.epoch_s[-1]


def test_demand_swings_as_printed():
    outside = scenario(EIGHTH, 0).outside
    lent = [e for e in outside if isinstance(e, ServerAdded) and e.pool == "inference"]
    rps = np.array([e.rps for e in outside if isinstance(e, DemandObserved)])
    hourly = rps.reshape(15, 24, 2).mean(axis=(0, 2))
    assert len(lent) == 65 and {(e.gpus, e.gpu_type) for e in lent} == {(2, INFERENCE_GPU)}
    assert len(rps) == 15 * 24 * 2
    assert hourly.max() / hourly.min() == pytest.approx(2.2, rel=0.05)
    assert hourly.max() / (65 * 2.0) == pytest.approx(0.95, abs=0.05)


def test_larger_batches_are_faster_and_the_smallest_is_as_it_was():
    plain = arrivals(Workload(scale=1 / 64), seed=0)
    for tuned, before in zip(arrivals(Workload(scale=1 / 64, tunable=True), 0), plain, strict=True):
        if before.spec.max_workers == before.spec.min_workers:
            assert tuned == before
            continue
        low, batches = before.spec.min_workers, tuned.spec.admissible
        times = [tuned.seconds(low, batch) for batch in batches]
        assert times[0] == before.seconds(low, 1024)
        assert times[0] / min(times) == pytest.approx(1.25, abs=0.01)
