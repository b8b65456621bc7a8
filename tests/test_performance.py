"""Epoch times: measured where seen, predicted elsewhere."""

import numpy as np
import pytest

from raysched.jobs import InvalidJob, JobSpec
from raysched.performance import (
    PRIOR_EPOCH_S,
    EpochTimes,
    predicted_epoch_s,
    rate_of,
    shape_of,
)


def a_job(expected_s: float | None = None) -> JobSpec:
    return JobSpec("a", 10, 2, 5, batch_size=64, expected_s=expected_s)


def curve_of(
    spec: JobSpec, history: dict[str, EpochTimes], own: EpochTimes | None = None
) -> np.ndarray:
    """Of a job with one batch size."""
    reported = {spec.batch_size: own} if own else {}
    curves = predicted_epoch_s(spec, reported, history)
    assert len(curves) == 1
    return np.ravel(curves)


def test_an_unknown_job_has_the_stated_prior_and_scales_linearly():
    curve = curve_of(a_job(), {})
    assert curve == pytest.approx(PRIOR_EPOCH_S * 2 / np.array([2, 3, 4, 5]))


def test_the_users_estimate_is_of_the_whole_job_on_its_minimum():
    assert curve_of(a_job(expected_s=300.0), {})[0] == pytest.approx(30.0)


def test_history_of_the_same_shape_beats_the_users_estimate():
    history = {shape_of(a_job(), 64): EpochTimes({2: 8.0})}
    curve = curve_of(a_job(expected_s=300.0), history)
    assert curve == pytest.approx(8.0 * 2 / np.array([2, 3, 4, 5]))


def test_own_reports_beat_history():
    history = {shape_of(a_job(), 64): EpochTimes({2: 8.0})}
    assert curve_of(a_job(), history, EpochTimes({4: 1.0}))[2] == 1.0


def test_a_profile_stands_where_nothing_was_seen_and_may_say_that_more_is_slower():
    profiled = JobSpec("a", 10, 2, 5, batch_size=64, profile_epoch_s=(9.0, 7.0, 6.0, 8.0))
    own = EpochTimes()
    own.observe(3, 7.5)
    assert curve_of(profiled, {}, own).tolist() == [9.0, 7.5, 6.0, 8.0]


def test_two_sizes_show_what_does_not_scale():
    curve = curve_of(a_job(), {}, EpochTimes({2: 1 + 6 / 2, 3: 1 + 6 / 3}))
    assert curve == pytest.approx(1 + 6 / np.array([2, 3, 4, 5]))


def test_noise_never_predicts_that_more_workers_are_slower():
    curve = curve_of(a_job(), {}, EpochTimes({2: 4.0, 5: 6.0}))
    assert (np.diff(curve) <= 0).all()
    assert (curve > 0).all()


def test_reports_of_one_size_are_averaged_with_the_newest_weighing_most():
    times = EpochTimes()
    for epoch_s in (4.0, 2.0, 2.0):
        times.observe(2, epoch_s)
    assert times.mean_s[2] == pytest.approx(2.5)


@pytest.mark.parametrize(
    ("workers", "rate"),
    [
        ([], 1.0),
        ([(3, "T4", 0.25)], 0.25),
        ([(3, "T4", 0.25), (1, "T4", 0.2)], 0.2),
        ([(4, "V100", 1.0), (4, "T4", 0.25)], 0.7 * 5 / 8),
    ],
)
def test_one_type_keeps_step_with_its_slowest_several_share_the_work_by_speed(workers, rate):
    assert rate_of(workers) == pytest.approx(rate)


def of_two_batches(**described) -> JobSpec:
    return JobSpec("a", 10, 2, 3, batch_size=64, batch_sizes=(64, 128), **described)


def test_each_batch_size_has_its_profile_and_what_does_not_fit_takes_for_ever():
    spec = of_two_batches(profile_epoch_s=(9.0, 7.0, None, 6.0))
    own = {128: EpochTimes({3: 5.5})}
    assert predicted_epoch_s(spec, own, {}).tolist() == [[9.0, 7.0], [np.inf, 5.5]]


def test_a_batch_size_that_was_never_seen_is_taken_to_run_like_the_nearest():
    spec = of_two_batches()
    own = {128: EpochTimes({2: 6.0})}
    assert predicted_epoch_s(spec, own, {}).tolist() == [[6.0, 4.0], [6.0, 4.0]]
    history = {shape_of(spec, 64): EpochTimes({2: 9.0})}
    assert predicted_epoch_s(spec, own, history).tolist() == [[9.0, 6.0], [6.0, 4.0]]


@pytest.mark.parametrize(
    ("described", "why"),
    [
        ({"batch_sizes": (128, 64)}, "do not ascend"),
        ({"batch_sizes": (128, 256)}, "64, the first one, is not among them"),
        ({"batch_sizes": (2, 64)}, "2 samples cannot be shared by 3 workers"),
        ({"batch_sizes": (64, 128), "profile_epoch_s": (9.0, 7.0)}, "needs 4 positive numbers"),
        (
            {"batch_sizes": (64, 128), "profile_epoch_s": (9.0, None, 7.0, 6.0)},
            "the smallest batch, 64, must fit anywhere",
        ),
    ],
)
def test_batch_sizes_that_cannot_be_are_refused(described, why):
    with pytest.raises(InvalidJob, match=why):
        JobSpec("a", 10, 2, 3, batch_size=64, **described)
