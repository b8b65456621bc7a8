"""Policies by name: packages are laid out on disk as an installer would, and found from there."""

import json
import re
import sys
from importlib.metadata import entry_points
from typing import Any
from unittest.mock import Mock

import pytest

from loaning import registry as loaning_registry
from policies import registry
from policies.aryl import Aryl
from policies.papers import PAPERS
from policies.problem import Policy, PolicyError
from policies.registry import BadParameter, UnknownPolicy

MINE = """
from dataclasses import dataclass
from typing import Any, ClassVar, Literal

@dataclass(frozen=True)
class Mine:
    steps: int = 5
    share: float = 0.5
    mode: Literal["near", "far"] = "near"
    eager: bool = False
    label: str | None = None

    name: ClassVar[str] = "mine"
    source: ClassVar[str] = "a third party"
    default_loaning: ClassVar[str] = "off"
    interval_s: ClassVar[float | None] = None

    def __post_init__(self):
        if not 0 < self.share <= 1:
            raise ValueError(f"share is {self.share}; use more than 0, up to 1")

    def decide(self, problem: Any, memory: Any) -> Any: ...

@dataclass(frozen=True)
class WithoutDefault:
    steps: int
    name: ClassVar[str] = "mine"
    source: ClassVar[str] = "a third party"

@dataclass(frozen=True)
class WithoutSource:
    name: ClassVar[str] = "mine"

def function(): ...
"""


@pytest.fixture
def install(tmp_path, monkeypatch):
    """`install("package", mine="third_party:Mine")`: a package with entry points on the path."""
    (tmp_path / "third_party.py").write_text(MINE)
    (tmp_path / "broken.py").write_text("raise RuntimeError('no licence')")
    monkeypatch.syspath_prepend(str(tmp_path))
    for module in ("third_party", "broken"):
        monkeypatch.delitem(sys.modules, module, raising=False)

    def install(package, **targets):
        info = tmp_path / f"{package}-1.0.dist-info"
        info.mkdir()
        (info / "METADATA").write_text(f"Metadata-Version: 2.1\nName: {package}\nVersion: 1.0\n")
        lines = [f"{name} = {target}" for name, target in targets.items()]
        (info / "entry_points.txt").write_text("\n".join(["[raysched.policies]", *lines]))

    return install


def refused(kind, message):
    return pytest.raises(kind, match=f"^{re.escape(message)}$")


def test_finds_what_is_installed(install):
    install("theirs", mine="third_party:Mine")
    assert {"aryl", "fifo", "mine"} <= set(registry.names())
    mine: Any = registry.load("mine", {"steps": 3, "share": 1, "label": None, "mode": "far"})
    assert (mine.name, mine.steps, mine.mode) == ("mine", 3, "far")
    assert isinstance(mine, Policy)


def test_packages_are_looked_through_once_until_one_comes_or_goes(install, monkeypatch):
    look = Mock(wraps=entry_points)
    monkeypatch.setattr("policies.plugins.entry_points", look)
    for _ in range(3):
        registry.load("fifo", {})
        loaning_registry.load("aryl", {})
    assert look.call_count <= 2  # a group each, where no other test has looked yet
    install("theirs", mine="third_party:Mine")
    look.reset_mock()
    for _ in range(3):
        registry.load("mine", {})
    assert look.call_count == 1


@pytest.mark.parametrize("name", ["aryl", "fifo"])
def test_our_own_are_policies_and_need_no_parameters(name):
    policy = registry.load(name, {})
    assert isinstance(policy, Policy)
    assert policy.name == name
    described = registry.describe(name)
    assert described["section"]
    assert bool(described["readings"]) == ("reading" in described["parameters"])


def test_describes_as_json():
    assert json.loads(json.dumps(registry.describe("aryl"))) == {
        "name": "aryl",
        "paper": PAPERS["004"],
        "section": Aryl.source.removeprefix("004 "),
        "readings": [],
        "default_loaning": "aryl",
        "parameters": {
            "interval_s": 60.0,
            "objective": "mckp",
            "mixing": 0.7,
            "tuned": False,
            "apart": True,
        },
    }


def test_an_unknown_policy_lists_the_known():
    known = ", ".join(registry.names())
    with refused(UnknownPolicy, f"policy 'fiffo' is not known; known: {known}"):
        registry.load("fiffo", {})


@pytest.mark.parametrize(
    ("parameters", "message"),
    [
        ({"stepz": 1}, "no parameter 'stepz'; known: steps, share, mode, eager, label"),
        ({"steps": 1.5}, "steps is 1.5; use a whole number"),
        ({"steps": True}, "steps is True; use a whole number"),
        ({"share": "half"}, "share is 'half'; use a number"),
        ({"share": 2}, "share is 2; use more than 0, up to 1"),
        ({"mode": "middle"}, "mode is 'middle'; use 'near' or 'far'"),
        ({"eager": 1}, "eager is 1; use true or false"),
        ({"label": 3}, "label is 3; use a text or None"),
    ],
)
def test_a_bad_parameter_names_itself_and_the_mend(install, parameters, message):
    install("theirs", mine="third_party:Mine")
    with refused(BadParameter, f"policy mine: {message}"):
        registry.load("mine", parameters)


def test_fifo_has_no_parameters():
    with refused(BadParameter, "policy fifo: no parameter 'backfill'; it has none"):
        registry.load("fifo", {"backfill": True})


def test_a_name_claimed_twice_is_refused_naming_both(install):
    install("theirs", mine="third_party:Mine")
    install("others", mine="third_party:WithoutSource")
    assert registry.names().count("mine") == 1
    message = (
        "policy mine is claimed by third_party:Mine (package theirs) and "
        "third_party:WithoutSource (package others); uninstall one of them"
    )
    with refused(PolicyError, message):
        registry.load("mine", {})


@pytest.mark.parametrize(
    ("target", "message"),
    [
        ("broken:Mine", " cannot be loaded (RuntimeError: no licence)"),
        ("third_party:function", " is not a dataclass"),
        ("third_party:WithoutDefault", ": parameter steps needs a default"),
        (
            "third_party:WithoutSource",
            " needs a class variable `source` that says where it is from",
        ),
    ],
)
def test_a_policy_at_fault_is_named(install, target, message):
    install("theirs", mine=target)
    with refused(PolicyError, f"policy mine: {target}{message}"):
        registry.load("mine", {})


def test_a_policy_goes_by_one_name(install):
    install("theirs", other="third_party:Mine")
    message = "policy other: third_party:Mine needs a class variable `name` that is 'other'"
    with refused(PolicyError, message):
        registry.load("other", {})
