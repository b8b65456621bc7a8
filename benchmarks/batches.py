"""Batches whose size a policy changes, and that workers share by speed: what they do to training.

    python -m benchmarks.batches [--json]

Accuracy: the demo's digits, trained with one batch size, and with batch sizes that change at random
epochs inside a range (as 003, Fig. 2). Mixed GPUs: two workers in real processes, where a sample
takes (asleep) four times as long on one as on the other, which nobody told. Cost: what of a step
the loop itself takes.
"""

from __future__ import annotations

import json
import statistics
import tempfile
import time
from collections.abc import Callable, Mapping
from dataclasses import replace
from pathlib import Path
from typing import Any

import click
import numpy as np
import torch

from benchmarks import report
from raysched.demo.digits import load_digits, train
from raysched.runtime import loop
from raysched.runtime.assignment import Assignment
from raysched.runtime.learning_rate import Following
from tests.lone_worker import Worker, in_processes, processes
from tests.training_loops import share_batches

RANGE = (64, 128, 256, 512)
EPOCHS = 40
PATTERNS = 5
CHANGES = 6  # of the batch size in a pattern
WARMUP_STEPS = 50
ACCURACY_TARGET = 0.01

SAMPLES_PER_S = 400.0  # of the fast worker
SLOW_RATE = 0.25
BATCH_SIZE = 256
MIXED_EPOCHS = 5
MIXED_SAMPLES = 6 * BATCH_SIZE

COST_TARGET = 0.01
COST_SAMPLES = 64 * 400


def accuracies() -> dict[str, list[float]]:
    """Final accuracy on the test images, by how the batch size went: one number a pattern."""
    told = Assignment("digits", EPOCHS, RANGE[0], 1)
    found = {"fixed": [_accuracy(told, {}, order) for order in range(PATTERNS)]}
    for rule in ("fixed", "sqrt", "linear"):
        following = Following(RANGE[0], rule, WARMUP_STEPS)
        found[f"changing, learning rate {rule}"] = [
            _accuracy(replace(told, learning_rate=following), pattern(seed), seed)
            for seed in range(PATTERNS)
        ]
    return found


def pattern(seed: int) -> dict[int, int]:
    """A batch size other than the one before, by the epoch from which it stands."""
    random = np.random.default_rng(seed)
    sizes, standing = {}, RANGE[0]
    for epoch in sorted(random.choice(np.arange(1, EPOCHS), CHANGES, replace=False).tolist()):
        standing = int(random.choice([size for size in RANGE if size != standing]))
        sizes[epoch] = standing
    return sizes


def _accuracy(told: Assignment, batch_sizes: dict[int, int], seed: int) -> float:
    """`seed` sets the order of the images, which is that of the batches too."""
    data = load_digits()
    is_test = np.arange(len(data["labels"])) % 5 == 0
    shuffled = np.arange(len(is_test))
    shuffled[~is_test] = np.random.default_rng(seed).permutation(shuffled[~is_test])
    worker = Worker(told, batch_sizes)
    with tempfile.TemporaryDirectory() as directory, worker.here(Path(directory) / "meeting"):
        train({"data": {name: values[shuffled] for name, values in data.items()}})
    return float(worker.reports[-1]["accuracy"])


def mixed() -> list[list[tuple[int, float]]]:
    """What each of two workers saw, by epoch: samples of a batch, and seconds of a step."""
    told = Assignment("mixed", MIXED_EPOCHS, BATCH_SIZE, 1, mixes_gpus=True)
    workers = [Worker(told, rank=rank, workers=2) for rank in range(2)]
    sample_s = (1 / SAMPLES_PER_S, 1 / (SAMPLES_PER_S * SLOW_RATE))
    with tempfile.TemporaryDirectory() as directory, processes(2) as pool:
        meeting = Path(directory) / "meeting"
        return in_processes(pool, share_batches, workers, meeting, MIXED_SAMPLES, sample_s)


def cost() -> dict[str, float]:
    """Median microseconds of a step of the digits model: in all, and what the loop takes of it."""
    told = Assignment("cost", 3, RANGE[0], 1, learning_rate=Following(32, "linear"))
    with (
        tempfile.TemporaryDirectory() as directory,
        Worker(told).here(Path(directory) / "meeting"),
    ):
        return _cost()


def _cost() -> dict[str, float]:
    from raysched.demo.digits import build_model

    model = loop.prepare(build_model())
    inputs = torch.zeros(RANGE[0], 64)
    labels = torch.zeros(RANGE[0], dtype=torch.int64)
    bare = torch.optim.Adam(model.parameters())
    driven = torch.optim.Adam(model.parameters())

    def step(optimizer: Any) -> None:
        optimizer.zero_grad()
        torch.nn.functional.cross_entropy(model(inputs), labels).backward()
        optimizer.step()

    for epoch in loop.epochs(driven):
        if epoch == 0:
            step_us = _median_us(lambda: step(bare), COST_SAMPLES // RANGE[0])
        elif epoch == 1:
            deal_us = _median_us(loop.batches(COST_SAMPLES).__next__, COST_SAMPLES // RANGE[0])
        else:
            driven.zero_grad()  # no gradients: what is left is the hooks
            bare.zero_grad()
            with_us = _median_us(driven.step, 2000)
            hooks_us = with_us - _median_us(bare.step, 2000)
    return {"step": step_us, "dealing": deal_us, "learning rate": hooks_us}


def _median_us(work: Callable[[], object], times: int) -> float:
    took = []
    for _ in range(times):
        began = time.perf_counter()
        work()
        took.append(time.perf_counter() - began)
    return statistics.median(took) * 1e6


def _text(found: Mapping[str, Any]) -> str:
    fixed = statistics.mean(found["accuracy"]["fixed"])
    rows = [
        (name, f"{statistics.mean(seen):.4f}", f"{min(seen):.4f}", f"{max(seen):.4f}",
         f"{statistics.mean(seen) - fixed:+.4f}")
        for name, seen in found["accuracy"].items()
    ]  # fmt: skip
    off = max(abs(statistics.mean(seen) - fixed) for seen in found["accuracy"].values())
    accuracy = report.table(("batch size", "accuracy", "least", "most", "off"), rows)
    accuracy += f"\n\ntarget: off by {ACCURACY_TARGET} at most: {_met(off <= ACCURACY_TARGET)}"
    ideal_s = BATCH_SIZE / (SAMPLES_PER_S * (1 + SLOW_RATE))
    fast, slow = found["mixed"]
    shares = report.table(
        ("epoch", "fast", "slow", "step s", "over ideal"),
        [
            (str(epoch), str(more), str(less), f"{step_s:.3f}", f"{step_s / ideal_s - 1:+.1%}")
            for epoch, ((more, step_s), (less, _)) in enumerate(zip(fast, slow, strict=True))
        ],
    )
    step_us = found["cost"]["step"]
    costs = report.table(
        ("of a step", "us", "share"),
        [(name, f"{us:.1f}", f"{us / step_us:.2%}") for name, us in found["cost"].items()],
    )
    share = sum(us for name, us in found["cost"].items() if name != "step") / step_us
    costs += f"\n\ntarget: {COST_TARGET:.0%} of a step at most: {_met(share <= COST_TARGET)}"
    return "\n\n".join((accuracy, f"{shares}\n\nideal: {ideal_s:.3f} s a step", costs))


def _met(met: bool) -> str:
    return "met" if met else "NOT MET"


@click.command()
@click.option("--json", "as_json", is_flag=True, help="Print numbers instead of tables.")
def main(as_json: bool) -> None:
    """Measure what changing and shared batches do to training."""
    torch.set_num_threads(1)
    found = {"accuracy": accuracies(), "mixed": mixed(), "cost": cost()}
    click.echo(json.dumps(found) if as_json else _text(found))


if __name__ == "__main__":
    main()
