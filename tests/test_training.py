"""What a trainer and its workers compute without a cluster."""

import math
from types import SimpleNamespace

import pytest
import ray.exceptions
import ray.train
import torch
from ray.train.v2._internal.exceptions import WorkerHealthCheckFailedError
from ray.train.v2._internal.execution.failure_handling import FailureDecision
from ray.train.v2._internal.execution.scaling_policy import NoopDecision
from ray.train.v2.api.exceptions import ControllerError, WorkerGroupError

from raysched.errors import JobStopped, UserError
from raysched.jobs import InvalidJob
from raysched.runtime import assignment, boundary, device_time, link, loop, safe_points
from raysched.runtime.assignment import Assignment
from raysched.runtime.protocol import NEXT_GRANT, GrantedSlots, numbers
from raysched.runtime.ray_train.decisions import (
    LOSSES_IN_ONE_EPOCH,
    GrantPolicy,
    Leave,
    LossPolicy,
)
from raysched.runtime.ray_train.workers import _ranks
from raysched.runtime.state import Position
from raysched.runtime.trainer import TorchTrainer

SAMPLES = 37
BATCH_SIZE = 10


@pytest.fixture
def batches_of(monkeypatch):
    """The steps of each of `workers` workers in one epoch."""

    def deal(workers):
        monkeypatch.setattr(assignment, "_current", Assignment("job", 1, BATCH_SIZE, 1))
        monkeypatch.setattr(torch.distributed, "get_world_size", lambda: workers)
        dealt = []
        for rank in range(workers):
            monkeypatch.setattr(torch.distributed, "get_rank", lambda rank=rank: rank)
            dealt.append(list(loop.batches(SAMPLES)))
        return dealt

    return deal


@pytest.mark.parametrize("workers", range(1, 11))
def test_the_averaged_gradient_is_that_of_the_global_batch(batches_of, workers):
    gradients = torch.rand(SAMPLES, dtype=torch.float64)
    ((alone),) = batches_of(1)
    dealt = batches_of(workers)
    assert all(len(steps) == len(alone) for steps in dealt), "all workers take the same steps"
    for step, (global_batch, _) in enumerate(alone):
        shares = [steps[step] for steps in dealt]
        averaged = sum(weight * gradients[own].mean() for own, weight in shares) / workers
        assert averaged == pytest.approx(gradients[global_batch].mean())
    seen = [i for steps in dealt for own, weight in steps if weight for i in own.tolist()]
    assert sorted(seen) == list(range(SAMPLES))


def test_ranks_follow_the_order_of_the_slots():
    ranks = _ranks(["a", "b", "a"])
    assert [rank.world_rank for rank in ranks] == [0, 1, 2]
    assert [rank.local_rank for rank in ranks] == [0, 0, 1]
    assert [rank.local_world_size for rank in ranks] == [2, 1, 2]
    assert [rank.node_rank for rank in ranks] == [0, 1, 0]


DEATH = WorkerHealthCheckFailedError("gone", failure=ray.exceptions.ActorDiedError())
UNSENDABLE = WorkerHealthCheckFailedError(
    "cannot pickle", failure=ray.exceptions.RayTaskError("poll_status", "trace", TypeError())
)


def _attempts(error):
    policy = LossPolicy(None)
    attempts = 1
    while policy.make_decision(error) is FailureDecision.RETRY:
        attempts += 1
    return attempts


@pytest.mark.parametrize(
    ("error", "attempts"),
    [
        (WorkerGroupError("a death and what it caused", {0: RuntimeError("gloo"), 1: DEATH}), 11),
        (WorkerGroupError("[gloo/transport/tcp/pair.cc:547] Connection closed", {0: OSError()}), 4),
        (WorkerGroupError("torch.OutOfMemoryError: CUDA out of memory.", {0: RuntimeError()}), 4),
        (WorkerGroupError("ZeroDivisionError", {0: ZeroDivisionError()}), 1),
        (WorkerGroupError("an exception that cannot be sent", {0: UNSENDABLE}), 1),
        (ControllerError(JobStopped("cancelled")), 1),
    ],
)
def test_what_is_lost_is_tried_again_and_what_is_raised_is_not(error, attempts):
    assert _attempts(error) == attempts


def test_a_finished_epoch_counts_losses_anew():
    policy = LossPolicy(None)
    error = WorkerGroupError("", {0: DEATH})
    for _ in range(LOSSES_IN_ONE_EPOCH):
        policy.make_decision(error)
    policy.after_report(None, [])
    assert policy.make_decision(error) is FailureDecision.RETRY


@pytest.mark.parametrize("checkpoint", [None, object()])
def test_workers_leave_at_a_boundary_with_or_without_a_checkpoint(checkpoint):
    policy = GrantPolicy(None)
    policy.stand_on(GrantedSlots(1, (), 64))
    for next_grant, leaves_for in ((1, None), (2, 2)):
        policy.after_report(
            SimpleNamespace(checkpoint=checkpoint, metrics={NEXT_GRANT: next_grant}), []
        )
        assert policy.leaves_for == leaves_for
    assert isinstance(policy.make_decision_for_running_worker_group(None, None), NoopDecision)
    policy.must_stop = True  # could not go over in place
    assert isinstance(policy.make_decision_for_running_worker_group(None, None), Leave)


@pytest.mark.parametrize("checkpoints", [True, False])
def test_a_boundary_is_saved_unless_the_job_goes_without_checkpoints(monkeypatch, checkpoints):
    reports = []
    monkeypatch.setattr(
        ray.train, "report", lambda metrics, checkpoint=None: reports.append((metrics, checkpoint))
    )
    monkeypatch.setattr(link, "call", lambda *_: (7, 64))
    monkeypatch.setattr(torch.distributed, "get_rank", lambda: 0)
    monkeypatch.setattr(torch.distributed, "get_world_size", lambda: 1)
    last_epoch = Assignment("job", 1, 64, 1, grant=3, checkpoints=checkpoints)
    monkeypatch.setattr(boundary, "current", lambda: last_epoch)
    monkeypatch.setattr(torch.distributed, "get_backend", lambda: "gloo")
    assert not boundary.reach((torch.nn.Linear(1, 1),), Position(seed=0, epoch=1), 1.0, {})
    ((metrics, checkpoint),) = reports
    assert (metrics["epoch"], metrics[NEXT_GRANT]) == (0, 3)
    assert (checkpoint is not None) == checkpoints


class Steps:
    """A clock, steps that take `step_s` by it, and looks that take `LOOK_S`."""

    LOOK_S = 0.002

    def __init__(self, monkeypatch):
        self.now_s = 0.0
        self.looks = []
        monkeypatch.setattr("time.perf_counter", lambda: self.now_s)
        monkeypatch.setattr(torch.distributed, "get_rank", lambda: 0)
        monkeypatch.setattr(safe_points, "integer_from_rank_zero", self._look)

    def _look(self, value):
        self.now_s += self.LOOK_S
        self.looks.append(self.now_s)
        return value

    def take(self, clock, step_s):
        self.now_s += step_s
        return clock.is_due()

    def until_due(self, clock, step_s):
        """How long it was until a safe point was due."""
        began_s = self.now_s
        while not self.take(clock, step_s):
            assert self.now_s - began_s < 100.0
        return self.now_s - began_s


@pytest.mark.parametrize(("every_s", "step_s"), [(30.0, 0.01), (2.0, 0.01), (30.0, 0.4)])
def test_a_safe_point_comes_in_time_and_looks_cost_little(monkeypatch, every_s, step_s):
    steps = Steps(monkeypatch)
    took_s = steps.until_due(safe_points.SafePointClock(every_s), step_s)
    assert every_s <= took_s <= 1.11 * every_s + step_s
    growing = math.log2(every_s / step_s)  # the first looks, further apart each time
    assert len(steps.looks) - growing <= 0.01 * took_s / steps.LOOK_S


def test_steps_that_get_slower_are_seen_in_time(monkeypatch):
    steps = Steps(monkeypatch)
    clock = safe_points.SafePointClock(10.0)
    assert not any(steps.take(clock, 0.001) for _ in range(3))
    assert steps.until_due(clock, 0.5) <= 11.5


def test_a_look_that_takes_long_is_taken_seldom(monkeypatch):
    steps = Steps(monkeypatch)
    steps.LOOK_S = 0.1
    clock = safe_points.SafePointClock(1.0)
    for _ in range(20_000):
        if steps.take(clock, 0.001):
            break
    assert len(steps.looks) <= 15


def test_device_time_is_the_local_batch_over_the_rate_of_all_gpus_of_a_worker():
    two_gpus = Assignment("job", 1, 64, gpus_per_worker=2, simulated_samples_per_s=100.0)
    assert device_time.step_s(two_gpus, local_batch=32) == pytest.approx(0.16)
    assert device_time.step_s(Assignment("job", 1, 64, 1), local_batch=32) == 0.0


def test_device_time_is_longer_on_slower_gpus():
    slow = Assignment("job", 1, 64, 1, simulated_samples_per_s=100.0, gpu_rate=0.25)
    assert device_time.step_s(slow, local_batch=32) == pytest.approx(0.32 * 4)


def test_the_rate_comes_from_the_environment(monkeypatch):
    monkeypatch.delenv(device_time.VARIABLE, raising=False)
    assert device_time.samples_per_s() is None
    monkeypatch.setenv(device_time.VARIABLE, "800")
    assert device_time.samples_per_s() == 800.0
    monkeypatch.setenv(device_time.VARIABLE, "-3")
    with pytest.raises(UserError, match="'-3' is not a rate; use a positive number or unset it"):
        device_time.samples_per_s()


@pytest.mark.parametrize(
    ("wrong", "message"),
    [
        ({"epochs": 0}, "epochs: is 0; use 1 or more"),
        ({"epochs": 2.5}, "epochs: is 2.5; use a whole number"),
        ({"workers": (4, 1)}, "workers: the minimum 4 is above the maximum 1"),
        ({"workers": (1, 2, 3)}, r"workers: is \(1, 2, 3\); write a number or \(min, max\)"),
        ({"workers": "two"}, "workers: is 'two'; write a number"),
        ({"batch_size": -1}, "batch_size: is -1; use 1 or more"),
        ({"batch_size": 2.5}, r"batch_size: is 2.5; write a number or \(min, max\)"),
        ({"batch_size": (64, 32)}, "batch_size: the minimum 64 is above the maximum 32"),
        ({"batch_size": (8, True)}, "batch_size: is True; use a whole number"),
        ({"learning_rate": "cubic"}, "learning_rate: is 'cubic'; use one of 'linear', 'sqrt', "),
        ({"warmup_steps": -1}, "warmup_steps: is -1; use 0 or more"),
        ({"max_local_batch": 0}, "max_local_batch: is 0; use 1 or more"),
        ({"deadline": "soon"}, "deadline: 'soon' is not a duration; write 90s"),
        ({"expected": 0}, "expected: 0.0 s is not a time to come"),
        ({"gpu_type": "T4", "mixes_gpus": True}, "mixes_gpus: with gpu_type='T4' there is but one"),
        ({"workers": (1, 2), "checkpoints": False}, "checkpoints: a job without them starts over"),
        ({"checkpoint": __file__}, "checkpoint: .*test_training.py is a file; name a directory"),
    ],
)
def test_bad_input_names_the_field_and_the_mend(wrong, message):
    with pytest.raises(InvalidJob, match=message):
        TorchTrainer(print, **{"epochs": 1, "workers": 1, "batch_size": 8} | wrong)


def test_a_trainer_is_described_as_a_job():
    def learn():
        pass

    spec = TorchTrainer(learn, epochs=3, workers=(1, 4), batch_size=64, deadline="2h").spec
    assert (spec.name, spec.min_workers, spec.max_workers, spec.deadline_s) == ("learn", 1, 4, 7200)


@pytest.mark.parametrize(
    ("given", "admissible"),
    [
        (64, (64,)),
        ((64, 64), (64,)),
        ((64, 512), (64, 128, 256, 512)),
        ((48, 500), (48, 96, 192, 384)),
    ],
)
def test_a_range_of_batch_sizes_is_the_least_one_doubled(given, admissible):
    spec = TorchTrainer(print, epochs=1, workers=2, batch_size=given).spec
    assert (spec.batch_size, spec.admissible) == (admissible[0], admissible)


def test_and_says_what_gpus_it_may_run_on():
    spec = TorchTrainer(
        print, epochs=1, workers=2, batch_size=8, gpu_type="T4", checkpoints=False
    ).spec
    assert (spec.gpu_type, spec.mixes_gpus, spec.checkpoints) == ("T4", False, False)


def test_a_journal_is_told_of_metrics_that_it_can_hold():
    """A loss that diverged must not stop its job at the boundary."""
    told = numbers({"loss": float("nan"), "peak": float("inf"), "accuracy": 1, "name": "digits"})
    assert told == {"accuracy": 1.0}
