"""Problems that make no sense are refused, naming job (or server) and field."""

import math
import re
from dataclasses import replace

import numpy as np
import pytest

from policies.aryl import Aryl
from policies.fifo import Fifo
from policies.problem import NO_MEMORY, PolicyError
from tests.builders import job, problem, training

NAN = float("nan")


def with_column(case, **columns):
    """The problem with one value changed: `with_column(case, workers=(row, value))`."""
    for name, (row, value) in columns.items():
        column = getattr(case.jobs, name).copy()
        column[row] = value
        case = replace(case, jobs=replace(case.jobs, **{name: column}))
    return case


GOOD = problem([job("a", (1, 3)), job("b", (2, 3))], [training(4)])


@pytest.mark.parametrize("policy", [Aryl(), Fifo()])
@pytest.mark.parametrize(
    ("case", "message"),
    [
        (
            problem([job("a"), job("b", (2, 4), epoch_s=[9, NAN, 5])], [training(4)]),
            "job b: epoch_s at 3 workers is nan; it must be a positive number of seconds",
        ),
        (
            problem([job("a", (1, 2), epoch_s=[9, math.inf])], [training(4)]),
            "job a: epoch_s at 2 workers is inf; it must be a positive number of seconds",
        ),
        (
            problem([job("a", epoch_s=-1)], [training(4)]),
            "job a: epoch_s at 1 workers is -1.0; it must be a positive number of seconds",
        ),
        (
            problem([job("a", (1, 3), epoch_s=[9, 5])], [training(4)]),
            "job a: number of epoch_s is 2; "
            "it must be one for each batch size and number of workers",
        ),
        (
            problem([job("a", epochs=NAN)], [training(4)]),
            "job a: remaining_epochs is nan; it must be finite and from 0",
        ),
        (
            problem([job("a", gpus=0)], [training(4)]),
            "job a: gpus_per_worker is 0; it must be from 1",
        ),
        (
            problem([job("a", (0, 2), epoch_s=[9, 9, 9])], [training(4)]),
            "job a: min_workers is 0; it must be from 1",
        ),
        (
            with_column(GOOD, max_workers=(1, 1)),
            "job b: max_workers is 1; it must be from min_workers",
        ),
        (
            with_column(GOOD, workers=(1, 1)),
            "job b: workers is 1; it must be 0, or from min_workers to max_workers",
        ),
        (
            with_column(GOOD, batch_size=(0, 3)),
            "job a: batch_size is 3; it must be one of its curve's",
        ),
        (
            with_column(GOOD, submitted_s=(0, -1)),
            "job a: submitted_s is -1.0; it must be finite and from 0",
        ),
        (
            with_column(GOOD, deadline_s=(1, NAN)),
            "job b: deadline_s is nan; it must be a time, or inf for none",
        ),
        (
            problem([job("a", utility=(0.0, 1.0, 60.0))], [training(4)]),
            "job a: worth is 0.0; it must be positive",
        ),
        (
            problem([job("a", utility=(1.0, NAN, 60.0))], [training(4)]),
            "job a: steepness_per_s is nan; it must be finite and from 0",
        ),
        (
            problem([], [training(4, gpu_memory_gib=-1.0)]),
            "server t1: gpu_memory_gib is -1.0; it must be positive",
        ),
        (
            problem([], [training(4, gpu_rate=0.0)]),
            "server t1: gpu_rate is 0.0; it must be positive",
        ),
        (problem([], [training(4), training(-1)]), "server t2: gpus is -1; it must be from 0"),
        (replace(GOOD, resize_s=-1.0), "resize_s is -1.0; it must be finite and from 0"),
        (replace(GOOD, now_s=NAN), "now_s is nan; it must be finite and from 0"),
    ],
)
def test_refuses(policy, case, message):
    with pytest.raises(PolicyError, match=f"^{re.escape(message)}$"):
        policy.decide(case, NO_MEMORY)


def test_a_problem_that_makes_sense_passes():
    assert Fifo().decide(GOOD, NO_MEMORY)
    assert np.array_equal(GOOD.jobs.workers, [0, 0])
