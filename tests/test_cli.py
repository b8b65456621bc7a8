"""The command line as a stranger meets it: help without Ray, and bad input in one line."""

from __future__ import annotations

import json
import os
import subprocess
import sys

import pytest

from policies import registry
from raysched import screens
from raysched.journal import Journal
from raysched.views import explain, status
from tests.pretend_cluster import PretendCluster, spec

NO_CLUSTER = {"RAY_ADDRESS": "127.0.0.1:1", "RAY_AUTH_MODE": "disabled"}


def raysched(*arguments: str, **environment: str) -> subprocess.CompletedProcess[str]:
    """Run the command as the shell would."""
    code = "from raysched.cli import main; main()"
    return subprocess.run(
        [sys.executable, "-c", code, *arguments],
        capture_output=True,
        check=False,
        text=True,
        timeout=100,
        env={**os.environ, **environment},
    )


def refused(result: subprocess.CompletedProcess[str], said: str) -> None:
    assert result.returncode == 2
    assert said in result.stderr
    assert len(result.stderr.strip().splitlines()) == 1, result.stderr


def test_an_unknown_policy_lists_the_known():
    result = raysched("demo", "--policy", "lottery")
    refused(result, "policy 'lottery' is not known; known: ")
    assert set(registry.names()) <= set(result.stderr.strip().replace(",", "").split())


def test_an_unknown_parameter_is_named():
    refused(raysched("start", "--policy", "aryl", "--set", "speed=9"), "no parameter 'speed'")


def test_a_parameter_that_is_no_assignment_is_named():
    refused(raysched("start", "--set", "speed"), "--set: 'speed' is not NAME=VALUE")


def test_a_missing_journal_is_named(tmp_path):
    refused(raysched("journal", "replay", str(tmp_path / "no.db")), "there is no such journal")


@pytest.mark.parametrize("command", ["demo", "simulate trace.csv", "reproduce elasticflow"])
def test_a_folder_that_is_a_file_is_named(tmp_path, command):
    (tmp_path / "file").write_text("kept")
    result = raysched(*command.split(), "--out", str(tmp_path / "file" / "below"))
    refused(result, f"--out: {tmp_path / 'file'} is a file; name a directory")
    assert (tmp_path / "file").read_text() == "kept"


def test_a_file_that_is_a_folder_is_named(tmp_path):
    Journal(tmp_path / "journal.db").close()
    result = raysched("journal", "export", str(tmp_path / "journal.db"), "--out", str(tmp_path))
    refused(result, f"'{tmp_path}': Is a directory")


def test_an_unknown_command_is_one_line():
    refused(raysched("fly"), "No such command 'fly'")


@pytest.mark.real
def test_without_a_cluster_the_mend_is_said():
    refused(raysched("status", **NO_CLUSTER), "no Ray cluster answers")


def test_the_policies_are_listed_with_paper_section_and_parameters():
    listed = json.loads(raysched("policy", "list", "--json").stdout)
    by_name = {policy["name"]: policy for policy in listed}
    assert {"aryl", "fifo"} <= by_name.keys()
    for name, paper in {
        "modelarts": "An Optimal Resource Allocator",
        "elasticflow": "ElasticFlow",
        "oasis": "Online Job Scheduling",
        "ffdl": "Effective Elastic Scaling",
        "aryl": "Aryl",
    }.items():
        assert paper in by_name[name]["paper"]
        assert "§" in by_name[name]["section"]
    assert by_name["aryl"]["parameters"]["interval_s"] == 60.0
    assert by_name["aryl"]["default_loaning"] == "aryl"
    assert by_name["tiresias"]["readings"] == ["clean", "published"]


def test_screens_show_every_state_of_a_job(capsys):
    cluster = PretendCluster()
    cluster.switch("aryl", "aryl")
    cluster.add_server("t1")
    cluster.serve()
    cluster.submit("wide", spec(workers=(1, 4)))
    cluster.settle()
    cluster.submit("late", spec(workers=(2, 2)))
    cluster.decide_all()
    state = cluster.engine.state
    screens.show_status(status(state, cluster.now_s))
    for job in state.jobs.values():
        screens.show_explanation(explain(state, job, cluster.now_s))
    shown = capsys.readouterr().out
    assert "4 → 2 of 1–4" in shown
    assert "serving, 2 replicas" in shown
    assert "waits for GPUs that others are giving up: 2 on t1" in shown
    assert json.loads(json.dumps(status(state, 0.0)))["policy"] == "aryl"
