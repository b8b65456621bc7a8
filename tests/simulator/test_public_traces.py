"""Traces of Helios, PAI and Gavel: what their rows become, and what is named or counted."""

import gzip
import json
import tracemalloc
from pathlib import Path

import pytest

from raysched.simulator import traces
from raysched.simulator.traces import TraceError, gavel, helios
from tests.simulator.test_traces import table

HELIOS = (
    "job_id,user,vc,jobname,gpu_num,cpu_num,node_num,state,"
    "submit_time,start_time,end_time,duration,queue\n"
)
PAI = "job_name,task_name,inst_num,status,start_time,end_time,plan_cpu,plan_mem,plan_gpu,gpu_type\n"
SPEEDS = {
    "v100": {
        "('ResNet-18 (batch size 64)', 1)": {"null": 20.0, "('A3C', 1)": [9.0, 8.0]},
        "('ResNet-18 (batch size 64)', 2)": {"null": 32.0},
        "('ResNet-18 (batch size 64)', 4)": {"null": 0.0},
        "('A3C', 1)": {"null": 5.0},
    },
    "k80": {"('A3C', 1)": {"null": 1.0}},
}


def of_helios(job, *, gpus=8, at="2020-04-01 00:10:00", duration="600", state="COMPLETED"):
    rest = "2020-04-01 00:20:00,2020-04-01 00:30:00"
    return f"{job},u1,vc7,train,{gpus},64,1,{state},{at},{rest},{duration},600"


def of_pai(job, *, task="worker", inst="2.0", status="Terminated", times="100.0,160.0", gpu="50.0"):
    return f"{job},{task},{inst},{status},{times},600.0,29.3,{gpu},T4"


def of_gavel(kind="ResNet-18 (batch size 64)", *, steps=6400, scale=2, slo="-1.000000", at="7.5"):
    command = f'python3 main.py --data_dir=%s/cifar10, "{kind}"'
    cells = (kind, command, "image/cifar10", "--num_steps", 1, steps, scale, 1, slo, at)
    return "\t".join(map(str, cells))


@pytest.fixture
def speeds(tmp_path):
    path = tmp_path / "speeds.json"
    path.write_text(json.dumps(SPEEDS))
    return path


def test_a_job_of_helios_runs_its_duration_from_its_submission(tmp_path):
    later = of_helios("b", at="2020-04-01 00:11:30", gpus=1, duration="9.5", state="FAILED")
    trace = traces.load(table(tmp_path, HELIOS, later, of_helios("a")))
    a, b = trace.arrivals
    assert (trace.format, trace.skipped, trace.left_out) == ("helios", 0, 0)
    assert (a.job, a.at_s, b.job, b.at_s) == ("a", 0.0, "b", 90.0)
    assert (a.spec.min_workers, a.spec.max_workers, a.spec.tenant) == (8, 8, "vc7")
    assert (a.alone_s, b.alone_s) == pytest.approx((600.0, 9.5))


def test_jobs_of_helios_without_gpus_or_that_never_ran_are_left_out_and_counted(tmp_path):
    cancelled = of_helios("c", duration="0", state="CANCELLED")
    trace = traces.load(table(tmp_path, HELIOS, of_helios("a", gpus=0), of_helios("b"), cancelled))
    assert [arrival.job for arrival in trace.arrivals] == ["b"]
    assert (trace.skipped, trace.left_out) == (0, 2)


def test_a_task_of_pai_has_a_worker_an_instance_and_whole_gpus(tmp_path):
    other = of_pai("j", task="chief", inst="1.0", times="90.0,100.0", gpu="250.0")
    trace = traces.load(table(tmp_path, PAI, of_pai("j"), other))
    chief, worker = trace.arrivals
    assert (trace.format, chief.job, worker.job) == ("pai", "j/chief", "j/worker")
    assert (chief.at_s, worker.at_s) == (0.0, 10.0)
    assert (chief.spec.gpus_per_worker, worker.spec.gpus_per_worker) == (3, 1)
    assert (worker.spec.min_workers, worker.spec.max_workers) == (2, 2)
    assert worker.alone_s == pytest.approx(60.0)


def test_tasks_of_pai_without_gpus_or_still_under_way_are_left_out_and_counted(tmp_path):
    rows = [
        of_pai("a", task="ps", gpu=""),
        of_pai("b", gpu="0.0"),
        of_pai("c", status="Running", times="100.0,"),
        of_pai("d"),
    ]
    trace = traces.load(table(tmp_path, PAI, *rows))
    assert ([arrival.job for arrival in trace.arrivals], trace.left_out) == (["d/worker"], 3)


def test_a_job_of_gavel_runs_its_steps_at_the_speed_of_its_scale(tmp_path, speeds):
    rows = (of_gavel(), of_gavel("A3C", steps=50, scale=1, slo="1.2", at="9.5"))
    trace = traces.load(table(tmp_path, "", *rows), profiles=speeds)
    a, b = trace.arrivals
    assert (trace.format, a.job, b.job, b.at_s) == ("gavel", "gavel-1", "gavel-2", 2.0)
    assert (a.spec.min_workers, a.spec.max_workers, a.spec.deadline_s) == (2, 2, None)
    assert (a.alone_s, b.alone_s) == pytest.approx((6400 / 32, 10.0))
    assert b.spec.deadline_s == pytest.approx(12.0)


def test_speeds_may_be_packed(tmp_path, speeds):
    packed = tmp_path / "speeds.json.gz"
    packed.write_bytes(gzip.compress(speeds.read_bytes()))
    trace = traces.load(table(tmp_path, "", of_gavel()), profiles=packed)
    assert trace.arrivals[0].alone_s == pytest.approx(200.0)


def test_speeds_that_were_published_are_read():
    path = Path(__file__).parents[3] / "shared/data/gavel/simulation_throughputs.json.gz"
    if not path.exists():
        pytest.skip(f"{path} is not here: shared data lies beside the checkout")
    speeds = gavel.read_speeds(path)
    assert len(speeds) == 83
    assert speeds["A3C", 1] == pytest.approx(7.1758, abs=1e-4)


BAD = [
    (HELIOS, of_helios("a", gpus="many"), "line 3: gpu_num 'many' is not a whole number"),
    (HELIOS, of_helios("a", gpus="-1"), "line 3: gpu_num is -1; use 0 or more"),
    (HELIOS, of_helios("a", at="None"), "line 3: submit_time 'None' is not a time like"),
    (HELIOS, of_helios("a", duration="-5"), "line 3: duration is -5; use a number from 0"),
    (HELIOS, of_helios("good"), "line 3: job_id 'good' occurs twice"),
    (HELIOS, "a,u1,vc7", "line 3: gpu_num is empty"),
    (PAI, of_pai("a", inst="1.5"), "line 3: inst_num '1.5' is not a whole number"),
    (PAI, of_pai("a", inst="0.0"), "line 3: inst_num is 0; use 1 or more"),
    (PAI, of_pai("a", times="100.0,"), "line 3: end_time is empty"),
    (PAI, of_pai("a", times="160.0,100.0"), "line 3: end_time is not after the start"),
    (PAI, of_pai("a", gpu="half"), "line 3: plan_gpu 'half' is not a number"),
    (PAI, of_pai("good"), "line 3: task_name 'good/worker' occurs twice"),
    (PAI, "a,worker", "line 3: status is empty"),
    ("", of_gavel("LM"), "line 2: job_type 'LM' has no speed in .*: A3C, ResNet-18"),
    ("", of_gavel(scale=4), "line 2: scale_factor 4 is not profiled for ResNet.*: 1, 2 are"),
    ("", of_gavel(scale=0), "line 2: scale_factor is 0; use 1 or more"),
    ("", of_gavel(steps="all"), "line 2: total_steps 'all' is not a whole number"),
    ("", of_gavel(slo="0"), "line 2: deadline 0.0 s is not a time to come"),
    ("", of_gavel(slo="nan"), "line 2: SLO is nan; use any finite number"),
    ("", of_gavel(at="-1"), "line 2: arrival_time is -1; use a number from 0"),
    ("", "A3C\tpython3", "line 2: scale_factor is empty"),
]


@pytest.mark.parametrize(("columns", "row", "message"), BAD, ids=[message for *_, message in BAD])
def test_a_bad_row_names_file_line_column_and_mend_or_is_counted(
    tmp_path, speeds, columns, row, message
):
    good = {HELIOS: of_helios("good"), PAI: of_pai("good"), "": of_gavel()}[columns]
    path = table(tmp_path, columns, good, row)
    with pytest.raises(TraceError, match=rf"trace\.csv {message}"):
        traces.load(path, profiles=speeds)
    trace = traces.load(path, profiles=speeds, skip_bad=True)
    assert (len(trace.arrivals), trace.skipped, trace.left_out) == (1, 1, 0)


def test_gavel_needs_speeds_of_its_kind(tmp_path):
    path = table(tmp_path, "", of_gavel())
    with pytest.raises(TraceError, match="pass the file of its --profiles"):
        traces.load(path)
    with pytest.raises(TraceError, match="cannot be read"):
        traces.load(path, profiles=tmp_path)
    other = tmp_path / "other.json"
    for text in ("{", "[]", "{}", '{"v100": {"A3C": {"null": 1}}}', '{"v100": {"(\'A\', 1)": {}}}'):
        other.write_text(text)
        with pytest.raises(TraceError, match=r"other\.json: is no table of Gavel's speeds"):
            traces.load(path, profiles=other)


def test_a_file_that_ends_in_the_middle_is_named(tmp_path):
    path = tmp_path / "trace.csv.gz"
    rows = "".join(of_helios(f"j{n}") + "\n" for n in range(900))
    path.write_bytes(gzip.compress((HELIOS + rows).encode())[:-200])
    with pytest.raises(TraceError, match=r"trace\.csv\.gz: cannot be read"):
        traces.load(path)


def test_rows_are_streamed(tmp_path):
    path = tmp_path / "trace.csv"
    with path.open("w") as file:
        file.write(HELIOS)
        file.writelines(of_helios(f"j{n}", gpus=0) + "\n" for n in range(20_000))
    tracemalloc.start()
    try:
        trace = helios.read(path)
        _, peak_bytes = tracemalloc.get_traced_memory()
    finally:
        tracemalloc.stop()
    assert trace.left_out == 20_000
    assert peak_bytes < path.stat().st_size / 4
