"""What users write to describe a job, checked where they write it."""

from __future__ import annotations

import os
from typing import Any

from raysched import folders
from raysched.durations import seconds
from raysched.jobs import InvalidJob


def bounds(field: str, given: int | tuple[int, int]) -> tuple[int, int]:
    """The least and the most, of a fixed number or of both."""
    if isinstance(given, int):
        given = given, given
    try:
        least, most = given
    except (TypeError, ValueError):
        raise InvalidJob(field, f"is {given!r}; write a number or (min, max)") from None
    return whole(field, least), whole(field, most)


def whole(field: str, number: Any) -> int:
    """A whole number."""
    if not isinstance(number, int) or isinstance(number, bool):
        raise InvalidJob(field, f"is {number!r}; use a whole number")
    return number


def at_least(field: str, number: Any, least: int) -> int:
    """A whole number that is not below the least."""
    if whole(field, number) < least:
        raise InvalidJob(field, f"is {number}; use {least} or more")
    return int(number)


def duration(field: str, written: str | float | None) -> float | None:
    """Seconds of a duration, where there is one."""
    try:
        return None if written is None else seconds(written)
    except (TypeError, ValueError) as error:
        raise InvalidJob(field, str(error)) from None


def storage(checkpoint: str) -> str:
    """A directory that can be made and written, or a URI."""
    if "://" in checkpoint:
        return checkpoint
    if problem := folders.obstacle(checkpoint):
        raise InvalidJob("checkpoint", f"{problem} or a URI")
    return os.path.abspath(os.path.expanduser(checkpoint))
