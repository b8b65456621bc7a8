"""chronus by hand, its leases against every assignment, and deadlines lived through."""

from dataclasses import replace
from itertools import combinations, product

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from policies.baselines.chronus import Chronus
from policies.baselines.leases import Demands, assign, latest
from policies.problem import NO_MEMORY, Policy, PolicyError
from tests.builders import job, problem, training
from tests.policies.baselines.laws import decided, sizes, why
from tests.strategies import problems

TENS = Chronus(lease_s=10.0, margin=1.0)


def test_is_a_policy():
    assert isinstance(Chronus(), Policy)
    assert (Chronus().name, Chronus().default_loaning, Chronus().interval_s) == (
        "chronus",
        "off",
        None,
    )


@pytest.mark.parametrize(
    ("parameters", "error"),
    [
        ({"lease_s": 0}, "lease_s is 0; use a positive number of seconds"),
        ({"margin": 0.9}, "margin is 0.9; use 1 or more"),
        ({"nodes": 0}, "nodes is 0; use 1 or more"),
    ],
)
def test_parameters_make_sense(parameters, error):
    with pytest.raises(PolicyError, match=error):
        Chronus(**parameters)


def test_bad_problems_are_refused():
    with pytest.raises(PolicyError, match="job a: epoch_s at 1 workers is nan"):
        TENS.decide(problem([job("a", epoch_s=float("nan"))], [training(1)]), NO_MEMORY)
    with pytest.raises(PolicyError, match=r"lease_s is 10\.0; it must exceed resize_s, 10\.0"):
        TENS.decide(problem([job("a")], [training(1)], resize_s=10.0), NO_MEMORY)


class TestAdmission:
    def test_a_job_gets_the_latest_leases_before_its_deadline(self):
        case = problem([job("a", 1, epochs=2, deadline_s=1045.0)], [training(1)])
        decision, memory = TENS.decide(case, NO_MEMORY)
        assert memory["plan"] == {"a": [2, 3]}  # the lease from 1040 s on ends too late
        assert decision.review_at_s == 1010
        assert why(decision, "a") == (
            "starts on 1 workers: holds 2 later leases of the 4 before its deadline, "
            "it runs on spare GPUs"
        )

    def test_a_job_whose_leases_have_no_room_is_not_accepted_but_stays(self):
        first = job("first", 1, epochs=3, deadline_s=1030.0)
        second = job("second", 1, epochs=1, deadline_s=1030.0)
        decision, memory = TENS.decide(problem([first, second], [training(1)]), NO_MEMORY)
        assert memory["plan"] == {"first": [0, 1, 2]}
        assert memory["unaccepted"] == ["second"]
        assert sizes(decision) == {"first": 1, "second": 0}
        assert why(decision, "second") == (
            "waits: not accepted, 1 leases of the 3 before its deadline had no room; "
            "it needs 1 GPUs, 0 are free"
        )
        alone = replace(second, epochs=1)
        later = problem([alone], [training(1)], now_s=1010)
        assert TENS.decide(later, memory)[1]["unaccepted"] == ["second"]

    def test_the_margin_and_the_start_of_a_lease_are_part_of_the_need(self):
        """20 s of work: 22 s with the margin, in leases of 6 useful seconds."""
        case = problem([job("a", 1, epochs=2, deadline_s=1100.0)], [training(1)], resize_s=4.0)
        memory = Chronus(lease_s=10.0).decide(case, NO_MEMORY)[1]
        assert memory["plan"] == {"a": [6, 7, 8, 9]}

    def test_within_a_lease_an_arrival_is_planned_from_the_next_one_on(self):
        long = job("long", 1, epochs=9, running=1)
        memory = TENS.decide(problem([long], [training(1)]), NO_MEMORY)[1]
        late = job("late", 1, epochs=1, deadline_s=1020.0)
        decision, memory = TENS.decide(problem([long, late], [training(1)], now_s=1003), memory)
        assert memory["plan"] == {"late": [1]}
        assert sizes(decision) == {"long": 1, "late": 0}
        assert decision.review_at_s == 1010
        decision, _ = TENS.decide(problem([long, late], [training(1)], now_s=1010), memory)
        assert sizes(decision) == {"long": 0, "late": 1}

    def test_the_lease_that_has_begun_is_not_planned_any_more(self):
        memory = TENS.decide(problem([job("a")], [training(2)]), NO_MEMORY)[1]
        jobs = [job("a", running=1), job("late", 1, epochs=1, deadline_s=1015.0)]
        decision, memory = TENS.decide(problem(jobs, [training(2)], now_s=1003), memory)
        assert memory["unaccepted"] == ["late"]
        assert sizes(decision) == {"a": 1, "late": 1}


class TestSpareGpus:
    def test_go_to_the_least_gpu_time_first_passing_over_what_does_not_fit(self):
        jobs = [job("long", 1, epochs=9), job("wide", 3, epochs=1), job("short", 2, epochs=2)]
        decision = decided(TENS, problem(jobs, [training(3)]))
        assert sizes(decision) == {"long": 0, "wide": 3, "short": 0}
        jobs[1] = replace(jobs[1], workers=(4, 4), epoch_s=(1.0,))
        decision = decided(TENS, problem(jobs, [training(3)]))
        assert sizes(decision) == {"long": 1, "wide": 0, "short": 2}
        assert why(decision, "wide") == "waits: no deadline; it needs 4 GPUs, 0 are free"

    def test_within_a_lease_nobody_is_preempted(self):
        jobs = [job("long", 1, epochs=9, running=1), job("short", 1)]
        memory = TENS.decide(problem(jobs[:1], [training(1)]), NO_MEMORY)[1]
        within, _ = TENS.decide(problem(jobs, [training(1)], now_s=1005), memory)
        assert sizes(within) == {"long": 1, "short": 0}
        at_the_next, _ = TENS.decide(problem(jobs, [training(1)], now_s=1010), memory)
        assert sizes(at_the_next) == {"long": 0, "short": 1}

    def test_accepted_jobs_leave_now_to_others_only_where_a_deadline_was_not_accepted(self):
        slack = job("slack", 1, epochs=1, deadline_s=1050.0)
        hopeless = job("hopeless", 1, epochs=9, deadline_s=1010.0)
        case = problem([slack, hopeless], [training(1)])
        memory = TENS.decide(case, NO_MEMORY)[1]
        crowded, _ = TENS.decide(replace(case, now_s=1010.0), memory)
        assert sizes(crowded) == {"slack": 0, "hopeless": 1}
        alone = problem([slack, job("any")], [training(1)], now_s=1010.0)
        decision, _ = TENS.decide(alone, memory)
        assert sizes(decision) == {"slack": 1, "any": 0}
        assert why(decision, "slack") == (
            "starts on 1 workers: holds this lease and 0 more of the 4 before its deadline"
        )


def test_a_job_that_overruns_is_no_longer_accepted():
    case = problem([job("a", 1, epochs=2, deadline_s=1020.0)], [training(1)])
    memory = TENS.decide(case, NO_MEMORY)[1]
    stuck, memory = TENS.decide(replace(case, now_s=1010.0), memory)
    assert memory["unaccepted"] == ["a"] and memory["plan"] == {}
    assert sizes(stuck) == {"a": 1}


def test_where_the_program_finds_nothing_the_plan_stands():
    """Four leases are needed before 1040 s, three are there: c, which fell behind, loses its."""
    plan = {"a": [1], "b": [3], "c": [2]}
    memory = {"version": 1, "origin_s": 1000.0, "lease": 0, "plan": plan, "unaccepted": []}
    jobs = [job(name, 1, epochs=1, deadline_s=1040.0) for name in "ab"]
    jobs.append(job("c", 1, epochs=2, deadline_s=1040.0))
    after = TENS.decide(problem(jobs, [training(1)], now_s=1010.0), memory)[1]
    assert (after["plan"], after["unaccepted"]) == ({"a": [1], "b": [3]}, ["c"])


def test_where_gpus_were_lost_nobody_is_accepted_any_more():
    jobs = [job(name, 1, epochs=2, deadline_s=1040.0) for name in "ab"]
    memory = TENS.decide(problem(jobs, [training(1)]), NO_MEMORY)[1]
    lost = problem(jobs, [training(0)], now_s=1010.0)
    assert TENS.decide(lost, memory)[1]["unaccepted"] == ["a", "b"]


# --- leases -----------------------------------------------------------------------------------

demands = st.lists(
    st.tuples(st.integers(1, 3), st.integers(0, 3), st.integers(0, 2)), min_size=1, max_size=3
)


@settings(max_examples=60)
@given(demands, st.integers(1, 5), st.booleans())
def test_assigns_leases_whenever_any_assignment_exists(shapes, capacity, busy_now):
    gpus, needed, more = (np.array(column) for column in zip(*shapes, strict=True))
    usable = needed + more
    held, capped = assign(Demands(gpus, needed, usable), capacity, busy_now, nodes=10_000)
    leases = int(usable.max())
    each = [combinations(range(u), n) for n, u in zip(needed, usable, strict=True)]
    now = []
    for chosen in product(*each):
        load = np.zeros(leases, dtype=int)
        for job_gpus, taken in zip(gpus, chosen, strict=True):
            load[list(taken)] += job_gpus
        if (load <= capacity).all():
            now.append(load[0] if leases else 0)
    assert not capped
    if not leases:
        assert held is None
        return
    assert (held is not None) == bool(now)
    if held is not None:
        assert (held.sum(axis=1) == needed).all()
        assert (gpus @ held)[0] == (max(now) if busy_now else min(now))


def test_the_latest_leases_are_those_with_room_and_preferred_ones_first():
    free = np.array([4, 1, 4, 4, 0])
    assert latest(free, 2, 2, 5) == [2, 3]
    assert latest(free, 2, 2, 3) == [0, 2]
    assert latest(free, 2, 2, 5, preferred=[0]) == [0, 3]
    assert latest(free, 2, 4, 5) is None


# --- what always holds ------------------------------------------------------------------------


@given(st.data())
def test_an_accepted_job_meets_its_deadline(data):
    """Jobs that run as predicted, arriving at any time, from lease to lease."""
    gpus = data.draw(st.integers(1, 4))
    waiting = [
        job(
            f"j{number}",
            data.draw(st.integers(1, gpus)),
            epochs=data.draw(st.integers(1, 3)),
            deadline_s=1000.0 + 10 * data.draw(st.integers(1, 9)),
        )
        for number in range(data.draw(st.integers(1, 6)))
    ]
    live, memory, accepted = [], NO_MEMORY, set()
    for now_s in range(1000, 1100, 10):
        while waiting and data.draw(st.booleans()):
            live.append(waiting.pop(0))
        decision, memory = TENS.decide(problem(live, [training(gpus)], now_s=float(now_s)), memory)
        accepted |= set(memory["plan"])
        assert not accepted & set(memory["unaccepted"])
        left = []
        for each in live:
            runs = sizes(decision)[each.id] > 0
            after = replace(each, epochs=each.epochs - runs, running=each.workers[0] * runs)
            if after.epochs:
                left.append(after)
            elif each.id in accepted:
                assert now_s + 10 <= each.deadline_s
        live = left
    assert not accepted & {each.id for each in live}


@given(
    problems(lost_servers=True),
    st.lists(st.one_of(st.just(np.inf), st.floats(0, 1e5)), min_size=8, max_size=8),
    st.floats(0, 1000),
)
def test_survives_whatever_it_is_switched_to(case, deadlines, later_s):
    deadline_s = np.array(deadlines[: len(case.jobs)])
    case = replace(case, jobs=replace(case.jobs, deadline_s=deadline_s))
    decided(Chronus(), case)
    memory = Chronus().decide(case, NO_MEMORY)[1]
    fewer = np.arange(0, len(case.jobs), 2)
    later = replace(
        case, now_s=case.now_s + later_s, jobs=case.jobs.take(fewer), placed=case.placed[fewer]
    )
    decided(Chronus(), later, memory)
