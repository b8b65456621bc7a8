"""How well a profile predicts throughput at sizes that were not profiled.

    python -m benchmarks.profile [--json]

Three small models train in real processes that average gradients over real sockets, on simulated
GPUs (`raysched.runtime.device_time`). Two workers profile a model as a job's first workers do; then
steps are timed on one to four workers. On one worker, and on two, the steps or the all-reduces were
part of the profile; the sizes beyond are those that count.
"""

from __future__ import annotations

import json
import os
from collections.abc import Sequence
from concurrent.futures import ProcessPoolExecutor
from dataclasses import asdict, dataclass
from multiprocessing import get_context
from typing import Any

import click
import numpy as np

from benchmarks import report
from raysched.demo.workload import SAMPLES_PER_S
from raysched.jobs import JobSpec
from raysched.performance import EpochTimes, predicted_epoch_s
from raysched.profile import Profile, Ring, epoch_s, to_measure
from raysched.runtime.local import free_port

PROFILED_ON = 2  # workers of a job's first grant
WORKERS = 4
BATCH_SIZES = (64, 128, 256)
EPOCH_SAMPLES = 1024
TARGET = 0.15
_COLUMNS = ("model", "batch", "workers", "measured/s", "profile/s", "off", "corrected/s", "off")


@dataclass(frozen=True, slots=True)
class Size:
    """Samples a second of one model on so many workers."""

    model: str
    batch_size: int
    workers: int
    measured_per_s: float
    predicted_per_s: float
    corrected_per_s: float
    """Once an epoch of the first batch size on the first grant was reported."""

    @property
    def beyond(self) -> bool:
        """Whether nothing was measured on so many workers."""
        return self.workers > PROFILED_ON

    def off(self, predicted_per_s: float) -> float:
        """Relative error."""
        return abs(predicted_per_s / self.measured_per_s - 1)


def build(name: str) -> Any:
    """A small model over 64 numbers that tells 10 classes apart."""
    from torch import nn

    if name == "perceptron":
        layers = [nn.Linear(64, 1024), nn.ReLU(), nn.Linear(1024, 1024), nn.ReLU()]
        return nn.Sequential(*layers, nn.Linear(1024, 10))
    if name == "convolution":
        layers = [nn.Conv2d(1, 16, 3, padding=1), nn.ReLU(), nn.Conv2d(16, 32, 3, padding=1)]
        return nn.Sequential(nn.Unflatten(1, (1, 8, 8)), *layers, nn.Flatten(), nn.Linear(2048, 10))
    encoder = nn.TransformerEncoderLayer(64, 4, 256, batch_first=True)
    layers = [nn.Unflatten(1, (8, 8)), nn.Linear(8, 64), nn.TransformerEncoder(encoder, 2)]
    return nn.Sequential(*layers, nn.Flatten(), nn.Linear(512, 10))


MODELS = ("perceptron", "convolution", "transformer")


def spec_of(model: str) -> JobSpec:
    """The job that trains it."""
    return JobSpec(model, 1, 1, WORKERS, BATCH_SIZES[0], batch_sizes=BATCH_SIZES)


def train(rank: int, port: int, name: str) -> dict[str, Any]:
    """One worker: profiles as one of the first two, then takes steps on each number of workers."""
    import torch
    import torch.distributed as dist

    from raysched.runtime import profiler

    torch.set_num_threads(1)
    address = f"tcp://127.0.0.1:{port}"
    dist.init_process_group("gloo", init_method=address, rank=rank, world_size=WORKERS)
    torch.manual_seed(0)
    model = build(name)
    optimizer = torch.optim.SGD(model.parameters(), lr=0.01)
    profiled: dict[int, float] = {}
    if rank < PROFILED_ON:
        step = _step_of(model, optimizer)
        timer = profiler.measure((model, optimizer), step, to_measure(spec_of(name)))
        profiled = timer.step_s
    dist.barrier()
    all_reduce_s = profiler.all_reduce_s((PROFILED_ON,), torch.device("cpu"))
    measured = {}
    for workers in range(1, WORKERS + 1):
        group = dist.new_group(list(range(workers)))
        if rank < workers:
            averaged = torch.nn.parallel.DistributedDataParallel(model, process_group=group)
            step = _step_of(averaged if workers > 1 else model, optimizer)
            share = {len(range(rank, batch, workers)): batch for batch in BATCH_SIZES}
            synchronised = profiler.StepTimer(tuple(share))
            for local_batch in synchronised.steps():
                step(local_batch)
            measured[workers] = {share[b]: s for b, s in synchronised.step_s.items()}
        dist.barrier()
    return {
        "weights_bytes": profiler.weights_bytes(model),
        "step_s": profiled,
        "all_reduce_s": all_reduce_s,
        "measured_s": measured,
    }


def _step_of(model: Any, optimizer: Any) -> Any:
    import torch

    from raysched.runtime import device_time
    from raysched.runtime.assignment import Assignment

    here = Assignment("", 1, 0, gpus_per_worker=1, simulated_samples_per_s=SAMPLES_PER_S)

    def step(local_batch: int) -> None:
        device_time.hold(here, local_batch)
        labels = torch.randint(10, (local_batch,))
        loss = torch.nn.functional.cross_entropy(model(torch.randn(local_batch, 64)), labels)
        optimizer.zero_grad()
        loss.backward()
        optimizer.step()

    return step


def compare(name: str) -> list[Size]:
    """One model at every size: measured, and predicted from what its first workers measured."""
    port = free_port()
    with ProcessPoolExecutor(WORKERS, mp_context=get_context("spawn")) as pool:
        first, *_ = pool.map(train, range(WORKERS), [port] * WORKERS, [name] * WORKERS)
    spec = spec_of(name)
    profile = Profile(EPOCH_SAMPLES, first["weights_bytes"], first["step_s"])
    profiled_s = epoch_s(spec, profile, Ring.fitted(first["all_reduce_s"]))
    measured_s = {
        (workers, batch): step_s * EPOCH_SAMPLES / batch
        for workers, by_batch in first["measured_s"].items()
        for batch, step_s in by_batch.items()
    }
    reported = EpochTimes({PROFILED_ON: measured_s[PROFILED_ON, BATCH_SIZES[0]]})
    corrected_s = predicted_epoch_s(spec, {BATCH_SIZES[0]: reported}, {}, profiled_s)
    return [
        Size(
            name,
            batch,
            workers,
            EPOCH_SAMPLES / measured_s[workers, batch],
            float(EPOCH_SAMPLES / profiled_s[row, workers - 1]),
            float(EPOCH_SAMPLES / corrected_s[row, workers - 1]),
        )
        for row, batch in enumerate(BATCH_SIZES)
        for workers in range(1, WORKERS + 1)
    ]


def summary(sizes: Sequence[Size]) -> dict[str, float | bool]:
    """Median errors, of sizes with more workers than any that was profiled and of all."""
    beyond = [size for size in sizes if size.beyond]
    median_off = float(np.median([size.off(size.predicted_per_s) for size in beyond]))
    return {
        "median_off": median_off,
        "worst_off": max(size.off(size.predicted_per_s) for size in beyond),
        "median_off_of_all": float(np.median([s.off(s.predicted_per_s) for s in sizes])),
        "median_off_corrected": float(np.median([s.off(s.corrected_per_s) for s in beyond])),
        "target": TARGET,
        "met": median_off <= TARGET,
    }


def text(sizes: Sequence[Size], found: dict[str, float | bool]) -> str:
    """The table and what it comes to, as markdown that reads well on a terminal."""
    rows = [
        (
            size.model,
            str(size.batch_size),
            f"{size.workers}{'' if size.beyond else ' (profiled)'}",
            f"{size.measured_per_s:.0f}",
            f"{size.predicted_per_s:.0f}",
            f"{size.off(size.predicted_per_s):.1%}",
            f"{size.corrected_per_s:.0f}",
            f"{size.off(size.corrected_per_s):.1%}",
        )
        for size in sizes
    ]
    load = os.getloadavg()[0]
    return (
        f"{report.table(_COLUMNS, rows)}\n\n"
        f"Throughput on more workers than were profiled is predicted within "
        f"{found['median_off']:.1%} (median; worst {found['worst_off']:.1%}), "
        f"{found['median_off_corrected']:.1%} once an epoch was reported; target {TARGET:.0%}: "
        f"{'met' if found['met'] else 'MISSED'}.\n"
        f"Device time was simulated: {SAMPLES_PER_S:.0f} samples a second on each GPU, as in the "
        f"demo. {load:.1f} processes ran on {os.cpu_count()} cores in the last minute: others that "
        "come and go between a profile and what it is compared with are an error, too."
    )


@click.command(help=__doc__)
@click.option("--json", "as_json", is_flag=True, help="For programs.")
def main(as_json: bool) -> None:
    sizes = []
    for number, name in enumerate(MODELS, 1):
        click.echo(f"{number}/{len(MODELS)} {name}", err=True)
        sizes += compare(name)
    found = summary(sizes)
    document = {"sizes": [asdict(size) for size in sizes], "machine": report.machine(), **found}
    click.echo(json.dumps(document, indent=2) if as_json else text(sizes, found))


if __name__ == "__main__":
    main()
