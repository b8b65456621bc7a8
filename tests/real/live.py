"""A live scheduler on the cluster of a test, and what can be seen of it."""

from __future__ import annotations

import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any

import psutil
import pytest

from raysched import api
from raysched.history import History
from raysched.journal import Journal, Row
from raysched.runtime import device_time

PATIENCE_S = 120.0


@contextmanager
def live_scheduler(
    policy: str, folder: Path, *, samples_per_s: float | None = None
) -> Iterator[api.Connection]:
    """A scheduler that lends nothing, with its journal in the folder.

    `samples_per_s`: of one simulated GPU, for the trainers that are made meanwhile; None: GPUs have
    no device time.
    """
    with pytest.MonkeyPatch.context() as environment:
        if samples_per_s is not None:
            environment.setenv(device_time.VARIABLE, str(samples_per_s))
        found = api.connect(policy, "off", journal=folder / "journal.db")
        try:
            yield found
        finally:
            api.stop()


def job(name: str) -> dict[str, Any]:
    """The job as the scheduler sees it now."""
    found = [job for job in api.status()["jobs"] if job["job"] == name]
    return found[0] if found else {"phase": "", "workers": 0, "epochs_done": 0}


def has_trained(name: str, epochs: int) -> Callable[[], bool]:
    return lambda: job(name)["epochs_done"] >= epochs


def wait_for(condition: Callable[[], Any], what: str) -> None:
    give_up_s = time.monotonic() + PATIENCE_S
    while not condition():
        assert time.monotonic() < give_up_s, f"waited in vain for {what}: {api.status()['jobs']}"
        time.sleep(0.05)


def processes(title: str) -> list[int]:
    """Processes of this test session that Ray titled so."""
    children = psutil.Process().children(recursive=True)
    return [c.pid for c in children if f"ray::{title}" in " ".join(c.cmdline())]


def journal_rows() -> list[Row]:
    """What the scheduler has written so far."""
    journal = Journal(api.journal_path(), must_exist=True)
    try:
        return list(journal.rows())
    finally:
        journal.close()


def history() -> History:
    """What the journal tells so far."""
    return History(journal_rows())
