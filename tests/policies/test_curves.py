"""Running times off curves that hold several batch sizes."""

from dataclasses import replace

import numpy as np

from policies.curves import curve_start, remaining_s
from policies.problem import Curves
from tests.builders import job, problem

JOBS = replace(
    problem([job("a", (1, 2), epochs=2), job("b", (3, 5), epochs=10)]).jobs,
    batch_size=np.array([64, 32]),
    curves=Curves(
        epoch_s=np.array([8, 5, 6, 4, 30, 20, 10, 9, 7, 5], dtype=float),
        offset=np.array([0, 4, 10]),
        batch_size=np.array([32, 64, 32, 64]),
        batch_offset=np.array([0, 2, 4]),
    ),
)


def test_the_row_of_the_present_batch_size_counts():
    assert curve_start(JOBS).tolist() == [2, 4]


def test_remaining_time_by_number_of_workers():
    assert remaining_s(JOBS, np.array([1, 4])).tolist() == [12, 200]
    assert remaining_s(JOBS, np.array([2, 5])).tolist() == [8, 100]


def test_agrees_with_the_contract_of_one_job():
    for row, workers in ((0, 1), (0, 2), (1, 3), (1, 5)):
        all_workers = JOBS.min_workers.copy()
        all_workers[row] = workers
        assert remaining_s(JOBS, all_workers)[row] == JOBS.remaining_s(row, workers)
