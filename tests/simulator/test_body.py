"""The body in virtual time, case by case and by hand."""

from dataclasses import replace

import pytest

from raysched.events import JobEnded, PolicySwitched, ServerAdded, ServerLost
from raysched.simulator.slots import Told
from tests.simulator.scenes import Costs, ended_s, job, simulate, simulator, stretches

AT_ONCE = Costs(at_boundaries=False)


def two_from(at_s):
    """Job a has one worker, and two once `at_s` is reached; all others have one."""

    def sizes(problem):
        ids = problem.jobs.ids
        return {j: 2 if j == "a" and problem.now_s >= at_s else 1 for j in ids}

    return sizes


def nothing_from(at_s, until_s):
    """All jobs have one worker, but a has none for a while."""

    def sizes(problem):
        waits = at_s <= problem.now_s < until_s
        return {j: 0 if j == "a" and waits else 1 for j in problem.jobs.ids}

    return sizes


def test_a_job_alone_takes_exactly_what_its_model_says():
    for workers in (1, 2, 4):
        outcome = simulate([job("a", epochs=7, epoch_s=12.0, workers=workers)])
        assert ended_s(outcome) == {"a": 7 * 12.0 / workers}


def test_a_start_costs_what_the_model_says():
    outcome = simulate([job("a", 5.0)], costs=Costs(start_s=3.0, resize_s=99.0))
    assert ended_s(outcome) == {"a": 5.0 + 3.0 + 40.0}
    assert outcome.history.jobs["a"].queuing_s == 0.0


def test_the_queue_of_fifo_by_hand():
    jobs = [
        job("wide", 0.0, epochs=2, workers=3),
        job("head", 1.0, epochs=3, epoch_s=8.0, workers=2),
        job("small", 2.0, epochs=1),
    ]
    outcome = simulate(jobs)
    wide_s = 2 * 10.0 / 3
    # The head does not fit beside `wide`, and nobody overtakes it.
    assert ended_s(outcome) == pytest.approx(
        {"wide": wide_s, "head": wide_s + 3 * 4.0, "small": wide_s + 10.0}
    )


@pytest.mark.parametrize(("costs", "end_s"), [(Costs(), 40.0), (AT_ONCE, 37.0)])
def test_a_batch_size_changes_at_a_boundary_without_a_stop(costs, end_s):
    def batch_sizes(problem):
        return {"a": 128 if problem.now_s >= 14.0 else 64}

    a, tick = job("a", epochs=6), job("tick", 14.0, epochs=9)
    curves = (10.0, 5.0)  # with 64 samples, with 128
    spec = replace(a.spec, batch_sizes=(64, 128), profile_epoch_s=curves)
    outcome = simulate(
        [replace(a, spec=spec, epoch_s=curves), tick],
        sizes=lambda problem: dict.fromkeys(problem.jobs.ids, 1),
        batch_sizes=batch_sizes,
        costs=costs,
    )
    assert stretches(outcome, "a") == [(0.0, end_s, 1)]
    assert outcome.history.jobs["a"].epochs[-1].epoch_s == 5.0


def test_a_resize_waits_for_its_boundary():
    outcome = simulate(
        [job("a", epochs=6, workers=(1, 2)), job("tick", 14.0, epochs=9)], sizes=two_from(14.0)
    )
    # The boundary after 14 is at 20: four epochs are left, of 5 s on two workers.
    assert stretches(outcome, "a") == [(0.0, 20.0, 1), (20.0, 40.0, 2)]


def test_a_resize_at_once_keeps_the_part_of_an_epoch_that_is_done():
    outcome = simulate(
        [job("a", epochs=6, workers=(1, 2)), job("tick", 14.0, epochs=9)],
        sizes=two_from(14.0),
        costs=AT_ONCE,
    )
    assert stretches(outcome, "a") == [(0.0, 14.0, 1), (14.0, 14.0 + 46.0 / 2, 2)]


def test_a_resize_takes_time_to_stop_to_free_and_to_start():
    costs = Costs(start_s=1.0, resize_s=4.0, stop_s=2.0, free_s=0.5)
    outcome = simulate(
        [job("a", epochs=6, workers=(1, 2)), job("tick", 15.0, epochs=9)],
        sizes=two_from(15.0),
        costs=costs,
    )
    # Trains from 1; boundaries at 11 and 21; stopped at 23; trains again from 27.
    assert stretches(outcome, "a") == [(0.0, 23.0, 1), (23.0, 27.0 + 4 * 5.0, 2)]


def test_gpus_are_given_on_only_when_they_were_seen_free():
    outcome = simulate(
        [job("a", epochs=1, workers=4), job("b", 1.0, workers=4)], costs=Costs(free_s=7.0)
    )
    assert outcome.history.jobs["b"].stretches[0].from_s == 10.0 / 4 + 7.0


def test_an_offer_at_a_boundary_that_was_reported_waits_for_the_next():
    outcome = simulate(
        [job("a", epochs=6, workers=(1, 2)), job("tick", 20.0, epochs=9)], sizes=two_from(20.0)
    )
    assert stretches(outcome, "a")[0] == (0.0, 30.0, 1)


def test_a_job_in_its_last_epoch_stays_to_the_end():
    outcome = simulate(
        [job("a", epochs=2, workers=(1, 2)), job("tick", 14.0, epochs=9)], sizes=two_from(14.0)
    )
    assert stretches(outcome, "a") == [(0.0, 20.0, 1)]


def test_a_preempted_job_pays_for_its_return():
    ticks = [job("t1", 12.0, epochs=1), job("t2", 30.0, epochs=1)]
    outcome = simulate(
        [job("a", epochs=4), *ticks],
        sizes=nothing_from(12.0, 30.0),
        costs=Costs(preempted_s=63.0),
    )
    # Two epochs are done when it leaves at 20.
    assert stretches(outcome, "a") == [(0.0, 20.0, 1), (30.0, 30.0 + 63.0 + 20.0, 1)]
    assert outcome.history.jobs["a"].preemptions == 1


def test_every_decision_may_cost_everyone_who_trains():
    outcome = simulate([job("a", epochs=3), job("b", 12.0, epochs=1)], costs=Costs(decision_s=2.0))
    # At 12 `b` starts, after the decision; at its end a pays once more.
    assert ended_s(outcome) == {"a": 34.0, "b": 22.0}


def test_two_decisions_at_one_time_cost_as_much_as_one():
    jobs = [job("a", epochs=3), job("b", 12.0, epochs=1), job("c", 12.0, epochs=1)]
    outcome = simulate(jobs, costs=Costs(decision_s=2.0))
    assert ended_s(outcome) == {"a": 34.0, "b": 22.0, "c": 22.0}


def test_an_end_that_decisions_put_off_frees_its_gpus_only_then():
    jobs = [
        job("a", epochs=3, epoch_s=30.0, workers=3),
        job("b", 12.0, epochs=1),
        job("c", 15.0, epochs=1, workers=4),
    ]
    outcome = simulate(jobs, costs=Costs(decision_s=2.0))
    # a pays at 12, at 15 and at b's end at 24.
    assert stretches(outcome, "c")[0][0] == ended_s(outcome)["a"] == 36.0


def test_a_boundary_that_decisions_put_off_is_reached_only_then():
    jobs = [job("a", epochs=6, workers=(1, 2)), job("t1", 14.0), job("t2", 16.0)]
    outcome = simulate(jobs, sizes=two_from(14.0), costs=Costs(decision_s=2.0))
    assert stretches(outcome, "a")[0] == (0.0, 24.0, 1)


def test_policies_see_how_far_running_jobs_are():
    seen = {}

    def sizes(problem):
        seen[problem.now_s] = dict(
            zip(problem.jobs.ids, problem.jobs.remaining_epochs.tolist(), strict=True)
        )
        return dict.fromkeys(problem.jobs.ids, 1)

    simulate([job("a", epochs=9), job("b", 47.0, epochs=1)], sizes=sizes)
    assert seen == {
        0.0: {"a": 9.0},
        47.0: {"a": 5.0, "b": 1.0},
        57.0: {"a": 4.0},
        90.0: {},
    }


def test_progress_may_be_told_less_often():
    seen = {}

    def sizes(problem):
        seen[problem.now_s] = int(problem.jobs.remaining_epochs[0])
        return dict.fromkeys(problem.jobs.ids, 1)

    ticks = [job(f"t{at}", float(at), epochs=1, epoch_s=500.0) for at in (15, 35, 45)]
    outcome = simulate([job("a", epochs=9), *ticks], sizes=sizes, report_every_s=30.0)
    assert (seen[15.0], seen[35.0], seen[45.0]) == (9, 6, 6)
    assert outcome.history.jobs["a"].ended_s == 90.0


def test_a_period_comes_round_though_nothing_happens():
    times = set()

    def sizes(problem):
        times.add(problem.now_s)
        return dict.fromkeys(problem.jobs.ids, 1)

    simulate([job("a", epochs=10)], sizes=sizes, interval_s=30.0)
    assert times == {0.0, 30.0, 60.0, 90.0, 100.0}


def test_what_happens_within_a_slot_is_told_at_its_end():
    jobs = [
        job("a", 0.0, epochs=1, epoch_s=100.0),
        job("b", 30.0, epochs=1, epoch_s=100.0),
        job("c", 250.0, epochs=1, epoch_s=100.0),
    ]
    outcome = simulate(jobs, slot_s=240.0)
    # a ends at 100 and b comes at 30, both told at 240; c comes at 250, told at 480; b's end at
    # 340 too. c's end is the only thing left, and is not moved.
    assert ended_s(outcome) == {"a": 100.0, "b": 340.0, "c": 580.0}
    assert outcome.seen_ended_s == {"a": 240.0, "b": 480.0, "c": 580.0}
    assert {j.job: j.queuing_s for j in outcome.history.jobs.values()} == {
        "a": 0.0,
        "b": 210.0,
        "c": 230.0,
    }


def test_ends_may_be_told_at_arrivals_alone_while_there_are_any():
    jobs = [
        job("a", 0.0, epochs=1, epoch_s=100.0),
        job("b", 10.0, epochs=1, epoch_s=100.0),
        job("c", 500.0, epochs=1, epoch_s=100.0),
        job("d", 501.0, epochs=1, epoch_s=200.0),
    ]
    outcome = simulate(jobs, slot_s=60.0, told=Told.AT_ARRIVALS)
    # b is told at the end of the slot in which it comes, 60, and so is d, 560; a and b have ended
    # when c comes. After d, the last to come, ends are told as they are.
    assert ended_s(outcome) == {"a": 100.0, "b": 160.0, "c": 600.0, "d": 760.0}
    assert outcome.seen_ended_s == {"a": 500.0, "b": 500.0, "c": 620.0, "d": 760.0}


def test_all_may_be_told_on_a_grid():
    times = set()

    def sizes(problem):
        times.add(problem.now_s)
        return dict.fromkeys(problem.jobs.ids, 1)

    jobs = [job("a", epochs=1, epoch_s=250.0), job("b", 30.0, epochs=1, epoch_s=500.0)]
    outcome = simulate(jobs, sizes=sizes, slot_s=100.0, told=Told.GRID)
    assert times == {0.0, 100.0, 300.0, 600.0}
    assert ended_s(outcome) == {"a": 250.0, "b": 600.0}


def test_at_the_end_of_a_slot_policies_see_that_time():
    times = set()

    def sizes(problem):
        times.add(problem.now_s)
        return dict.fromkeys(problem.jobs.ids, 1)

    jobs = [job("a", epochs=1, epoch_s=1000.0), job("b", 30.0, epochs=1, epoch_s=2000.0)]
    simulate(jobs, sizes=sizes, slot_s=240.0)
    assert times == {0.0, 240.0, 1000.0, 2240.0}


def test_a_lost_server_costs_the_epoch_under_way():
    outside = [ServerLost(25.0, "t1"), ServerAdded(100.0, "t1", "training", 4)]
    outcome = simulate([job("a", epochs=4)], outside=outside, costs=Costs(preempted_s=5.0))
    # Two epochs were done; it waits until the server is back.
    assert stretches(outcome, "a") == [(0.0, 25.0, 1), (100.0, 125.0, 1)]
    assert outcome.history.jobs["a"].losses == 1


def test_a_job_that_starts_on_a_lost_server_starts_again():
    outside = [ServerLost(2.0, "t1")]
    outcome = simulate(
        [job("a", epochs=1, workers=2)], (2, 2), outside=outside, costs=Costs(start_s=3.0)
    )
    assert outcome.history.jobs["a"].stretches[-1].servers == {"t2": 2}
    assert outcome.history.jobs["a"].outcome == "finished"


def test_a_job_without_checkpoints_starts_over():
    ticks = [job("t1", 12.0, epochs=1), job("t2", 30.0, epochs=1)]
    outcome = simulate(
        [job("a", epochs=4, checkpoints=False), *ticks], sizes=nothing_from(12.0, 30.0)
    )
    assert ended_s(outcome)["a"] == 30.0 + 40.0


def test_a_cancelled_job_frees_its_gpus():
    outside = [JobEnded(15.0, "a", "cancelled")]
    jobs = [job("a", epochs=100, workers=4), job("b", 1.0, epochs=1, workers=4)]
    outcome = simulate(jobs, outside=outside)
    assert outcome.history.jobs["a"].outcome == "cancelled"
    assert ended_s(outcome)["b"] == 15.0 + 10.0 / 4


def test_a_job_may_be_cancelled_while_its_end_waits_for_the_slot():
    outside = [JobEnded(200.0, "a", "cancelled")]
    jobs = [job("a", epochs=1, epoch_s=100.0), job("b", 400.0)]
    outcome = simulate(jobs, outside=outside, slot_s=240.0)
    assert outcome.history.jobs["a"].outcome == "cancelled"
    assert outcome.history.jobs["b"].outcome == "finished"


def test_an_operator_may_switch_the_policy():
    outside = [PolicySwitched(11.0, "aryl")]
    outcome = simulate([job("a", epochs=4, workers=(1, 4))], outside=outside)
    assert stretches(outcome, "a") == [(0.0, 20.0, 1), (20.0, 25.0, 4)]


def test_a_job_that_can_never_fit_is_refused_at_the_door():
    outcome = simulate([job("huge", workers=5), job("a")])
    assert outcome.history.jobs["huge"].outcome == "refused"
    assert "fits" in outcome.refused["huge"] or "room" in outcome.refused["huge"]
    assert ended_s(outcome)["a"] == 40.0


def test_a_simulation_ends_though_a_job_never_starts():
    outcome = simulate([job("a")], sizes=lambda _: {"a": 0}, interval_s=60.0)
    assert outcome.history.jobs["a"].outcome == ""
    assert not outcome.history.jobs["a"].stretches


def test_a_policy_that_raises_leaves_running_jobs_alone():
    def sizes(problem):
        if problem.now_s > 0:
            raise ValueError("no idea")
        return {"a": 1}

    body = simulator([job("a"), job("b", 5.0)], sizes=sizes)
    assert ended_s(body.run()) == {"a": 40.0, "b": None}
    assert body.engine.state.policy.error == "ValueError: no idea"
