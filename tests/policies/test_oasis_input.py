"""oasis on the contract, bad input: an error that names job and field, or the right answer."""

import numpy as np
import pytest

from policies.oasis import Oasis
from policies.problem import NO_MEMORY, PolicyError
from tests.builders import job, problem, training
from tests.policies.oasis_decisions import OASIS, decide, number, sizes, with_column


@pytest.mark.parametrize(
    ("parameters", "message"),
    [
        ({"slot_s": 0}, "slot_s is 0; use a positive number"),
        ({"patience": float("nan")}, "patience is nan; use a positive number"),
        ({"critical": -1}, "critical is -1; use a number from 0"),
        ({"horizon_slots": 0}, "horizon_slots is 0; use 1 or more"),
        ({"least_share": 2}, "least_share is 2; use 0 to 1"),
    ],
)
def test_parameters_that_make_no_sense_are_refused(parameters, message):
    with pytest.raises(PolicyError, match=f"^{message}$"):
        Oasis(**parameters)


@pytest.mark.parametrize(
    ("columns", "message"),
    [
        ({"gpus_per_worker": [0]}, "gpus_per_worker is 0; it must be from 1"),
        ({"remaining_epochs": [-1.0]}, "remaining_epochs is -1.0; it must be finite and from 0"),
        ({"remaining_epochs": [1e308]}, "remaining_epochs is 1e\\+308; times epoch_s that must be"),
        ({"submitted_s": [np.nan]}, "submitted_s is nan; it must be finite and from 0"),
        ({"deadline_s": [np.nan]}, "deadline_s is nan; it must be a time, or inf for none"),
        ({"deadline_s": [-np.inf]}, "deadline_s is -inf; it must be a time, or inf for none"),
        ({"priority": [5000]}, "priority is 5000; 2.0 to that power must be a number"),
        ({"worth": [0.0]}, "worth is 0.0; it must be positive"),
        ({"worth": [-1.0]}, "worth is -1.0; it must be positive"),
        ({"worth": [1.0]}, "steepness_per_s is nan; it must be finite and from 0"),
        (
            {"worth": [1.0], "steepness_per_s": [0.1], "target_s": [-5.0]},
            "target_s is -5.0; it must be finite and from 0",
        ),
    ],
)
def test_jobs_that_make_no_sense_are_refused(columns, message):
    case = with_column(problem([job("a", 4, epoch_s=20)], [training(4)]), **columns)
    with pytest.raises(PolicyError, match=f"^job a: {message}"):
        OASIS.decide(case, NO_MEMORY)


@pytest.mark.parametrize("epoch_s", [np.nan, np.inf, 0.0, -1.0])
def test_curves_that_make_no_sense_are_refused(epoch_s):
    with pytest.raises(PolicyError, match=f"^job a: epoch_s at 2 workers is {epoch_s}; "):
        decide([job("a", (1, 2), epoch_s=[10.0, epoch_s])], [training(4)])


def test_slots_that_a_resize_would_fill_are_refused():
    with pytest.raises(PolicyError, match=r"slot_s is 10.0; it must exceed resize_s, 10.0"):
        decide([job("a")], [training(1)], resize_s=10.0)


@pytest.mark.parametrize("servers", [[], [training(0)]])
def test_without_gpus_jobs_wait(servers):
    decision, memory = decide([job("a", 4)], servers)
    assert sizes(decision) == {"a": 0} and not decision.rejected
    assert sizes(decide([job("a", 4)], [training(4)], memory)[0]) == {"a": 4}


def test_a_deadline_long_past_is_refused_with_the_numbers_and_prices_stay():
    """Even on an empty cluster. It counts as `least_share` of its worth over its 4 GPU-slots."""
    case = problem([job("late", 4), job("a", 4, epoch_s=100)], [training(4)], now_s=1e5)
    case = with_column(case, deadline_s=[1.0, np.inf])
    decision, memory = OASIS.decide(case, NO_MEMORY)
    reason = decision.rejected["late"]
    assert number(reason, "utility") == 0 and number(reason, "payoff") < 0
    assert sizes(decision) == {"a": 4}
    assert memory["seen"]["low"] == pytest.approx(1e-3 / 4)
