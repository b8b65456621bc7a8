"""Resizes in place in virtual time, case by case and by hand: job a trains on one worker in epochs
of 10 s, others tick the clock at which it gets another size."""

from dataclasses import replace

from raysched.events import OfferReady, ServerLost
from raysched.journal import Journal
from raysched.simulator.models import InPlace
from raysched.simulator.traces import journal as journal_trace
from tests.simulator.scenes import Costs, ended_s, job, simulate, stretches
from tests.simulator.test_lending import only_loan, two_inference_servers, valley

QUICK = Costs(resize_s=50.0, stop_s=2.0, in_place=InPlace(warm_s=6.0, exchange_s=1.0, pause_s=3.0))
SLOW = Costs(in_place=InPlace(warm_s=14.0))


def sizes_of_a(*changes):
    """Job a has one worker, and another number from each of these times on."""

    def sizes(problem):
        wanted = [workers for at_s, workers in changes if problem.now_s >= at_s]
        return {j: ([1, *wanted][-1] if j == "a" else 1) for j in problem.jobs.ids}

    return sizes


def run(*changes, epochs=6, costs=QUICK, servers=(1, 6), **rest):
    """Job a with these changes, each at the arrival of another job."""
    ticks = [job(f"t{at_s}", at_s, epochs=1, epoch_s=500.0) for at_s, _ in changes]
    jobs = [job("a", epochs=epochs, workers=(1, 4)), *ticks]
    return simulate(jobs, servers, sizes=sizes_of_a(*changes), costs=costs, **rest)


def test_a_job_trains_on_while_others_get_warm_and_pauses_at_a_boundary():
    outcome = run((14.0, 2))
    # Warm at 20, which is a boundary: two epochs are done. The four left take 5 s each.
    assert stretches(outcome, "a") == [(0.0, 21.0, 1), (21.0, 23.0 + 20.0, 2)]
    a = outcome.history.jobs["a"]
    assert [(s.in_place, s.training_s, s.start_s) for s in a.stretches] == [
        (False, 0.0, 0.0),
        (True, 23.0, 3.0),
    ]
    assert (a.resizes, a.resizes_in_place) == (1, 1)


def test_a_job_that_nobody_joins_goes_over_at_its_next_boundary():
    outcome = run((0.0, 2), (14.0, 1), costs=replace(QUICK, free_s=4.0), servers=(1, 4))
    assert stretches(outcome, "a") == [(0.0, 16.0, 2), (16.0, 18.0 + 30.0, 1)]


def test_gpus_of_those_that_leave_are_seen_free_when_they_are_gone():
    def sizes(problem):
        return {"a": 2 if problem.now_s < 14.0 else 1, "b": 1}

    jobs = [job("a", workers=(1, 2)), job("b", 14.0)]
    outcome = simulate(jobs, (1, 2), sizes=sizes, costs=replace(QUICK, free_s=4.0))
    assert stretches(outcome, "b")[0][0] == 15.0 + 1.0 + 4.0


def test_a_job_that_is_preempted_stops_and_starts_again():
    outcome = run((14.0, 0), (33.0, 1), costs=replace(QUICK, preempted_s=7.0))
    assert stretches(outcome, "a") == [(0.0, 22.0, 1), (33.0, 40.0 + 40.0, 1)]


def test_those_on_their_way_are_taken_over_by_another_offer():
    # Of the two that are on their way from 14 on one is enough from 18 on: warm at 28, not at 32.
    assert stretches(run((14.0, 3), (18.0, 2), costs=SLOW), "a")[0] == (0.0, 30.0, 1)
    # The second one is on its way from 18 on.
    assert stretches(run((14.0, 2), (18.0, 3), costs=SLOW), "a")[0] == (0.0, 40.0, 1)


def test_those_on_their_way_go_when_their_offer_is_withdrawn():
    assert stretches(run((14.0, 2), (15.0, 1), costs=SLOW), "a") == [(0.0, 60.0, 1)]
    # At 19 another one sets out, and is warm at 33.
    outcome = run((14.0, 2), (15.0, 1), (19.0, 2), costs=SLOW)
    assert stretches(outcome, "a") == [(0.0, 40.0, 1), (40.0, 50.0, 2)]


def test_policies_see_how_far_a_job_is_while_others_get_warm():
    seen = {}

    def sizes(problem):
        seen[problem.now_s] = int(problem.jobs.remaining_epochs[0])
        return {j: 2 if j == "a" and problem.now_s >= 14.0 else 1 for j in problem.jobs.ids}

    ticks = [job(f"t{at_s}", at_s, epochs=1, epoch_s=500.0) for at_s in (14.0, 24.0)]
    simulate([job("a", epochs=6, workers=(1, 2)), *ticks], sizes=sizes, costs=SLOW)
    assert (seen[14.0], seen[24.0]) == (5, 4)


def test_a_job_that_never_reaches_a_boundary_again_stays_as_it_is():
    outcome = run((14.0, 2), epochs=2, costs=SLOW)
    assert stretches(outcome, "a") == [(0.0, 20.0, 1)]


def test_a_job_whose_offer_is_lost_at_the_boundary_stops_and_starts_again():
    # The boundary is at 20. One server has room for one worker: that of the other is lost at 20.5.
    outcome = simulate(
        [job("a", epochs=6, workers=(1, 2)), job("tick", 14.0, epochs=1, epoch_s=500.0)],
        (3, 1),
        sizes=sizes_of_a((14.0, 2)),
        outside=[ServerLost(20.5, "t3")],
        costs=replace(QUICK, preempted_s=7.0),
    )
    # Told at 21 that it was withdrawn, they are gone at 23.
    assert stretches(outcome, "a") == [(0.0, 23.0, 1), (23.0, 30.0 + 40.0, 1)]
    assert outcome.history.jobs["a"].resizes_in_place == 0


def test_workers_leave_a_reclaimed_server_in_place():
    jobs = [job("wide", epochs=500, epoch_s=4.0, workers=(1, 8))]
    outside = two_inference_servers(valley)
    outcome = simulate(jobs, outside=outside, policy="aryl", loaning="aryl", costs=QUICK)
    loan, wide = only_loan(outcome), outcome.history.jobs["wide"]
    grown, shrunk = (s for s in wide.stretches if s.in_place)
    assert (grown.workers, shrunk.workers) == (8, 4)
    assert loan.reclaimed_s < shrunk.from_s <= loan.to_s


def test_it_is_told_when_those_who_join_are_warm(tmp_path):
    journal = Journal(tmp_path / "journal.db")
    run((14.0, 2), costs=SLOW, journal=journal)
    told = [row.event for row in journal.rows() if isinstance(row.event, OfferReady)]
    assert [(event.at_s, event.job) for event in told] == [(28.0, "a")]


def test_jobs_may_differ_in_what_changes_cost():
    costs = Costs(start_s=5.0)
    jobs = [job("a"), replace(job("b"), costs=replace(costs, start_s=1.0))]
    assert ended_s(simulate(jobs, costs=costs)) == {"a": 45.0, "b": 41.0}


def test_a_job_is_not_ready_at_once_an_offer_waits_and_an_end_takes_its_time():
    costs = Costs(ready_s=3.0, pick_up_s=0.5, end_s=2.0, free_s=1.0)
    jobs = [job("a", epochs=1, workers=4), job("b", 1.0, epochs=1, workers=4)]
    outcome = simulate(jobs, costs=costs)
    # a is ready at 3, done at 5.5, over at 7.5; its GPUs are seen free at 8.5, its offer waits.
    assert stretches(outcome, "a") == [(3.0, 7.5, 4)]
    assert stretches(outcome, "b") == [(9.0, 13.5, 4)]


def test_replicas_that_go_are_seen_gone_after_a_while():
    jobs = [job("wide", epochs=500, epoch_s=4.0, workers=(1, 8))]
    lent_s = [
        only_loan(
            simulate(
                jobs,
                outside=two_inference_servers(valley),
                policy="aryl",
                loaning="aryl",
                costs=Costs(vacate_s=vacate_s),
            )
        ).from_s
        for vacate_s in (0.0, 2.5)
    ]
    assert lent_s[1] == lent_s[0] + 2.5


def test_a_job_that_must_leave_at_its_boundary_waits_there_for_those_who_join(tmp_path):
    jobs = [
        job("fills", epochs=1, epoch_s=195.0),
        job("wide", epochs=50, epoch_s=70.0, workers=(4, 7)),
    ]
    costs = Costs(in_place=InPlace(warm_s=25.0, exchange_s=1.0, pause_s=3.0))
    journal = Journal(tmp_path / "journal.db")
    outside = two_inference_servers(valley)
    outcome = simulate(
        jobs, outside=outside, policy="aryl", loaning="aryl", costs=costs, journal=journal
    )
    journal.close()
    # Reclaimed at 202, when one more sets out to t1; the boundary is at 205, and it is warm at 227.
    assert only_loan(outcome).reclaimed_s == 202.0
    before, after = outcome.history.jobs["wide"].stretches
    assert (before.servers, before.to_s) == ({"t1": 3, "i2": 4}, 228.0)
    assert (after.servers, after.training_s, after.start_s) == ({"t1": 4}, 230.0, 25.0)
    assert journal_trace.read(tmp_path / "journal.db").settings.costs.in_place == costs.in_place
