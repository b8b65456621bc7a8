"""Measuring steps and all-reduces, with real torch and real processes."""

from __future__ import annotations

import random
import time
from concurrent.futures import ProcessPoolExecutor
from multiprocessing import get_context

import numpy as np
import pytest
import torch
import torch.distributed as dist

from raysched.runtime import assignment, link, loop, parallel, profiler
from raysched.runtime.assignment import Assignment, ToProfile
from raysched.runtime.local import free_port

FITS = 8


def training():
    """A model with weights, statistics and random numbers of its own, and what trains it."""
    torch.manual_seed(0)
    model = torch.nn.Sequential(
        torch.nn.Linear(4, 8), torch.nn.BatchNorm1d(8), torch.nn.Dropout(), torch.nn.Linear(8, 2)
    )
    return model, torch.optim.Adam(model.parameters())


def step_of(model, optimizer, limit=10**9):
    def step(local_batch):
        if local_batch > limit:
            raise torch.OutOfMemoryError
        random.random()
        np.random.random()
        optimizer.zero_grad()
        model(torch.randn(local_batch, 4)).square().mean().backward()
        optimizer.step()

    return step


def everything(model, optimizer):
    return [
        *(value.clone() for value in model.state_dict().values()),
        torch.get_rng_state(),
        str(optimizer.state_dict()),
        random.getstate(),
        str(np.random.get_state()),
    ]


def same(ours, theirs):
    return all(
        torch.equal(a, b) if isinstance(a, torch.Tensor) else a == b
        for a, b in zip(ours, theirs, strict=True)
    )


@pytest.mark.parametrize("trained", [False, True])
def test_what_training_changes_is_put_back(trained):
    model, optimizer = training()
    step = step_of(model, optimizer)
    if trained:
        step(4)
    before = everything(model, optimizer)
    timer = profiler.measure((model, optimizer), step, (2, 4, 8))
    assert sorted(timer.step_s) == [2, 4, 8]
    assert all(seconds > 0 for seconds in timer.step_s.values())
    assert same(before, everything(model, optimizer))
    assert all(p.grad is None for p in model.parameters())
    step(4)
    assert not same(before, everything(model, optimizer))  # so that it can be told


def test_out_of_memory_marks_the_limit_and_is_put_back_too():
    model, optimizer = training()
    before = everything(model, optimizer)
    step = step_of(model, optimizer, limit=FITS)
    timer = profiler.measure((model, optimizer), step, (2, FITS, 16, 32))
    assert (sorted(timer.step_s), timer.fitting) == ([2, FITS], FITS)
    assert same(before, everything(model, optimizer))


def test_what_fits_has_no_limit_and_other_errors_are_the_users():
    model, optimizer = training()
    timer = profiler.measure((model, optimizer), step_of(model, optimizer), (2, 4))
    assert timer.fitting is None

    def fails(local_batch):
        raise RuntimeError("the user's")

    with pytest.raises(RuntimeError, match="the user's"):
        profiler.measure((model, optimizer), fails, (2, 4))


def test_steps_take_what_the_loop_takes():
    timer = profiler.StepTimer((1, 3))
    for local_batch in timer.steps():
        time.sleep(0.01 * local_batch)
    assert timer.step_s[1] >= 0.01
    assert timer.step_s[3] >= 0.03


def test_gradients_that_are_averaged_are_counted():
    model = torch.nn.Linear(10, 5)
    assert profiler.weights_bytes(model) == 4 * (50 + 5)
    model.bias.requires_grad = False
    assert profiler.weights_bytes(model) == 4 * 50


def test_a_larger_batch_is_expected_to_take_memory_as_the_last_two_did():
    assert profiler.expected_bytes({2: 90, 4: 100, 8: 140}, 16) == 140 + 80


@pytest.fixture
def alone(monkeypatch):
    """The one worker of a job that is to be profiled, and what it says."""
    told = []
    monkeypatch.setattr(link, "say", lambda *said: told.append(said))
    address = f"tcp://127.0.0.1:{free_port()}"
    dist.init_process_group("gloo", init_method=address, rank=0, world_size=1)
    yield told
    dist.destroy_process_group()


def test_a_training_loop_rehearses_and_then_trains_as_if_it_had_not(alone, monkeypatch):
    part = Assignment("job", 1, 10, 1, grant=7, profiles=ToProfile((2, 50)))
    monkeypatch.setattr(assignment, "_current", part)

    def train(profiles):
        model, optimizer = training()
        prepared = loop.prepare(model)
        monkeypatch.setattr(loop._Running, "stateful", (prepared, optimizer))
        monkeypatch.setattr(loop._Running, "profiles", profiles)
        sizes = []
        for indices, weight in loop.batches(37):
            sizes.append(len(indices))
            optimizer.zero_grad()
            (weight * prepared(torch.randn(len(indices), 4)).square().mean()).backward()
            optimizer.step()
        return sizes, everything(model, optimizer)

    rehearsed, ours = train(profiles=True)
    steps, theirs = train(profiles=False)
    times = profiler.WARM_UP_STEPS + profiler.STEPS
    assert rehearsed == [2] * times + [50] * times + steps
    assert same(ours, theirs)
    ((method, job, grant, profile, reduced),) = alone
    assert (method, job, grant, reduced) == ("profiled", "job", 7, {})
    assert (profile.samples, sorted(profile.step_s), profile.fitting) == (37, [2, 50], None)
    assert profile.weights_bytes == 4 * (4 * 8 + 8 + 2 * 8 + 8 * 2 + 2)


def _worker(rank, port):
    address = f"tcp://127.0.0.1:{port}"
    dist.init_process_group("gloo", init_method=address, rank=rank, world_size=2)
    model, optimizer = training()
    averaged = parallel.replicate(model)
    averaged.join_group()
    before = everything(model, optimizer)
    step = step_of(averaged, optimizer)
    # Were gradients averaged, one worker would wait for the other's steps for ever.
    sizes = (2, 4) if rank == 0 else (2,)
    timer = profiler.measure((model, optimizer), step, sizes)
    unchanged = same(before, everything(model, optimizer))
    step(2)  # and now they are averaged again
    weight = float(model[0].weight.sum())
    reduced = profiler.all_reduce_s((2,), torch.device("cpu"))
    dist.barrier()
    dist.destroy_process_group()
    return sorted(timer.step_s), unchanged, weight, reduced


def test_two_workers_step_apart_and_reduce_together():
    with ProcessPoolExecutor(2, mp_context=get_context("spawn")) as pool:
        (first, *ours), (second, *theirs) = pool.map(_worker, (0, 1), [free_port()] * 2)
    assert (first, second) == ([2, 4], [2])
    assert ours[0] and theirs[0]
    assert ours[1] == pytest.approx(theirs[1])
    for reduced in (ours[2], theirs[2]):
        assert sorted(reduced[2]) == sorted(profiler.ALL_REDUCE_BYTES)
        assert all(seconds > 0 for seconds in reduced[2].values())
