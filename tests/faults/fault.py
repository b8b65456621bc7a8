"""What a fault is."""

from dataclasses import dataclass


@dataclass(frozen=True, slots=True)
class Fault:
    """A part of one line, which stands in its file once, and what it is changed to."""

    name: str
    what: str  # goes wrong
    file: str
    right: str
    wrong: str
    tests: str  # the files or ids of tests that are to catch it, the most telling first
