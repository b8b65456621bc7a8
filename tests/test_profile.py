"""How a model runs by batch and workers, from a few measured steps."""

from __future__ import annotations

from dataclasses import replace

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from raysched import codec, views
from raysched.events import JobProfiled
from raysched.jobs import InvalidJob, JobSpec
from raysched.performance import EpochTimes, predicted_epoch_s, shape_of
from raysched.profile import Profile, Profiles, Ring, epoch_s, to_measure, to_pre_run
from raysched.state import SHORT_S
from tests.pretend_cluster import PretendCluster, spec

seconds = st.floats(1e-4, 10.0)
steps = st.dictionaries(st.integers(1, 512), seconds, min_size=1, max_size=6)
rings = st.builds(Ring, st.floats(0.0, 0.1), st.floats(0.0, 1e-7))


def profile(step_s, samples=1024, weights_bytes=4_000_000, fitting=None):
    return Profile(samples, weights_bytes, step_s, fitting)


def ring_times(ring, workers=(2, 4, 8), sizes=(1 << 16, 1 << 20, 1 << 24)):
    return {n: {size: float(ring.seconds(size, np.float64(n))) for size in sizes} for n in workers}


def test_a_step_is_linear_between_what_was_measured_and_beyond_it():
    measured = profile({8: 1.0, 16: 1.5, 64: 6.3})
    asked = np.array([4.0, 8.0, 12.0, 40.0, 64.0, 128.0])
    assert measured.proc_s(asked).tolist() == pytest.approx([0.75, 1.0, 1.25, 3.9, 6.3, 12.7])


def test_of_one_local_batch_others_take_their_share():
    assert profile({8: 2.0}).proc_s(np.array([4.0, 32.0])).tolist() == [1.0, 8.0]


@given(steps, st.lists(st.integers(1, 2048), min_size=2, max_size=20))
def test_larger_local_batches_are_never_faster_and_none_is_free(step_s, batches):
    predicted = profile(step_s).proc_s(np.array(sorted(batches), dtype=np.float64))
    assert (np.diff(predicted) >= -1e-9 * predicted[:-1]).all()
    assert (predicted > 0).all()


@given(rings)
def test_a_ring_is_found_again_in_what_it_takes(ring):
    measured = {
        n: {size: took_s for size, took_s in by_bytes.items() if took_s > 1e-12}
        for n, by_bytes in ring_times(ring).items()
    }
    found = Ring.fitted(measured)
    for size in (1 << 18, 1 << 26):
        workers = np.array([1.0, 3.0, 32.0])
        predicted = found.seconds(size, workers)
        assert predicted == pytest.approx(ring.seconds(size, workers), rel=1e-6, abs=1e-9)
        assert predicted[0] == 0.0


def test_without_measurements_communication_takes_no_time():
    assert Ring.fitted({}) == Ring()
    assert not Ring().seconds(1 << 30, np.array([1.0, 8.0])).any()


def test_an_epoch_is_its_whole_batches_and_what_is_left_of_one():
    """1000 samples: 15 batches of 64, and one of 40."""
    of = JobSpec("a", 10, 1, 2, batch_size=64)
    ring = Ring(latency_s=0.01, s_per_byte=1e-9)
    predicted = epoch_s(of, profile({1: 0.001, 64: 0.064}, samples=1000), ring)
    comm_s = 2 * (0.01 + 1e-9 * 4_000_000 / 2)
    assert predicted[0].tolist() == pytest.approx([1.0, 0.5 + 16 * comm_s])


def test_a_batch_that_does_not_fit_takes_for_ever_but_the_smallest_must_fit():
    of = JobSpec("a", 10, 1, 4, batch_size=64, batch_sizes=(64, 128))
    predicted = epoch_s(of, profile({16: 1.0, 32: 2.0}, fitting=32), Ring())
    assert np.isfinite(predicted).tolist() == [[True] * 4, [False] * 3 + [True]]


@given(steps, rings, st.integers(1, 8), st.integers(0, 8), st.integers(1, 5000))
def test_epochs_are_positive_and_more_batches_never_shorten_them(
    step_s, ring, least, more, samples
):
    of = JobSpec("a", 10, least, least + more, batch_size=64)
    fewer = epoch_s(of, profile(step_s, samples=samples), ring)
    assert fewer.shape == (1, more + 1)
    assert (fewer > 0).all()
    assert (epoch_s(of, profile(step_s, samples=samples + 64), ring) > fewer).all()


def test_what_was_pre_run_stands_and_carries_over_to_other_sizes():
    of = JobSpec("a", 10, 1, 4, batch_size=64, batch_sizes=(64, 128))
    plain = profile({1: 0.001, 64: 0.064}, samples=1280)
    together = replace(plain, together_s={64: {1: 0.064, 2: 0.048}})
    before, after = epoch_s(of, plain, Ring()), epoch_s(of, together, Ring())
    assert after[0].tolist() == pytest.approx((before[0] * [1.0, 1.5, 1.5, 1.5]).tolist())
    assert after[0, 1] == pytest.approx(20 * 0.048)
    assert after[1].tolist() == before[1].tolist()
    assert together.at_rate(0.25).together_s == {64: {1: 0.016, 2: 0.012}}


@pytest.mark.parametrize(
    ("least", "workers", "sizes"), [(1, 1, (1,)), (1, 6, (1, 2, 4, 6)), (3, 8, (3, 4, 8))]
)
def test_a_job_is_pre_run_on_as_many_workers_as_it_has_and_on_fewer(least, workers, sizes):
    assert to_pre_run(JobSpec("a", 1, least, 8, batch_size=64), workers) == sizes


def test_local_batches_to_measure_cover_all_sizes_of_a_job():
    assert to_measure(JobSpec("a", 1, 1, 16, batch_size=64, batch_sizes=(64, 256))) == (
        4,
        11,
        32,
        91,
        256,
    )
    assert to_measure(JobSpec("a", 1, 4, 4, batch_size=62)) == (16,)


@pytest.mark.parametrize(
    ("known", "workers", "groups"),
    [
        ({}, 1, ()),
        ({}, 2, (2,)),
        ({}, 6, (2, 4, 6)),
        ({}, 8, (2, 4, 8)),
        ({2: {}, 8: {}}, 8, (4,)),
    ],
)
def test_the_all_reduces_of_a_group_are_measured_once(known, workers, groups):
    assert Profiles(all_reduce_s=known).groups_to_measure(workers) == groups


@pytest.mark.parametrize("step_s", [{}, {8: 0.0}, {0: 1.0}, {8: float("inf")}])
def test_what_cannot_have_been_measured_is_refused(step_s):
    with pytest.raises(InvalidJob, match="positive seconds"):
        profile(step_s)
    with pytest.raises(InvalidJob, match="positive seconds"):
        replace(profile({8: 1.0}), together_s={64: step_s or {2: -1.0}})


# -- corrected by what epochs take


def test_what_was_seen_stands_and_carries_over_to_other_sizes():
    of = JobSpec("a", 10, 1, 4, batch_size=64)
    profiled = np.array([[8.0, 4.0, 3.0, 2.0]])
    own = {64: EpochTimes({2: 6.0})}
    assert predicted_epoch_s(of, own, {}, profiled).tolist() == [[12.0, 6.0, 4.5, 3.0]]
    own = {64: EpochTimes({2: 4.0, 4: 4.0, 9: 1.0})}
    assert predicted_epoch_s(of, own, {}, profiled).tolist() == [[8.0, 4.0, 4.5, 4.0]]


def test_a_batch_that_was_never_run_is_corrected_like_the_nearest_one():
    of = JobSpec("a", 10, 1, 2, batch_size=64, batch_sizes=(64, 128))
    profiled = np.array([[8.0, 4.0], [np.inf, 3.0]])
    history = {shape_of(of, 64): EpochTimes({1: 16.0})}
    assert predicted_epoch_s(of, {}, history, profiled).tolist() == [[16.0, 8.0], [np.inf, 6.0]]


def test_what_runs_though_it_was_said_not_to_fit_is_as_measured():
    of = JobSpec("a", 10, 1, 2, batch_size=64, batch_sizes=(64, 128))
    profiled = np.array([[8.0, 4.0], [np.inf, 3.0]])
    own = {128: EpochTimes({1: 7.0})}
    assert predicted_epoch_s(of, own, {}, profiled).tolist() == [[8.0, 4.0], [7.0, 3.0]]


# -- in the engine


@pytest.fixture
def cluster() -> PretendCluster:
    """A server of 4 GPUs, and one of 4 T4s at a quarter of the speed, under fifo."""
    made = PretendCluster()
    made.switch("fifo")
    made.add_server("t1")
    made.add_server("s1", gpu_type="T4", gpu_rate=0.25)
    made.decide_all()
    return made


MEASURED = Profile(640, 4_000_000, {16: 0.2, 64: 0.8})


def curve_of(cluster, job):
    problem = cluster.engine.problem(())
    return problem.jobs.curves.of(problem.jobs.ids.index(job))[0].tolist()


def test_the_first_workers_of_an_unknown_model_profile_it_and_nobody_else(cluster):
    cluster.submit("a", spec(epochs=99))
    cluster.settle()
    job = cluster.engine.state.live["a"]
    assert job.profiling == to_measure(job.spec)
    cluster.stop_workers("a", lost=True)  # maybe by being profiled
    cluster.settle()
    assert job.profiling == ()

    cluster.profile("a", MEASURED, {})
    cluster.submit("b", spec(epochs=99))
    cluster.submit("c", spec("other", (2, 2), epochs=99))
    cluster.settle()
    assert cluster.engine.state.live["b"].profiling == ()
    assert cluster.engine.state.live["c"].profiling == (32,)


def test_a_model_is_profiled_on_each_type_of_gpus(cluster):
    cluster.submit("a", spec(epochs=99, gpu_type="GPU"))
    cluster.settle()
    cluster.profile("a", MEASURED, {})
    cluster.submit("b", spec(epochs=99, gpu_type="T4"))
    cluster.settle()
    assert cluster.engine.state.live["b"].profiling == (16, 23, 32, 45, 64)
    slower = Profile(640, 4_000_000, {16: 0.9, 64: 3.6})
    cluster.profile("b", slower, {})
    by_type = cluster.engine.state.profiles.by_model["job/gpus=1"]
    assert by_type["GPU"].step_s == MEASURED.step_s
    assert by_type["T4"].step_s == {16: 0.9 * 0.25, 64: 3.6 * 0.25}
    assert curve_of(cluster, "a")[0] == pytest.approx(8.0)
    assert curve_of(cluster, "b")[0] == pytest.approx(9.0)


@pytest.mark.parametrize(("expected_s", "profiled"), [(SHORT_S - 1, False), (SHORT_S, True)])
def test_a_job_that_is_known_to_be_short_is_not_profiled(cluster, expected_s, profiled):
    cluster.submit("a", spec(epochs=99, expected_s=expected_s))
    cluster.submit("asked", spec(epochs=99, expected_s=expected_s, pre_run=True))
    cluster.settle()
    assert bool(cluster.engine.state.live["a"].profiling) is profiled
    assert cluster.engine.state.live["asked"].profiling


def test_nor_one_that_came_with_a_profile_or_whose_like_were_short(cluster):
    told = spec("told", (1, 2), epochs=99, profile_epoch_s=(9.0, 5.0))
    cluster.submit("a", told)
    cluster.submit("b", spec("known", (1, 2)))
    cluster.run_to_the_end()
    cluster.submit("c", spec("known", (1, 2)))
    cluster.settle()
    jobs = cluster.engine.state.jobs
    assert (jobs["a"].profiling, jobs["c"].profiling) == ((), ())
    assert jobs["b"].profiling


def test_policies_see_the_profile_until_epochs_tell_better(cluster):
    cluster.submit("a", spec(epochs=99))
    cluster.submit("later", spec(epochs=99))
    cluster.settle()
    assert curve_of(cluster, "later") == pytest.approx([60.0, 30.0, 20.0, 15.0])
    cluster.profile("a", MEASURED, {2: {4_000_000: 0.02}, 4: {4_000_000: 0.05}})
    ring = cluster.engine.state.profiles.ring
    assert ring.seconds(4_000_000, np.array([2.0, 4.0])) == pytest.approx([0.02, 0.05], rel=0.2)
    predicted = 10 * (MEASURED.proc_s(np.ceil(64 / np.arange(1, 5))))
    predicted += 10 * ring.seconds(4_000_000, np.arange(1, 5))
    assert curve_of(cluster, "a") == curve_of(cluster, "later") == pytest.approx(list(predicted))

    job = cluster.engine.state.live["a"]
    cluster.finish_epoch("a")
    took_s = job.times[64].mean_s[job.workers_now]
    over = took_s / predicted[job.workers_now - 1]
    assert curve_of(cluster, "a") == pytest.approx(list(over * predicted))
    assert curve_of(cluster, "later") == pytest.approx(list(predicted))
    told = views.explain(cluster.engine.state, job, cluster.now_s)
    assert told["predicted_from"] == "its profile, corrected by its own epochs"


def test_where_a_prediction_comes_from(cluster):
    cluster.submit("a", spec(epochs=99))
    cluster.submit("b", spec(epochs=99, expected_s=500.0))
    cluster.submit("c", spec("other", (1, 2), epochs=9, profile_epoch_s=(9.0, 5.0)))
    cluster.settle()
    source = cluster.engine.state.source
    jobs = cluster.engine.state.live
    assert [source(jobs[job]) for job in "abc"] == [
        "a prior: nothing is known of it",
        "what its user expects",
        "the profile that it came with",
    ]
    cluster.finish_epoch("a")
    assert source(jobs["a"]) == "its own epochs"
    cluster.profile("a", MEASURED, {})
    assert source(jobs["b"]) == "its profile"


def test_a_batch_that_no_worker_can_hold_is_not_run(cluster):
    of = spec("wide", (1, 4), epochs=99, batch_sizes=(64, 256))
    cluster.submit("a", of)
    cluster.settle()
    state, job = cluster.engine.state, cluster.engine.state.live["a"]
    assert state.fits(job, 256, 1)
    cluster.profile("a", replace(MEASURED, fitting=100), {})
    assert [state.fits(job, 256, n) for n in (1, 2, 3, 4)] == [False, False, True, True]
    assert all(state.fits(job, 64, n) for n in (1, 2, 3, 4))


def test_a_profile_that_comes_too_late_or_twice_is_no_harm(cluster):
    cluster.submit("a", spec(epochs=99))
    cluster.settle()
    grant = cluster.engine.state.live["a"].running.grant
    cluster.profile("a", MEASURED, {})
    cluster.profile("a", MEASURED, {})
    cluster.end("a", "cancelled")
    cluster.tell(JobProfiled(cluster.now_s, "a", grant, profile({8: 9.0})))
    assert cluster.engine.state.profiles.by_model == {"job/gpus=1": {"GPU": MEASURED}}
    state = cluster.engine.state
    assert codec.state_from_json(codec.state_to_json(state)) == state
