"""Policies found by name through an entry-point group, and built from parameters.

A package declares `name = "module:Class"` in the group; `Class` is a frozen dataclass whose
fields, each with a default, are its parameters. Scheduling policies and loaning policies are
found in the same way, third parties' among them.
"""

from __future__ import annotations

import os
import sys
import types
from collections.abc import Mapping
from dataclasses import MISSING, Field, dataclass, fields, is_dataclass
from functools import lru_cache
from importlib.metadata import EntryPoint, EntryPoints, entry_points
from typing import Any, Generic, Literal, TypeVar, Union, cast, get_args, get_origin, get_type_hints

from policies.papers import cited
from policies.problem import PolicyError

P = TypeVar("P")


class UnknownPolicy(PolicyError):
    """No policy of this name is installed."""


class BadParameter(PolicyError):
    """A parameter that the policy does not have, or a value that it cannot work with."""


@dataclass(frozen=True)
class Registry(Generic[P]):
    """The policies of one entry-point group, as they are installed at each call.

    All methods raise errors of one line that names the mend: `UnknownPolicy`, `BadParameter`, or
    a plain `PolicyError` where an installed policy is itself at fault.
    """

    group: str
    what: str  # what one of them is called in messages: "policy", "loaning"

    def names(self) -> tuple[str, ...]:
        """The names of all that are installed, sorted."""
        return tuple(sorted({entry.name for entry in _installed(self.group)}))

    def load(self, name: str, parameters: Mapping[str, Any]) -> P:
        """The policy of this name with these parameters, and defaults for the others."""
        policy = self.find(name)
        where = f"{self.what} {name}"
        _check_parameters(policy, parameters, where)
        try:
            return policy(**parameters)
        except ValueError as error:  # its own check of its values
            raise BadParameter(f"{where}: {error}") from error

    def describe(self, name: str) -> dict[str, Any]:
        """Name, paper, section, readings, and parameters with their defaults, as JSON values.

        `paper` is None where the source is none of `PAPERS`; `section` is then all of the source.
        `readings` are what the parameter `reading` may be, where there is one.
        """
        policy: Any = self.find(name)
        paper, section = cited(policy.source)
        return {
            "name": name,
            "paper": paper,
            "section": section,
            "readings": list(get_args(get_type_hints(policy).get("reading"))),
            "parameters": {field.name: _default(field) for field in fields(policy)},
        }

    def find(self, name: str) -> type[P]:
        """The class behind a name."""
        entry = self._entry(name)
        where = f"{self.what} {name}: {entry.value}"
        try:
            found = entry.load()
        except Exception as error:  # other people's code: anything may happen at its import
            raise PolicyError(
                f"{where} cannot be loaded ({type(error).__name__}: {error})"
            ) from error
        if not isinstance(found, type) or not is_dataclass(found):
            raise PolicyError(f"{where} is not a dataclass")
        if getattr(found, "name", None) != name:
            raise PolicyError(f"{where} needs a class variable `name` that is {name!r}")
        if not isinstance(getattr(found, "source", None), str):
            raise PolicyError(f"{where} needs a class variable `source` that says where it is from")
        for field in fields(found):
            if _default(field) is MISSING:
                raise PolicyError(f"{where}: parameter {field.name} needs a default")
        return cast("type[P]", found)

    def _entry(self, name: str) -> EntryPoint:
        found = {entry.value: entry for entry in _installed(self.group).select(name=name)}
        if not found:
            known = ", ".join(self.names()) or "none"
            raise UnknownPolicy(f"{self.what} {name!r} is not known; known: {known}")
        if len(found) > 1:
            claims = " and ".join(sorted(_origin(entry) for entry in found.values()))
            raise PolicyError(f"{self.what} {name} is claimed by {claims}; uninstall one of them")
        return next(iter(found.values()))


def _installed(group: str) -> EntryPoints:
    """All of a group. Packages are looked through again when one has come or gone, which changes a
    folder on the path: that takes tens of milliseconds, and loanings are asked for at each sample
    of demand."""
    return _looked_up(group, tuple((folder, _changed_ns(folder)) for folder in sys.path))


@lru_cache(maxsize=8)
def _looked_up(group: str, _: tuple[tuple[str, int], ...]) -> EntryPoints:
    return entry_points(group=group)


def _changed_ns(folder: str) -> int:
    try:
        return os.stat(folder or os.curdir).st_mtime_ns
    except OSError:  # the path may name what is not there
        return 0


def _origin(entry: EntryPoint) -> str:
    return f"{entry.value} (package {entry.dist.name})" if entry.dist else entry.value


def _default(field: Field[Any]) -> Any:
    return field.default if field.default_factory is MISSING else field.default_factory()


def _check_parameters(policy: type[Any], parameters: Mapping[str, Any], where: str) -> None:
    known = [field.name for field in fields(policy)]
    hints = get_type_hints(policy)
    for name, value in parameters.items():
        if name not in known:
            listed = f"known: {', '.join(known)}" if known else "it has none"
            raise BadParameter(f"{where}: no parameter {name!r}; {listed}")
        if not _accepts(hints[name], value):
            raise BadParameter(f"{where}: {name} is {value!r}; use {_in_words(hints[name])}")


def _accepts(hint: Any, value: object) -> bool:
    """Whether a value fits a field's type: booleans are not numbers, whole numbers are."""
    if _is_union(hint):
        return any(_accepts(option, value) for option in get_args(hint))
    if get_origin(hint) is Literal:
        return value in get_args(hint)
    if isinstance(value, bool):
        return hint is bool
    return isinstance(value, int | float if hint is float else get_origin(hint) or hint)


def _in_words(hint: Any) -> str:
    if _is_union(hint):
        return " or ".join(_in_words(option) for option in get_args(hint))
    if get_origin(hint) is Literal:
        return " or ".join(repr(option) for option in get_args(hint))
    words = {int: "a whole number", float: "a number", str: "a text", bool: "true or false"}
    return "None" if hint is types.NoneType else words.get(hint, str(hint))


def _is_union(hint: Any) -> bool:
    return get_origin(hint) in (Union, types.UnionType)
