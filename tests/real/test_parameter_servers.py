"""Workers and parameter servers on real Ray, coming and going while they train the digits."""

import json
import os
import signal
import threading
import time
from collections import Counter
from dataclasses import replace

import pytest
import ray

import raysched
from raysched.demo.digits import build_model, load_digits
from raysched.runtime.protocol import NAMESPACE
from tests.real.live import processes
from tests.real.scripted_scheduler import ScriptedScheduler, in_the_schedulers_place, said

pytestmark = [pytest.mark.real, pytest.mark.timeout(300)]  # a cluster beside others is slow

CHUNKS = 12
BATCH = 30
WORKER_DIES_IN, SERVER_DIES_IN = 1, 3


class ScriptedServers(ScriptedScheduler):
    """Also says how many parameter servers there are, grant by grant."""

    SERVERS = (1, 2, 3, 1)  # by number of the grant

    def _slots(self, job, grant, workers):
        slots = super()._slots(job, grant, workers)
        return replace(slots, parameter_servers=self.SERVERS[min(grant, 4) - 1])


@pytest.fixture(scope="module")
def scheduler(ray_cluster):
    with in_the_schedulers_place(ScriptedServers) as actor:
        yield actor


@pytest.fixture(scope="module")
def data():
    digits = load_digits()
    return digits["images"].astype("float32") / 16, digits["labels"].astype("int64")


def _train(config):
    import torch

    images, labels = (torch.tensor(array) for array in config["data"])
    model = raysched.prepare(build_model())
    optimizer = torch.optim.Adam(model.parameters(), lr=2e-3)
    slower = torch.optim.lr_scheduler.ExponentialLR(optimizer, 0.9)
    with open(os.path.join(config["seen"], str(os.getpid())), "a") as seen:
        for epoch in raysched.epochs(model, optimizer, slower):
            for indices, weight in raysched.batches(len(images)):
                loss = weight * torch.nn.functional.cross_entropy(
                    model(images[indices]), labels[indices]
                )
                optimizer.zero_grad()
                loss.backward()
                optimizer.step()
                seen.write(json.dumps([epoch, indices.tolist()]) + "\n")
                seen.flush()
                _die_once(config, epoch)
                time.sleep(config["step_s"])
            slower.step()
            with torch.no_grad():
                guesses = model(images)
                correct = (guesses.argmax(1) == labels).float().mean()
                loss = torch.nn.functional.cross_entropy(guesses, labels)
            lr = float(slower.get_last_lr()[0])
            raysched.report(loss=float(loss), accuracy=float(correct), lr=lr)


def _die_once(config, epoch):
    """The first one to train a mini-batch of the epoch is killed, in the midst of a chunk."""
    if epoch != config["dies_in"]:
        return
    try:
        os.mkdir(config["seen"] + ".dead")
    except FileExistsError:
        return
    os.kill(os.getpid(), signal.SIGKILL)


def _wait_for_steps(seen, epoch, steps=10, timeout_s=200):
    deadline_s = time.monotonic() + timeout_s
    while _seen(seen).get(epoch, Counter()).total() < steps * BATCH:
        assert time.monotonic() < deadline_s, f"epoch {epoch} did not come"
        time.sleep(0.05)


def _seen(folder):
    """Epoch -> how often each sample was trained."""
    counts: dict[int, Counter[int]] = {}
    for file in folder.iterdir():
        for line in file.read_text().splitlines():
            epoch, indices = json.loads(line)
            counts.setdefault(epoch, Counter()).update(indices)
    return counts


@pytest.fixture
def train(scheduler, data, tmp_path):
    """Run a job by a script; what it did, and the folder in which its workers left their pids."""
    seen = tmp_path / "seen"
    seen.mkdir()

    def run(name, sizes, epochs, step_s=0.0, dies_in=None):
        ray.get(scheduler.script.remote(name, sizes, in_place=True))
        job = raysched.ParameterServerTrainer(
            _train,
            epochs=epochs,
            workers=(1, 4),
            batch_size=BATCH,
            chunks=CHUNKS,
            name=name,
            checkpoint=tmp_path / "run",
            train_loop_config={
                "data": data,
                "seen": str(seen),
                "step_s": step_s,
                "dies_in": dies_in,
            },
        )
        return job, job.fit()

    return run, seen


def _epochs(scheduler, job):
    reports = [report for (report,) in said(scheduler, job.job, "boundary")]
    assert [report.epoch for report in reports] == list(range(job.spec.epochs))
    return [report.metrics for report in reports]


def test_both_roles_grow_and_shrink_while_those_who_stay_train_on(scheduler, data, train):
    run, seen = train
    job, result = run("resized", {0: 1, 2: 3, 4: 4, 6: 2}, epochs=8)
    metrics = _epochs(scheduler, job)
    assert metrics[-1]["loss"] < metrics[0]["loss"] / 3
    assert result.metrics["accuracy"] > 0.95
    assert metrics[-1]["lr"] == pytest.approx(2e-3 * 0.9**8), "who joins goes on in the schedule"
    for epoch, counts in _seen(seen).items():
        assert counts == Counter(range(len(data[0]))), f"epoch {epoch}: not each sample once"
    assert [entry for (*_, lost, entry) in said(scheduler, job.job, "stopped")] == [""]
    assert len(list(seen.iterdir())) == 4, "those who stay are the same processes"
    assert (result.metrics["workers"], result.metrics["parameter_servers"]) == (2, 1)


def test_a_killed_worker_costs_a_chunk_and_a_killed_server_an_epoch(scheduler, data, train):
    run, seen = train
    killer = threading.Thread(target=_kill_server_in, args=(seen, SERVER_DIES_IN))
    killer.start()
    job, result = run("killed", {0: 2}, epochs=5, step_s=0.02, dies_in=WORKER_DIES_IN)
    killer.join()
    assert _epochs(scheduler, job)[-1]["loss"] < 0.3
    assert result.metrics["accuracy"] > 0.9
    seen_in = _seen(seen)
    everything = Counter(range(len(data[0])))
    chunk = -(-len(data[0]) // CHUNKS)
    assert not any(everything - counts for counts in seen_in.values()), "a sample was left out"
    again = [(counts - everything).total() for _, counts in sorted(seen_in.items())]
    assert 0 < again[WORKER_DIES_IN] <= chunk
    assert again[SERVER_DIES_IN] > 0
    assert sum(again) == again[WORKER_DIES_IN] + again[SERVER_DIES_IN], again
    assert len(list(seen.iterdir())) == 3, "the killed worker was replaced, nobody else"
    assert [lost for _, lost, _ in said(scheduler, job.job, "stopped")] == [False]


@pytest.mark.attack
@pytest.mark.long
def test_a_killed_coordinator_and_a_preemption_lose_no_epoch(scheduler, data, train):
    run, seen = train

    def kill():
        _wait_for_steps(seen, epoch=2)
        (name,) = [n for n in ray.util.list_named_actors() if "controller-headless" in n]
        ray.kill(ray.get_actor(name, namespace=NAMESPACE), no_restart=False)

    killer = threading.Thread(target=kill)
    killer.start()
    job, _ = run("headless", {0: 2, 3: 0}, epochs=4, step_s=0.02)
    killer.join()
    assert _epochs(scheduler, job)[-1]["loss"] < 0.5
    everything = Counter(range(len(data[0])))
    assert not any(everything - counts for counts in _seen(seen).values()), "a sample was left out"
    stops = said(scheduler, job.job, "stopped")
    assert stops[0][1:] == (True, "its coordinator was restarted")
    assert [lost for _, lost, _ in stops] == [True, False, False]


def _kill_server_in(seen, epoch):
    _wait_for_steps(seen, epoch)
    (server,) = processes("ParameterServer")
    os.kill(server, signal.SIGKILL)
