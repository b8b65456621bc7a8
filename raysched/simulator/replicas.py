"""The inference deployment in virtual time: where its replicas are, and which of them answer."""

from __future__ import annotations

from bisect import bisect_right

from raysched.events import InferenceConfigured, ReplicasObserved
from raysched.state import State


class Replicas:
    """Replicas packed onto the servers that are not on loan, so that the last one empties first.

    One that is asked to go is gone at once; a new one answers `refill_s` after it was placed.
    """

    def __init__(self, config: InferenceConfigured, state: State) -> None:
        self.refill_s = config.refill_s
        self._of_server = config.replicas_per_server
        self._state = state
        self._answers_s: dict[str, list[float]] = {}
        """By server: when each of its replicas begins to answer, ascending."""
        self._told: tuple[dict[str, int], dict[str, int]] = ({}, {})
        self.wanted = len(self._servers()) * self._of_server
        self._place(-self.refill_s)

    def look(self, now_s: float) -> ReplicasObserved | None:
        """Place what is wanted; where replicas are then, if that changed since the last look."""
        self._place(now_s)
        present = {server: len(times) for server, times in self._answers_s.items() if times}
        running = {
            server: bisect_right(times, now_s)
            for server, times in self._answers_s.items()
            if times and times[0] <= now_s
        }
        if (present, running) == self._told:
            return None
        self._told = (present, running)
        return ReplicasObserved(now_s, present, running)

    def _servers(self) -> list[str]:
        return sorted(s.id for s in self._state.servers.values() if s.pool == "inference")

    def _place(self, now_s: float) -> None:
        left, before = self.wanted, self._answers_s
        self._answers_s = {}
        for server in self._servers():
            fenced = self._state.servers[server].loan != "none"
            count = 0 if fenced else min(self._of_server, left)
            left -= count
            times = before.get(server, [])[:count]
            self._answers_s[server] = times + [now_s + self.refill_s] * (count - len(times))
