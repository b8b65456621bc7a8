"""001's figures: what is run, what a run measures, and what is reported of it."""

import gzip
from pathlib import Path

import pytest
from matplotlib.figure import Figure

from raysched.simulator.reproductions.elasticflow import EXPERIMENTS, groups, measure
from raysched.simulator.reproductions.elasticflow.bars import MOST_QUICK_CPU_S, Bars
from raysched.simulator.reproductions.elasticflow.overheads import OVERHEADS_S
from raysched.simulator.reproductions.experiment import Effort, Results

BY_NAME = {experiment.name: experiment for experiment in EXPERIMENTS}
COLUMNS = "job_id,submission_time,num_iteration,model_name,deadline,batch_size,num_gpu,duration\n"
PHILLY = "timestamp,duration,num_gpus,gpu_time,cluster\n"
CURVE_H = 48


@pytest.fixture
def folder(tmp_path):
    """Traces of two or three jobs, of a model that two GPUs make one and a half times as fast."""
    profiles = tmp_path / "elasticflow" / "throughputs_A100"
    profiles.mkdir(parents=True)
    for model in ("resnet50", "vgg16", "inception3", "bert", "gpt2", "deepspeech2"):
        rows = "".join(f"{batch_size},2,3\n" for batch_size in (32, 64, 128, 256))
        (profiles / f"{model}.csv").write_text("global_batch_size,1,2\n" + rows)
    (tmp_path / "elasticflow" / "traces").mkdir()
    (tmp_path / groups.FIG6B.setup.trace).write_text(
        COLUMNS
        # Half of the time on one GPU: two are not enough. Then twice of it, and hopeless.
        + "a,0,7200,bert,1800,64,1,3600\n"
        + "b,7200,7200,bert,14400,64,1,3600\n"
        + "c,7200,7200,bert,7260,64,1,3600\n"
    )
    philly = tmp_path / measure.PHILLY
    philly.parent.mkdir()
    row = f",1,0,{measure.PHILLY_CLUSTER}\n"
    jobs = f"{PHILLY}2017-10-09 07:00:00,3600{row}2017-10-09 09:00:00,60{row}"
    philly.write_bytes(gzip.compress(jobs.encode()))
    return tmp_path


def measured(run):
    return run.measure(**run.parameters)


def test_nothing_is_run_without_traces(tmp_path):
    assert [e.name for e in EXPERIMENTS] == [
        *("fig6a", "fig6b", "fig7", "fig8a", "fig8b", "fig9", "fig10", "fig11", "fig12b")
    ]
    for effort in (Effort(), Effort(traces=tmp_path)):
        assert not any(experiment.runs(effort) for experiment in EXPERIMENTS)


def test_figures_share_runs_and_quick_ones_leave_out_what_takes_long(folder):
    full, quick = Effort(traces=folder), Effort(quick=True, traces=folder)
    of_6b = [run.parameters for run in BY_NAME["fig6b"].runs(full)]
    assert all(run.parameters in of_6b for run in BY_NAME["fig7"].runs(full))
    seeds = {run.parameters["seed"] for run in BY_NAME["fig8b"].runs(full)}
    assert seeds == set(range(5)), "only Philly's trace is there"
    for experiment in EXPERIMENTS:
        assert all(run.cpu_s <= MOST_QUICK_CPU_S for run in experiment.runs(quick))
        assert all(folder in path.parents for run in experiment.runs(quick) for path in run.reads)


@pytest.mark.parametrize("reading", [measure.PUBLISHED, measure.CLEAN])
def test_a_run_meets_the_deadlines_that_can_be_met(folder, reading):
    setup = measure.Setup(groups.FIG6B.setup.trace, servers=1, gpus=2)
    (run,) = measure.runs(Effort(traces=folder), setup, "elasticflow", 1.0, reading)
    found = measured(run)
    assert (found["jobs"], found["dropped"]) == (3, 2)
    assert found["deadline_ratio"] == pytest.approx(1 / 3, abs=1e-4)
    assert found["best_effort_jct_s"] is None
    assert [len(found[c]) for c in ("at_h", "held_gpus", "efficiency")] == [measure.POINTS] * 3
    assert (found["submitted"][:3], found["rejected"][:3]) == ([1, 0, 2], [1, 0, 1])
    # Job b trains alone on both GPUs, 3 iterations a second beside 2 on one.
    assert max(found["held_gpus"]) == 2
    assert max(found["efficiency"]) == pytest.approx(0.75)


def test_an_overhead_is_paid(folder):
    setup = measure.Setup(groups.FIG6B.setup.trace, servers=1, gpus=2)
    cheap, dear = (
        measured(
            measure.runs(Effort(traces=folder), setup, "elasticflow", 1.0, overhead_s=overhead_s)[0]
        )
        for overhead_s in (0.0, 100.0)
    )
    assert dear["jct_s_mean"] >= cheap["jct_s_mean"] + 100


def test_philly_is_drawn_by_the_seed(folder):
    first, *_, last = groups.FIG8B[2].runs(Effort(traces=folder))
    assert measured(first)["jobs"] == 1, "the shorter one is left out"
    assert (first.parameters["seed"], last.parameters["seed"]) == (0, 4)


def test_jobs_last_their_durations_where_the_authors_let_them(folder):
    """Under Tiresias; its cluster efficiency is known where they do their iterations."""
    trace = groups.FIG6B.setup.trace
    linear, true = (
        measured(
            measure.runs(
                Effort(traces=folder),
                measure.Setup(trace, servers=1, gpus=2, at_speeds=at_speeds),
                "tiresias",
                1.0,
            )[0]
        )
        for at_speeds in (False, True)
    )
    assert linear["completed"] == true["completed"] == 3
    assert linear["makespan_s"] == pytest.approx(true["makespan_s"], rel=0.01)


# --- reports --------------------------------------------------------------------------------------


@pytest.fixture
def all_there(monkeypatch):
    """As if all traces lay at hand."""
    monkeypatch.setattr(Path, "exists", lambda _: True)


def made_up(run, ratios):
    """ElasticFlow is the best by far, whatever the setup."""
    policy = run.parameters["policy"]
    best = policy == "elasticflow"
    return {
        "deadline_ratio": ratios[policy],
        "deadline_ratio_slot": ratios[policy] - 0.01,
        "dropped": 4 * best,
        "decisions": 100,
        "makespan_s": 100 * 1380.0 if best else 4e5,
        "best_effort_jct_s": {"elasticflow": 50.0, "edf": 2000.0}.get(policy, 100.0),
        "at_h": [1.0, 99.0],
        "held_gpus": [128.0 if best else 64.0, 64.0],
        "efficiency": [0.3 if best else 0.2, 0.1],
        "submitted": [3, 9, 1],
        "rejected": [0, 4, 0],
    }


RATIOS = {
    **{"edf": 0.1, "gandiva": 0.2, "tiresias": 0.4, "themis": 0.35, "chronus": 0.42},
    **{"pollux": 0.45, "edf_admission": 0.3, "edf_elastic": 0.5, "elasticflow": 0.7},
}


def report(name, quick=False, ratios=RATIOS):
    experiment = BY_NAME[name]
    runs = experiment.runs(Effort(quick=quick, traces=Path("anywhere")))
    results = Results(runs, [made_up(run, ratios) for run in runs])
    if experiment.draw is not None:
        experiment.draw(results, Figure())
    return experiment.report(results)


def rows(of):
    return {row.what: row.ours for row in of.rows}


def holds(of):
    return {claim.text: claim.holds for claim in of.claims}


@pytest.mark.parametrize("quick", [False, True])
@pytest.mark.parametrize("name", BY_NAME)
def test_every_figure_reports_and_draws_what_was_run(all_there, name, quick):
    told = report(name, quick)
    assert told.rows and told.claims and told.why
    assert len({row.what for row in told.rows}) == len(told.rows)


def test_the_headline_is_a_range_of_factors(all_there):
    told = report("fig6b")
    assert rows(told)["ElasticFlow over EDF"] == (pytest.approx(7.0),)
    assert rows(told)["ElasticFlow, where an end counts when its slot ends"] == (0.69,)
    assert all(holds(told).values())
    assert not all(holds(report("fig6b", ratios=RATIOS | {"edf": 0.09})).values()), "7.8 times"
    assert not all(holds(report("fig6b", ratios=RATIOS | {"themis": 0.5})).values()), "1.4 times"


def test_a_baseline_that_meets_as_many_breaks_the_claim(all_there):
    assert all(holds(report("fig8a")).values())
    assert not any(holds(report("fig8a", ratios=RATIOS | {"pollux": 0.7})).values())


def test_edf_is_first_of_the_baselines_on_the_tenth_trace_and_last_on_others(all_there):
    told = holds(report("fig8b"))
    assert told["#10, 32 x 8 GPUs: EDF meets more than the baselines that are not elastic"] is False
    assert told["#1, 64 x 8 GPUs: EDF meets the fewest"] is True
    told = holds(report("fig8b", ratios=RATIOS | {"edf": 0.5}))
    assert told["#10, 32 x 8 GPUs: EDF meets more than the baselines that are not elastic"] is True
    assert told["Philly, 4 x 8 GPUs: EDF meets the fewest"] is False


def test_components_help_and_the_gap_shrinks(all_there):
    told = holds(report("fig9"))
    (shrinks,) = (text for text in told if "shrinks" in text)
    assert told.pop(shrinks) is False, "the same at each size"
    assert all(told.values())


def test_over_time(all_there):
    told = report("fig7")
    assert rows(told)["GPUs allocated in the first 13 hours, ElasticFlow"] == (128.0,)
    assert rows(told)["of them dropped by ElasticFlow"] == (4.0,)
    assert all(holds(told).values())
    told = holds(report("fig10"))
    assert [told.pop("ElasticFlow admits all jobs"), *told.values()] == [False, True, True]


def test_best_effort_jobs_are_told_beside_gandiva(all_there):
    told = report("fig11")
    assert rows(told)["10 % best effort: JCT, ElasticFlow"] == (2.0,)
    assert rows(told)["90 % best effort: JCT, EDF"] == (0.05,)
    assert all(holds(told).values())
    assert not all(holds(report("fig11", ratios=RATIOS | {"edf": 0.8})).values())


def test_overheads_beside_the_time_between_events(all_there):
    told = report("fig12b")
    assert rows(told)["mean time between scheduling events"] == (23.0,)
    assert all(holds(told).values())
    assert len(told.rows) == 2 + len(OVERHEADS_S)


def test_what_is_run_is_what_the_figures_show():
    figures: list[Bars] = [groups.FIG6A, groups.FIG6B, groups.FIG8A, *groups.FIG8B, *groups.FIG9]
    for group in (*figures, *groups.FIG11):
        assert all(bar.printed is not None for bar in group.of.values())
        assert max(group.of, key=lambda p: group.of[p].printed or 0) in ("elasticflow", "edf")
