"""ffdl: both readings of Fig. 4, queue and drop, the hybrid trigger, batch sizes, reasons."""

import json
from dataclasses import replace

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from policies.elastic_program import solve_by_recurrence
from policies.ffdl import Ffdl
from policies.problem import NO_MEMORY, Curves, Policy, PolicyError
from policies.scaling import scaling
from tests.builders import BATCH_SIZE, job, on_loan, problem, training
from tests.strategies import problems


def decide(*args, policy=None, memory=NO_MEMORY, **kwargs):
    return (policy or Ffdl()).decide(problem(*args, **kwargs), memory)[0]


def sizes(decision):
    return {name: allocation.workers for name, allocation in decision.allocations.items()}


def why(decision, name):
    return str(decision.allocations[name].reason)


def with_batches(case, *curves):
    """The problem with one curve for each job: batch size -> seconds an epoch at each size."""
    rows = [seconds for curve in curves for seconds in curve.values()]
    lengths = [sum(map(len, curve.values())) for curve in curves]
    batch_size = np.array([batch for curve in curves for batch in curve], dtype=np.int64)
    columns = Curves(
        epoch_s=np.array([second for row in rows for second in row], dtype=float),
        offset=np.cumsum([0, *lengths]),
        batch_size=batch_size,
        batch_offset=np.cumsum([0, *map(len, curves)]),
    )
    return replace(case, jobs=replace(case.jobs, curves=columns))


# --- admission and allocation ---------------------------------------------------------------


def test_is_a_policy():
    assert isinstance(Ffdl(), Policy)
    assert (Ffdl().name, Ffdl().default_loaning, Ffdl().interval_s) == ("ffdl", "off", 600.0)


def test_gpus_go_where_the_factors_rise_most():
    """Factors (1, 1.9, 2.5) and (1, 1.25, 1.3): 3 and 1 add up to 3.5."""
    jobs = [
        job("scales", (1, 3), epoch_s=[19, 10, 7.6]),
        job("does not", (1, 3), epoch_s=[13, 10.4, 10]),
    ]
    decision = decide(jobs, [training(4)])
    assert sizes(decision) == {"scales": 3, "does not": 1}
    assert decision.objective == decision.bound == pytest.approx(3.5)


def test_how_much_work_is_left_does_not_matter():
    for epochs in (1, 1000):
        jobs = [job("a", (1, 4), epochs=epochs), job("b", (1, 4), epochs=1001 - epochs)]
        assert sizes(decide(jobs, [training(5)])) == {"a": 4, "b": 1}


def test_factors_count_in_gpus_whatever_the_smallest_size():
    """A job from 2 workers of 2 GPUs on has factor 4 there, as four jobs of one GPU have."""
    rates = scaling(problem([job("a", (2, 4), gpus=2), job("b", (1, 3))]).jobs)
    assert rates.sizes.gpus.tolist() == [4, 6, 8, 1, 2, 3]
    assert rates.sizes.value.tolist() == pytest.approx([4, 6, 8, 1, 2, 3])


def test_each_size_runs_at_its_best_batch_size():
    case = with_batches(
        problem([job("a", (1, 3))], [training(2)]), {64: [10, 9, 9], 128: [12, 7, 6]}
    )
    rates = scaling(case.jobs)
    assert rates.batch_size.tolist() == [64, 128, 128]
    assert rates.sizes.value.tolist() == pytest.approx([1.2, 12 / 7, 2])  # over 128 on 1 GPU
    allocation = Ffdl().decide(case, NO_MEMORY)[0].allocations["a"]
    assert (allocation.workers, allocation.batch_size) == (2, 128)


def test_of_equally_fast_batch_sizes_the_smaller():
    case = with_batches(problem([job("a")]), {64: [10], 128: [10]})
    assert scaling(case.jobs).batch_size.tolist() == [64]


def test_a_batch_that_does_not_fit_is_no_choice():
    case = with_batches(problem([job("a", (1, 3))]), {64: [np.inf, 9, 9], 128: [np.inf, np.inf, 6]})
    rates = scaling(case.jobs)
    assert rates.workers.tolist() == [2, 3]
    assert rates.batch_size.tolist() == [64, 128]
    assert rates.sizes.value.tolist() == pytest.approx([2, 3])


def test_a_job_that_fits_nowhere_is_named():
    case = with_batches(problem([job("a"), job("b")]), {64: [1]}, {64: [np.inf]})
    with pytest.raises(PolicyError, match="job b: epoch_s is finite nowhere"):
        scaling(case.jobs)


def test_k_max_limits_growth_alone():
    jobs = [job("a", (1, 8)), job("b", (5, 8)), job("c", (1, 8), gpus=2)]
    decision = decide(jobs, [training(99)], policy=Ffdl(max_gpus=4))
    assert sizes(decision) == {"a": 4, "b": 5, "c": 2}


FULL = [
    job("runs", (2, 4), running=4),
    job("big", 4),
    job("small", (1, 2)),
    job("last", 1),
]


def test_figure_4_goes_on_after_an_infeasible_job():
    decision = decide(FULL, [training(4)])
    assert sizes(decision) == {"runs": 2, "big": 0, "small": 1, "last": 1}
    assert why(decision, "big") == (
        "waits: needs 4 GPUs at its smallest size, 2 are left by those of 1 jobs"
    )


def test_the_text_stops_at_the_first_infeasible_job():
    decision = decide(FULL, [training(4)], policy=Ffdl(after_infeasible="stop"))
    assert sizes(decision) == {"runs": 4, "big": 0, "small": 0, "last": 0}
    assert why(decision, "last") == (
        "waits: behind big, which needs 4 GPUs at its smallest size, 2 are left by those of 1 jobs"
    )


def test_what_does_not_fit_is_dropped_where_queues_are_not_wanted():
    decision = decide(FULL, [training(4)], policy=Ffdl(when_full="drop"))
    assert sizes(decision) == {"runs": 2, "small": 1, "last": 1}
    assert str(decision.rejected["big"]) == (
        "refused: needs 4 GPUs at its smallest size, 2 are left by those of 1 jobs"
    )


def test_where_servers_were_lost_the_latest_submitted_go_but_are_not_dropped():
    jobs = [job("a", 2, running=2), job("b", 4, running=4), job("c", 1)]
    memory = Ffdl().decide(problem(jobs[:2], [training(6)]), NO_MEMORY)[1]
    case = problem(jobs, [training(4)], now_s=1001)
    decision, _ = Ffdl(when_full="drop").decide(case, memory)
    assert sizes(decision) == {"a": 2, "b": 0, "c": 1}
    assert why(decision, "b").startswith("gives up its 4 workers: needs 4 GPUs at its smallest")
    ran = replace(case.jobs, workers=np.array([2, 0, 1]), attained_gpu_s=np.array([9, 9, 0.0]))
    later, _ = Ffdl(when_full="drop").decide(replace(case, jobs=ran), NO_MEMORY)
    assert sizes(later) == {"a": 2, "b": 0, "c": 1}


def test_an_empty_cluster_and_no_jobs():
    assert sizes(decide([job("a")], [])) == {"a": 0}
    assert sizes(decide([], [training(4)])) == {}


# --- the hybrid trigger -----------------------------------------------------------------------

TWENTY = [job(f"job{number}", (1, 2), running=1) for number in range(20)]


def after(now_s, jobs, *, gpus=20, policy=None, ran=TWENTY):
    """The decision at `now_s` where the last one, at 1000 s, ran twenty jobs on 20 GPUs."""
    policy = policy or Ffdl(ended_share=0.1)
    memory = policy.decide(problem(ran, [training(20)]), NO_MEMORY)[1]
    return policy.decide(problem(jobs, [training(gpus)], now_s=now_s), memory)


@pytest.mark.parametrize(("now_s", "ended", "due"), [(1599, 1, 0), (1600, 1, 1), (1001, 2, 1)])
def test_a_decision_is_due_after_the_interval_or_when_enough_jobs_ended(now_s, ended, due):
    decision, memory = after(now_s, TWENTY[ended:])
    assert sum(sizes(decision).values()) == (20 if due else 20 - ended)
    assert memory["decided_s"] == (now_s if due else 1000)


def test_until_then_running_jobs_keep_what_they_have_and_new_ones_wait():
    decision, _ = after(1100, [*TWENTY[1:], job("new")])
    assert sizes(decision) == {j.id: 1 for j in TWENTY[1:]} | {"new": 0}
    assert decision.review_at_s == 1600
    until = "next decision in 500 s, or once 1 of 19 running jobs end"
    assert why(decision, "new") == f"waits: {until}"
    assert why(decision, "job1") == f"keeps its 1 workers: {until}"
    assert decision.allocations["job1"].batch_size is None


def test_at_the_time_it_asked_to_be_called_it_decides():
    policy = Ffdl(interval_s=0.1)
    jobs = [*TWENTY, job("new")]
    review_at_s = after(1000.05, jobs, policy=policy)[0].review_at_s
    assert after(review_at_s, jobs, policy=policy)[1]["decided_s"] == review_at_s


def test_where_nothing_happened_nothing_is_decided():
    decision, memory = after(9999, TWENTY)
    assert memory["decided_s"] == 1000 and decision.review_at_s is None
    assert why(decision, "job0") == (
        "keeps its 1 workers: nothing arrived or ended since the last decision"
    )


def test_a_job_that_comes_to_a_quiet_cluster_is_served_at_once():
    assert sizes(after(9999, [*TWENTY[:10], job("new")])[0])["new"] == 1


def test_where_nothing_runs_there_is_nothing_to_wait_for():
    assert sizes(after(1001, [job("new")], ran=[])[0]) == {"new": 1}


def test_more_gpus_count_as_an_arrival():
    assert sum(sizes(after(1001, TWENTY, gpus=30)[0]).values()) == 20
    assert sum(sizes(after(1600, TWENTY, gpus=30)[0]).values()) == 30


def test_where_running_jobs_no_longer_fit_it_decides_at_once():
    assert sum(sizes(after(1001, TWENTY, gpus=12)[0]).values()) == 12


def test_without_an_interval_every_arrival_is_served():
    decision, _ = after(1001, [*TWENTY[:19], job("new")], policy=Ffdl(interval_s=None))
    assert sizes(decision)["new"] == 1


# --- reasons and errors -------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("running", "gpus", "reason"),
    [
        (0, 9, "starts on 3 workers, batch size 64: 2.00 times the rate of one GPU; it can use "
         "no more"),
        (1, 2, "grows from 1 to 2 workers, batch size 64: 1.60 times the rate of one GPU, not "
         "1.00; 1 more GPUs would add 0.40, 0 are free and other jobs gain more"),
        (3, 2, "shrinks from 3 to 2 workers, batch size 64: 1.60 times the rate of one GPU, not "
         "2.00; 1 more GPUs would add 0.40, 0 are free and other jobs gain more"),
        (3, 3, "keeps its 3 workers, batch size 64: 2.00 times the rate of one GPU; it can use "
         "no more"),
    ],
)  # fmt: skip
def test_reasons_carry_their_numbers(running, gpus, reason):
    jobs = [job("a", (1, 3), epoch_s=[8, 5, 4], running=running)]
    assert why(decide(jobs, [training(gpus)]), "a") == reason


@pytest.mark.parametrize("gpus", [2, 4])
def test_a_curve_that_falls_off_is_not_climbed(gpus):
    decision = decide([job("a", (1, 3), epoch_s=[10, 6, 7])], [training(gpus)])
    assert sizes(decision) == {"a": 2}
    assert why(decision, "a").endswith("; 1 more GPUs would add -0.24")


def test_a_change_of_the_batch_size_alone_says_so():
    case = problem([job("a", running=1)], [training(1)])
    decision, _ = Ffdl().decide(with_batches(case, {64: [10], 128: [8]}), NO_MEMORY)
    assert why(decision, "a") == (
        "keeps its 1 workers, batch size 128 after 64: 1.00 times the rate of one GPU, not 0.80; "
        "it can use no more"
    )


@pytest.mark.parametrize(
    ("parameters", "error"),
    [
        ({"interval_s": 0}, "interval_s is 0; use a positive number of seconds, or None"),
        ({"interval_s": float("nan")}, "interval_s is nan"),
        ({"ended_share": 0}, "ended_share is 0; use above 0 to 1"),
        ({"ended_share": 1.1}, "ended_share is 1.1"),
        ({"max_gpus": 0}, "max_gpus is 0; use a number of GPUs from 1, or None"),
    ],
)
def test_parameters_make_sense(parameters, error):
    with pytest.raises(PolicyError, match=error):
        Ffdl(**parameters)


def test_bad_problems_are_refused_by_job_and_field():
    with pytest.raises(PolicyError, match="job a: epoch_s at 1 workers is nan"):
        decide([job("a", epoch_s=float("nan"))], [training(1)])


# --- what always holds --------------------------------------------------------------------------

seconds = st.one_of(st.integers(1, 5).map(float), st.floats(0.1, 1e4), st.just(np.inf))


@settings(max_examples=200)
@given(st.data(), st.lists(st.tuples(st.integers(1, 3), st.integers(1, 4)), max_size=4))
def test_the_best_batch_sizes_are_those_of_trying_all(data, shapes):
    """Curves of any number of batch sizes side by side, some of which do not fit."""
    draw = [
        [data.draw(st.lists(seconds, min_size=width, max_size=width)) for _ in range(batches)]
        for batches, width in shapes
    ]
    curves = [np.array([*rows[:-1], [7.0, *rows[-1][1:]]]) for rows in draw]  # each fits at once
    jobs = [job(str(row), (2, 1 + width)) for row, (_, width) in enumerate(shapes)]
    rates = scaling(with_batches(problem(jobs), *(dict(enumerate(c, 8)) for c in curves)).jobs)
    fastest = [(curve.min(axis=0), curve.argmin(axis=0) + 8) for curve in curves]
    fits = [np.isfinite(epoch_s) for epoch_s, _ in fastest]
    expected = [
        (2 * 7.0 / epoch_s[fit], batch[fit], np.flatnonzero(fit) + 2)
        for (epoch_s, batch), fit in zip(fastest, fits, strict=True)
    ]
    found = (rates.sizes.value, rates.batch_size, rates.workers)
    for column, each in zip(found, zip(*expected, strict=True), strict=bool(expected)):
        assert column.tolist() == pytest.approx(np.concatenate(each).tolist())
    assert np.diff(rates.sizes.offset).tolist() == [fit.sum() for fit in fits]


def by_trials(case, stops):
    """Fig. 4 literally: a run of the recurrence for each trial, and one for the final set."""
    jobs, rates = case.jobs, scaling(case.jobs)

    def only(rows):
        mask = np.isin(np.arange(len(jobs)), rows)
        return rates.only(mask)[1]

    executing = np.flatnonzero(jobs.workers > 0).tolist()
    for row in np.flatnonzero(jobs.workers == 0).tolist():
        try:
            solve_by_recurrence(only([*executing, row]), case.servers.total_gpus)
        except ValueError:
            if stops:
                break
        else:
            executing.append(row)
    value = solve_by_recurrence(only(executing), case.servers.total_gpus)[1] if executing else 0.0
    return {jobs.ids[row] for row in executing}, value


@settings(max_examples=200)
@given(problems(), st.booleans())
def test_agrees_with_the_papers_trials(case, stops):
    policy = Ffdl(after_infeasible="stop" if stops else "continue")
    decision = policy.decide(case, NO_MEMORY)[0]
    runs, value = by_trials(case, stops)
    assert {name for name, workers in sizes(decision).items() if workers} == runs
    assert decision.objective == decision.bound == pytest.approx(value)


@settings(max_examples=200)
@given(problems(lost_servers=True), st.sampled_from(["queue", "drop"]))
def test_within_the_capacity_and_each_job_within_its_range(case, when_full):
    jobs, decision = case.jobs, Ffdl(when_full=when_full).decide(case, NO_MEMORY)[0]
    assert set(decision.allocations) | set(decision.rejected) == set(jobs.ids)
    assert not set(decision.allocations) & set(decision.rejected)
    workers = np.array([sizes(decision).get(name, 0) for name in jobs.ids], dtype=int)
    assert (workers * jobs.gpus_per_worker).sum() <= case.servers.total_gpus
    runs = workers > 0
    assert (workers[runs] >= jobs.min_workers[runs]).all()
    assert (workers <= jobs.max_workers).all()
    assert not {*decision.rejected} & {jobs.ids[row] for row in np.flatnonzero(jobs.workers)}
    reasons = [allocation.reason for allocation in decision.allocations.values()]
    assert all(str(reason) for reason in [*reasons, *decision.rejected.values()])


@given(problems(), st.floats(0, 2000))
def test_its_memory_is_json_and_a_decision_taken_twice_is_the_same(case, later_s):
    decision, memory = Ffdl().decide(case, NO_MEMORY)
    restored = json.loads(json.dumps(memory))
    assert restored == memory
    assert Ffdl().decide(case, NO_MEMORY) == (decision, memory)
    later = replace(case, now_s=case.now_s + later_s)
    assert Ffdl().decide(later, restored) == Ffdl().decide(later, memory)


@given(problems())
def test_who_runs_goes_on_running(case):
    decision = Ffdl().decide(case, NO_MEMORY)[0]
    running = np.flatnonzero(case.jobs.workers)
    assert all(decision.allocations[case.jobs.ids[row]].workers for row in running)


def test_a_full_size_decision_holds_its_invariants():
    """2,000 jobs of the paper's steps in batch size per GPU, 4,000 GPUs, k_max 64."""
    draw = np.random.default_rng(3)
    workers = np.arange(1, 65)
    jobs = [
        job(str(row), (1, 64), epoch_s=(np.ceil(64 / workers) + c * np.log2(workers + 1)).tolist())
        for row, c in enumerate(draw.uniform(0, 30, 2000))
    ]
    decision = decide(jobs, [training(3000), on_loan(1000)])
    assert min(sizes(decision).values()) >= 1
    assert sum(sizes(decision).values()) <= 4000
    assert decision.objective == decision.bound > 2000
    assert {a.batch_size for a in decision.allocations.values()} == {BATCH_SIZE}
