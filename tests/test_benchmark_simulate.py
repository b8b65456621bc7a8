"""The simulator's benchmark on a tiny trace: what it measures, skips and writes."""

import json
from dataclasses import replace

from benchmarks import simulate

HEADER = "timestamp,duration,num_gpus,gpu_time,cluster\n"
ROW = "2017-10-09 07:{:02}:00,600,2,1200,a\n"


def write_trace(folder, jobs):
    path = folder / "philly.csv"
    path.write_text(HEADER + "".join(ROW.format(minute) for minute in range(jobs)))
    return simulate.Case("few", path.name, "fifo", 2)


def test_a_case_says_what_it_took_and_whether_it_met_its_target(tmp_path):
    case = write_trace(tmp_path, 12)
    found = simulate.measure(replace(case, target_cpu_s=1e6), tmp_path)
    assert (found["jobs"], found["met"]) == (12, True)
    assert found["cpu_s"] >= 0 < found["events_per_s"]
    assert found["decisions_per_s"] < found["events_per_s"]
    assert found["peak_mib"] > 10
    assert simulate.measure(replace(case, jobs=5, target_cpu_s=0.0), tmp_path)["met"] is False


def test_growth_is_drawn_and_traces_that_are_not_there_are_skipped(tmp_path, capsys):
    case = write_trace(tmp_path, 12)
    grown = [replace(case, name=f"few-{jobs}", jobs=jobs) for jobs in (6, 12)]
    absent = replace(case, name="absent", trace="nowhere.csv")
    out = tmp_path / "out"
    simulate.bench([absent], grown, tmp_path, out, as_json=False, is_quick=False)
    printed = capsys.readouterr()
    assert f"skipped: {tmp_path / 'nowhere.csv'} is not here; pass --traces" in printed.err
    assert "| skipped |" in printed.out
    written = json.loads((out / "simulate.json").read_text())["cases"]
    assert written["absent"] is None
    assert [written[f"few-{jobs}"]["jobs"] for jobs in (6, 12)] == [6, 12]
    assert (out / "simulate.png").stat().st_size > 1000


def test_without_a_trace_jobs_are_drawn_and_aryl_lends(tmp_path):
    small = simulate.Case("small", "", "aryl", jobs=30, slot_s=60, scale=1 / 64)
    found = simulate.measure(small, tmp_path)
    assert found["jobs"] == 30
    assert found["decisions_per_s"] > 0
    names = [case.name for case in simulate.growth(tmp_path)]
    assert names[0] == f"drawn-fifo-{simulate.GROWTH[0]}"


def test_quick_takes_the_first_jobs_and_no_target():
    for case in map(simulate.quick, simulate.cases()):
        assert (case.jobs, case.target_cpu_s) == (simulate.QUICK_JOBS, None)
