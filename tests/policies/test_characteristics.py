"""Scaling characteristics (003 §III-B), Table II and its use, run times for users (§V-A)."""

from dataclasses import replace

import numpy as np
import pytest

from policies.characteristics import Characteristics, Communication, Processing
from policies.problem import Curves, PolicyError
from policies.scaling import scaling
from tests.builders import job, problem

TABLE_II = {8: 0.86, 11: 1.06, 16: 1.3, 22: 1.45, 32: 1.66}
PER_GPU = np.array(list(TABLE_II))
# What the analyzer would have measured: with t_proc(32) = 1 s, t_comm follows from the last
# column, 1.66 = 2 / (1 + t_comm), and t_proc of the others from theirs.
ALLREDUCE_S = 2 / TABLE_II[32] - 1
CATEGORY_1 = Characteristics(
    Processing(PER_GPU, PER_GPU / 16 / np.array(list(TABLE_II.values())) - ALLREDUCE_S),
    Communication(np.array([20_000_000, 30_000_000]), np.tile([0, *[ALLREDUCE_S] * 7], (2, 1))),
    weights=24_000_000,
    samples=50_000,
)
UP_TO_8 = np.arange(1, 9)


def scaled(characteristics, batch_sizes, max_workers):
    """The scaling of one job of these characteristics on 1 to `max_workers` GPUs."""
    jobs = problem([job("a", (1, max_workers))]).jobs
    epoch_s = characteristics.epoch_s(np.array(batch_sizes), np.arange(1, max_workers + 1))
    curves = Curves(
        epoch_s=epoch_s.ravel(),
        offset=np.array([0, epoch_s.size]),
        batch_size=np.array(batch_sizes),
        batch_offset=np.array([0, len(batch_sizes)]),
    )
    return scaling(replace(jobs, batch_size=np.array(batch_sizes[:1]), curves=curves))


@pytest.mark.parametrize(("per_gpu", "factor"), TABLE_II.items())
def test_table_2_scaling_factors_on_2_gpus(per_gpu, factor):
    """Equation (1): 2 GPUs at this batch, over 1 GPU at the largest that fits."""
    baseline = CATEGORY_1.rate(np.array([32]), np.array([1]))
    assert CATEGORY_1.rate(np.array([2 * per_gpu]), np.array([2])) / baseline == pytest.approx(
        factor
    )


def test_table_2_the_largest_batch_per_gpu_is_the_best():
    """Equation (2) over Table I's range of batch sizes, 32 to 256, cut to the GPUs' memory."""
    rates = scaled(CATEGORY_1, [32, 44, 64, 96, 128, 160, 192, 224, 256], 8)
    assert rates.workers.tolist() == UP_TO_8.tolist()
    assert rates.batch_size.tolist() == (32 * UP_TO_8).tolist()
    assert rates.sizes.value[:2].tolist() == pytest.approx([1, 1.66])


def test_with_less_than_a_full_batch_the_factor_is_table_2s():
    assert scaled(CATEGORY_1, [32], 2).sizes.value.tolist() == pytest.approx([1, 1.3])


def test_the_processing_time_is_interpolated():
    processing = Processing(np.array([8, 16]), np.array([1.0, 3.0]))
    assert processing.seconds(np.array([4, 8, 12, 16, 17])).tolist() == [1, 1, 2, 3, np.inf]


def test_the_communication_time_is_interpolated():
    communication = Communication(np.array([10, 20]), np.array([[0.0, 1.0, 2.0], [0.0, 2.0, 6.0]]))
    assert communication.seconds(15).tolist() == [0, 1.5, 4]
    with pytest.raises(PolicyError, match="weights is 21; measured are 10 to 20"):
        communication.seconds(21)


def test_a_gpu_takes_the_rounded_up_share_of_a_batch():
    """33 on 2 GPUs is 17 on one of them, whose time is that of 17, not of 16.5."""
    seconds = 33 / CATEGORY_1.rate(np.array([33]), np.array([2]))[0, 0]
    expected = CATEGORY_1.processing.seconds(np.array([17]))[0] + ALLREDUCE_S
    assert seconds == pytest.approx(expected)


def test_what_does_not_fit_takes_forever():
    epoch_s = CATEGORY_1.epoch_s(np.array([3, 64]), np.array([1, 2, 4]))
    assert np.isinf(epoch_s).tolist() == [[False, False, True], [True, False, False]]
    assert epoch_s[1, 1] == pytest.approx(50_000 / 64 * (1 + ALLREDUCE_S))


def test_run_times_tell_users_which_batch_sizes_meet_a_limit():
    """At 64 samples the job is sure of 2 GPUs, where 32 may have to do with 1."""
    batch_sizes = np.array([16, 32, 64, 512])
    slowest_s = CATEGORY_1.slowest_s(10, batch_sizes, UP_TO_8)
    assert slowest_s[1:].tolist() == pytest.approx(
        [10 * 50_000 / 32, 10 * 50_000 / (32 * 1.66), np.inf]
    )
    assert CATEGORY_1.batch_sizes_within(10_000, 10, batch_sizes, UP_TO_8).tolist() == [64]
    assert CATEGORY_1.batch_sizes_within(16_000, 10, batch_sizes, UP_TO_8).tolist() == [32, 64]


@pytest.mark.parametrize(
    ("make", "error"),
    [
        (lambda: Processing(np.array([]), np.array([])), "batch_per_gpu is"),
        (lambda: Processing(np.array([2, 1]), np.ones(2)), "it must ascend"),
        (lambda: Processing(np.array([1, 2]), np.ones(3)), r"iteration_s has shape \(3,\)"),
        (lambda: Processing(np.array([1]), np.array([np.nan])), "iteration_s is nan"),
        (lambda: Processing(np.array([1]), np.array([0.0])), "must be finite and positive"),
        (lambda: Communication(np.array([1]), np.ones(1)), "allreduce_s: one row"),
        (lambda: Communication(np.array([1]), np.array([[-1.0]])), "allreduce_s is -1.0"),
        (lambda: replace(CATEGORY_1, samples=0), "samples is 0"),
        (lambda: CATEGORY_1.rate(np.array([32]), np.array([9])), "AllReduce is measured up to 8"),
        (lambda: CATEGORY_1.slowest_s(-1, np.array([32]), UP_TO_8), "epochs is -1"),
    ],
)
def test_bad_measurements_are_refused(make, error):
    with pytest.raises(PolicyError, match=error):
        make()
