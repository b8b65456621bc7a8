"""rrh by hand: ranks, pauses and admission, with the formulas written out."""

import math
from dataclasses import replace

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from policies.baselines.rrh import Rrh
from policies.problem import NO_MEMORY, Policy, PolicyError
from tests.builders import job, problem, training
from tests.policies.baselines.laws import decided, sizes, why
from tests.strategies import problems

SLOTS = Rrh(slot_s=10.0)
URGENT = (8.0, 0.1, 40.0)  # worth 8, falls around 40 s after submission


def test_is_a_policy():
    assert isinstance(Rrh(), Policy)
    assert (Rrh().name, Rrh().default_loaning, Rrh().interval_s) == ("rrh", "off", None)


@pytest.mark.parametrize(
    ("parameters", "error"),
    [
        ({"alpha": 1.5}, "alpha is 1.5; use 0 to 1"),
        ({"discount": -1}, "discount is -1; use a number from 0"),
        ({"threshold": math.inf}, "threshold is inf; use a number"),
        ({"slot_s": 0}, "slot_s is 0; use a positive number of seconds"),
    ],
)
def test_parameters_make_sense(parameters, error):
    with pytest.raises(PolicyError, match=error):
        Rrh(**parameters)


def test_bad_problems_are_refused_by_job_and_field():
    with pytest.raises(PolicyError, match="job a: epoch_s at 1 workers is nan"):
        Rrh().decide(problem([job("a", epoch_s=float("nan"))], [training(1)]), NO_MEMORY)


def test_where_nobody_loses_by_waiting_the_shortest_runs():
    """PV / slots: 1 / 1.02 / 2 against 1 / 1.01 / 1."""
    jobs = [job("long", 1, epochs=2), job("short", 1)]
    decision = decided(SLOTS, problem(jobs, [training(1)], now_s=1.0))
    assert sizes(decision) == {"long": 0, "short": 1}
    assert why(decision, "long") == (
        "waits: ranked 2 of 2, worth 0.98, 0 less for each slot of delay; needs 1 GPUs, 0 are free"
    )


def test_worth_counts_by_the_slot():
    """3 / 1.04 in 4 slots is less a slot than 1 / 1.01 in one."""
    jobs = [job("long", 1, epochs=4, utility=(6.0, 0.0, 0.0)), job("short", 1)]
    assert sizes(decided(SLOTS, problem(jobs, [training(1)]))) == {"long": 0, "short": 1}


def test_who_loses_by_waiting_goes_before_who_does_not_though_it_is_longer():
    """Ends after 40 s at u = 8 / 2; a slot later 8 / (1 + e): decay 1.85. Cost of the other:
    1 slot x 1.85, so it ranks at (0.5 x 0.99 - 0.5 x 1.85) / 1 < 0."""
    jobs = [job("flat", 1), job("urgent", 1, epochs=4, utility=URGENT)]
    decision = decided(SLOTS, problem(jobs, [training(1)], now_s=1.0))
    assert sizes(decision) == {"flat": 0, "urgent": 1}
    decay = 4 - 8 / (1 + math.e)
    assert decision.allocations["urgent"].reason.numbers["decay"] == pytest.approx(decay)
    assert decision.allocations["urgent"].reason.numbers["present"] == pytest.approx(4 / 1.04)


def test_a_running_job_pauses_for_one_of_higher_rank_and_resumes_at_its_size():
    flat = job("flat", (1, 4), running=3, epochs=9)
    both = problem([flat, job("urgent", 2, utility=(8.0, 0.1, 10.0))], [training(4)], now_s=1.0)
    decision, memory = SLOTS.decide(both, NO_MEMORY)
    assert sizes(decision) == {"flat": 0, "urgent": 2}
    assert why(decision, "flat").startswith("gives up its 3 workers: ranked 2 of 2")
    paused = problem([replace(flat, running=0)], [training(4)], now_s=20.0)
    assert sizes(SLOTS.decide(paused, memory)[0]) == {"flat": 3}


def test_an_arrival_that_brings_others_more_delay_than_it_is_worth_is_refused():
    """On one GPU it would run first; of each slot that it takes the other loses 1.80."""
    urgent = job("urgent", 1, epochs=4, utility=URGENT, running=1)
    worth = (20.0, 0.0, 0.0)  # 10 whenever it ends
    for epochs, refused in ((1, False), (6, True)):
        arrival = job("arrival", 1, epochs=epochs, utility=worth)
        case = problem([urgent, arrival], [training(1)], now_s=1.0)
        policy = Rrh(slot_s=10.0, alpha=0.9)
        decision = decided(policy, case)
        assert ("arrival" in decision.rejected) == refused
    assert str(decision.rejected["arrival"]) == (
        "refused: worth 9.43, the delay that it brings costs others 10.8; the threshold is 0"
    )
    room = problem([urgent, arrival], [training(2)], now_s=1.0)
    assert sizes(decided(policy, room)) == {"urgent": 1, "arrival": 1}


def test_the_threshold_is_what_an_arrival_must_exceed():
    case = problem([job("a", 1)], [training(1)])
    assert not decided(Rrh(discount=0.0, threshold=0.9), case).rejected
    assert decided(Rrh(discount=0.0, threshold=1.0), case).rejected


def test_who_was_admitted_or_has_run_is_not_judged_again():
    strict = Rrh(threshold=99.0)
    case = problem([job("waits", 1), job("runs", 1, running=1), job("new", 1)], [training(3)])
    ran = replace(case, jobs=replace(case.jobs, attained_gpu_s=np.array([5.0, 0.0, 0.0])))
    decision, memory = strict.decide(ran, NO_MEMORY)
    assert set(decision.rejected) == {"new"}
    fresh = problem([job("runs", 1)], [training(3)])
    assert not decided(strict, fresh, memory).rejected


@given(problems(lost_servers=True), st.floats(0, 1), st.booleans())
def test_jobs_run_at_one_size_or_not_at_all(case, alpha, switched):
    memory = {"version": 1, "workers": {"gone": 3, "job0": 99}} if switched else NO_MEMORY
    decision = decided(Rrh(alpha=alpha), case, memory)
    jobs = case.jobs
    for row, name in enumerate(jobs.ids):
        size = int(jobs.workers[row] or jobs.requested_workers[row])
        assert sizes(decision)[name] in (0, size)


@given(problems(lost_servers=True))
def test_who_waits_does_not_fit_beside_those_that_run(case):
    jobs, workers = case.jobs, sizes(decided(Rrh(), case))
    held = sum(workers[name] * jobs.gpus_per_worker[row] for row, name in enumerate(jobs.ids))
    for row, name in enumerate(jobs.ids):
        size = int(jobs.workers[row] or jobs.requested_workers[row])
        free = case.servers.total_gpus - held
        assert workers[name] or size * jobs.gpus_per_worker[row] > free
