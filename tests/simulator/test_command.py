"""`raysched simulate` from the shell's side."""

import json
import os
from unittest.mock import Mock

import pytest
from click.testing import CliRunner
from rich.progress import TimeRemainingColumn

from raysched import cli
from raysched.errors import UserError
from raysched.simulator import screen, traces
from raysched.simulator.compare import servers_of
from raysched.simulator.progress import bars
from raysched.simulator.scenario import ServerSet
from raysched.simulator.solvers import silenced
from tests.simulator.test_journal import written
from tests.simulator.test_public_traces import HELIOS, of_helios
from tests.simulator.test_traces import GOOD, HEADER, table

METRICS = {
    *("jobs", "completed", "dropped", "deadline_ratio", "deadline_ratio_slot", "makespan_s"),
    *("queuing_s_mean", "queuing_s_median", "queuing_s_p95", "gpu_use", "preemption_ratio"),
    *("jct_s_mean", "jct_s_median", "jct_s_p95", "resizes", "cpu_s", "decisions"),
    *("decision_ms_mean", "decision_ms_p95", "decision_ms_max", "gpu_use_overall", "drop_ratio"),
    *("cluster_efficiency", "sjs_efficiency", "collateral_damage", "resizes_per_job", "utility"),
}


def run(*arguments):
    return CliRunner().invoke(cli.cli, ["simulate", *map(str, arguments)])


def refusal(capsys, monkeypatch, *arguments):
    monkeypatch.setattr("sys.argv", ["raysched", "simulate", *map(str, arguments)])
    with pytest.raises(SystemExit) as left:
        cli.main()
    assert left.value.code == 2
    return capsys.readouterr().err


def test_policies_are_compared_on_a_table_of_jobs(tmp_path):
    path = table(tmp_path, HEADER, GOOD, "bad,1,x,bert,1700,64,2,200")
    out = tmp_path / "out"
    arguments = [path, "--policy", "fifo,aryl", "--servers", "2x4", "--out", out, "--skip-bad"]
    found = run(*arguments, "--json")
    assert found.exit_code == 0, found.output
    assert "1 bad rows" in found.stderr
    printed = json.loads(found.stdout)
    assert list(printed) == ["fifo", "aryl"]
    assert set(printed["fifo"]) == METRICS
    assert printed["fifo"]["jct_s_mean"] == 200.0
    assert printed["aryl"]["jct_s_mean"] == 2 * 200.0 / 8
    assert json.loads((out / "metrics.json").read_text()) == printed
    assert (out / "aryl" / "jobs.csv").is_file()
    assert (out / "gpus.png").read_bytes().startswith(b"\x89PNG")
    assert (out / "cdf.png").read_bytes().startswith(b"\x89PNG")
    assert "jct_s_mean" in run(*arguments).stdout


def test_parameters_are_set_by_policy(tmp_path):
    """At 50 GPU-seconds a job gives way to one that has had less, where the policy says so."""
    rows = "a,0,100,bert,9999,64,8,200", "b,10,100,bert,9999,64,8,30"
    path = table(tmp_path, HEADER, *rows)
    arguments = [path, "--policy", "tiresias", "--servers", "1x8", "--out", tmp_path, "--json"]
    whole = json.loads(run(*arguments).stdout)["tiresias"]
    limited = ["--set", "tiresias.first_limit_gpu_s=50", "--set", "tiresias.review_s=5"]
    cut = json.loads(run(*arguments, *limited).stdout)["tiresias"]
    assert (whole["preemption_ratio"], cut["preemption_ratio"]) == (0.0, 0.5)


def test_a_journal_is_run_again_beside_what_was_measured(tmp_path):
    journal, _, _ = written(tmp_path / "journal.db")
    journal.close()
    found = run(tmp_path / "journal.db", "--out", tmp_path / "out", "--json")
    assert found.exit_code == 0, found.output
    printed = json.loads(found.stdout)
    assert list(printed) == ["measured", "aryl"]
    assert printed["aryl"]["jct_s_mean"] == pytest.approx(printed["measured"]["jct_s_mean"])
    assert set(printed["measured"]) == METRICS
    assert set(printed["aryl"]) == METRICS | {"completion_order_tau", "completion_swap_s"}
    assert printed["aryl"]["completion_order_tau"] == 1.0
    assert printed["aryl"]["completion_swap_s"] == 0.0


def test_other_policies_stand_beside_a_journal_with_what_would_have_changed(tmp_path):
    journal, _, _ = written(tmp_path / "journal.db")
    journal.close()
    asked = [tmp_path / "journal.db", "--policy", "fifo,aryl", "--out", tmp_path / "out"]
    printed = json.loads(run(*asked, "--json").stdout)
    assert list(printed) == ["measured", "fifo", "aryl"]
    lines = run(*asked).stdout.splitlines()
    (jct,) = (line for line in lines if "jct_s_mean" in line)
    change = printed["fifo"]["jct_s_mean"] / printed["measured"]["jct_s_mean"] - 1
    assert f"({change:+.1%})" in jct
    assert jct.count("%") == 2
    begin = next(
        n for n, line in enumerate(lines) if line.split()[:1] == ["completed"] and "fifo" in line
    )
    measured, fifo, aryl = zip(
        *(line.split()[1:] for line in lines[begin + 1 : begin + 5]), strict=True
    )
    assert sorted(fifo) == sorted(measured) == ["due", "late", "rigid", "wide"]
    assert aryl == measured
    assert lines[-1] == "aryl: the measured order, Kendall's tau 1"
    assert fifo != measured
    assert lines[-2].startswith("fifo: another order, Kendall's tau ")
    swap_s = printed["fifo"]["completion_swap_s"]
    assert lines[-2].endswith(f"; swaps within {swap_s:g} s")


def test_the_bar_is_over_all_policies(monkeypatch):
    display = bars(quiet=True)
    monkeypatch.setattr(screen, "bars", lambda *, quiet: display)
    with screen.progress(2, quiet=True) as watch:
        watch("fifo", 5, 10)
        (task,) = display.tasks
        assert (task.completed, task.total, task.description) == (0.5, 2.0, "fifo (1 of 2)")
        watch("aryl", 1, 4)
        assert (task.completed, task.description) == (1.25, "aryl (2 of 2)")
    assert any(isinstance(column, TimeRemainingColumn) for column in display.columns)


def test_what_is_asked_wrongly_is_named_in_one_line(tmp_path, capsys, monkeypatch):
    path = table(tmp_path, HEADER, GOOD)
    assert "names no servers" in refusal(capsys, monkeypatch, path)
    assert "16x8" in refusal(capsys, monkeypatch, path, "--servers", "16*8")
    servers = ("--servers", "2x4")
    assert "nope" in refusal(capsys, monkeypatch, path, *servers, "--policy", "fifo,nope")
    assert "no jobs" in refusal(capsys, monkeypatch, table(tmp_path, HEADER), *servers)
    without_gpus = table(tmp_path, HELIOS, of_helios("a", gpus=0))
    message = "has no jobs for GPUs: 1 rows are left out"
    assert message in refusal(capsys, monkeypatch, without_gpus, *servers)
    fifo = (*servers, "--policy", "fifo,tiresias")
    assert "names no policy; write POLICY.review_s" in refusal(
        capsys, monkeypatch, path, *fifo, "--set", "review_s=60"
    )
    assert "no parameter 'review'" in refusal(
        capsys, monkeypatch, path, *fifo, "--set", "tiresias.review=60"
    )
    assert "aryl is not simulated" in refusal(
        capsys, monkeypatch, path, *fifo, "--set", "aryl.seed=1"
    )
    journal, _, _ = written(tmp_path / "journal.db")
    journal.close()
    assert "leave them out" in refusal(capsys, monkeypatch, tmp_path / "journal.db", *servers)


def test_a_cluster_too_small_for_a_job_drops_it_and_for_all_jobs_is_named(
    tmp_path, capsys, monkeypatch
):
    path = table(tmp_path, HELIOS, of_helios("a"), of_helios("b", gpus=16), of_helios("c", gpus=0))
    found = run(path, "--servers", "1x8", "--out", tmp_path / "out", "--json")
    assert "1 rows of" in found.stderr
    printed = json.loads(found.stdout)["fifo"]
    assert {name: printed[name] for name in ("jobs", "completed", "dropped")} == {
        "jobs": 2,
        "completed": 1,
        "dropped": 1,
    }
    asked = (path, "--servers", "3x2", "--out", tmp_path / "none")
    message = refusal(capsys, monkeypatch, *asked)
    assert "trace.csv: no job fits on the servers; job a: " in message
    assert "8 workers of 1 GPUs need 8 GPUs; the cluster has room for 6" in message
    assert not (tmp_path / "none").exists()


def test_a_trace_is_read_once_for_all_policies(tmp_path, monkeypatch):
    path = table(tmp_path, HEADER, GOOD)
    load = Mock(wraps=traces.load)
    monkeypatch.setattr(traces, "load", load)
    found = run(path, "--policy", "fifo,aryl,ffdl", "--servers", "2x4", "--out", tmp_path / "out")
    assert (found.exit_code, load.call_count) == (0, 1)


@pytest.mark.parametrize(
    "text", ["", "16", "0x8", "16x", "16x-1", "x8", "1x8,", "1x8:", "1x8:T4:0", "1x8:T4:x"]
)
def test_servers_are_written_as_a_product(text):
    with pytest.raises(UserError, match="such as 16x8"):
        servers_of(text)


def test_an_inference_pool_lends_to_training(tmp_path):
    hours = [f"2026-01-01 {hour:02}:00:00,{10 if hour < 12 else 100}" for hour in range(24)]
    demand = tmp_path / "demand.csv"
    demand.write_text("\n".join(["timestamp,value", *hours]) + "\n")
    later = "b,4000,9,bert,9000,64,8,9000"  # than the loans
    path = table(tmp_path, HEADER, "a,1000,600,bert,1700,64,4,9000", later)
    pool = ["--servers", "1x4:V100", "--inference", "4x4:T4:0.5", "--demand", demand]
    found = run(path, *pool, "--policy", "aryl", "--out", tmp_path / "out", "--json")
    assert found.exit_code == 0, found.output
    alone = run(path, *pool, "--policy", "aryl", "--loaning", "off", "--out", tmp_path, "--json")
    lent_s, alone_s = (
        json.loads(printed.stdout)["aryl"]["jct_s_mean"] for printed in (found, alone)
    )
    assert lent_s < alone_s


def test_pools_and_demand_that_do_not_belong_together_are_named(tmp_path, capsys, monkeypatch):
    path = table(tmp_path, HEADER, GOOD)
    asked = [path, "--servers", "2x4"]
    assert "needs both" in refusal(capsys, monkeypatch, *asked, "--inference", "2x4")
    assert "none to lend" in refusal(capsys, monkeypatch, *asked, "--loaning", "aryl")
    assert "not known" in refusal(capsys, monkeypatch, *asked, "--loaning", "nope")
    assert "--inference: '4'" in refusal(capsys, monkeypatch, *asked, "--inference", "4")


def test_servers_may_differ():
    assert servers_of("16x8") == (ServerSet(16, 8),)
    assert servers_of("2x8:V100,3x4:T4:0.25") == (
        ServerSet(2, 8, "V100"),
        ServerSet(3, 4, "T4", 0.25),
    )


def test_what_a_solver_prints_does_not_mix_with_the_answer(capfd):
    with silenced():
        os.write(1, b"HighsMipSolverData\n")
    os.write(1, b"{}\n")
    assert capfd.readouterr().out == "{}\n"
