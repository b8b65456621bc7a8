"""Answers that are put together where they are read."""

import numpy as np
import pytest

from policies.answers import Answers
from policies.problem import Allocation, Decision, PlacementRule
from policies.reason import Reason, because
from raysched import codec
from raysched.events import PolicyDecided
from raysched.state import Job, State
from tests.pretend_cluster import spec


class Tells:
    """Why, by row; and which rows were asked for."""

    def __init__(self):
        self.asked = []

    def __call__(self, row: int) -> Reason:
        self.asked.append(row)
        return because("of row {row}", row=row)


@pytest.fixture
def tell():
    return Tells()


@pytest.fixture
def answers(tell):
    return Answers(
        ("a", "b", "c", "d"),
        np.array([2, 0, 2, 2]),
        tell,
        PlacementRule.APART,
        batch_size=np.array([0, 0, 64, 0]),
        gpu_type=[None, None, "T4", None],
    )


def test_they_read_like_allocations(answers):
    assert [*answers] == ["a", "b", "c", "d"]
    assert len(answers) == 4
    assert answers.get("e") is None
    assert answers["c"] == Allocation(
        2, because("of row {row}", row=2), PlacementRule.APART, batch_size=64, gpu_type="T4"
    )
    assert answers["b"] == Allocation(0, because("of row {row}", row=1), PlacementRule.APART)


def test_a_reason_is_made_when_it_is_read(answers, tell):
    assert answers.allocation(3).workers == 2
    assert tell.asked == []
    assert str(answers.reasons.of("d")) == "of row 3"
    assert answers.allocation(1).reason.of("b").numbers == {"row": 1}
    assert tell.asked == [3, 1]


def test_those_to_some_of_the_jobs_say_the_same_of_them(answers):
    some = answers.of(["b", "c"])
    assert dict(some) == {job: answers[job] for job in ("b", "c")}
    assert some.reasons.of("c") == answers["c"].reason


def test_the_journal_has_them_as_if_each_had_been_written_out(answers):
    later = PolicyDecided(1.0, 1, Decision(answers), {})
    at_once = PolicyDecided(1.0, 1, Decision({job: answers[job] for job in answers}), {})
    assert codec.event_to_json(later) == codec.event_to_json(at_once)


def test_what_is_kept_of_an_ended_job_does_not_hold_on_to_the_answers(answers):
    state = State()
    state.live["a"] = job = Job("a", spec(), 0.0, reason=answers.reasons)
    state.retire(job)
    assert job.reason == because("of row {row}", row=0)


def test_a_job_whose_reason_was_left_for_later_can_be_printed_and_compared(answers):
    job, same = (Job("a", spec(), 0.0, reason=answers.reasons) for _ in range(2))
    assert "Reasons" in repr(job)
    assert job == same
    same.reason = answers.of(["a"]).reasons
    assert job != same


def test_a_snapshot_has_the_reason_of_each_job(answers):
    state = State()
    for job in answers:
        state.live[job] = Job(job, spec(), 0.0, reason=answers.reasons)
    kept = codec.state_from_json(codec.state_to_json(state))
    assert [kept.live[job].reason for job in answers] == [answers[job].reason for job in answers]
