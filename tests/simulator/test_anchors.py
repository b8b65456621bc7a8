"""Figures that others' simulators printed, on their traces, reached with our simulator.

The traces lie in `../shared/data`, beside the checkout; its README says what the figures are. The
longer ones are not run here.
"""

from pathlib import Path

import pytest

from raysched.simulator.compare import Comparison, compare
from raysched.simulator.scenario import ServerSet

DATA = Path(__file__).parents[3] / "shared" / "data"

pytestmark = pytest.mark.skipif(not DATA.is_dir(), reason=f"the traces are not in {DATA}")

WITHIN = 0.03
"""Of the jobs, by which a ratio of deadlines met may differ."""

FIRST_25 = {"edf": 0.08, "gandiva": 0.20, "tiresias": 0.32, "themis": 0.28}
FIRST_40_JCT_S = {"tiresias": 1704.1, "optimus": 1652.9}
ALL_195 = {"edf": 0.087, "gandiva": 0.241, "tiresias": 0.462}


def ratios(trace, servers, policies, out, slot_s=240.0):
    asked = Comparison(
        trace=DATA / "elasticflow" / trace,
        policies=tuple(policies),
        servers=(servers,),
        profiles=DATA / "elasticflow" / "throughputs_A100",
        slot_s=slot_s,
        assume="elasticflow",
    )
    found = compare(asked, out).metrics
    return {name: found[name]["deadline_ratio_slot"] for name in policies}


@pytest.mark.parametrize(
    ("trace", "servers", "figures"),
    [
        ("generated/first25of195.csv", ServerSet(4, 8), FIRST_25),
        ("traces/195job.csv", ServerSet(16, 8), ALL_195),
    ],
)
def test_elasticflows_baselines_meet_as_many_deadlines(trace, servers, figures, tmp_path):
    assert ratios(trace, servers, figures, tmp_path) == pytest.approx(figures, abs=WITHIN)


@pytest.mark.parametrize(
    ("trace", "servers", "figure"),
    [("cluster10.csv.gz", ServerSet(32, 8), 0.331), ("cluster01.csv.gz", ServerSet(64, 8), 0.162)],
)
def test_gandiva_meets_as_many_deadlines_on_whole_clusters(trace, servers, figure, tmp_path):
    found = ratios(f"traces/{trace}", servers, ["gandiva"], tmp_path, slot_s=60.0)
    assert found["gandiva"] == pytest.approx(figure, abs=WITHIN)


@pytest.mark.parametrize(("slot_s", "least"), [(240.0, 0.687), (60.0, 0.867)])
def test_elasticflow_meets_at_least_as_many_deadlines(slot_s, least, tmp_path):
    found = ratios("traces/195job.csv", ServerSet(16, 8), ["elasticflow"], tmp_path, slot_s)
    assert found["elasticflow"] >= least


@pytest.mark.parametrize(
    ("figures_s", "within"), [(FIRST_40_JCT_S, 0.05), ({"pollux": 1161.1}, 0.10)]
)
def test_jobs_of_pollux_take_as_long(figures_s, within, tmp_path):
    rows = (DATA / "pollux" / "workloads" / "workload-6.csv").read_text().splitlines()
    (tmp_path / "first40.csv").write_text("\n".join(rows[:41]) + "\n")
    asked = Comparison(
        trace=tmp_path / "first40.csv",
        policies=tuple(figures_s),
        servers=(ServerSet(16, 4),),
        profiles=DATA / "pollux" / "profiles_g4dn_T4.tar.gz",
        assume="pollux",
    )
    found = compare(asked, tmp_path).metrics
    jct_s = {policy: found[policy]["jct_s_mean"] for policy in figures_s}
    assert jct_s == pytest.approx(figures_s, rel=within)
