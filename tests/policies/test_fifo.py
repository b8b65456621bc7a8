"""fifo by hand, and what always holds."""

import numpy as np
from hypothesis import given

from policies.fifo import Fifo
from policies.problem import NO_MEMORY, Policy
from tests.builders import job, on_loan, problem, training
from tests.strategies import problems


def sizes(jobs, servers):
    decision, _ = Fifo().decide(problem(jobs, servers), NO_MEMORY)
    return {name: allocation.workers for name, allocation in decision.allocations.items()}


def why(name, jobs, servers):
    decision, _ = Fifo().decide(problem(jobs, servers), NO_MEMORY)
    return str(decision.allocations[name].reason)


def test_is_a_policy():
    assert isinstance(Fifo(), Policy)
    assert (Fifo().name, Fifo().default_loaning, Fifo().interval_s) == ("fifo", "off", None)


def test_a_job_starts_on_the_size_that_it_asked_for():
    case = problem([job("a", (1, 4), requested=3)], [training(4)])
    assert Fifo().decide(case, NO_MEMORY)[0].allocations["a"].workers == 3


def test_jobs_start_on_their_minimum_in_the_order_of_arrival():
    jobs = [job("a", (2, 8)), job("b", 1, gpus=4), job("c", (1, 2))]
    assert sizes(jobs, [training(8)]) == {"a": 2, "b": 1, "c": 1}


def test_the_head_of_the_queue_blocks_what_would_fit():
    jobs = [job("a", 2), job("big", 4), job("small", 1)]
    assert sizes(jobs, [training(4)]) == {"a": 2, "big": 0, "small": 0}
    assert why("big", jobs, [training(4)]) == "first of the queue: needs 4 GPUs, 2 are free"
    assert why("small", jobs, [training(4)]) == (
        "waits behind 1 in the queue: its first, big, needs 4 GPUs, 2 are free"
    )


def test_servers_on_loan_count():
    assert sizes([job("a", 6)], [training(4), on_loan(4)]) == {"a": 6}


def test_a_job_that_another_policy_had_grown_keeps_its_size():
    jobs = [job("a", (1, 4), running=3), job("b", 1)]
    assert sizes(jobs, [training(4)]) == {"a": 3, "b": 1}


def test_where_a_server_was_lost_the_latest_submitted_wait():
    jobs = [job("a", 2, running=2), job("b", 2, running=2), job("c", 1)]
    assert sizes(jobs, [training(3)]) == {"a": 2, "b": 0, "c": 0}


@given(problems())
def test_never_resizes_never_overtakes_never_exceeds(case):
    decision, memory = Fifo().decide(case, NO_MEMORY)
    jobs = case.jobs
    workers = np.array([decision.allocations[name].workers for name in jobs.ids], dtype=int)
    runs, queued = jobs.workers > 0, jobs.workers == 0
    assert (workers[runs] == jobs.workers[runs]).all()
    started = workers[queued] > 0
    assert (started[:-1] >= started[1:]).all()
    assert (workers[queued] == np.where(started, jobs.min_workers[queued], 0)).all()
    assert (jobs.gpus_per_worker * workers).sum() <= case.servers.total_gpus
    assert memory == NO_MEMORY


@given(problems(lost_servers=True))
def test_fits_what_is_left_when_servers_are_lost(case):
    decision, _ = Fifo().decide(case, NO_MEMORY)
    workers = [decision.allocations[name].workers for name in case.jobs.ids]
    assert sum(case.jobs.gpus_per_worker * workers) <= case.servers.total_gpus
