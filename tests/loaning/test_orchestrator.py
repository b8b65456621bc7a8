import json
from dataclasses import replace

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from loaning.hysteresis import LowDemand
from loaning.orchestrator import Aryl, Off
from loaning.problem import NO_MEMORY, Loaning, LoaningError
from tests.loaning.builders import on_loan, problem

LOW, HIGH = [8.0] * 40, [30.0] * 40  # a server of 20 rps carries 16 with headroom
LENT = on_loan(("i1",), {"rigid": {"i1": 4}})
LONG_LOW = LowDemand(since_s=10.0, spare=1).to_memory()


class TestLending:
    def test_low_demand_is_held_first_and_lent_on_after(self):
        decision, memory = Aryl().decide(problem(LOW, serving=2), NO_MEMORY)
        assert (decision.lend, decision.needed) == (0, 1)
        assert "1 to spare for 0.0 s, lent after 10.0 s" in str(decision.reason)
        decision, memory = Aryl().decide(problem([8.0] * 49, serving=2), memory)
        assert decision.lend == 0
        decision, memory = Aryl().decide(problem([8.0] * 50, serving=2), memory)
        assert (decision.lend, decision.reclaim) == (1, ())
        assert memory == LowDemand().to_memory()

    def test_several_at_once_as_many_as_were_to_spare_throughout(self):
        memory = LowDemand(since_s=10.0, spare=3).to_memory()
        assert Aryl().decide(problem(LOW, serving=6), memory)[0].lend == 3

    def test_a_moment_of_need_starts_the_hold_again(self):
        _, memory = Aryl().decide(problem(HIGH, serving=2), LONG_LOW)
        assert memory == LowDemand().to_memory()

    def test_the_servers_that_always_serve_stay(self):
        memory = LowDemand(since_s=0.0, spare=5).to_memory()
        assert Aryl().decide(problem(LOW, serving=2, min_serving=2), memory)[0].lend == 0
        assert Aryl().decide(problem(LOW, serving=3, min_serving=2), memory)[0].lend == 1

    def test_demand_within_its_noise_of_the_limit_is_not_lent_on(self):
        """15.5 rps need one server, but 2 standard errors more need two."""
        decision, _ = Aryl().decide(problem([15.5] * 40, serving=2), LONG_LOW)
        assert (decision.needed, decision.lend) == (1, 0)
        assert "margin for noise" in str(decision.reason)

    def test_a_server_that_vacates_is_not_counted_as_serving(self):
        assert Aryl().decide(problem(LOW, serving=1, vacating=1), LONG_LOW)[0].lend == 0

    def test_what_was_seen_long_ago_is_too_uncertain_to_lend_on(self):
        stale = replace(problem(LOW, serving=2), now_s=49.0)
        assert Aryl().decide(stale, LONG_LOW)[0].lend == 0

    def test_without_a_history_nothing_changes(self):
        decision, memory = Aryl().decide(problem([8.0], serving=2), LONG_LOW)
        assert (decision.lend, decision.reclaim, decision.needed) == (0, (), 2)
        assert memory == LowDemand().to_memory()


class TestReclaiming:
    def test_too_few_serve(self):
        decision, _ = Aryl().decide(problem(HIGH, serving=1, lent=LENT), NO_MEMORY)
        assert decision.reclaim == ("i1",)
        assert decision.preempted == ("rigid",)
        assert (decision.lend, decision.needed) == (0, 2)

    def test_ahead_of_need(self):
        """12 rps fit one server for now; rising by 0.5 rps a second they will not."""
        rise = [2 + 0.5 * t for t in range(21)]
        decision, _ = Aryl().decide(problem(rise, serving=1, lent=LENT, lead_s=15), NO_MEMORY)
        assert decision.reclaim == ("i1",)
        assert decision.reason.numbers["observed_rps"] == pytest.approx(11.0)
        assert float(decision.reason.numbers["expected_peak_rps"]) > 16.0

    def test_only_as_many_as_are_short_beyond_those_that_turn_back(self):
        lent = on_loan(("i1", "i2", "i3"))
        need_four = [60.0] * 40
        decision, _ = Aryl().decide(problem(need_four, serving=1, vacating=1, lent=lent), NO_MEMORY)
        assert (decision.needed, len(decision.reclaim)) == (4, 2)

    def test_a_vacating_server_alone_is_the_engine_s_to_turn_back(self):
        lent = on_loan(("i1",))
        decision, _ = Aryl().decide(problem(HIGH, serving=1, vacating=1, lent=lent), NO_MEMORY)
        assert (decision.lend, decision.reclaim, decision.needed) == (0, (), 2)
        assert str(decision.reason).endswith("1 vacating turn back")

    def test_more_than_there_are(self):
        decision, _ = Aryl().decide(problem([200.0] * 40, serving=1, lent=LENT), NO_MEMORY)
        assert decision.reclaim == ("i1",)
        nothing_left, _ = Aryl().decide(problem([200.0] * 40, serving=2), NO_MEMORY)
        assert (nothing_left.reclaim, nothing_left.needed) == ((), 13)
        assert str(nothing_left.reason).endswith("none are on loan")

    def test_a_known_period_reclaims_before_any_trend(self):
        now = problem([8.0] * 50 + [30.0] * 50 + [8.0] * 45, serving=1, lent=LENT)
        assert Aryl().decide(now, NO_MEMORY)[0].reclaim == ()
        assert Aryl(period_s=100.0).decide(now, NO_MEMORY)[0].reclaim == ("i1",)

    def test_a_whole_number_of_servers_is_not_rounded_up(self):
        flat = problem([16.0 * 3] * 40, serving=3, server_rps=20.0)
        assert Aryl().decide(flat, NO_MEMORY)[0].needed == 3


class TestOff:
    def test_never_lends(self):
        decision, memory = Off().decide(problem(LOW, serving=2), NO_MEMORY)
        assert (decision.lend, decision.reclaim, decision.needed) == (0, (), 2)
        assert memory == NO_MEMORY

    def test_returns_everything_that_is_on_loan_or_on_its_way(self):
        lent = on_loan(("i1", "i2"), {"rigid": {"i1": 4}})
        decision, _ = Off().decide(problem(LOW, serving=1, vacating=1, lent=lent), NO_MEMORY)
        assert set(decision.reclaim) == {"i1", "i2"}
        assert (decision.lend, decision.needed) == (0, 4)
        assert decision.preempted == ("rigid",)


@pytest.mark.parametrize(
    ("parameters", "field"),
    [
        ({"headroom": 0.0}, "headroom"),
        ({"headroom": 1.5}, "headroom"),
        ({"smooth_s": 0.0}, "smooth_s"),
        ({"trend_leads": -1.0}, "trend_leads"),
        ({"margin_errors": float("nan")}, "margin_errors"),
        ({"hold_leads": float("inf")}, "hold_leads"),
        ({"period_s": 0.0}, "period_s"),
    ],
)
def test_a_parameter_that_makes_no_sense_is_named(parameters, field):
    with pytest.raises(LoaningError, match=f"^{field} is "):
        Aryl(**parameters)


@pytest.mark.parametrize(
    ("change", "field"),
    [
        ({"server_rps": 0.0}, "server_rps"),
        ({"server_rps": float("nan")}, "server_rps"),
        ({"lead_s": -1.0}, "lead_s"),
        ({"min_serving": 0}, "min_serving"),
        ({"demand_rps": np.array([1.0, float("nan"), 2.0])}, "demand_rps"),
        ({"demand_rps": np.array([1.0, -1.0, 2.0])}, "demand_rps"),
        ({"demand_rps": np.array([1.0])}, "demand_rps"),
        ({"demand_at_s": np.array([1.0, 3.0, 2.0])}, "demand_at_s"),
    ],
)
@pytest.mark.parametrize("loaning", [Aryl(), Off()])
def test_a_problem_that_makes_no_sense_is_refused(loaning, change, field):
    with pytest.raises(LoaningError, match=f"^{field}"):
        loaning.decide(replace(problem([1.0, 2.0, 3.0], serving=1), **change), NO_MEMORY)


def test_both_meet_the_contract():
    assert isinstance(Aryl(), Loaning)
    assert isinstance(Off(), Loaning)


def test_another_loaning_s_memory_is_no_memory():
    assert LowDemand.from_memory({"version": 2, "since_s": 1.0, "spare": 4}) == LowDemand()


@st.composite
def problems(draw):
    """Any demand on a pool of up to eight servers, some of them lent to one job each."""
    lent = draw(st.integers(0, 4))
    names = tuple(f"i{i}" for i in range(lent))
    return problem(
        draw(st.lists(st.floats(0, 200), max_size=40)),
        serving=draw(st.integers(1, 4)),
        vacating=draw(st.integers(0, 2)),
        lent=on_loan(names, {f"j{i}": {f"i{i}": 2} for i in range(lent)}),
        server_rps=draw(st.floats(1, 100)),
        lead_s=draw(st.floats(0, 60)),
    )


memories = st.just(NO_MEMORY) | st.builds(
    lambda since_s, spare: LowDemand(since_s, spare).to_memory(),
    st.floats(-200, 0),
    st.integers(1, 8),
)


@given(problems(), memories, st.integers(1, 3))
def test_a_decision_keeps_what_is_needed(now, memory, min_serving):
    decision, _ = Aryl().decide(replace(now, min_serving=min_serving), memory)
    assert not (decision.lend and decision.reclaim)
    assert decision.lend >= 0
    if decision.lend:
        assert now.serving - decision.lend >= max(min_serving, decision.needed)
    short = decision.needed - now.serving - now.vacating
    assert len(decision.reclaim) == min(max(0, short), len(now.on_loan.servers))
    assert set(decision.reclaim) <= set(now.on_loan.servers)


@given(problems(), memories)
def test_a_decision_repeats_itself_and_fits_a_journal(now, memory):
    decision, after = Aryl().decide(now, memory)
    journaled = json.loads(json.dumps([memory, dict(decision.reason.numbers)], allow_nan=False))
    again, after_again = Aryl().decide(now, journaled[0])
    assert (again, after_again) == (decision, after)
    assert json.loads(json.dumps(after, allow_nan=False)) == after
    assert str(decision.reason)
