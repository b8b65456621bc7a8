"""The order in which things happen in virtual time."""

import pytest

from raysched.simulator.agenda import Agenda, Kind


def taken(agenda):
    """What happens, in order."""
    happened: list[str] = []
    agenda_of = {"said": happened}
    while agenda.next_s is not None:
        agenda.take().deed(agenda_of)
    return happened


def say(word):
    return lambda to: to["said"].append(word)


def test_ties_break_by_kind_then_number_then_what_was_noted_first():
    agenda = Agenda()
    for word, at_s, kind, number in (
        ("last", 2.0, Kind.OUTSIDE, 0),
        ("answer", 1.0, Kind.ANSWER, 0),
        ("second", 1.0, Kind.ARRIVAL, 2),
        ("third", 1.0, Kind.ARRIVAL, 2),
        ("first", 1.0, Kind.ARRIVAL, 1),
        ("end", 1.0, Kind.END, 9),
    ):
        agenda.note(at_s, kind, number, say(word))
    assert taken(agenda) == ["end", "first", "second", "third", "answer", "last"]


def test_what_is_struck_off_does_not_happen_wherever_it_stands():
    agenda = Agenda()
    struck = [agenda.note(at_s, Kind.END, 0, say("struck")) for at_s in (1.0, 5.0)]
    agenda.note(3.0, Kind.OUTSIDE, 0, say("outside"))
    for noted in struck:
        agenda.strike(noted)
    assert agenda.only_outside
    assert agenda.next_s == 3.0
    assert taken(agenda) == ["outside"]
    with pytest.raises(IndexError):
        agenda.take()


def test_what_was_put_off_can_still_be_struck_off():
    agenda = Agenda()
    noted = agenda.note(1.0, Kind.END, 0, say("struck"))
    agenda.put_off(agenda.take(), 4.0)
    assert not agenda.only_outside
    agenda.strike(noted)
    assert agenda.only_outside
    assert taken(agenda) == []
