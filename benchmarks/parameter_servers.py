"""Asynchronous training on real Ray: steps a second by workers, and what a change of counts costs.

    python -m benchmarks.parameter_servers [--json]

One job on a cluster of simulated GPUs, under a live scheduler whose policy is told its sizes; both
workers and parameter servers come and go. Steps are mini-batches of any worker. A change takes from
the end of the last epoch before it to the first one after it, the checkpoint of that boundary and
the answer of the scheduler included.
"""

from __future__ import annotations

import json
import math
import sys
import tempfile
import time
from pathlib import Path
from statistics import median
from typing import Any

import click

import raysched
from benchmarks import resize_ways as ways
from benchmarks.report import machine, table
from raysched import api
from raysched.demo import digits
from raysched.history import History, JobHistory
from raysched.journal import Journal

SIZES = (1, 2, 4, 2, 1)
EPOCHS_EACH = 2
BATCH_SIZE = 32
CHUNKS = 15
EPOCHS = 24
PATIENCE_S = 120.0
POLL_S = 0.1


@click.command()
@click.option("--json", "as_json", is_flag=True, help="Print one JSON object.")
def main(as_json: bool) -> None:
    """Train the digits on 1, 2, 4, 2 and 1 workers, with a parameter server for every two."""
    sys.path.insert(0, str(ways.POLICIES))
    with tempfile.TemporaryDirectory(prefix="servers-") as folder, ways.cluster():
        found = measure(Path(folder))
    click.echo(json.dumps(found) if as_json else text(found))


def measure(folder: Path) -> dict[str, Any]:
    """Train on all sizes in turn, and read the journal."""
    raysched.connect("sized", journal=folder / "journal.db")
    raysched.set_policy("sized", policy_parameters={"workers": SIZES[0]})
    trainer = raysched.ParameterServerTrainer(
        digits.train,
        epochs=EPOCHS,
        workers=(1, max(SIZES)),
        batch_size=BATCH_SIZE,
        chunks=CHUNKS,
        workers_per_parameter_server=2,
        name="digits",
        checkpoint=folder,
        train_loop_config={"data": digits.load_digits()},
    )
    running = raysched.submit(trainer)
    for size in SIZES:
        raysched.set_policy("sized", policy_parameters={"workers": size})
        _until_trained(size, running)
    metrics = running.result(PATIENCE_S).metrics
    journal = Journal(api.journal_path(), must_exist=True)
    try:
        told = History(journal.rows()).jobs["digits"]
    finally:
        journal.close()
        raysched.stop()
    return {"machine": machine(), "accuracy": metrics["accuracy"], **_read(told)}


def text(found: dict[str, Any]) -> str:
    """As tables."""
    rates = [(str(workers), f"{rate:.1f}") for workers, rate in found["steps_per_s"].items()]
    changes = [
        (f"{change['from']} → {change['to']}", f"{change['seconds']:.2f}")
        for change in found["changes"]
    ]
    return "\n\n".join(
        (
            table(("workers", "steps a second"), rates),
            table(("workers", "change s"), changes),
            f"in place: {found['in_place']}; accuracy {found['accuracy']:.3f} after {EPOCHS} "
            f"epochs; {found['machine']}",
        )
    )


def _until_trained(size: int, running: api.JobHandle) -> None:
    """Wait until epochs were finished on so many workers."""
    deadline_s = time.monotonic() + PATIENCE_S
    since = None
    while since is None or _status()["epochs_done"] < since + EPOCHS_EACH:
        if since is None and _status()["workers"] == size:
            since = _status()["epochs_done"]
        if running.done():
            running.result()
            return
        if time.monotonic() > deadline_s:
            raise ways.Stuck(f"{size} workers were not reached in {PATIENCE_S:.0f} s")
        time.sleep(POLL_S)


def _status() -> dict[str, Any]:
    (job,) = api.status()["jobs"]
    return dict(job)


def _read(told: JobHistory) -> dict[str, Any]:
    epoch_s: dict[int, list[float]] = {}
    for epoch in told.epochs:
        epoch_s.setdefault(epoch.workers, []).append(epoch.epoch_s)
    pairs = zip(told.stretches, told.stretches[1:], strict=False)
    return {
        "steps_per_s": {
            workers: _steps() / median(seconds) for workers, seconds in sorted(epoch_s.items())
        },
        "changes": [
            {"from": before.workers, "to": after.workers, "seconds": after.start_s}
            for before, after in pairs
        ],
        "in_place": all(stretch.in_place for stretch in told.stretches[1:]),
    }


def _steps() -> int:
    """Mini-batches of an epoch; four samples in five are for training."""
    samples = len(digits.load_digits()["images"]) * 4 // 5
    return sum(
        math.ceil((samples // CHUNKS + (chunk < samples % CHUNKS)) / BATCH_SIZE)
        for chunk in range(CHUNKS)
    )


if __name__ == "__main__":
    main()
