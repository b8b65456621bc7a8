"""edf_admission by hand, that who is admitted never misses, and what always holds."""

from dataclasses import replace
from typing import Any

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from policies.baselines.edf_admission import EdfAdmission
from policies.problem import NO_MEMORY, PlanStep, Policy, PolicyError
from tests.builders import job, on_loan, problem, training
from tests.policies.baselines.sound import assert_sound, busy
from tests.policies.baselines.virtual import ROUNDING_S, run


def due(name, *args, within_s, **kwargs):
    return job(name, *args, deadline_s=1000 + within_s, **kwargs)


def decide(jobs, servers, memory=NO_MEMORY, policy=None, **kwargs):
    return (policy or EdfAdmission()).decide(problem(jobs, servers, **kwargs), memory)[0]


def sizes(decision):
    return {name: allocation.workers for name, allocation in decision.allocations.items()}


def why(decision, name):
    return str(decision.allocations[name].reason)


def test_is_a_policy():
    assert isinstance(EdfAdmission(), Policy)
    policy = EdfAdmission()
    assert (policy.name, policy.default_loaning, policy.interval_s) == (
        "edf_admission",
        "off",
        None,
    )


def test_who_cannot_meet_its_deadline_is_refused():
    jobs = [due("a", epochs=5, within_s=50), due("b", epochs=5, within_s=99)]
    decision = decide(jobs, [training(1)])
    assert sizes(decision) == {"a": 1}
    assert str(decision.rejected["b"]) == (
        "refused: of 1 admitted jobs on 1 GPUs of training, it would end 1 s after its deadline"
    )
    assert why(decision, "a") == (
        "starts on 1 workers; by plan it ends in 50 s, 0 s before its deadline"
    )


def test_who_would_break_an_admitted_deadline_is_refused():
    jobs = [due("a", epochs=5, within_s=60), due("urgent", epochs=2, within_s=20)]
    decision = decide(jobs, [training(1)])
    assert sizes(decision) == {"a": 1}
    assert str(decision.rejected["urgent"]) == (
        "refused: of 1 admitted jobs on 1 GPUs of training, with it a would end 10 s after its "
        "deadline"
    )


def test_who_fits_no_training_server_is_refused():
    decision = decide([due("a", 4, within_s=1e6)], [training(2), on_loan(4)])
    assert str(decision.rejected["a"]).endswith("on 2 GPUs of training, it would end never")


def test_the_plan_lets_jobs_grow_where_earlier_ones_end():
    jobs = [
        due("a", 2, epochs=1, within_s=10),
        due("b", (1, 2), epochs=4, within_s=25),
        due("c", (1, 4), epochs=1, within_s=1e6),
    ]
    decision = decide(jobs, [training(3)])
    assert decision.allocations["a"].plan == (PlanStep(1000, 2), PlanStep(1010, 0))
    assert decision.allocations["b"].plan == (
        PlanStep(1000, 1),
        PlanStep(1010, 2),
        PlanStep(1025, 0),
    )
    steps = (PlanStep(1000, 0), PlanStep(1010, 1), PlanStep(1020, 0))
    assert decision.allocations["c"].plan == steps


def test_figure_3_edf_with_admission_refuses_what_one_gpu_each_would_meet():
    """001 §2.3: 2 GPUs, on both 1.5 times as fast; deadlines at 3 and 3.5, 3 units each."""
    curve = {"epoch_s": [1, 1 / 1.5], "epochs": 3}
    jobs = [due("a", (1, 2), **curve, within_s=3), due("b", (1, 2), **curve, within_s=3.5)]
    decision = decide(jobs, [training(2)])
    assert (sizes(decision), set(decision.rejected)) == ({"a": 2}, {"b"})


def test_jobs_without_a_deadline_are_never_refused_and_have_loaned_gpus():
    jobs = [job("none", (1, 8)), due("a", (1, 2), within_s=1e6)]
    decision = decide(jobs, [training(2), on_loan(4)])
    assert sizes(decision) == {"a": 2, "none": 4}
    assert why(decision, "none") == (
        "starts on 4 workers; it has no deadline: 4 GPUs are left, it can use 1 to 8"
    )


def test_who_runs_or_was_admitted_is_never_refused():
    """It is late now: a server was lost."""
    late = due("late", epochs=9, within_s=50)
    runs = decide([replace(late, running=1)], [training(1)])
    assert why(runs, "late") == (
        "keeps its 1 workers; by plan it ends in 90 s, 40 s after its deadline"
    )
    memory = {"version": 1, "admitted": ["late", "gone"]}
    assert sizes(decide([late], [training(1)], memory)) == {"late": 1}
    nowhere = decide([late], [], memory)
    assert why(nowhere, "late") == "waits; it cannot end on the 0 GPUs of training"
    case = problem([late], [training(1)])
    ran = replace(case, jobs=replace(case.jobs, attained_gpu_s=np.array([1.0])))
    assert not EdfAdmission().decide(ran, NO_MEMORY)[0].rejected


def test_a_late_job_stops_admission_only_in_the_published_reading():
    jobs = [due("late", epochs=9, within_s=50, running=1), due("new", within_s=1e6)]
    published = EdfAdmission(reading="published")
    assert sizes(decide(jobs, [training(1)])) == {"late": 1, "new": 0}
    assert set(decide(jobs, [training(1)], policy=published).rejected) == {"new"}


def test_readings_differ_in_the_sizes_that_jobs_take():
    jobs = [due("a", (1, 4), epoch_s=[8, 5, 5, 6], within_s=1e6)]
    published = EdfAdmission(reading="published")
    assert sizes(decide(jobs, [training(4)])) == {"a": 2}
    assert sizes(decide(jobs, [training(4)], policy=published)) == {"a": 4}


@st.composite
def arrivals(draw):
    """Jobs with curves of any form, deadlines that are tight or not, and when they come."""
    jobs, arrives_s = [], {}
    for number in range(draw(st.integers(1, 7))):
        low, more = draw(st.integers(1, 3)), draw(st.integers(0, 4))
        epoch_s = [draw(st.integers(1, 20)) for _ in range(more + 1)]
        at_s, slack = draw(st.integers(0, 60)), draw(st.sampled_from([0.5, 1, 1.3, 2, 5]))
        epochs = draw(st.integers(1, 9))
        deadline_s = at_s + slack * epochs * min(epoch_s)
        jobs.append(job(str(number), (low, low + more), epoch_s=epoch_s, epochs=epochs,
                        deadline_s=deadline_s))  # fmt: skip
        arrives_s[str(number)] = float(at_s)
    return jobs, arrives_s


@given(arrivals(), st.integers(1, 8), st.sampled_from(["clean", "published"]))
def test_who_is_admitted_meets_its_deadline(drawn, gpus, reading):
    jobs, arrives_s = drawn
    done = run(EdfAdmission(reading=reading), jobs, [training(gpus)], arrives_s=arrives_s)
    for case, decision in done.decisions:
        for name, allocation in decision.allocations.items():
            deadline_s = case.jobs.deadline_s[case.jobs.ids.index(name)]
            assert allocation.plan[-1].workers == 0
            assert allocation.plan[-1].start_s <= deadline_s + ROUNDING_S
    assert set(done.ended_s) | done.rejected == {one.id for one in jobs}
    for one in jobs:
        assert done.ended_s.get(one.id, 0) <= one.deadline_s + 2 * ROUNDING_S


@given(arrivals(), st.integers(1, 8))
def test_plans_never_take_more_gpus_than_there_are(drawn, gpus):
    done = run(EdfAdmission(), drawn[0], [training(gpus)], arrives_s=drawn[1])
    for _, decision in done.decisions:
        plans = [allocation.plan for allocation in decision.allocations.values()]
        for at_s in {step.start_s for plan in plans for step in plan}:
            held = [[s.workers for s in plan if s.start_s <= at_s][-1:] for plan in plans]
            assert sum(sum(workers) for workers in held) <= gpus


@given(busy(), busy(lost_servers=True), st.sampled_from(["clean", "published"]))
def test_always_holds(before, after, reading):
    assert_sound(EdfAdmission(reading=reading), before, after)


def test_there_is_no_other_reading():
    parameters: dict[str, Any] = {"reading": "exact"}
    with pytest.raises(PolicyError, match="reading is 'exact'; use 'clean' or 'published'"):
        EdfAdmission(**parameters)


def test_as_published_plans_have_gpus_back_at_the_end_of_a_slot():
    jobs = [due("a", epochs=5, within_s=50), due("b", epochs=5, within_s=100)]
    refused = {}
    for slot_s in (50.0, 60.0):
        policy = EdfAdmission(reading="published", slot_s=slot_s)
        refused[slot_s] = set(decide(jobs, [training(1)], policy=policy).rejected)
    assert refused == {50.0: set(), 60.0: {"b"}}
    assert not decide(jobs, [training(1)]).rejected
