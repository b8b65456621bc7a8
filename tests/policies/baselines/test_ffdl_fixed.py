"""ffdl_fixed: the three batch sizes, and ffdl itself where there is only one."""

from dataclasses import replace

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from policies.baselines.ffdl_fixed import FfdlFixed
from policies.ffdl import Ffdl
from policies.problem import NO_MEMORY, Policy, PolicyError
from tests.builders import job, problem, training
from tests.policies.baselines.laws import decided, sizes, why
from tests.policies.test_ffdl import with_batches
from tests.strategies import problems


def batches(decision):
    return {name: allocation.batch_size for name, allocation in decision.allocations.items()}


def test_is_a_policy():
    assert isinstance(FfdlFixed(), Policy)
    assert (FfdlFixed().name, FfdlFixed().default_loaning, FfdlFixed().interval_s) == (
        "ffdl_fixed",
        "off",
        600.0,
    )


@pytest.mark.parametrize(
    ("parameters", "error"),
    [
        ({"batch": "mean"}, "batch is 'mean'; use max, min or random"),
        ({"ended_share": 2}, "ended_share is 2; use above 0 to 1"),
    ],
)
def test_parameters_make_sense(parameters, error):
    with pytest.raises(PolicyError, match=error):
        FfdlFixed(**parameters)


def test_bad_problems_are_refused_by_job_and_field():
    with pytest.raises(PolicyError, match="job a: epoch_s at 1 workers is nan"):
        FfdlFixed().decide(problem([job("a", epoch_s=float("nan"))], [training(1)]), NO_MEMORY)


TWO = with_batches(
    problem([job("a", (1, 3)), job("b", (1, 3))], [training(4)]),
    {64: [10, 9, 9], 128: [12, 7, 6]},
    {64: [10, 6, 4], 128: [10, 8, 8]},
)


@pytest.mark.parametrize(
    ("batch", "size", "expected", "objective"),
    [
        ("max", 128, {"a": 3, "b": 1}, 12 / 6 + 10 / 10),  # a: 1, 1.71, 2; b: 1, 1.25, 1.25
        ("min", 64, {"a": 1, "b": 3}, 12 / 10 + 10 / 4),  # a: 1.2, 1.33, 1.33; b: 1, 1.67, 2.5
    ],
)
def test_gpus_go_where_the_fixed_batch_gains_most(batch, size, expected, objective):
    decision = decided(FfdlFixed(batch=batch), TWO)
    assert sizes(decision) == expected
    assert set(batches(decision).values()) == {size}
    assert decision.objective == pytest.approx(objective)


def test_factors_count_from_the_largest_batch_on_one_gpu_as_those_of_ffdl():
    assert why(decided(FfdlFixed(batch="min"), TWO), "a") == (
        "starts on 1 workers, batch size 64: 1.20 times the rate of one GPU; "
        "1 more GPUs would add 0.13, 0 are free and other jobs gain more"
    )


def test_k_max_limits_growth():
    assert sizes(decided(FfdlFixed(max_gpus=2), TWO)) == {"a": 2, "b": 2}


def test_a_random_batch_size_is_the_jobs_for_life():
    policy = FfdlFixed(batch="random", interval_s=None)
    jobs = [job(f"job{number}", (1, 2)) for number in range(20)]
    curve = {batch: [10, 6] for batch in (64, 96, 128)}
    whole = with_batches(problem(jobs, [training(40)]), *[curve] * 20)
    drawn = batches(decided(policy, whole))
    assert set(drawn.values()) == {64, 96, 128}
    alone = replace(whole, jobs=whole.jobs.take(np.array([7])), placed=whole.placed[7:8])
    assert batches(decided(policy, alone)) == {"job7": drawn["job7"]}


@given(problems(lost_servers=True), st.sampled_from(["max", "min", "random"]))
def test_agrees_with_ffdl_where_each_job_has_one_batch_size(case, batch):
    assert FfdlFixed(batch=batch).decide(case, NO_MEMORY) == Ffdl().decide(case, NO_MEMORY)
    decided(FfdlFixed(batch=batch), case)


seconds = st.integers(1, 9).map(float)


@given(st.data(), st.sampled_from(["max", "min", "random"]), st.integers(3, 9))
def test_never_gains_more_than_ffdl_which_chooses_the_batch_sizes(data, batch, gpus):
    jobs = [job(name, (1, 3)) for name in "abc"]
    row = st.lists(seconds, min_size=3, max_size=3)
    curves = [{64: data.draw(row), 128: data.draw(row)} for _ in jobs]
    case = with_batches(problem(jobs, [training(gpus)]), *curves)
    fixed, free = decided(FfdlFixed(batch=batch), case), decided(Ffdl(), case)
    assert fixed.objective <= free.objective + 1e-9
