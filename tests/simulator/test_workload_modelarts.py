"""The jobs of 000: what is printed of them holds, and a seed says it all."""

from dataclasses import replace

import numpy as np
import pytest

from raysched.errors import UserError
from raysched.simulator.workloads.modelarts import ALL_JOBS, ModelArtsWorkload, modelarts


def minutes(jobs):
    return np.array([job.alone_s / 60 for job in jobs])


@pytest.mark.parametrize("seed", range(3))
def test_what_is_printed_of_the_jobs_holds(seed):
    jobs = modelarts(ALL_JOBS, seed)
    train_min = minutes(jobs)
    long_min = train_min[train_min >= 5]
    assert (len(train_min), len(long_min)) == (1252, 447)
    assert np.mean(train_min < 5) == pytest.approx(0.64, abs=0.005)
    assert train_min.mean() == pytest.approx(84.3, rel=0.01)
    assert long_min.mean() == pytest.approx(232.6, rel=0.01)
    long_s = [job.at_s for job in jobs if job.job.startswith("long")]
    assert (long_s[0], long_s[-1]) == (0.0, 2 * 86400 + 3600 + 41 * 60 + 38)
    assert sorted(long_s) == long_s and jobs[-1].at_s <= long_s[-1]


def test_all_scale_from_1_to_16_nodes_and_lose_a_fifth_at_each_doubling():
    for job in modelarts(ModelArtsWorkload(), 0):
        assert (job.spec.min_workers, job.spec.max_workers) == (1, 16)
        for nodes in (1, 2, 4, 8):
            speed_up = job.epoch_s[nodes - 1] / job.epoch_s[2 * nodes - 1]
            assert speed_up == pytest.approx(1.6)
        assert job.spec.profile_epoch_s == job.epoch_s


def test_a_seed_gives_the_same_jobs_and_another_one_others():
    once, again = modelarts(ALL_JOBS, 3), modelarts(ALL_JOBS, 3)
    assert once == again
    assert minutes(once).tolist() != minutes(modelarts(ALL_JOBS, 4)).tolist()


def test_long_jobs_are_the_same_without_the_small_ones():
    all_jobs = modelarts(ALL_JOBS, 1)
    assert [j for j in all_jobs if j.job.startswith("long")] == list(
        modelarts(ModelArtsWorkload(), 1)
    )


def test_more_jobs_come_in_the_afternoon_than_at_night():
    clock_h = np.array([(14.43 + j.at_s / 3600) % 24 for j in modelarts(ALL_JOBS, 0)])
    afternoon = np.mean((clock_h > 12) & (clock_h < 15))
    night = np.mean((clock_h > 1) & (clock_h < 4))
    assert afternoon > 2 * night


@pytest.mark.parametrize(
    ("changed", "error"),
    [
        ({"long_jobs": 1}, "long_jobs"),
        ({"small_jobs": -1}, "small_jobs"),
        ({"long_mean_s": 200.0}, "long_mean_s is 200.0; use 300 to long_most_s"),
        ({"small_mean_s": 300.0}, "small_mean_s is 300.0; use 0 to 300"),
        ({"asked_shares": (0.5, 0.2, 0.1, 0.1, 0.05, 0.05)}, "asked_shares"),
    ],
)
def test_impossible_numbers_are_refused(changed, error):
    with pytest.raises(UserError, match=error):
        replace(ModelArtsWorkload(), **changed)
