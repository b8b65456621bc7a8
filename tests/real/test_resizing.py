"""Resizes in place under attack: whoever dies on the way, no completed epoch is lost.

A worker that comes to the rendezvous of a resize looks into a file for what to do there: that is
how a process dies at that very moment.
"""

from __future__ import annotations

import json
import os
import signal
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest

import raysched
from raysched import api
from raysched.demo import digits
from raysched.events import InferenceConfigured
from raysched.runtime import groups, link
from tests.real.live import (
    PATIENCE_S,
    has_trained,
    history,
    job,
    live_scheduler,
    processes,
    wait_for,
)
from tests.real.scripted_lender import ScriptedLender

pytestmark = [pytest.mark.attack, pytest.mark.timeout(400)]

EPOCHS = 60
SAMPLES_PER_S = 700
"""Of one simulated GPU: an epoch takes it 2 s."""


@pytest.fixture(scope="module", autouse=True)
def scheduler(ray_cluster, tmp_path_factory) -> Iterator[None]:
    """A scheduler whose policy gives each job what it is told: `resize`, `place`."""
    folder = tmp_path_factory.mktemp("scheduler")
    with live_scheduler("fifo", folder, samples_per_s=SAMPLES_PER_S):
        yield


class Run:
    """A job under way, and what to do to it."""

    def __init__(
        self,
        name: str,
        folder: Path,
        epochs: int = EPOCHS,
        servers: str = "",
        passes: int = 1,
        every: str | None = None,
    ) -> None:
        self.name = name
        self._blow = folder / "blow.json"
        trainer = raysched.TorchTrainer(
            train_under_attack,
            train_loop_config={
                "data": digits.load_digits(),
                "blow": str(self._blow),
                "passes": passes,
            },
            name=name,
            epochs=epochs,
            every=every,
            workers=(1, 4),
            batch_size=128,
            checkpoint=folder,
        )
        if servers:
            place(servers)
        else:
            resize(1)
        self.handle = raysched.submit(trainer)
        if passes == 1:
            wait_for(has_trained(name, 1), "an epoch")
        else:
            wait_for(lambda: self.status["phase"] == "running", "workers that train")

    @property
    def status(self) -> dict[str, Any]:
        return job(self.name)

    def trains_on(self, workers: int) -> None:
        """Wait until it has finished an epoch on so many workers."""
        wait_for(lambda: self.status["workers"] == workers, f"{workers} workers")
        wait_for(has_trained(self.name, self.status["epochs_done"] + 1), f"an epoch on {workers}")
        assert self.status["workers"] == workers

    def strike(self, rank: int, pid: int = 0) -> None:
        """At the rendezvous of the next resize, this rank kills a process, or itself."""
        self._blow.write_text(json.dumps({"rank": rank, "pid": pid}))

    def was_struck(self) -> bool:
        return not self._blow.exists()


def train_under_attack(config: dict[str, Any]) -> None:
    """As in the demo, but the rendezvous of a resize may be struck."""
    from raysched.runtime import process_group

    meet = process_group.join

    def join(rank: int, *place: Any) -> None:
        strike_at(Path(config["blow"]), rank)
        meet(rank, *place)

    process_group.join = join  # type: ignore[assignment]
    digits.train(config)


def strike_at(blow: Path, rank: int) -> None:
    """Kill whom the file names, if it is this rank's to do; only once."""
    if blow.exists() and json.loads(blow.read_text())["rank"] == rank:
        pid = json.loads(blow.read_text())["pid"]
        blow.unlink()
        os.kill(pid or os.getpid(), signal.SIGKILL)


def resize(workers: int) -> None:
    api.set_policy("sized", loaning(), policy_parameters={"workers": workers})


def place(servers: str) -> None:
    api.set_policy("sized", loaning(), policy_parameters={"servers": servers})


def loaning() -> str:
    return str(api.status()["loaning"])


def nothing_is_left() -> bool:
    return not groups.existing() and all(
        server["free"] == server["gpus"] for server in api.status()["servers"]
    )


def test_whoever_dies_in_a_resize_no_completed_epoch_is_lost(tmp_path):
    run = Run("attacked", tmp_path)

    before = set(processes("JobWorker"))
    resize(2)  # one who is to join dies while it gets warm
    wait_for(lambda: set(processes("JobWorker")) - before, "one who joins")
    os.kill((set(processes("JobWorker")) - before).pop(), signal.SIGKILL)
    run.trains_on(2)

    run.strike(rank=1)  # one who stays dies at the rendezvous
    resize(3)
    wait_for(run.was_struck, "the blow")
    run.trains_on(3)

    run.strike(rank=0)  # and then the one who has the state to share
    resize(2)
    wait_for(run.was_struck, "the blow")
    run.trains_on(2)

    (controller,) = processes("JobController")
    run.strike(rank=0, pid=controller)
    resize(3)
    wait_for(run.was_struck, "the blow")
    run.trains_on(3)

    known = api.connect().pid
    run.strike(rank=0, pid=known)
    resize(1)
    wait_for(run.was_struck, "the blow")
    wait_for(lambda: api.connect().pid != known, "a scheduler that came back")
    run.trains_on(1)

    resize(4)  # asked, and asked otherwise at once
    resize(1)
    resize(2)
    run.trains_on(2)

    assert run.status["epochs_done"] < EPOCHS - 1, "it was over before all of that"
    api.cancel("attacked")
    with pytest.raises(Exception, match="cancelled"):
        run.handle.result(PATIENCE_S)
    told = history().jobs["attacked"]
    assert told.counted.run == told.counted.last + 1, "an epoch was lost"
    assert told.counted.repeated == 0, "a completed epoch was run again"
    wait_for(nothing_is_left, "free GPUs and no placement group")


def test_a_named_server_is_freed_by_those_who_are_there_and_no_others(tmp_path):
    """The first of all workers stands on it, so that the others are numbered anew."""
    run = Run("moved", tmp_path, epochs=40)
    place("training-0=1,training-1=2")
    run.trains_on(3)
    stay = set(processes("JobWorker"))
    place("training-1=2")
    run.trains_on(2)
    assert set(processes("JobWorker")) < stay, "someone who could stay did not"
    assert run.status["servers"] == {"training-1": 2}
    place("training-1=1,training-0=2")  # it grows and shrinks at once
    run.trains_on(3)
    told = history().jobs["moved"]
    assert (told.resizes, told.resizes_in_place, told.losses) == (3, 3, 0)
    resize(1)
    wait_for(has_trained("moved", 38), "the last epochs")
    resize(2)  # may come too late for anyone to join
    run.handle.result(PATIENCE_S)
    told = history().jobs["moved"]
    assert (told.counted.run, told.counted.repeated) == (40, 0)
    wait_for(nothing_is_left, "free GPUs and no placement group")


def test_a_reclaim_while_a_job_grows_onto_the_server(tmp_path):
    lender = ScriptedLender(tmp_path)
    lender.demand(1.0)
    event = InferenceConfigured(0.0, "scripted", 1, server_rps=10.0, refill_s=0.5)
    link.call("configure_inference", event, lender)
    run = Run("lent", tmp_path, epochs=25)
    lending = {"smooth_s": 1.0, "hold_leads": 0.1}
    api.set_policy("sized", "aryl", loaning_parameters=lending)
    wait_for(lambda: on_loan("open"), "a server on loan")
    (server,) = on_loan("open")

    before = set(processes("JobWorker"))
    place(f"training-0=2,{server}=1")
    wait_for(lambda: set(processes("JobWorker")) - before, "those who join")
    lender.demand(19.0)  # while they get warm
    wait_for(lambda: not on_loan("open"), "the reclaim")
    wait_for(lambda: not on_loan("reclaiming"), "the server to be free")
    assert server not in run.status["servers"]
    place("training-0=2")
    run.trains_on(2)
    run.handle.result(PATIENCE_S)
    told = history().jobs["lent"]
    assert (told.counted.run, told.counted.repeated, told.losses) == (25, 0, 0)
    api.set_policy("sized", "off")
    wait_for(nothing_is_left, "free GPUs and no placement group")


@pytest.mark.long
@pytest.mark.parametrize("every", ["0.5s", None])
def test_a_reclaim_in_a_long_epoch_is_met_in_its_grace(tmp_path, every):
    """At a safe point, in place; without one by ending the workers, which redo the epoch."""
    lender = ScriptedLender(tmp_path)
    lender.demand(1.0)
    grace_s = 3.0 if every is None else 60.0
    event = InferenceConfigured(0.0, "scripted", 1, 10.0, refill_s=0.5, grace_s=grace_s)
    link.call("configure_inference", event, lender)
    lending = {"smooth_s": 1.0, "hold_leads": 0.1}
    api.set_policy("sized", "aryl", loaning_parameters=lending)
    name = f"long, safe points {every}"
    wait_for(lambda: on_loan("open"), "a server on loan")
    (server,) = on_loan("open")

    run = Run(name, tmp_path, servers=f"training-0=1,{server}=1", passes=100, every=every)
    assert run.status["servers"] == {"training-0": 1, server: 1}
    before = processes("JobWorker")
    lender.demand(19.0)
    wait_for(lambda: server in on_loan("none"), "the server to be free")
    wait_for(lambda: run.status["phase"] == "running", "workers that train again")
    assert (run.status["servers"], run.status["epochs_done"]) == ({"training-0": 1}, 0)
    stayed = set(processes("JobWorker")) & set(before)
    assert (len(stayed), run.status["epochs_repeated"]) == ((0, 1) if every is None else (1, 0))

    api.cancel(name)
    with pytest.raises(Exception, match="cancelled"):
        run.handle.result(PATIENCE_S)
    assert history().jobs[name].counted.run == 0, "it waited for its epoch"
    api.set_policy("sized", "off")
    wait_for(nothing_is_left, "free GPUs and no placement group")


def on_loan(state: str) -> list[str]:
    return [server["server"] for server in api.status()["servers"] if server["loan"] == state]
