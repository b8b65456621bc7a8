"""Where a worker waits at an epoch boundary until it may go on, among others than before.

The training thread waits; the actor's main thread, which the controller calls, hands it a ticket.
Imports nothing heavy: the controller reads it too.
"""

from __future__ import annotations

import queue
import threading
from dataclasses import dataclass

from raysched.runtime.assignment import Assignment


@dataclass(frozen=True, slots=True)
class Ticket:
    """A worker's part in a grant that its job goes over to in place."""

    assignment: Assignment
    rank: int
    workers: int
    survivors: int  # ranks below it were there before, and have the job's state
    address: str
    port: int


_tickets: queue.Queue[Ticket] = queue.Queue()
_waiting = threading.Event()


def wait(patience_s: float | None = None) -> Ticket:
    """Wait to be let go on. Raises `TimeoutError` where nobody does so in time."""
    _waiting.set()
    try:
        return _tickets.get(timeout=patience_s)
    except queue.Empty:
        raise TimeoutError(f"waited {patience_s:.0f} s at an epoch boundary") from None
    finally:
        _waiting.clear()


def is_waited_at() -> bool:
    """Whether the training thread of this process waits."""
    return _waiting.is_set()


def let_go_on(ticket: Ticket) -> None:
    """Hand the waiting thread its ticket."""
    _tickets.put(ticket)
