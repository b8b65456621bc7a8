"""What commands share: their options, how these are read, and how an answer is printed."""

from __future__ import annotations

import json
from collections.abc import Callable
from pathlib import Path
from typing import Any, TypeVar

import click

from raysched import folders
from raysched.errors import UserError

_Command = TypeVar("_Command", bound=Callable[..., Any])

json_option = click.option("--json", "as_json", is_flag=True, help="Print JSON, for programs.")
address_option = click.option(
    "--address", envvar="RAY_ADDRESS", help="The Ray cluster; default: the one that runs here."
)
parameter_option = click.option(
    "--set",
    "parameters",
    multiple=True,
    metavar="NAME=VALUE",
    help="A parameter of the policy; may be repeated. Values are JSON.",
)
policy_parameter_option = click.option(
    "--set",
    "parameters",
    multiple=True,
    metavar="POLICY.NAME=VALUE",
    help="A parameter of one of the policies; may be repeated. Values are JSON.",
)


def folder_option(default: str) -> Callable[[_Command], _Command]:
    """The option that names the folder to write to; one that cannot be is refused at once."""
    return click.option(
        "--out",
        type=click.Path(path_type=Path),
        default=Path(default),
        show_default=True,
        callback=_writable,
    )


def _writable(_context: click.Context, _option: click.Parameter, out: Path) -> Path:
    if problem := folders.obstacle(out):
        raise UserError(f"--out: {problem}")
    return out


def parsed(parameters: tuple[str, ...]) -> dict[str, Any]:
    """What `--set` was given, by name: JSON, or else the text as it is."""
    values = {}
    for parameter in parameters:
        name, equals, value = parameter.partition("=")
        if not equals:
            raise click.UsageError(f"--set: {parameter!r} is not NAME=VALUE")
        try:
            values[name] = json.loads(value)
        except json.JSONDecodeError:
            values[name] = value
    return values


def parsed_by_policy(parameters: tuple[str, ...]) -> dict[str, dict[str, Any]]:
    """What `--set` was given, by policy and name."""
    by_policy: dict[str, dict[str, Any]] = {}
    for name, value in parsed(parameters).items():
        policy, dot, parameter = name.partition(".")
        if not dot:
            raise click.UsageError(f"--set: {name!r} names no policy; write POLICY.{name}=VALUE")
        by_policy.setdefault(policy, {})[parameter] = value
    return by_policy


def answer(data: Any, text: str, as_json: bool) -> None:
    """Print this as JSON for programs, or else in words."""
    if as_json:
        print_json(data)
    else:
        click.echo(text)


def print_json(data: Any) -> None:
    """Print this for programs."""
    click.echo(json.dumps(data, indent=2, ensure_ascii=False))
