"""An open-loop load generator: requests come when they come, however slow the answers are.

Arrivals are a Poisson process whose rate follows a curve. Each request carries a real image, and
its answer is checked. Latency counts from the moment a request was due, so a stalled server (or
generator) cannot hide what it did to those that waited. Bounded in time, in number and in flight:
a request that finds too many in flight is dropped, and a dropped one has failed.
"""

from __future__ import annotations

import asyncio
import json
import math
import random
import threading
import time
from collections import deque
from collections.abc import Callable, Iterable, Iterator, Sequence
from dataclasses import dataclass, field

import aiohttp

from serve_inference.digits import LabelledImages

STEP_S = 0.005  # how finely the rate is integrated
RECENT_S = 10.0  # what the running view calls recent
NO_ANSWER = 0  # the status of a request that got none: dropped, refused, cut off or timed out

Rate = Callable[[float], float]
"""Requests per second at a time in seconds since the start."""


@dataclass(frozen=True, slots=True)
class DayCurve:
    """Demand over a day: high at both ends, a valley in the middle that lasts."""

    low_rps: float
    high_rps: float
    day_s: float

    def __call__(self, at_s: float) -> float:
        """Requests per second, `at_s` into the day."""
        height = (1 + math.cos(2 * math.pi * at_s / self.day_s)) / 2
        return self.low_rps + (self.high_rps - self.low_rps) * height**2


def arrival_times(rate: Rate, duration_s: float, seed: int) -> Iterator[float]:
    """When requests are due, ascending: a Poisson process of that rate.

    The integral of the rate is the process's own clock, on which arrivals come once per unit.
    """
    chance = random.Random(seed)
    due = chance.expovariate(1.0)
    for step in range(int(duration_s / STEP_S)):
        at_s = step * STEP_S
        passing = rate(at_s) * STEP_S
        passed = 0.0
        while due <= passing - passed:
            passed += due
            yield at_s + STEP_S * passed / passing
            due = chance.expovariate(1.0)
        due -= passing - passed


@dataclass(frozen=True, slots=True)
class Record:
    """What became of one request. `correct`: the answer named the digit of the image."""

    due_s: float  # since the start
    latency_s: float
    status: int  # HTTP, or NO_ANSWER
    correct: bool
    error: str = ""

    @property
    def failed(self) -> bool:
        """Anything but an answer of 200."""
        return self.status != 200


@dataclass(frozen=True, slots=True)
class Summary:
    """Requests of one window. Latencies are of those that were answered; None where none was."""

    begins_s: float
    sent: int
    failed: int
    wrong: int  # answered, but with another digit
    p50_ms: float | None
    p99_ms: float | None


def summarise(records: Iterable[Record], begins_s: float = 0.0) -> Summary:
    """One summary over all records."""
    records = list(records)
    answered = [record for record in records if not record.failed]
    latencies_ms = sorted(1000 * record.latency_s for record in answered)
    return Summary(
        begins_s=begins_s,
        sent=len(records),
        failed=len(records) - len(answered),
        wrong=sum(not record.correct for record in answered),
        p50_ms=percentile(latencies_ms, 0.50),
        p99_ms=percentile(latencies_ms, 0.99),
    )


def by_window(records: Iterable[Record], window_s: float) -> list[Summary]:
    """A summary for each window in which requests were due, in order."""
    windows: dict[int, list[Record]] = {}
    for record in records:
        windows.setdefault(int(record.due_s // window_s), []).append(record)
    return [summarise(windows[index], index * window_s) for index in sorted(windows)]


def percentile(ascending: Sequence[float], quantile: float) -> float | None:
    """The smallest value that at least `quantile` of the values do not exceed (nearest rank)."""
    if not ascending:
        return None
    return ascending[max(0, math.ceil(quantile * len(ascending)) - 1)]


@dataclass(frozen=True, slots=True)
class LoadView:
    """The load while it runs. Percentiles are of the last `RECENT_S` seconds."""

    at_s: float
    rate_rps: float  # that of the curve now
    sent: int
    failed: int
    in_flight: int
    p50_ms: float | None
    p99_ms: float | None


@dataclass(slots=True)
class LoadGenerator:
    """Sends requests from a thread of its own: `start`, `view` at any time, `wait` or `stop`."""

    url: str
    rate: Rate
    duration_s: float
    questions: LabelledImages
    seed: int = 0
    max_requests: int = 100_000
    max_in_flight: int = 200
    timeout_s: float = 30.0
    records: list[Record] = field(default_factory=list, init=False)  # in order of their answers
    _began_s: float = field(default=0.0, init=False)
    _sent: int = field(default=0, init=False)
    _stopping: threading.Event = field(default_factory=threading.Event, init=False)
    _thread: threading.Thread | None = field(default=None, init=False)

    def start(self) -> None:
        """Begin to send."""
        self._began_s = time.monotonic()
        self._thread = threading.Thread(
            target=lambda: asyncio.run(self._run()), name="load", daemon=True
        )
        self._thread.start()

    def wait(self) -> list[Record]:
        """Until the last request is answered: at most `duration_s + timeout_s`."""
        if self._thread is not None:
            self._thread.join()
        return self.records

    def stop(self) -> list[Record]:
        """Send no more, and wait for the answers to those in flight."""
        self._stopping.set()
        return self.wait()

    def view(self) -> LoadView:
        """How it goes; cheap, from any thread."""
        at_s = self._clock_s()
        recent = summarise(_latest(self.records, at_s - RECENT_S))
        failed = sum(record.failed for record in self.records)
        return LoadView(
            at_s=at_s,
            rate_rps=self.rate(at_s) if at_s < self.duration_s else 0.0,
            sent=self._sent,
            failed=failed,
            in_flight=self._sent - len(self.records),
            p50_ms=recent.p50_ms,
            p99_ms=recent.p99_ms,
        )

    def _clock_s(self) -> float:
        return time.monotonic() - self._began_s

    async def _run(self) -> None:
        bodies = [json.dumps(image.tolist()).encode() for image in self.questions.images]
        pick = random.Random(self.seed)
        in_flight: set[asyncio.Task[None]] = set()
        # aiohttp costs half the CPU of httpx, and the load shares the machine with what it loads.
        async with aiohttp.ClientSession(
            connector=aiohttp.TCPConnector(limit=self.max_in_flight),
            timeout=aiohttp.ClientTimeout(total=self.timeout_s),
        ) as session:
            for due_s in arrival_times(self.rate, self.duration_s, self.seed):
                await asyncio.sleep(max(0.0, due_s - self._clock_s()))
                if self._stopping.is_set() or self._sent == self.max_requests:
                    break
                self._sent += 1
                if len(in_flight) == self.max_in_flight:
                    self.records.append(Record(due_s, 0.0, NO_ANSWER, False, "dropped"))
                    continue
                question = pick.randrange(len(bodies))
                asked = self._ask(session, due_s, bodies[question], self.questions.digits[question])
                task = asyncio.create_task(asked)
                in_flight.add(task)
                task.add_done_callback(in_flight.discard)
            await asyncio.gather(*in_flight)

    async def _ask(
        self, session: aiohttp.ClientSession, due_s: float, body: bytes, digit: int
    ) -> None:
        status, correct, error = NO_ANSWER, False, ""
        try:
            async with session.post(self.url, data=body) as answer:
                text = await answer.text()
                status = answer.status
            if status == 200:
                correct = json.loads(text) == {"digit": digit}
            else:
                error = text[:200]
        except (aiohttp.ClientError, asyncio.TimeoutError, ValueError) as problem:
            error = f"{type(problem).__name__}: {problem}"
        latency_s = self._clock_s() - due_s
        self.records.append(Record(due_s, latency_s, status, correct, error))


def _latest(records: Sequence[Record], since_s: float) -> deque[Record]:
    """Records answered since then; the list grows in the order of the answers."""
    latest: deque[Record] = deque()
    for record in reversed(records):
        if record.due_s + record.latency_s < since_s:
            break
        latest.appendleft(record)
    return latest
