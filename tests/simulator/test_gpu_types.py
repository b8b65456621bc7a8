"""GPUs of several types in virtual time: who stands on slower ones takes longer."""

import pytest

from policies.problem import MIXING
from raysched.simulator.body import Simulator
from raysched.simulator.metrics import metrics
from raysched.simulator.models import Costs, Settings
from raysched.simulator.scenario import Scenario, ServerSet, pool_of
from tests.simulator.scenes import ended_s, job
from tests.simulator.test_lending import REFILL_S, demand_on, valley

FAST, SLOW = ServerSet(1, 4, "V100"), ServerSet(1, 4, "T4", 0.25)


def run(jobs, *sets, outside=(), **settings):
    outside = [*pool_of("training", *sets), *outside]
    return Simulator(Scenario(jobs, outside), Settings(**settings)).run()


def test_servers_are_numbered_through_the_pool():
    (fast, slow) = pool_of("inference", FAST, SLOW)
    assert (fast.server, fast.gpu_type, fast.gpu_rate) == ("i1", "V100", 1.0)
    assert (slow.server, slow.gpu_type, slow.gpu_rate) == ("i2", "T4", 0.25)
    assert [s.server for s in pool_of("training", ServerSet(10, 8))][::9] == ["t01", "t10"]


def test_a_job_takes_longer_on_slower_gpus():
    jobs = [job("fast", gpu_type="V100", workers=4), job("slow", gpu_type="T4", workers=4)]
    outcome = run(jobs, FAST, SLOW)
    assert ended_s(outcome) == {"fast": 10.0, "slow": 40.0}
    (reported,) = {epoch.epoch_s for epoch in outcome.history.jobs["slow"].epochs}
    assert reported == 10.0  # 2.5 s on GPUs of rate 1


@pytest.mark.parametrize("mixing", [MIXING, 1.0])
def test_one_that_mixes_types_has_the_sum_of_their_speeds_less_what_mixing_costs(mixing):
    jobs = [job("mixed", epochs=8, workers=8, mixes_gpus=True)]
    outcome = run(jobs, FAST, SLOW, costs=Costs(mixing=mixing))
    assert outcome.history.jobs["mixed"].stretches[0].servers == {"t1": 4, "t2": 4}
    assert ended_s(outcome)["mixed"] == pytest.approx(80.0 / (mixing * (4 + 4 * 0.25)))
    assert metrics(outcome)["cluster_efficiency"] == pytest.approx(mixing, abs=1e-3)


def test_lent_gpus_may_be_slower():
    jobs = [job("fills", epochs=200, workers=4), job("there", 1.0, epochs=10, workers=4)]
    lent = [*pool_of("inference", ServerSet(2, 4, "T4", 0.25)), *demand_on(valley)]
    there = run(jobs, FAST, outside=lent, policy="aryl", loaning="aryl").history.jobs["there"]
    (stretch,) = there.stretches
    assert stretch.servers == {"i2": 4}
    assert stretch.to_s - stretch.from_s == pytest.approx(100.0)
    assert REFILL_S < stretch.from_s < 60.0
