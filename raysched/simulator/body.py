"""The body in virtual time: discrete events over the live engine.

It does what `raysched/runtime/` does on Ray. Time jumps from one thing that happens to the next;
epochs are computed and not stepped, and reported where it matters: before the policy is asked, at
the boundary at which a job leaves, and at the job's end. No clock and no chance decides anything:
the same scenario and settings give the same events, in the same order.
"""

from __future__ import annotations

import gc
import time
from collections.abc import Callable
from dataclasses import dataclass, field
from functools import partial

from loaning import registry as loaning_registry
from policies import registry as policy_registry
from raysched import codec
from raysched.actions import (
    Action,
    AskLoaning,
    AskPolicy,
    CloseLoan,
    EndWorkers,
    Offer,
    OpenLoan,
    Reject,
    ReleaseGrant,
    ScaleReplicas,
    SetBatchSize,
)
from raysched.admission import Largest, check_within, largest
from raysched.engine import Engine, LoadPolicy
from raysched.events import (
    DemandObserved,
    Event,
    InferenceConfigured,
    JobEnded,
    JobSubmitted,
    LoanClosed,
    LoaningDecided,
    LoanOpened,
    PolicyDecided,
    PolicySwitched,
    ServerLost,
    TimePassed,
)
from raysched.history import History, JobHistory
from raysched.jobs import InvalidJob
from raysched.journal import Journal
from raysched.questions import LoadLoaning, Question, question
from raysched.simulator.agenda import Agenda, Entry, Kind
from raysched.simulator.groups import WorkerGroups
from raysched.simulator.models import Settings
from raysched.simulator.recorder import Recorder
from raysched.simulator.replicas import Replicas
from raysched.simulator.scenario import Arrival, Outside, Scenario
from raysched.simulator.slots import Slots

CLOCK_EVERY_S = 1.0
"""Time alone makes something due no more often than this, as the body on Ray looks at its clock."""

IDLE_DECISIONS = 1000
"""So many times in a row only time may pass. Then the jobs that are left wait for nothing."""


@dataclass(slots=True)
class Outcome:
    """What a simulation shows."""

    history: History
    settings: Settings
    refused: dict[str, str] = field(default_factory=dict)
    """Jobs that this cluster can never run, and why: they were turned away at the door."""
    epoch_s: dict[str, tuple[float, ...]] = field(default_factory=dict)
    """What an epoch of each job really takes: see `Arrival`."""
    seen_ended_s: dict[str, float] = field(default_factory=dict)
    """When the scheduler was told of a job's end: with slots, later than it was."""
    decision_s: list[float] = field(default_factory=list)
    """Wall-clock seconds that the policy took over each decision."""
    cpu_s: float = 0.0


class Simulator:
    """An engine, a cluster in virtual time, and what is to happen next."""

    def __init__(
        self,
        scenario: Scenario,
        settings: Settings,
        *,
        journal: Journal | None = None,
        load_policy: LoadPolicy = policy_registry.load,
        load_loaning: LoadLoaning = loaning_registry.load,
        watch: Callable[[Engine], None] | None = None,
    ) -> None:
        """`watch` is called after each event, with the engine as it then is."""
        self.engine = Engine(load_policy=load_policy)
        self.now_s = 0.0
        curves = {arrival.job: arrival.epoch_s for arrival in scenario.arrivals}
        self.outcome = Outcome(History(), settings, epoch_s=curves)
        self._settings = settings
        self._load_loaning = load_loaning
        self._watch = watch
        self._agenda = Agenda()
        self._recorder = Recorder(journal) if journal is not None else None
        self._groups = WorkerGroups(
            settings.costs, settings.report_every_s, self._agenda, self.engine.state, self.tell
        )
        self._replicas: Replicas | None = None
        self._arrivals = enumerate(scenario.arrivals)
        self._arrivals_left = len(scenario.arrivals)
        self._next_arrival_s: float | None = None
        self._outside = scenario.outside
        self._slots = None if settings.slot_s is None else Slots(settings.slot_s, settings.told)
        self._looked_s = -CLOCK_EVERY_S
        self._idle = 0
        self._largest: tuple[int, Largest] | None = None

    def run(self) -> Outcome:
        """Let everything happen until no job is left, or none that could ever run."""
        began_s = time.process_time()
        settings = self._settings
        for number, event in enumerate(self._outside):
            self._agenda.note(event.at_s, Kind.OUTSIDE, number, partial(self._take, event))
        self._expect_arrival()
        self.tell(
            PolicySwitched(
                0.0,
                settings.policy,
                dict(settings.policy_parameters),
                settings.loaning,
                dict(settings.loaning_parameters),
                weighs_resizes=settings.weighs_resizes,
            )
        )
        gc.freeze()  # whatever was imported or read is no garbage: nobody need go through it again
        try:
            while self._step():
                pass
        finally:
            gc.unfreeze()
        if self._recorder is not None:
            self._recorder.commit()
        if self._settings.rows_when_told:
            self.outcome.seen_ended_s = self._groups.seen_ended_s
        self.outcome.cpu_s = time.process_time() - began_s
        return self.outcome

    def tell(self, event: Event) -> None:
        """Hand an event to the engine, and start what follows from it."""
        actions = self.engine.handle(event)
        self.outcome.history.take(event, actions)
        if self._recorder is not None:
            self._recorder.note(event, actions)
        for action in actions:
            self._carry_out(action)
        if self._watch is not None:
            self._watch(self.engine)

    # -- time

    def _step(self) -> bool:
        """Go to the next thing that happens. False: nothing does any more."""
        next_s = self._agenda.next_s
        if next_s is None or next_s > self.now_s:
            due_s = self._due_s()
            if due_s is not None and (next_s is None or due_s < next_s):
                return self._pass_time(due_s)
        if next_s is None or self._is_over():
            return False
        entry = self._agenda.take()
        if entry.kind is not Kind.ANSWER:
            self._idle = 0
        told_s = self._told_s(entry)
        if told_s > entry.at_s:
            self._agenda.put_off(entry, told_s)
            return True
        self._go_to(entry.at_s, entry.kind)
        entry.deed(self.now_s)
        return True

    def _go_to(self, at_s: float, kind: Kind) -> None:
        """Advance the clock. Jobs report first where the policy may be asked now."""
        self.now_s = max(self.now_s, at_s)
        if kind in (Kind.END, Kind.LOAN, Kind.ARRIVAL):
            if self._slots is not None and self.engine.state.now_s < self.now_s:
                self.tell(TimePassed(self.now_s))  # what is told now may have happened before
            self._report()

    def _report(self) -> None:
        self._groups.report(self.now_s)

    def _due_s(self) -> float | None:
        """When the engine wants to be told the time."""
        due_s = self.engine.next_due_s()
        if due_s is None:
            return None
        if self._slots is not None:
            due_s = max(due_s, self._slots.opens_s(self._next_arrival_s))
        return max(due_s, self.now_s, self._looked_s + CLOCK_EVERY_S)

    def _pass_time(self, due_s: float) -> bool:
        if self._agenda.next_s is None:
            self._idle += 1
            if self._idle > IDLE_DECISIONS:
                return False
        self.now_s = self._looked_s = due_s
        self._report()
        self.tell(TimePassed(self.now_s))
        return True

    def _told_s(self, entry: Entry) -> float:
        """When the scheduler is told of it: with slots, of arrivals and ends, perhaps later."""
        if self._slots is None or entry.kind not in (Kind.ARRIVAL, Kind.END):
            return entry.at_s
        last = self._arrivals_left + len(self._groups.training) == 1
        return self._slots.told_s(entry.at_s, self._next_arrival_s, last=last)

    def _is_over(self) -> bool:
        no_jobs = not self.engine.state.live and not self._arrivals_left
        return no_jobs and self._agenda.only_outside

    # -- from outside

    def _expect_arrival(self) -> None:
        """Only the next arrival is on the agenda: the trace may be long."""
        found = next(self._arrivals, None)
        self._next_arrival_s = None if found is None else found[1].at_s
        if found is not None:
            number, arrival = found
            self._agenda.note(
                arrival.at_s, Kind.ARRIVAL, number, lambda _: self._arrive(arrival, number)
            )

    def _arrive(self, arrival: Arrival, number: int) -> None:
        self._arrivals_left -= 1
        self._expect_arrival()
        try:
            check_within(self._cluster(), arrival.spec)
        except InvalidJob as refusal:
            self._refuse(arrival, str(refusal))
            return
        self._groups.expect(arrival, number)
        self.tell(JobSubmitted(arrival.at_s, arrival.job, arrival.spec))

    def _cluster(self) -> Largest:
        """The cluster at its largest, read anew where servers or the loaning changed."""
        changes = self.engine.server_changes
        if self._largest is None or self._largest[0] != changes:
            self._largest = changes, largest(self.engine.state)
        return self._largest[1]

    def _refuse(self, arrival: Arrival, why: str) -> None:
        """Turn a job away at the door: the engine never hears of it."""
        self.outcome.refused[arrival.job] = why
        self.outcome.history.jobs[arrival.job] = JobHistory(
            arrival.job, arrival.spec, arrival.at_s, ended_s=arrival.at_s, outcome="refused"
        )

    def _take(self, event: Outside, _: float) -> None:
        if not isinstance(event, DemandObserved):  # about which only the loaning is asked
            self._report()
        if isinstance(event, JobEnded):
            if event.job in self.engine.state.live:
                self._groups.drop(event.job)
                self.tell(event)
        elif isinstance(event, ServerLost):
            hit = self._groups.lose(event.server, self.now_s)
            self.tell(event)
            self._groups.tell_lost(hit, self.now_s)
        else:
            self.tell(event)
        if isinstance(event, InferenceConfigured):
            self._replicas = Replicas(event, self.engine.state)
            self._see_replicas()

    # -- what the engine wants done

    def _carry_out(self, action: Action) -> None:
        if isinstance(action, AskPolicy | AskLoaning):
            posed = question(self.engine, action, self._load_loaning)
            if posed is not None:
                self._agenda.note(self.now_s, Kind.ANSWER, 0, lambda _: self._answer(posed))
        elif isinstance(action, Offer):
            self._groups.offered(action.grant, self.now_s)
        elif isinstance(action, ReleaseGrant):
            self._groups.released(action, self.now_s)
        elif isinstance(action, EndWorkers):
            self._groups.end_at_once(action, self.now_s)
        elif isinstance(action, SetBatchSize):
            self._groups.set_batch_size(action.job, self.now_s)
        elif isinstance(action, Reject):
            self._groups.drop(action.job)
        elif isinstance(action, ScaleReplicas):
            self._scale(action.replicas)
        elif isinstance(action, OpenLoan):
            self._loan(LoanOpened(self.now_s, action.server))
        elif isinstance(action, CloseLoan):
            self._loan(LoanClosed(self.now_s, action.server))

    def _answer(self, posed: Question) -> None:
        began_s = time.perf_counter()
        event: Event = posed.answer(self.now_s)
        took_s = time.perf_counter() - began_s
        if self._recorder is not None:
            event = codec.as_journaled(event)
        if isinstance(event, PolicyDecided):
            self.outcome.decision_s.append(took_s)
            if self._slots is not None:
                self._slots.decided_s = self.now_s
            self._groups.pause(self.now_s)
        if isinstance(event, LoaningDecided) and event.decision.reclaim:
            self._report()
            self.tell(event)
            self._groups.leave_reclaimed(self.now_s)
        else:
            self.tell(event)

    def _loan(self, event: LoanOpened | LoanClosed) -> None:
        """Fences stand, and go, at once."""
        self._agenda.note(self.now_s, Kind.LOAN, 0, lambda _: self._loaned(event))

    def _loaned(self, event: LoanOpened | LoanClosed) -> None:
        self.tell(event)
        if isinstance(event, LoanClosed) and self._replicas is not None:
            self._see_replicas()
            self._refill(self.now_s)

    def _scale(self, replicas: int) -> None:
        """Replicas that go are seen gone after `vacate_s`; new ones answer after the deployment's
        `refill_s`."""
        if self._replicas is not None:
            fewer = replicas < self._replicas.wanted
            seen_s = self.now_s + (self._settings.costs.vacate_s if fewer else 0.0)
            self._replicas.wanted = replicas
            self._agenda.note(seen_s, Kind.LOAN, 1, lambda _: self._see_replicas())
            self._refill(seen_s)

    def _refill(self, from_s: float) -> None:
        if self._replicas is not None:
            answers_s = from_s + self._replicas.refill_s
            self._agenda.note(answers_s, Kind.LOAN, 1, lambda _: self._see_replicas())

    def _see_replicas(self) -> None:
        """Tell where replicas stand and which of them answer, if that changed."""
        if self._replicas is not None and (seen := self._replicas.look(self.now_s)) is not None:
            self.tell(seen)
