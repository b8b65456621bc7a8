"""The whole cluster under attack: real Ray, real training, real signals.

One cluster and one scheduler for all; each test has jobs of its own and waits for what it needs to
see, never for a time. Stated bounds are those of a loaded machine of two cores.
"""

from __future__ import annotations

import json
import os
import signal
import subprocess
import sys
import textwrap
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import pytest

import raysched
from raysched import api
from raysched.demo import digits
from tests.real.live import (
    PATIENCE_S,
    has_trained,
    history,
    job,
    live_scheduler,
    processes,
    wait_for,
)

pytestmark = [pytest.mark.attack, pytest.mark.timeout(240)]

SAMPLES_PER_S = 1000
SYSTEMS = ("fifo", "modelarts", "elasticflow", "oasis", "ffdl", "aryl")


@pytest.fixture(scope="module", autouse=True)
def scheduler(ray_cluster, tmp_path_factory) -> Iterator[api.Connection]:
    folder = tmp_path_factory.mktemp("scheduler")
    with live_scheduler("aryl", folder, samples_per_s=SAMPLES_PER_S) as connection:
        yield connection


@pytest.fixture(scope="module")
def data() -> digits.Data:
    return digits.load_digits()


@pytest.fixture
def submit(data, tmp_path) -> Callable[..., api.JobHandle]:
    """Submit a job on the digits: 1.4 s an epoch on one simulated GPU."""

    def submit_job(
        name: str,
        workers: int | tuple[int, int],
        epochs: int,
        gpus_per_worker: int = 1,
        deadline: float | None = None,
        expected: float | None = None,
    ) -> api.JobHandle:
        return raysched.submit(
            raysched.TorchTrainer(
                digits.train,
                train_loop_config={"data": data},
                name=name,
                epochs=epochs,
                workers=workers,
                gpus_per_worker=gpus_per_worker,
                deadline=deadline,
                expected=expected,
                batch_size=128,
                checkpoint=tmp_path,
            )
        )

    return submit_job


@pytest.mark.long
def test_a_killed_worker_costs_the_epoch_under_way_and_no_other(submit):
    running = submit("killed", 2, epochs=8)
    wait_for(has_trained("killed", 2), "two epochs")
    os.kill(processes("JobWorker")[0], signal.SIGKILL)
    assert running.result(PATIENCE_S).metrics["accuracy"] > 0.8
    told = history().jobs["killed"]
    assert told.losses == 1
    assert told.counted.run == 8
    assert job("killed")["epochs_repeated"] >= 1


@pytest.mark.long
def test_jobs_run_on_without_the_scheduler_and_are_resized_after_it_came_back(submit):
    wide = submit("wide", (1, 4), epochs=30)
    wait_for(has_trained("wide", 1), "an epoch")
    before = api.connect()
    os.kill(before.pid, signal.SIGKILL)
    narrow = submit("narrow", 6, epochs=3)  # needs GPUs that wide has
    wait_for(lambda: api.status()["events"] and api.connect().pid != before.pid, "a new process")
    narrow.result(PATIENCE_S)
    wide.result(PATIENCE_S)
    told = history().jobs
    assert told["wide"].resizes >= 1
    assert told["wide"].losses == told["narrow"].losses == 0
    assert (told["wide"].counted.run, told["wide"].counted.repeated) == (30, 0)


@pytest.mark.long
def test_every_system_is_switched_to_and_from_while_jobs_run(submit):
    steady = submit("steady", (1, 3), epochs=200)
    wait_for(has_trained("steady", 1), "an epoch")
    for policy in SYSTEMS:
        epochs = job("steady")["epochs_done"]
        assert api.set_policy(policy, "off") == {"policy": policy, "loaning": "off"}
        wait_for(has_trained("steady", epochs + 2), f"epochs under {policy}")
        found = api.status()
        assert (found["policy"], found["policy_error"]) == (policy, "")
        assert api.explain("steady")["policy"] == policy
    told = history()
    assert set(SYSTEMS) <= {policy for _, policy, _ in told.policies}
    assert told.jobs["steady"].losses == 0
    epochs = told.jobs["steady"].counted
    assert (epochs.run, epochs.repeated) == (epochs.last + 1, 0)
    api.set_policy("aryl", "off")
    api.cancel("steady")
    with pytest.raises(Exception, match="cancelled"):
        steady.result(PATIENCE_S)


def test_an_admitted_deadline_is_kept_after_the_policy_was_switched(submit):
    api.set_policy("elasticflow", "off")
    due = submit("due", (1, 4), epochs=10, deadline=60.0, expected=14.0)
    wait_for(has_trained("due", 1), "an epoch")
    assert api.explain("due")["promise"]["kept_by"] == "the policy"
    api.set_policy("fifo")
    rival = submit("rival", (1, 2), epochs=2)
    assert api.explain("due")["promise"]["kept_by"] == "the scheduler"
    due.result(PATIENCE_S)
    assert job("due")["age_s"] <= 60.0
    rival.result(PATIENCE_S)
    api.set_policy("aryl", "off")


def test_a_job_is_preempted_to_nothing_and_resumed_by_a_third_partys_policy(submit):
    parked = submit("parked", (1, 2), epochs=10)
    wait_for(has_trained("parked", 2), "two epochs")
    api.set_policy("parking", policy_parameters={"parked": "parked"})
    wait_for(lambda: job("parked")["phase"] == "queued", "the preemption")
    assert api.explain("parked")["reason"] == "parked as told, 0"
    assert not any(s["granted"] for s in api.status()["servers"])
    done = job("parked")["epochs_done"]
    api.set_policy("aryl", "off")
    parked.result(PATIENCE_S)
    told = history().jobs["parked"]
    assert told.preemptions == 1
    assert 2 <= done < 10
    assert [e.epoch for e in told.epochs] == list(range(10))


def test_a_job_whose_driver_is_killed_is_reaped(ray_cluster, tmp_path):
    script = textwrap.dedent(f"""
        import ray, raysched
        from raysched.demo import digits
        ray.init(address={ray_cluster.cluster.address!r}, log_to_driver=False)
        raysched.TorchTrainer(
            digits.train, train_loop_config={{"data": digits.load_digits()}}, name="orphan",
            epochs=1000, workers=8, batch_size=128, checkpoint={str(tmp_path)!r},
        ).fit()
    """)
    with subprocess.Popen([sys.executable, "-c", script]) as driver:
        wait_for(has_trained("orphan", 1), "an epoch")
        driver.kill()
    wait_for(lambda: job("orphan")["phase"] == "cancelled", "the reaping")
    wait_for(lambda: all(s["free"] == s["gpus"] for s in api.status()["servers"]), "free GPUs")
    assert job("orphan")["error"] == "its driver is gone"


def test_ray_job_submit_runs_the_example(ray_cluster):
    from ray.job_submission import JobSubmissionClient

    client = JobSubmissionClient(ray_cluster.dashboard_url)
    submitted = client.submit_job(
        entrypoint=f"{sys.executable} train_digits.py --epochs 12 --name submitted",
        runtime_env={"working_dir": str(Path(__file__).parents[2] / "examples")},
    )
    wait_for(lambda: client.get_job_status(submitted).is_terminal(), "the end of the job")
    logs = client.get_job_logs(submitted)
    assert client.get_job_status(submitted).value == "SUCCEEDED", logs
    assert "test accuracy 0.9" in logs
    assert job("submitted")["phase"] == "finished"


def test_the_command_line_talks_to_the_live_scheduler(submit, scheduler, ray_cluster):
    def raysched_json(*arguments: str) -> Any:
        code = "from raysched.cli import main; main()"
        ran = subprocess.run(
            [sys.executable, "-c", code, *arguments, "--json"],
            capture_output=True,
            check=True,
            text=True,
            env={**os.environ, "RAY_ADDRESS": ray_cluster.cluster.address},
        )
        return json.loads(ran.stdout)

    running = submit("shown", (1, 2), epochs=1000)
    wait_for(has_trained("shown", 1), "an epoch")
    found = raysched_json("start", "--policy", "aryl")
    assert (found["started"], found["journal"]) == (False, scheduler.journal)  # reused, not doubled
    assert raysched_json("policy", "set", "fifo") == {"policy": "fifo", "loaning": "off"}
    assert raysched_json("status")["policy"] == "fifo"
    assert "shown" in [listed["job"] for listed in raysched_json("job", "list")]
    assert raysched_json("job", "explain", "shown")["epoch_s"]
    assert raysched_json("job", "cancel", "shown") == {"cancelled": "shown"}
    with pytest.raises(Exception, match="cancelled"):
        running.result(PATIENCE_S)
    api.set_policy("aryl", "off")


@pytest.mark.long
def test_a_cancelled_job_ends_and_gives_its_gpus_back(submit):
    running = submit("cancelled", (2, 2), epochs=1000)
    wait_for(has_trained("cancelled", 1), "an epoch")
    api.cancel("cancelled")
    with pytest.raises(Exception, match="cancelled by an operator"):
        running.result(PATIENCE_S)
    wait_for(lambda: all(s["free"] == s["gpus"] for s in api.status()["servers"]), "free GPUs")


@pytest.mark.long
def test_a_training_function_that_raises_fails_its_job_alone(submit, data, tmp_path):
    def raises(config: dict[str, Any]) -> None:
        raise ValueError("the data set is upside down")

    other = submit("other", 1, epochs=6)
    broken = raysched.submit(
        raysched.TorchTrainer(
            raises,
            name="broken",
            epochs=1,
            workers=1,
            batch_size=8,
            checkpoint=tmp_path,
            train_loop_config={},
        )
    )
    with pytest.raises(Exception, match="the data set is upside down"):
        broken.result(PATIENCE_S)
    other.result(PATIENCE_S)
    assert "upside down" in job("broken")["error"]
    assert job("other")["phase"] == "finished"
