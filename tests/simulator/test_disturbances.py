"""What goes wrong in a simulation: as often as asked for, and with the consequences it has."""

from dataclasses import replace

import numpy as np
import pytest

from raysched.errors import UserError
from raysched.events import JobEnded, ServerAdded, ServerLost
from raysched.simulator.scenario import Outside, Scenario, ServerSet, pool_of
from raysched.simulator.workloads.disturbances import Mishaps, disturb, failures
from tests.simulator.scenes import Costs, ended_s, job, simulate, stretches

HUNDRED = Scenario(
    [job(f"j{n}", 5.0 * n, epochs=10, workers=(1, 4), requested_workers=2) for n in range(100)], []
)


def hit(mishaps, seed=1):
    """Jobs that were misjudged, that will raise, and that will be cancelled."""
    found = disturb(HUNDRED, mishaps, seed)
    jobs = dict(zip([a.job for a in HUNDRED.arrivals], found.arrivals, strict=True))
    misjudged = {j for j, a in jobs.items() if a.spec.profile_epoch_s != a.epoch_s}
    buggy = {j for j, a in jobs.items() if a.fails_epochs is not None}
    return jobs, misjudged, buggy, {e.job: e.at_s for e in found.outside if isinstance(e, JobEnded)}


def test_as_many_jobs_are_hit_as_asked_for_and_none_twice():
    jobs, misjudged, buggy, cancelled = hit(
        Mishaps(misjudged=0.75, error=0.1, buggy=0.15, bug_within_s=20.0, cancelled=0.1)
    )
    assert (len(misjudged), len(buggy), len(cancelled)) == (75, 15, 10)
    assert misjudged | buggy | set(cancelled) == set(jobs)
    factors = [jobs[j].spec.profile_epoch_s[0] / jobs[j].epoch_s[0] for j in misjudged]
    assert 0.9 <= min(factors) < 0.93
    assert 1.07 < max(factors) <= 1.1
    # 50 s on the two workers asked for, 5 s an epoch: a bug shows within 20 s.
    assert all(0 < jobs[j].fails_epochs <= 4.0 for j in buggy)
    assert all(0 < at_s - jobs[j].at_s <= 50.0 for j, at_s in cancelled.items())


def test_the_same_seed_hits_the_same_jobs_another_one_others():
    asked = Mishaps(misjudged=0.2, buggy=0.2, cancelled=0.2)
    assert disturb(HUNDRED, asked, 1) == disturb(HUNDRED, asked, 1)
    assert hit(asked, 1)[1] != hit(asked, 2)[1]
    assert disturb(HUNDRED, Mishaps(), 1) == HUNDRED


def test_code_that_raises_ends_the_job_and_frees_its_gpus():
    broken = [_failing(job("a", epochs=10, workers=4), 3.5), job("b", 1.0, epochs=1, workers=4)]
    outcome = simulate(broken)
    a = outcome.history.jobs["a"]
    assert (a.outcome, a.ended_s, len(a.epochs)) == ("failed", 3.5 * 2.5, 1)
    assert a.epochs[0].epoch == 2
    assert ended_s(outcome)["b"] == 3.5 * 2.5 + 2.5


def test_a_job_does_not_leave_in_the_epoch_in_which_it_fails():
    jobs = [_failing(job("a", epochs=10, workers=(1, 4)), 1.5), job("b", 3.0, epochs=1)]
    outcome = simulate(jobs, sizes=lambda p: {"a": 4 if len(p.jobs) == 1 else 3, "b": 1})
    assert stretches(outcome, "a") == [(0.0, 3.75, 4)]
    assert outcome.history.jobs["a"].outcome == "failed"


def test_a_job_that_starts_over_raises_at_the_same_place():
    jobs = [_failing(job("a", epochs=10, checkpoints=False), 2.5), job("b", 12.0, epochs=1)]
    outcome = simulate(
        jobs, sizes=lambda p: {j: int(j != "a" or p.now_s != 12.0) for j in p.jobs.ids}
    )
    a = outcome.history.jobs["a"]
    assert [s.to_s - s.from_s for s in a.stretches] == [20.0, 25.0]
    assert a.outcome == "failed"


def test_scaling_down_may_take_another_time_than_scaling_up():
    jobs = [job("a", epochs=100, workers=(1, 4)), *(job(f"b{at}", at, epochs=1) for at in (30, 60))]
    outcome = simulate(
        jobs,
        sizes=lambda p: {
            j: 1 if j != "a" else 3 if p.now_s in (30.0, 60.0) else 4 for j in p.jobs.ids
        },
        costs=Costs(resize_s=7.0, shrink_s=2.0),
    )
    begun = outcome.history.jobs["a"].stretches
    waits = {(s.workers, (s.training_s or 0.0) - s.from_s) for s in begun[1:]}
    assert waits == {(3, 2.0), (4, 7.0)}


def test_servers_fail_and_are_repaired_at_the_rates_given():
    servers = pool_of("training", ServerSet(50, 8))
    day_s = 86_400.0
    happened = failures(servers, 400 * day_s, mtbf_s=9 * day_s, mttr_s=day_s, seed=3)
    lost = [event for event in happened if isinstance(event, ServerLost)]
    assert len(lost) == pytest.approx(50 * 400 / 10, rel=0.1)
    assert len(happened) == 2 * len(lost)
    assert [e.at_s for e in happened] == sorted(e.at_s for e in happened)
    down_s = []
    for name in (server.server for server in servers):
        of_one = [event for event in happened if event.server == name]
        assert [type(event) for event in of_one] == [ServerLost, ServerAdded] * (len(of_one) // 2)
        down_s += [
            back.at_s - gone.at_s for gone, back in zip(of_one[::2], of_one[1::2], strict=True)
        ]
    assert np.mean(down_s) == pytest.approx(day_s, rel=0.1)
    assert happened == failures(servers, 400 * day_s, mtbf_s=9 * day_s, mttr_s=day_s, seed=3)


def test_what_happens_to_a_server_does_not_depend_on_others():
    servers = pool_of("training", ServerSet(9, 8))
    all_nine = failures(servers, 1e6, mtbf_s=1e5, mttr_s=1e4, seed=3)
    first = failures(servers[:1], 1e6, mtbf_s=1e5, mttr_s=1e4, seed=3)
    assert first == [event for event in all_nine if event.server == "t1"]


def test_jobs_survive_failing_servers():
    jobs = [job(f"j{n}", 10.0 * n, epochs=40, workers=(1, 4)) for n in range(12)]
    servers = pool_of("training", ServerSet(2, 4))
    outside = failures(servers, 3600.0, mtbf_s=120.0, mttr_s=60.0, seed=1)
    outcome = simulate(jobs, (2, 4), outside=outside, policy="aryl")
    history = outcome.history
    assert {j.outcome for j in history.jobs.values()} == {"finished"}
    assert sum(j.losses for j in history.jobs.values()) > 0


def test_events_from_outside_are_in_the_order_of_time():
    scenario = Scenario([], pool_of("training", ServerSet(1, 4)))
    events: list[Outside] = [JobEnded(20.0, "a", "cancelled"), ServerLost(5.0, "t1")]
    assert [e.at_s for e in scenario.and_also(events).outside] == [0.0, 5.0, 20.0]


@pytest.mark.parametrize(
    ("wrong", "named"),
    [
        ({"misjudged": 0.7, "buggy": 0.4}, "shares"),
        ({"cancelled": -0.1}, "shares"),
        ({"error": 1.0}, "error"),
        ({"bug_within_s": 0.0}, "bug_within_s"),
    ],
)
def test_impossible_mishaps_are_refused(wrong, named):
    with pytest.raises(UserError, match=named):
        Mishaps(**wrong)


def _failing(arrival, epochs):
    return replace(arrival, fails_epochs=epochs)
