"""Jobs as 002 §V-A draws them: the same for a seed, within their ranges, and the same in both
forms."""

import numpy as np
import pytest

from raysched.simulator.workloads.oasis import NIC_GBPS, Workload, arrivals, ps_jobs, servers

MANY = Workload(jobs=2000)


def same(one, other):
    return all(np.array_equal(getattr(one, name), getattr(other, name)) for name in one.__slots__)


def within(values, least_most):
    least, most = least_most
    assert values.min() >= least and values.max() <= most
    assert values.mean() == pytest.approx((least + most) / 2, rel=0.1)


def test_a_seed_decides_all():
    assert same(ps_jobs(MANY, 1), ps_jobs(MANY, 1))
    assert not same(ps_jobs(MANY, 1), ps_jobs(MANY, 2))
    assert arrivals(Workload(jobs=5), 1) == arrivals(Workload(jobs=5), 1)


def test_draws_fill_their_ranges():
    jobs = ps_jobs(MANY, 0)
    within(jobs.epochs, MANY.epochs)
    within(jobs.chunks, MANY.chunks)
    within(jobs.minibatches, MANY.minibatches)
    within(jobs.minibatch_slots * MANY.slot_s, MANY.minibatch_s)
    within(jobs.worth, MANY.worth)
    within(jobs.target_slots, MANY.target_slots)
    within(jobs.worker[:, 0], MANY.worker_gpus)
    within(jobs.worker[:, -1], MANY.worker_gbps)
    within(jobs.ps[:, -1], MANY.ps_gbps)
    assert not jobs.ps[:, 0].any()


def test_gradients_take_the_time_that_their_bandwidth_gives_them():
    """30 MB at 0.24 Gbps: a second each way, so 2 s more a mini-batch than its 1 s."""
    one = Workload(
        jobs=1,
        slot_s=3.0,
        epochs=(7, 7),
        chunks=(5, 5),
        minibatches=(10, 10),
        minibatch_s=(1, 1),
        gradient_mb=(30, 30),
        worker_gbps=(0.24, 0.24),
    )
    assert ps_jobs(one, 0).work_slots == [7 * 5 * 10]


def test_a_tenth_of_the_jobs_is_insensitive_and_a_third_critical():
    decay = ps_jobs(MANY, 0).steepness
    sensitive = (decay > 0) & (decay < 4)
    assert np.mean(decay == 0) == pytest.approx(0.10, abs=0.03)
    assert sensitive.mean() == pytest.approx(0.55, abs=0.04)
    within(decay[sensitive], MANY.sensitive_decay)
    within(decay[decay >= 4], MANY.critical_decay)


def test_jobs_come_in_bursts_in_the_order_of_time():
    slots = ps_jobs(MANY, 0).arrival_slot
    assert (np.diff(slots) >= 0).all() and slots[0] >= 0 and slots[-1] < MANY.slots
    in_slot = np.bincount(slots, minlength=MANY.slots)
    assert in_slot.var() > 2 * in_slot.mean()  # a steady rate gives once the mean


def test_the_simulator_is_given_the_same_jobs():
    workload = Workload(jobs=40)
    jobs, given = ps_jobs(workload, 3), arrivals(workload, 3)
    for row, arrival in enumerate(given):
        spec = arrival.spec
        assert arrival.at_s == jobs.arrival_slot[row] * workload.slot_s
        assert (spec.min_workers, spec.max_workers) == (1, jobs.chunks[row])
        assert spec.gpus_per_worker == max(jobs.worker[row, 0], 1)
        alone_s = spec.epochs * arrival.epoch_s[0]
        assert alone_s == pytest.approx(jobs.work_slots[row] * workload.slot_s)
        assert alone_s == pytest.approx(spec.epochs * arrival.epoch_s[-1] * spec.max_workers)
        assert spec.requested_workers is not None and spec.utility is not None
        assert 1 <= spec.requested_workers <= min(30, spec.max_workers)
        assert spec.utility.steepness_per_s * workload.slot_s == pytest.approx(jobs.steepness[row])
        assert spec.utility.target_s == pytest.approx(jobs.target_slots[row] * workload.slot_s)


def test_workers_stand_on_servers_with_gpus_and_parameter_servers_on_others():
    workers, ps = servers(50, 0)
    assert workers.shape == ps.shape == (50, 5)
    assert (workers[:, 0] >= 1).all() and set(workers[:, 0]) == {1, 2, 4, 8, 16}
    assert not ps[:, 0].any()
    for side in (workers, ps):
        assert side[:, -1].min() >= NIC_GBPS[0] and side[:, -1].max() <= NIC_GBPS[1]
    assert np.array_equal(servers(50, 0)[0], workers)
