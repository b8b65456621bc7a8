import pytest

from loaning import registry
from loaning.orchestrator import Aryl, Off
from policies.papers import PAPERS


def test_both_are_found_by_name():
    assert {"aryl", "off"} <= set(registry.names())
    assert registry.load("off", {}) == Off()
    assert registry.load("aryl", {"headroom": 0.7}) == Aryl(headroom=0.7)


def test_parameters_are_described_with_their_defaults():
    described = registry.describe("aryl")
    assert described["paper"] == PAPERS["004"]
    assert described["parameters"]["headroom"] == Aryl().headroom


def test_an_unknown_name_lists_the_known():
    with pytest.raises(registry.UnknownPolicy, match="aryl"):
        registry.load("random", {})


def test_a_bad_value_names_its_field():
    with pytest.raises(registry.BadParameter, match="headroom"):
        registry.load("aryl", {"headroom": 2.0})
