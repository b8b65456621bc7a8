"""What solvers print: their libraries write to standard output past Python."""

from __future__ import annotations

import os
import sys
from collections.abc import Iterator
from contextlib import contextmanager


def silence_here() -> None:
    """For the rest of this process: nobody reads its standard output."""
    with open(os.devnull, "w") as nowhere:
        os.dup2(nowhere.fileno(), 1)


@contextmanager
def silenced() -> Iterator[None]:
    """While simulations run: what a command prints afterwards may be read by a program."""
    sys.stdout.flush()
    kept = os.dup(1)
    try:
        silence_here()
        yield
    finally:
        os.dup2(kept, 1)
        os.close(kept)
