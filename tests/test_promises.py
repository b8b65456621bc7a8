"""What one policy promised is kept under the next, or is said to be broken (ruling 4)."""

from __future__ import annotations

import pytest
from hypothesis import given
from hypothesis import strategies as st

from policies import registry as policy_registry
from policies.problem import PlanStep, Promise
from policies.reason import because
from raysched.decisions import broken_promises
from raysched.events import ForeignGpusObserved
from raysched.promises import peak_gpus, unkeepable, workers_at
from raysched.questions import trial
from raysched.state import Job
from raysched.views import explain
from tests.pretend_cluster import EPOCH_S, PretendCluster, spec, two_servers


def elasticflow_cluster() -> PretendCluster:
    """Two training servers of 4 GPUs under elasticflow, with slots of 10 s."""
    return two_servers("elasticflow", slot_s=10.0)


def submit(cluster, name, workers, epochs, deadline_s=None):
    """A job of which it is known how long it takes."""
    expected_s = EPOCH_S / workers[0] * epochs
    described = spec(workers=workers, epochs=epochs, expected_s=expected_s, deadline_s=deadline_s)
    cluster.submit(name, described)
    cluster.settle()
    return cluster.engine.state.jobs[name]


@pytest.fixture
def cluster() -> PretendCluster:
    """`due` was promised 1 or 2 of 8 GPUs until 60 s; elasticflow lets it run on all of them."""
    made = elasticflow_cluster()
    due = submit(made, "due", (1, 8), epochs=20, deadline_s=60.0)
    assert due.promise is not None
    assert due.workers_now == 8
    return made


def test_the_next_policy_gets_what_the_promise_leaves(cluster):
    due = cluster.engine.state.jobs["due"]
    promised = workers_at(due, 0.0)
    cluster.switch("aryl")
    wide = submit(cluster, "wide", (1, 8), epochs=4)
    assert due.workers == promised < 8
    assert wide.workers == 8 - peak_gpus([due], 0.0)
    assert "keeps to the plan that was promised" in str(due.reason)
    assert explain(cluster.engine.state, due, 0.0)["promise"]["kept_by"] == "the scheduler"


def test_a_policy_does_not_see_what_is_promised_under_another(cluster):
    cluster.switch("fifo")
    question = cluster.questions[-1]
    assert question.problem.jobs.ids == ()
    due = cluster.engine.state.jobs["due"]
    assert question.problem.servers.total_gpus == 8 - peak_gpus([due], 0.0)


def test_plans_take_their_steps_under_another_policy(cluster):
    due = cluster.engine.state.jobs["due"]
    due.promise = Promise((PlanStep(0.0, 1), PlanStep(20.0, 4)), 60.0)
    cluster.switch("fifo")
    cluster.settle()
    assert due.workers == 1
    assert cluster.engine.next_due_s() == 20.0
    cluster.pass_time(20.0)
    cluster.settle()
    assert due.workers == 4


def test_a_promise_ends_with_its_time(cluster):
    due = cluster.engine.state.jobs["due"]
    cluster.switch("fifo")
    cluster.settle()
    cluster.pass_time(60.0)
    cluster.settle()
    assert due.promise is None
    assert due.promise_over == "it held until 60 s"
    assert "keeps to the plan" not in str(due.reason)


def test_an_operator_may_break_promises(cluster):
    due = cluster.engine.state.jobs["due"]
    cluster.switch("fifo", break_promises=True)
    assert due.promise is None
    assert due.promise_over == "broken by an operator for policy fifo"
    assert cluster.questions[-1].problem.jobs.ids == ("due",)


def test_choosing_the_same_policy_again_hands_nothing_over(cluster):
    cluster.switch("elasticflow", slot_s=10.0)
    assert not cluster.engine.state.jobs["due"].inherited


def test_what_is_lent_bears_no_promise(cluster):
    cluster.serve()
    cluster.switch("fifo", "aryl")
    cluster.settle()
    cluster.demand(2.0, 30)
    cluster.scale()
    cluster.settle()
    question = trial(cluster.engine, cluster.engine.policy, break_promises=False)
    servers = question.problem.servers
    due = cluster.engine.state.jobs["due"]
    assert servers.gpus[servers.on_loan].sum() == 4
    assert servers.owned_gpus == 8 - peak_gpus([due], 0.0)
    due.promise = Promise((PlanStep(0.0, 1), PlanStep(50.0, 9)), 60.0)
    assert "which has 8" in broken_promises(cluster.engine.state)["due"]


def test_losing_a_server_voids_the_promises_that_it_bore_and_says_which(cluster):
    state = cluster.engine.state
    later = submit(cluster, "later", (1, 8), epochs=20, deadline_s=200.0)
    due = state.jobs["due"]
    due.promise = later.promise = Promise((PlanStep(0.0, 3),), 200.0)
    cluster.switch("fifo")
    cluster.settle()
    cluster.lose_server("t2")
    assert due.promise is not None
    assert later.promise is None
    assert later.promise_over == (
        "void: the plans promised need 6 GPUs of the training pool, 4 are left"
    )


def test_gpus_that_others_take_void_promises_too(cluster):
    due = cluster.engine.state.jobs["due"]
    cluster.switch("fifo")
    for server in ("t1", "t2"):
        cluster.tell(ForeignGpusObserved(0.0, server, 4))
    assert due.promise_over.startswith("void")


def test_a_switch_that_cannot_keep_a_promise_is_told_which_and_why(cluster):
    state = cluster.engine.state
    assert broken_promises(state) == {}
    state.jobs["due"].promise = Promise((PlanStep(0.0, 2), PlanStep(30.0, 9)), 60.0)
    assert broken_promises(state) == {
        "due": "the plans need 9 GPUs of the training pool, which has 8"
    }


def test_a_gang_that_finds_only_fragments_breaks_its_promise(cluster):
    state = cluster.engine.state
    now = Promise((PlanStep(0.0, 1),), 60.0)
    state.live = {
        name: Job(name, spec(workers=(1, 1), gpus=gpus), 0.0, promise=now)
        for name, gpus in (("a", 3), ("b", 3), ("c", 2))
    }
    assert broken_promises(state) == {
        "c": "1 workers of 2 GPUs each must start together, 0 fit into the 2 GPUs that are free "
        "or flexible"
    }


def a_job(workers: int, *steps: tuple[float, int], until_s: float = 100.0, gpus: int = 1) -> Job:
    plan = tuple(PlanStep(start_s, size) for start_s, size in steps)
    described = spec(workers=(1, workers), gpus=gpus)
    return Job("a", described, 0.0, promise=Promise(plan, until_s), reason=because(""))


def test_the_peak_of_plans_counts_what_runs_at_the_same_time():
    early = a_job(4, (0.0, 4), (10.0, 1))
    late = a_job(4, (10.0, 4), until_s=50.0)
    last = a_job(4, (50.0, 4), gpus=2)
    assert peak_gpus([early, late], 0.0) == 5
    assert peak_gpus([early, late], 20.0) == 5
    assert peak_gpus([early, last], 0.0) == 9
    assert peak_gpus([late, last], 0.0) == 8
    assert unkeepable([early, late, last], 5, 0.0) == [last]
    assert unkeepable([early, late, last], 3, 0.0) == [early, late, last]


plans = st.lists(
    st.tuples(st.integers(0, 9), st.integers(0, 4)),
    min_size=1,
    max_size=4,
    unique_by=lambda s: s[0],
)


@given(
    st.lists(st.tuples(plans, st.integers(1, 12), st.integers(1, 3)), max_size=5), st.integers(0, 9)
)
def test_the_peak_agrees_with_looking_at_every_second(jobs, now_s):
    made = [
        a_job(4, *sorted((float(s), n) for s, n in steps), until_s=float(until), gpus=gpus)
        for steps, until, gpus in jobs
    ]
    by_second = [
        sum(workers_at(job, second) * job.spec.gpus_per_worker for job in made)
        for second in range(now_s, 13)
    ]
    assert peak_gpus(made, float(now_s)) == max(by_second, default=0)


class Clock:
    """Runs a pretend cluster in its own time: epochs of several jobs pass side by side."""

    def __init__(self, cluster: PretendCluster) -> None:
        self.cluster = cluster
        self.boundary_s: dict[str, float] = {}

    def run(self, until_s: float = float("inf")) -> None:
        """On to `until_s`, or until nothing is left to come."""
        state = self.cluster.engine.state
        while True:
            self.cluster.settle()
            self._note_epochs()
            due_s = self.cluster.engine.next_due_s()
            boundary_s, job = min(
                ((s, j) for j, s in self.boundary_s.items()), default=(float("inf"), "")
            )
            at_s = min(boundary_s, float("inf") if due_s is None else due_s)
            if at_s > until_s or at_s == float("inf"):
                self.cluster.now_s = max(self.cluster.now_s, min(until_s, 1e9))
                return
            self.cluster.now_s = max(self.cluster.now_s, at_s)
            if at_s == boundary_s:
                self._finish_epoch(state.jobs[job])
            else:
                self.cluster.pass_time(0.0)

    def _note_epochs(self) -> None:
        live = {j.id: j for j in self.cluster.engine.state.live_jobs() if j.phase == "running"}
        for job in self.boundary_s.keys() - live.keys():
            del self.boundary_s[job]
        for job, record in live.items():
            if job not in self.boundary_s:
                self.boundary_s[job] = self.cluster.now_s + EPOCH_S / record.workers_now

    def _finish_epoch(self, job: Job) -> None:
        del self.boundary_s[job.id]
        self.cluster.now_s -= EPOCH_S / job.workers_now  # which finishing it adds
        self.cluster.finish_epoch(job.id)


arrivals = st.lists(
    st.tuples(
        st.integers(1, 2),  # least workers
        st.integers(0, 4),  # more
        st.integers(6, 20),  # epochs
        st.sampled_from([None, 30.0, 45.0, 60.0, 90.0]),  # deadline
    ),
    min_size=1,
    max_size=6,
)


@given(
    arrivals,
    st.floats(0.0, 15.0),
    st.lists(st.sampled_from(policy_registry.names()), min_size=1, max_size=3),
)
def test_an_admitted_deadline_is_kept_under_whatever_policy_follows(jobs, switch_s, names):
    cluster = elasticflow_cluster()
    clock = Clock(cluster)
    for number, (least, more, epochs, deadline_s) in enumerate(jobs):
        submit(cluster, f"j{number}", (least, least + more), epochs, deadline_s)
    clock.run(until_s=switch_s)
    admitted = [job for job in cluster.engine.state.live_jobs() if job.promise is not None]
    for number, name in enumerate(names):
        cluster.switch(name)
        for rival in ("a", "b"):  # who would take all there is
            submit(cluster, f"{rival}{number}", (2, 6), epochs=10)
        clock.run(until_s=cluster.now_s + switch_s)
    clock.run()
    for job in admitted:
        assert job.outcome == "finished", f"{job.id}: {job.reason}"
        assert job.ended_s is not None and job.spec.deadline_s is not None
        assert job.ended_s <= job.submitted_s + job.spec.deadline_s
