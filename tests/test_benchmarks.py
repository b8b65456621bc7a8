"""The benchmark at tiny sizes: fast and naive agree, a wrong answer fails the run, the JSON."""

import json
from dataclasses import replace

import pytest
from click.testing import CliRunner

from benchmarks import aryl, decide, elasticflow, ffdl, growth, modelarts, oasis, reclaim
from benchmarks.measure import Disagreement, Question, Sample, agree
from benchmarks.row import Row, Target, run
from policies.rolling_horizon_exact import solve_compact

FEW_PROGRAMS = ffdl.sample(4, 12, 6, seeds=2, naive=True)
ROWS = [
    modelarts.planned("modelarts", 5, 8, Target(1e6, "p95", limits={"gap": 1.0}), None),
    modelarts.planned("modelarts-beside", 6, 9, None, modelarts.sample(4, 6, 1, solve_compact)),
    modelarts.as_printed("modelarts-as-printed", 3, 5),
    ffdl.program("ffdl", FEW_PROGRAMS, Target(1e6, limits={"unproven": 0.0})),
    aryl.allocated("aryl", 8, 40),
    reclaim.algorithm_1("reclaim-algorithm-1", 12),
    reclaim.searched("reclaim", 12),
    elasticflow.arrival("elasticflow", 12),
    oasis.arrival("oasis", 12, 4, before=6, small=60),
    *(growth.grown(f"{name}-60", name, (30, 60)) for name in growth.CASES),
]
KEYS = {"size", "median_ms", "p95_ms", "runs", "baseline", "mean", "worst", "target_ms", "met"}
OF_A_BASELINE = {"baseline_ms", "baseline_size", "compared_ms", "ratio"}


def a_row(fast, naive=1.0, target=None):
    """A row whose answers are these numbers."""

    def check(fast, naive):
        agree("the number", fast, naive)
        return {}

    question = Question(fast=lambda: fast, naive=lambda: naive, check=check)
    return Row("number", Sample("one number", lambda seed: question, 2), target, "the same")


@pytest.mark.parametrize("row", ROWS, ids=lambda row: row.name)
def test_fast_and_naive_agree(row):
    result = run(replace(row, sample=replace(row.sample, seeds=2)))
    assert "disagreement" not in result
    assert set(result) >= KEYS | (OF_A_BASELINE if row.baseline else set())
    assert result["p95_ms"] >= result["median_ms"] > 0
    assert result["met"] is (None if row.target is None else True)


TAMPERED = [
    ("modelarts", lambda exact: replace(exact, value=exact.value + 1, bound=exact.bound + 1)),
    ("modelarts", lambda exact: replace(exact, bound=exact.bound - 1)),
    ("modelarts", lambda exact: replace(exact, plans=None)),
    ("ffdl", lambda naive: (naive[0], naive[1] + 0.001)),
    ("aryl", lambda naive: (naive[0], naive[1] + 1)),
    ("reclaim-algorithm-1", lambda naive: replace(naive, servers=naive.servers[::-1])),
    ("reclaim", lambda exact: replace(exact, bound=100)),
    ("reclaim", lambda exact: replace(exact, servers=exact.servers[1:])),
    ("elasticflow", lambda naive: (naive[0], 3 if naive[1] is None else None)),
    ("elasticflow", lambda naive: (naive[0] | {1: []}, naive[1])),
    ("oasis", lambda naive: (naive[0] + 1, naive[1])),
]


@pytest.mark.parametrize(("name", "tamper"), TAMPERED)
def test_every_check_can_fail(name, tamper):
    row = next(row for row in ROWS if row.name == name)
    question = (row.beside or row.sample).ask(0)
    assert question.naive is not None
    fast, naive = question.fast(), question.naive()
    question.check(fast, naive)
    with pytest.raises(Disagreement):
        question.check(fast, tamper(naive))


def test_a_decision_that_leaves_a_job_out_is_wrong():
    question = growth.grown("aryl-8", "aryl", (8,)).sample.ask(0)
    decision, memory = question.fast()
    left = dict(list(decision.allocations.items())[1:])
    with pytest.raises(Disagreement, match="no answer"):
        question.check((replace(decision, allocations=left), memory), None)


def test_a_promise_that_does_too_little_is_wrong():
    case, memory = elasticflow.arrives(8, 0)
    decision, _ = elasticflow.POLICY.decide(case, memory)
    elasticflow.check_promises(case, decision)
    longer = replace(case.jobs, remaining_epochs=9 * case.jobs.remaining_epochs)
    with pytest.raises(Disagreement, match="is promised"):
        elasticflow.check_promises(replace(case, jobs=longer), decision)


def test_a_wrong_answer_fails_the_run_and_says_so(tmp_path, capsys):
    assert decide.bench([a_row(1.0), a_row(1.5)], tmp_path, as_json=False, starts=False) == 1
    printed = capsys.readouterr()
    assert "WRONG" in printed.out
    assert (
        "number: wrong answer: one number, seed 0: the number is 1.5, by the naive form 1.0\n"
        in printed.err
    )


def test_a_missed_target_is_said_and_does_not_fail_the_run(tmp_path, capsys):
    missed = a_row(1.0, target=Target(0.0))
    assert decide.bench([missed], tmp_path, as_json=False, starts=False) == 0
    assert "| NO " in capsys.readouterr().out
    assert run(a_row(1.0, target=Target(1e6, ratio=1e9)))["met"] is False
    assert run(a_row(1.0, target=Target(1e6)))["met"] is True


def test_json_and_picture(tmp_path, capsys):
    rows = [growth.grown("aryl-24", "aryl", (8, 24)), a_row(1.0)]
    assert decide.bench(rows, tmp_path / "out", as_json=True, starts=False) == 0
    printed = json.loads(capsys.readouterr().out)
    assert printed == json.loads((tmp_path / "out" / "decide.json").read_text())
    assert set(printed) == {"aryl-24", "number", "machine"}
    assert set(printed["machine"]) == {"cores", "python", "numpy", "numba", "scipy"}
    assert set(printed["aryl-24"]["median_ms_by_jobs"]) == {"8", "24"}
    assert (tmp_path / "out" / "decide.png").stat().st_size > 1000


def test_only_picks_by_name_or_its_beginning(tmp_path):
    refused = CliRunner().invoke(decide.main, ["--only", "fif", "--out", str(tmp_path / "out")])
    assert refused.exit_code == 2
    assert "'fif' is no decision; use modelarts-170" in refused.output
    assert not (tmp_path / "out").exists()
    assert [row.name for row in decide.named("ffdl-100")] == ["ffdl-100"]
    assert {row.name for row in decide.named("reclaim")} == {"reclaim", "reclaim-algorithm-1"}
