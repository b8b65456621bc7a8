"""Who may have epochs to report: so that of thousands that train only a few are looked at."""

from __future__ import annotations

from heapq import heappop, heappush
from operator import attrgetter

from raysched.simulator.training import ROUNDING_EPOCHS, Training

EARLY_S = 1e-3
"""So long before a report is due by the clock it is looked at: rounding must not hide one."""


class Reports:
    """When groups that train have something to report, no more often than every so many seconds."""

    def __init__(self, every_s: float) -> None:
        self._every_s = every_s
        self._due: list[tuple[float, int, Training]] = []
        """A heap: when to look at a group, and its number."""

    def expect(self, training: Training) -> None:
        """Note when a group may be worth a look again. To look too early does no harm."""
        upcoming = training.progress.reported + 1
        if upcoming < training.lasts:
            allowed_s = training.reported_s + self._every_s
            done_s = training.reaches_s(upcoming - 2 * ROUNDING_EPOCHS)
            training.report_s = max(done_s, allowed_s) - EARLY_S
            heappush(self._due, (training.report_s, training.number, training))

    def take_due(self, now_s: float) -> list[Training]:
        """Groups that are worth a look now, in the order in which they started. They may have
        stopped meanwhile."""
        due: list[Training] = []
        while self._due and self._due[0][0] <= now_s:
            due_s, _, training = heappop(self._due)
            if due_s == training.report_s:  # else it is expected at another time by now
                due.append(training)
        return sorted(due, key=attrgetter("number"))

    def may_report(self, training: Training, now_s: float) -> bool:
        """Whether its last report is long enough ago."""
        return now_s - training.reported_s >= self._every_s
