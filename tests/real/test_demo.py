"""The demo as its user runs it: a short day to the end, and one that is interrupted."""

from __future__ import annotations

import json
import os
import signal
import subprocess
import sys
from pathlib import Path

import psutil
import pytest

pytestmark = [pytest.mark.attack, pytest.mark.timeout(280)]

RUN = "from raysched.cli import main; main()"
HEED_CTRL_C = "import signal; signal.signal(signal.SIGINT, signal.default_int_handler); "
"""A shell has its background jobs ignore it, and so the tests where they are one."""
DEMO = [sys.executable, "-c", RUN, "demo", "--quick"]
OWN_CLUSTER = {k: v for k, v in os.environ.items() if not k.startswith("RAY")}


def test_a_short_day_runs_to_its_end_and_replays(tmp_path: Path) -> None:
    ended = subprocess.run(
        [*DEMO, "--out", str(tmp_path), "--json"],
        capture_output=True,
        check=False,
        text=True,
        timeout=270,
        env=OWN_CLUSTER,
    )
    assert ended.returncode == 0, ended.stderr
    told = json.loads(ended.stdout)
    assert told == json.loads((tmp_path / "summary.json").read_text())
    assert told["jobs_completed"] == told["jobs_submitted"] == 3
    assert told["epochs_run"] == told["epochs_expected"]
    assert (told["epochs_repeated"], told["requests_failed"]) == (0, 0)
    assert told["requests_sent"] > 300
    assert told["accuracy_min"] >= 0.9
    assert {p.name for p in tmp_path.iterdir()} == {
        "gpus.png",
        "journal.db",
        "journal.lender",
        "summary.json",
    }
    command = [sys.executable, "-c", RUN, "journal", "replay"]
    replayed = subprocess.run(
        [*command, str(tmp_path / "journal.db")],
        capture_output=True,
        check=False,
        text=True,
        timeout=60,
    )
    assert "every decision and action is identical" in replayed.stdout


def test_ctrl_c_leaves_nothing_running(tmp_path: Path) -> None:
    heeding = [sys.executable, "-c", HEED_CTRL_C + RUN, *DEMO[3:]]
    with subprocess.Popen(
        [*heeding, "--out", str(tmp_path)], stdout=subprocess.PIPE, text=True, env=OWN_CLUSTER
    ) as demo:
        assert demo.stdout is not None
        for line in demo.stdout:
            if "running" in line:  # a job trains
                break
        started = psutil.Process(demo.pid).children(recursive=True)
        assert any("JobWorker" in " ".join(p.cmdline()) for p in started)
        demo.send_signal(signal.SIGINT)
        demo.stdout.read()
        assert demo.wait(timeout=60) == 130
    _, left = psutil.wait_procs(started, timeout=5)
    assert not left
