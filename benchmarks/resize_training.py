"""What the resize benchmark trains, in our loop and in one of stock Ray Train, and what it marks.

Every worker writes a line a step to a file of its own: when, in which epoch, among how many, with
which samples. A pause is read from rank 0's lines, and so is the same for every way of resizing.
"""

from __future__ import annotations

import json
import os
import tempfile
import time
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

SAMPLES = 2048
FEATURES = 32
BATCH_SIZE = 64
SAMPLES_PER_S = 256.0
"""Of one simulated GPU: an epoch takes 8 s on one worker, so that joiners can get warm in two."""


class Marks:
    """A file that one worker writes, a line as JSON for each step and phase."""

    def __init__(self, folder: str) -> None:
        self._path = Path(folder) / f"{os.getpid()}-{time.time_ns()}.jsonl"
        self._lines = self._path.open("w", buffering=1)

    def note(self, **what: Any) -> None:
        """Add a line; `at_s` is the wall clock, the same for all processes of this machine."""
        self._lines.write(json.dumps({"at_s": time.time(), **what}) + "\n")


def read(folder: Path) -> list[dict[str, Any]]:
    """All lines of all workers, in order of time; `worker` tells whose a line is."""
    lines = [
        {"worker": path.stem, **json.loads(line)}
        for path in folder.glob("*.jsonl")
        for line in path.read_text().splitlines(keepends=True)
        if line.endswith("\n")  # the last one may be half written
    ]
    return sorted(lines, key=lambda line: line["at_s"])


def problem() -> tuple[Any, Any, Any]:
    """Samples, targets and a model without batch norm or dropout, equal in every process."""
    import torch

    torch.set_num_threads(1)
    torch.manual_seed(0)
    samples = torch.randn(SAMPLES, FEATURES)
    targets = torch.tanh(samples.sum(dim=1, keepdim=True))
    layers = [torch.nn.Linear(FEATURES, 256), torch.nn.ReLU(), torch.nn.Linear(256, 1)]
    return samples, targets, torch.nn.Sequential(*layers)


def ours(config: dict[str, Any]) -> None:
    """As a user writes it, with marks."""
    import torch
    from torch.nn.functional import mse_loss

    import raysched

    marks = Marks(config["marks"])
    _mark_phases(marks)
    samples, targets, net = problem()
    model = raysched.prepare(net)
    optimizer = torch.optim.Adam(model.parameters(), lr=1e-3)
    for epoch in raysched.epochs(model, optimizer):
        steps = _timed(raysched.batches(SAMPLES))
        for own_s, (indices, weight) in steps:
            loss = weight * mse_loss(model(samples[indices]), targets[indices])
            optimizer.zero_grad()
            loss.backward()
            optimizer.step()
            drawn = indices.tolist() if weight else []
            marks.note(own_s=own_s, **_place(), epoch=epoch, drawn=drawn)
        with torch.no_grad():
            raysched.report(loss=float(mse_loss(net(samples), targets)))


def stock(config: dict[str, Any]) -> None:
    """The same training as a function of stock Ray Train, with a checkpoint after each epoch.

    Returns after `config["last_epoch"]`, if that is given.
    """
    import ray.train
    import torch
    from torch.nn.functional import mse_loss
    from torch.nn.parallel import DistributedDataParallel

    marks = Marks(config["marks"])
    samples, targets, net = problem()
    optimizer = torch.optim.Adam(net.parameters(), lr=1e-3)
    first = 0
    if (checkpoint := ray.train.get_checkpoint()) is not None:
        with checkpoint.as_directory() as folder:
            saved = torch.load(Path(folder) / "state.pt", weights_only=False)
        net.load_state_dict(saved["model"])
        optimizer.load_state_dict(saved["optimizer"])
        first = saved["epoch"] + 1
    place = _place()
    rank, workers = place["rank"], place["workers"]
    model = DistributedDataParallel(net) if workers > 1 else net
    for epoch in range(first, config["epochs"]):
        order = torch.randperm(SAMPLES, generator=torch.Generator().manual_seed(epoch))
        for batch in order.split(BATCH_SIZE):
            indices = batch[rank::workers]
            time.sleep(len(indices) / SAMPLES_PER_S)
            loss = mse_loss(model(samples[indices]), targets[indices])
            optimizer.zero_grad()
            loss.backward()
            optimizer.step()
            marks.note(**place, epoch=epoch, drawn=indices.tolist())
        with tempfile.TemporaryDirectory() as folder:
            saved = {"model": net.state_dict(), "optimizer": optimizer.state_dict(), "epoch": epoch}
            torch.save(saved, Path(folder) / "state.pt")
            written = ray.train.Checkpoint.from_directory(folder) if rank == 0 else None
            ray.train.report({"epoch": epoch}, checkpoint=written)
        if epoch == config.get("last_epoch"):
            return


def _place() -> dict[str, int]:
    import torch.distributed as dist

    return {"rank": dist.get_rank(), "workers": dist.get_world_size()}


def _timed(steps: Iterator[Any]) -> Iterator[tuple[float, Any]]:
    """Each step with the CPU seconds that drawing it took in the library (it also sleeps there)."""
    while True:
        began_s = time.thread_time()
        try:
            step = next(steps)
        except StopIteration:
            return
        yield time.thread_time() - began_s, step


def _mark_phases(marks: Marks) -> None:
    """Have the loop's parts of a resize note how long each took."""
    from raysched.runtime import boundary, gate, parallel, process_group, state

    def marked(phase: str, work: Callable[..., Any]) -> Callable[..., Any]:
        def measured(*arguments: Any, **named: Any) -> Any:
            began_s = time.time()
            try:
                return work(*arguments, **named)
            finally:
                marks.note(phase=phase, took_s=time.time() - began_s)

        return measured

    for phase, module, name in (
        ("boundary asked and saved", boundary, "reach"),
        ("let go on by the controller", gate, "wait"),
        ("process group", process_group, "join"),
        ("models", parallel, "join_group"),
        ("other state", state, "share"),
    ):
        setattr(module, name, marked(phase, getattr(module, name)))
