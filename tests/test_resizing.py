"""Growth that does not pay for the resize is left out, and nothing else is."""

from __future__ import annotations

import pytest

from policies.problem import Allocation, Decision, Promise
from policies.reason import because
from raysched.events import PolicyDecided, PolicySwitched
from tests.pretend_cluster import EPOCH_S, PretendCluster, spec, two_servers

RESIZE_S = 2.0  # as a pretended cluster starts workers
WHY = because("a test")


@pytest.fixture
def cluster() -> PretendCluster:
    """The tests decide in the place of the policy."""
    return two_servers("fifo")


def decide(cluster, promise=None, weighs=True, **workers):
    """Answer as a policy that gives these jobs so many workers, which start where they can."""
    # The switch has it asked, if it is not already.
    cluster.tell(PolicySwitched(cluster.now_s, "fifo", weighs_resizes=weighs))
    ask = cluster.engine.state.policy.outstanding
    asked = {job: Allocation(n, WHY, promise=promise) for job, n in workers.items()}
    cluster.tell(PolicyDecided(cluster.now_s, ask, Decision(asked), {}))
    for job in workers:
        cluster.pick_up(job)


def running(cluster, name, workers, *, epochs=20):
    """A job that runs, and has told of an epoch."""
    cluster.submit(name, spec(workers=(1, 8), epochs=epochs))
    decide(cluster, **{name: workers})
    cluster.finish_epoch(name)
    assert target(cluster)[name] == workers


def target(cluster):
    return {job.id: job.workers for job in cluster.engine.state.live_jobs()}


def saved_s(left, now, more):
    return left * (EPOCH_S / now - EPOCH_S / more)


# An epoch is under way; n are left after it: 4 / 2 - 4 / 4 seconds are saved in each.
@pytest.mark.parametrize(("epochs", "grows"), [(4, False), (5, True)])
def test_a_job_grows_where_it_saves_more_than_a_resize_costs(cluster, epochs, grows):
    running(cluster, "a", 2, epochs=epochs)
    left = epochs - 2
    assert (saved_s(left, 2, 4) > RESIZE_S) is grows
    decide(cluster, a=4)
    assert target(cluster) == {"a": 4 if grows else 2}


def test_the_reason_says_what_was_weighed(cluster):
    running(cluster, "a", 2, epochs=3)
    decide(cluster, a=4)
    reason = str(cluster.engine.state.live["a"].reason)
    assert reason == "keeps its 2 workers: 4 would save 1 s, and a resize costs 2 s"


def test_while_no_resize_was_measured_all_growth_pays(cluster):
    running(cluster, "a", 2, epochs=3)
    cluster.engine.state.restart_s = 0.0
    decide(cluster, a=4)
    assert target(cluster) == {"a": 4}


def test_where_resizes_are_not_weighed_all_growth_pays(cluster):
    """As in simulations of the published systems."""
    running(cluster, "a", 2, epochs=3)
    decide(cluster, weighs=False, a=4)
    assert target(cluster) == {"a": 4}


def test_a_job_whose_workers_can_be_joined_pays_for_a_resize_in_place(cluster):
    cluster.joinable.add("a")
    running(cluster, "a", 2, epochs=3)
    cluster.engine.state.resize_s = 0.5
    decide(cluster, a=4)
    assert target(cluster) == {"a": 4}


def test_a_job_that_nothing_is_known_of_grows(cluster):
    cluster.submit("a", spec(workers=(1, 8), epochs=1))
    decide(cluster, a=2)
    decide(cluster, a=4)
    assert target(cluster) == {"a": 4}


def test_what_others_need_is_given_up_and_who_waits_starts(cluster):
    running(cluster, "a", 4, epochs=3)
    cluster.submit("b", spec(workers=(4, 8)))
    decide(cluster, a=1, b=7)
    assert target(cluster) == {"a": 1, "b": 7}
    decide(cluster, a=0, b=7)
    assert target(cluster) == {"a": 0, "b": 7}


def test_growth_is_left_out_where_others_shrink_for_who_starts_alone(cluster):
    running(cluster, "short", 1, epochs=3)
    running(cluster, "long", 4)
    cluster.submit("new", spec(workers=(2, 2)))
    decide(cluster, short=2, long=2, new=2)
    assert target(cluster) == {"short": 1, "long": 2, "new": 2}


def test_nobody_shrinks_for_growth_that_is_left_out(cluster):
    running(cluster, "short", 1, epochs=3)
    running(cluster, "long", 4)
    decide(cluster, short=2, long=3)
    assert target(cluster) == {"short": 2, "long": 3}


def test_growth_that_is_promised_or_paid_for_already_goes_on(cluster):
    running(cluster, "a", 1, epochs=3)
    decide(cluster, promise=Promise((), cluster.now_s + 60.0), a=4)
    assert target(cluster) == {"a": 4}
    running(cluster, "b", 1, epochs=4)
    job = cluster.engine.state.live["b"]
    cluster.engine.state.restart_s = 0.1
    decide(cluster, b=2)
    assert job.offer is not None
    cluster.engine.state.restart_s = 1000.0
    decide(cluster, b=3)  # it leaves its workers in any case
    assert target(cluster)["b"] == 3
