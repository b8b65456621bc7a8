"""Global batches of several sizes: dealt out, worked off in parts, and the learning rate with it.

Real torch and gloo, in bare processes.
"""

import math
from dataclasses import replace

import pytest
import torch
from hypothesis import given
from hypothesis import strategies as st

from raysched.runtime import loop
from raysched.runtime.assignment import Assignment
from raysched.runtime.learning_rate import Following, LearningRate
from tests.lone_worker import Worker, in_processes, processes
from tests.training_loops import SAMPLES, deal, deal_and_train, share_batches

ASSIGNMENT = Assignment("job", epochs=3, batch_size=64, gpus_per_worker=1)


def assert_same(ours, theirs):
    for (parameters, dealt), (expected, _) in zip(ours, theirs, strict=True):
        assert torch.allclose(parameters, expected, rtol=1e-9, atol=0)
        assert sorted(dealt) == list(range(SAMPLES)), "each sample once an epoch"


@pytest.fixture
def alone(tmp_path):
    """Run a function as the only worker of a job: what it returns, and what was reported."""

    def run(function, worker, *arguments):
        with worker.here(tmp_path / f"{len(list(tmp_path.iterdir()))}"):
            return function(*arguments), worker.reports

    return run


@pytest.fixture(scope="module")
def two_processes():
    with processes(2) as pool:
        yield pool


@pytest.mark.parametrize("zero_grad_first", [True, False])
@pytest.mark.parametrize("most", [1, 24, 63, 64])
def test_a_batch_in_parts_trains_as_one_that_fits(alone, most, zero_grad_first):
    whole, _ = alone(deal_and_train, Worker(ASSIGNMENT))
    in_parts = Worker(replace(ASSIGNMENT, max_local_batch=most))
    assert_same(alone(deal_and_train, in_parts, zero_grad_first)[0], whole)


def test_parts_are_as_large_as_they_may(alone):
    found, _ = alone(deal, Worker(replace(ASSIGNMENT, epochs=1, max_local_batch=24)))
    assert found == [[22, 21, 21, 22, 21, 21, 2]]


def test_unequal_workers_that_work_in_parts_train_as_one(alone, two_processes, tmp_path):
    """Their averaged gradient is that of the global batch, whatever their shares."""
    whole, _ = alone(deal_and_train, Worker(ASSIGNMENT))
    told = replace(ASSIGNMENT, mixes_gpus=True, max_local_batch=24)
    workers = [
        Worker(replace(told, gpu_rate=rate), rank=rank, workers=2)
        for rank, rate in enumerate((1.0, 0.02))
    ]
    first, second = in_processes(two_processes, deal_and_train, workers, tmp_path / "two")
    together = [(one, mine + other) for (one, mine), (_, other) in zip(first, second, strict=True)]
    assert_same(together, whole)
    dealt = len(second[0][1])
    assert dealt == 2, "1 of 64, 1 of 64, and none of the last 2"


def test_a_worker_that_is_slower_than_was_told_has_less_to_do(two_processes, tmp_path):
    told = replace(ASSIGNMENT, epochs=2, batch_size=60, mixes_gpus=True)
    workers = [Worker(told, rank=rank, workers=2) for rank in range(2)]
    meeting, sample_s = tmp_path / "two", (0.001, 0.01)
    fast, slow = in_processes(two_processes, share_batches, workers, meeting, 240, sample_s)
    (more, _), (less, _) = fast[1], slow[1]
    assert (fast[0][0], slow[0][0], more + less) == (30, 30, 60)
    assert more > 2 * less


def test_the_batch_goes_over_at_a_boundary(alone):
    found, reports = alone(deal, Worker(ASSIGNMENT, {1: 128}))
    assert found == [[64, 64, 2], [128, 2], [128, 2]]
    assert [report["batch_size"] for report in reports] == [64, 128, 128]


def rates_stepped_with(follow_schedule):
    """The learning rate of each step, where the optimizer sees it, and where others do."""
    weight = torch.nn.Parameter(torch.zeros(1))
    optimizer = torch.optim.SGD([weight], lr=1.0)
    schedule = torch.optim.lr_scheduler.ExponentialLR(optimizer, 0.5)
    seen, own = [], []
    for _ in loop.epochs(optimizer, schedule):
        for _ in loop.batches(SAMPLES):
            before, weight.grad = weight.item(), torch.ones(1)
            optimizer.step()
            seen.append(round(before - weight.item(), 6))
            own.append(optimizer.param_groups[0]["lr"])
        if follow_schedule:
            schedule.step()
    return seen, own


@pytest.mark.parametrize(
    ("rule", "warmup_steps", "seen"),
    [
        ("linear", 0, [1, 1, 1, 2, 2, 2, 2]),
        ("linear", 3, [1, 1, 1, 1, 1.333333, 1.666667, 2]),
        ("sqrt", 0, [1, 1, 1, *[1.414214] * 4]),
        ("fixed", 3, [1] * 7),
    ],
)
def test_the_learning_rate_goes_with_the_batch(alone, rule, warmup_steps, seen):
    following = Following(64, rule, warmup_steps)
    worker = Worker(replace(ASSIGNMENT, learning_rate=following), {1: 128})
    (found, own), _ = alone(rates_stepped_with, worker, False)
    assert found == pytest.approx(seen, abs=1e-5)
    assert own == [1.0] * 7, "what the user set is left alone"


def test_it_goes_on_in_the_middle_of_a_warm_up(alone, tmp_path):
    told = replace(ASSIGNMENT, learning_rate=Following(64, "linear", 5))
    unbroken, _ = alone(deal_and_train, Worker(told, {1: 256}))
    first = Worker(replace(told, epochs=2), {1: 256}, saved=tmp_path / "saved")
    begun, _ = alone(deal_and_train, first)
    rest, _ = alone(deal_and_train, Worker(replace(told, batch_size=256), saved=first.saved))
    assert_same(begun + rest, unbroken)


def test_a_schedule_of_the_users_own_is_scaled(alone):
    worker = Worker(replace(ASSIGNMENT, learning_rate=Following(64, "linear")), {1: 128})
    (found, own), _ = alone(rates_stepped_with, worker, True)
    assert own == [1, 1, 1, 0.5, 0.5, 0.25, 0.25]
    assert found == pytest.approx([1, 1, 1, 1, 1, 0.5, 0.5])


@given(
    st.sampled_from(["linear", "sqrt"]),
    st.integers(1, 50),
    st.lists(st.sampled_from([64, 128, 256, 512]), min_size=1, max_size=6),
    st.integers(0, 60),
)
def test_a_warm_up_goes_on_where_it_was_saved(rule, warmup_steps, batch_sizes, steps):
    following = Following(64, rule, warmup_steps)
    unbroken, saved = LearningRate(following), LearningRate(following)
    for batch_size in batch_sizes:
        restored = LearningRate(following)
        restored.load_state_dict(saved.state_dict())
        saved = restored
        for rate in (unbroken, saved):
            rate.aim_at(batch_size)
        for _ in range(steps):
            unbroken.advance()
            saved.advance()
            assert saved.factor == unbroken.factor
            assert 1 <= saved.factor <= 8
    if steps > warmup_steps:
        ratio = batch_sizes[-1] / 64
        assert unbroken.factor == pytest.approx(ratio if rule == "linear" else math.sqrt(ratio))
