"""Tables of jobs, row by row: what a row becomes, and what a bad one says."""

import gzip
import tarfile

import pytest

from raysched.simulator import traces
from raysched.simulator.assume import ELASTICFLOW
from raysched.simulator.models import LossPerDoubling
from raysched.simulator.traces import TraceError, philly
from raysched.simulator.traces.trace import MOST_EPOCHS

HEADER = "job_id,submission_time,num_iteration,model_name,deadline,batch_size,num_gpu,duration\n"
OTHER = "job_id,submit_time,iteration,model_name,ddl,batch_size,num_gpu,duration,best_effort\n"

BERT = "global_batch_size,1,2,4,8,16\n64,2,3,5,4,nan\n128,1,2,0,,\n"


@pytest.fixture
def profiles(tmp_path):
    folder = tmp_path / "profiles"
    folder.mkdir()
    (folder / "bert.csv").write_text(BERT)
    return folder


def table(tmp_path, header, *rows):
    path = tmp_path / "trace.csv"
    path.write_text(header + "".join(row + "\n" for row in rows))
    return path


def test_a_row_of_elasticflow_runs_its_iterations_at_the_measured_speeds(tmp_path, profiles):
    path = table(tmp_path, HEADER, "a,1000,600,bert,1700,64,2,200", "b,1060,9000,bert,2000,64,1,9")
    trace = traces.load(path, profiles=profiles)
    a, b = trace.arrivals
    assert (trace.format, a.at_s, b.at_s) == ("elasticflow", 0.0, 60.0)
    spec = a.spec
    assert (spec.min_workers, spec.max_workers, spec.requested_workers) == (1, 8, 2)
    assert (spec.epochs, spec.deadline_s, spec.batch_size) == (600, 700.0, 64)
    # Iterations a second: 2, 3, (4), 5, …, 4 on eight.
    assert [a.epoch_s[n - 1] for n in (1, 2, 3, 4, 8)] == pytest.approx(
        [1 / 2, 1 / 3, 1 / 4, 1 / 5, 1 / 4]
    )
    assert spec.profile_epoch_s == a.epoch_s
    assert b.spec.epochs == MOST_EPOCHS
    assert b.epoch_s[0] * b.spec.epochs == pytest.approx(9000 / 2)


def test_sizes_that_were_not_profiled_or_cannot_be_used_end_the_range(tmp_path, profiles):
    path = table(tmp_path, HEADER, "a,0,600,bert,700,128,16,200")
    (a,) = traces.load(path, profiles=profiles).arrivals
    assert (a.spec.max_workers, a.spec.requested_workers) == (2, 2)


def test_the_other_names_of_columns_and_best_effort(tmp_path, profiles):
    path = table(tmp_path, OTHER, "0,5,600,bert,700,64,1,200,0", "1,6,600,bert,700,64,1,200,1")
    a, b = traces.load(path, profiles=profiles).arrivals
    assert (a.spec.deadline_s, b.spec.deadline_s) == (695.0, None)


def test_without_profiles_the_duration_scales_linearly(tmp_path):
    path = table(tmp_path, HEADER, "a,0,100,bert,700,64,4,200")
    (a,) = traces.load(path).arrivals
    assert a.epoch_s[3] * a.spec.epochs == pytest.approx(200.0)
    assert a.epoch_s[0] * a.spec.epochs == pytest.approx(800.0)
    assert a.spec.max_workers == 64


def test_only_the_authors_own_schedules_know_where_a_model_stops_to_gain(tmp_path, profiles):
    path = table(tmp_path, HEADER, "a,0,100,bert,700,64,1,200")
    most = {}
    for policy in ("elasticflow", "fifo"):
        trace = traces.load(path, cap=ELASTICFLOW[policy].cap)
        most[policy] = trace.arrivals[0].spec.max_workers
    assert most == {"elasticflow": 8, "fifo": 64}


def test_a_job_may_have_an_epoch_for_each_iteration(tmp_path, profiles):
    path = table(tmp_path, HEADER, "a,0,9000,bert,9999,64,1,9")
    (a,) = traces.load(path, profiles=profiles, most_epochs=10_000).arrivals
    assert a.spec.epochs == 9000
    assert a.epoch_s[0] == pytest.approx(1 / 2)


def test_jobs_are_taken_in_the_order_of_arrival(tmp_path):
    rows = (
        "2017-10-09 07:01:55,66.0,1,66.0,11cb48",
        "2017-10-03 07:01:55,500.5,4,2002.0,6214e9",
    )
    path = table(tmp_path, "timestamp,duration,num_gpus,gpu_time,cluster\n", *rows)
    first, second = traces.load(path).arrivals
    assert (first.job, second.job) == ("philly-3", "philly-2")
    assert (first.at_s, second.at_s) == (0.0, 6 * 86400.0)
    assert (first.spec.min_workers, first.spec.max_workers, first.spec.tenant) == (4, 4, "6214e9")
    assert first.epoch_s[0] * first.spec.epochs == pytest.approx(500.5)


def test_jobs_of_philly_may_be_given_a_range_and_a_scaling(tmp_path):
    header = "timestamp,duration,num_gpus,gpu_time,cluster\n"
    path = table(tmp_path, header, "2017-10-09 07:01:55,64.0,2,128.0,11cb48")
    (a,) = philly.read(path, elastic=2, scaling=LossPerDoubling()).arrivals
    assert (a.spec.min_workers, a.spec.max_workers, a.spec.requested_workers) == (2, 4, None)
    assert a.epoch_s[0] * a.spec.epochs == pytest.approx(64.0)
    assert a.epoch_s[2] * a.spec.epochs == pytest.approx(64.0 / 1.6)


def test_a_packed_table_is_read_like_a_plain_one(tmp_path):
    path = tmp_path / "trace.csv.gz"
    with gzip.open(path, "wt") as file:
        file.write(HEADER + "a,0,100,bert,700,64,4,200\n")
    assert len(traces.load(path).arrivals) == 1


POLLUX = "name,time,application,num_replicas,batch_size\n"

PLACEMENTS = """placement,local_bsz,step_time,sync_time
1,10,1.0,0.0
1,20,2.0,0.0
11,10,9.0,8.0
11,20,9.5,8.0
2,10,1.5,0.5
2,20,2.5,0.5
"""


@pytest.fixture
def applications(tmp_path):
    folder = tmp_path / "applications"
    (folder / "net").mkdir(parents=True)
    (folder / "net" / "placements.csv").write_text(PLACEMENTS)
    # Of the initial batch an epoch is 1000 iterations. At twice the batch the gain of one is first
    # (3 + 1) / (3 / 2 + 1) = 1.6, then (1 + 1) / (1 / 2 + 1) = 4 / 3.
    columns = "progress,iteration,grad_sqr,grad_var\n"
    gradients = "1000,{0},1,3\n2000,{1},1,1\n"
    (folder / "net" / "validation-20.csv").write_text(columns + gradients.format(1000, 2000))
    (folder / "net" / "validation-40.csv").write_text(columns + gradients.format(600, 1300))
    return folder


def test_a_row_of_pollux_runs_the_iterations_that_its_progress_takes(tmp_path, applications):
    path = table(tmp_path, POLLUX, "net-0,107,net,6,40")
    (a,) = traces.load(path, profiles=applications).arrivals
    iterations = round(1000 / 1.6 + 1000 / (4 / 3))
    assert (a.spec.epochs, a.spec.requested_workers, a.at_s) == (iterations, 2, 0.0)
    # On one GPU 40 samples are two steps of 20, one synchronised; on two packed ones a step.
    assert a.epoch_s == pytest.approx((4.0, 2.5))
    assert a.seconds_on({"t1": 2}, 40) == pytest.approx(2.5)
    assert a.seconds_on({"t1": 1, "t2": 1}, 40) == pytest.approx(9.5)


def test_a_policy_may_choose_the_largest_batch_that_a_job_of_pollux_takes(tmp_path, applications):
    path = table(tmp_path, POLLUX, "net-0,107,net,6,40")
    (a,) = traces.load(path, profiles=applications, tuned=True).arrivals
    assert (a.spec.batch_sizes, a.spec.epochs, a.spec.max_workers) == ((20, 40), MOST_EPOCHS, 2)
    # 2000 iterations with 20 samples: a step of 20, of 10 on two GPUs.
    assert a.epoch_s[:2] == pytest.approx((2000 * 2.0 / MOST_EPOCHS, 2000 * 1.5 / MOST_EPOCHS))
    # With 40 they would take longer; on two GPUs something in between is faster than both.
    assert a.seconds_on({"t1": 1}, 40) == pytest.approx(2.0)
    assert 1.2 < a.seconds_on({"t1": 2}, 40) < 1.5 < (625 + 750) * 2.5 / MOST_EPOCHS
    assert a.seconds_on({"t1": 1, "t2": 1}, 20) == pytest.approx(2000 * 9.0 / MOST_EPOCHS)


def test_one_profiled_placement_is_enough(tmp_path, applications):
    only = PLACEMENTS[: PLACEMENTS.index("11,")]
    (applications / "net" / "placements.csv").write_text(only)
    path = table(tmp_path, POLLUX, "net-0,107,net,6,40")
    (a,) = traces.load(path, profiles=applications).arrivals
    assert a.epoch_s == pytest.approx((4.0,))


def test_profiles_of_pollux_may_be_packed(tmp_path, applications):
    path = table(tmp_path, POLLUX, "net-0,107,net,6,40")
    with tarfile.open(tmp_path / "profiles.tar.gz", "w:gz") as packed:
        packed.add(applications / "net", "net")
    (a,) = traces.load(path, profiles=tmp_path / "profiles.tar.gz").arrivals
    assert a.epoch_s == pytest.approx((4.0, 2.5))
    with pytest.raises(TraceError, match="is no folder of profiles"):
        traces.load(path, profiles=path)


@pytest.mark.parametrize(
    ("row", "message"),
    [
        ("net-0,107,other,6,40", "line 2: application 'other' has no profile in .*: net"),
        ("net-0,107,net,6,80", "line 2: batch_size 80 was not validated for net: 20, 40 were"),
    ],
)
def test_a_bad_row_of_pollux_is_named(tmp_path, applications, row, message):
    with pytest.raises(TraceError, match=message):
        traces.load(table(tmp_path, POLLUX, row), profiles=applications)
    with pytest.raises(TraceError, match="pass the folder of its --profiles"):
        traces.load(table(tmp_path, POLLUX, row))


GOOD = "a,1000,600,bert,1700,64,2,200"


@pytest.mark.parametrize(
    ("row", "message"),
    [
        (
            "b,1000,600,bert,1700,64,two,200",
            r"trace\.csv line 3: num_gpu 'two' is not a whole number",
        ),
        ("b,1000,600,bert,1700,64,0,200", "line 3: num_gpu is 0; use 1 or more"),
        ("b,1000,,bert,1700,64,2,200", "line 3: num_iteration is empty"),
        ("b,1000,600,bert,900,64,2,200", "line 3: deadline is not after the submission"),
        ("b,1000,600,gpt9,1700,64,2,200", "line 3: model_name 'gpt9' has no profile in .*: bert"),
        (
            "b,1000,600,bert,1700,96,2,200",
            "line 3: batch_size 96 is not profiled for bert: 64, 128 are",
        ),
        ("a,1000,600,bert,1700,64,2,200", "line 3: job_id 'a' occurs twice"),
        ("b,1000", "line 3: model_name is empty"),
    ],
)
def test_a_bad_row_names_file_line_column_and_mend_or_is_counted(tmp_path, profiles, row, message):
    path = table(tmp_path, HEADER, GOOD, row)
    with pytest.raises(TraceError, match=message):
        traces.load(path, profiles=profiles)
    trace = traces.load(path, profiles=profiles, skip_bad=True)
    assert (len(trace.arrivals), trace.skipped) == (1, 1)


def test_a_bad_time_of_philly_is_named(tmp_path):
    header = "timestamp,duration,num_gpus,gpu_time,cluster\n"
    path = table(tmp_path, header, "soon,66.0,1,66.0,11cb48")
    with pytest.raises(TraceError, match="line 2: timestamp 'soon' is not a time like"):
        traces.load(path)


def test_a_bad_cell_of_a_profile_is_named(tmp_path, profiles):
    (profiles / "bert.csv").write_text("global_batch_size,1,2\n64,fast,3\n")
    path = table(tmp_path, HEADER, GOOD)
    with pytest.raises(TraceError, match=r"bert\.csv line 2: 1 'fast' is not a number"):
        traces.load(path, profiles=profiles, skip_bad=True)


@pytest.mark.parametrize(
    ("text", "message"),
    [("when,who\n1,2\n", "begins with the columns when, who"), ("", r"\(none\)")],
)
def test_a_table_of_another_kind_is_refused(tmp_path, text, message):
    path = tmp_path / "other.csv"
    path.write_text(text)
    with pytest.raises(TraceError, match=message):
        traces.load(path)


def test_a_file_that_is_not_there_is_named(tmp_path):
    with pytest.raises(TraceError, match=r"gone\.csv: cannot be read"):
        traces.load(tmp_path / "gone.csv")
    with pytest.raises(TraceError, match=r"gone\.csv: cannot be read"):
        traces.is_journal(tmp_path / "gone.csv")
