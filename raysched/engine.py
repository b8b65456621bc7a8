"""The brain: `handle(event) -> actions`. No Ray, no clock, no I/O.

The body (Ray or the simulator) reports what happened, journals it, and carries out what comes
back. Policies are not solved here: `AskPolicy` asks the body to have `problem()` decided (off its
loop) and to report the answer as an event, so that decisions are facts like all others.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping, Sequence
from typing import Any, TypeAlias

from policies.problem import Decision, Policy, Problem
from raysched import decisions, events, grants, lending, promises, triggers
from raysched.actions import Action, AskLoaning, AskPolicy, Offer, ReleaseGrant
from raysched.columns import JobColumns, ServerColumns
from raysched.events import Event
from raysched.ledger import Account
from raysched.performance import EpochTimes, shape_of
from raysched.standing import Standing
from raysched.state import Job, Server, Setting, State

LoadPolicy: TypeAlias = Callable[[str, Mapping[str, Any]], Policy]
"""A policy by name and parameters: `policies.registry.load`."""

DRIFT = 0.25
"""An epoch this much (relatively) off its prediction has the policy asked again."""

RESTART_SMOOTHING = 0.3
"""Weight of the newest one in the running means of what restarts and resizes in place cost."""


_KEEPS_SERVERS = frozenset(
    {
        events.JobSubmitted,
        events.GrantTaken,
        events.WorkersStarted,
        events.OfferReady,
        events.WorkersResized,
        events.JobProfiled,
        events.EpochFinished,
        events.SafePointReached,
        events.WorkersStopped,
        events.GpusFreed,
        events.JobEnded,
        events.TimePassed,
        events.DemandObserved,
        events.ReplicasObserved,
        events.PolicyDecided,
    }
)
"""Events after which training may use the same servers as before."""

_FREES_NOTHING = frozenset(
    {
        events.JobSubmitted,
        events.GrantTaken,
        events.WorkersStarted,
        events.OfferReady,
        events.WorkersResized,
        events.JobProfiled,
        events.EpochFinished,
        events.SafePointReached,
        events.WorkersStopped,
        events.JobEnded,
        events.TimePassed,
        events.DemandObserved,
    }
)
"""Events after which no GPU is free that was not, and no server unused: what stops or ends only
begins to release. Nothing is to settle but for their own job."""


class Engine:
    """The state, and what each event does to it."""

    def __init__(self, state: State | None = None, *, load_policy: LoadPolicy) -> None:
        self.state = state or State()
        self._load_policy = load_policy
        self._policy = load_policy(self.state.policy.name, self.state.policy.parameters)
        self._columns = JobColumns()
        self._servers = ServerColumns()
        self._standing = Standing()
        self._touch(self.state.live)
        self._handlers: dict[type, Callable[[Any], list[Action]]] = {
            events.ServerAdded: self._server_added,
            events.ServerLost: self._server_lost,
            events.ForeignGpusObserved: self._foreign_gpus_observed,
            events.JobSubmitted: self._job_submitted,
            events.GrantTaken: self._grant_taken,
            events.WorkersStarted: self._workers_started,
            events.OfferReady: self._offer_ready,
            events.WorkersResized: self._workers_resized,
            events.JobProfiled: self._job_profiled,
            events.EpochFinished: self._epoch_finished,
            events.SafePointReached: self._safe_point_reached,
            events.WorkersStopped: self._workers_stopped,
            events.GpusFreed: self._gpus_freed,
            events.JobEnded: self._job_ended,
            events.InferenceConfigured: self._inference_configured,
            events.DemandObserved: self._demand_observed,
            events.ReplicasObserved: self._replicas_observed,
            events.LoanOpened: self._loan_opened,
            events.LoanRefused: self._loan_refused,
            events.LoanClosed: self._loan_closed,
            events.PolicySwitched: self._policy_switched,
            events.TimePassed: self._time_passed,
            events.PolicyDecided: self._policy_decided,
            events.LoaningDecided: self._loaning_decided,
            events.DecisionFailed: self._decision_failed,
            events.SchedulerRestarted: self._scheduler_restarted,
            events.Reconciled: self._reconciled,
        }

    @property
    def policy(self) -> Policy:
        """The chosen policy, with its parameters."""
        return self._policy

    def handle(self, event: Event) -> list[Action]:
        """Take in one event; what has to be done now, in order."""
        state = self.state
        if event.at_s > state.now_s:
            state.now_s = event.at_s
        state.events += 1
        actions = self._handlers[type(event)](event)
        if self._may_settle(event):
            freed = event.server if isinstance(event, events.GpusFreed) else None
            actions += grants.settle(state, freed)
            actions += lending.close_emptied(state, freed)
        if type(event) not in _KEEPS_SERVERS:
            self._servers.change()
        self._touch_what_changed(event, actions)
        return actions + self._asks()

    @property
    def server_changes(self) -> int:
        """How often the servers, what is on loan or the loaning may have changed so far."""
        return self._servers.changes

    def problem(self, apart: Sequence[Job]) -> Problem:
        """What a policy is asked now, but for the jobs `apart` and what was promised to them."""
        servers = self._servers.servers(self.state)
        jobs = self._columns.jobs(self.state)
        return decisions.problem(self.state, jobs, servers, self._standing, apart)

    def next_due_s(self) -> float | None:
        """When time alone makes something due: the body then sends `TimePassed`."""
        policy_s = triggers.next_due_s(self.state, self._policy.interval_s)
        times = [
            at_s for at_s in (policy_s, lending.next_deadline_s(self.state)) if at_s is not None
        ]
        return min(times, default=None)

    # -- servers

    def _server_added(self, event: events.ServerAdded) -> list[Action]:
        state = self.state
        if event.server not in state.servers:
            state.servers[event.server] = Server(
                event.server, event.pool, event.gpu_type, event.gpu_rate
            )
            state.ledger.accounts[event.server] = Account(event.gpus, event.foreign_gpus)
            if event.pool == "training":
                triggers.policy_due(state, f"{event.server} joined")
        return []

    def _server_lost(self, event: events.ServerLost) -> list[Action]:
        state = self.state
        if state.servers.pop(event.server, None) is None:
            return []
        state.ledger.accounts.pop(event.server)
        promises.void_unkeepable(state)
        triggers.policy_due(state, f"{event.server} was lost")
        actions: list[Action] = []
        for job in state.live_jobs():
            if job.offer is not None and event.server in job.offer.servers:
                actions += grants.withdraw(state, job)
            if event.server in (job.wanted or {}):
                job.wanted = None
        self._touch(state.live)
        return actions

    def _foreign_gpus_observed(self, event: events.ForeignGpusObserved) -> list[Action]:
        account = self.state.ledger.accounts.get(event.server)
        if account is not None and account.foreign != event.gpus:
            account.foreign = event.gpus
            promises.void_unkeepable(self.state)
            triggers.policy_due(self.state, f"others use {event.gpus} GPUs of {event.server}")
        return []

    # -- jobs

    def _job_submitted(self, event: events.JobSubmitted) -> list[Action]:
        state, spec = self.state, event.spec
        state.names[spec.name] = state.names.get(spec.name, 0) + 1
        state.live[event.job] = Job(
            event.job, spec, event.at_s, event.owner, event.token, batch_size=spec.batch_size
        )
        triggers.policy_due(state, f"{event.job} arrived")
        return []

    def _grant_taken(self, event: events.GrantTaken) -> list[Action]:
        job = self.state.live.get(event.job)
        if job is not None:
            grants.take(self.state, job, event.grant)
        return []

    def _workers_started(self, event: events.WorkersStarted) -> list[Action]:
        job = self.state.live.get(event.job)
        if job is None or job.running is None or job.running.grant != event.grant:
            return []
        job.joinable = event.joinable
        if job.phase != "starting":
            return []
        job.phase = "running"
        state = self.state
        if job.in_place:
            state.resize_s = _mean_of(state.resize_s, event.start_s)
        else:
            state.restart_s = _mean_of(state.restart_s, event.start_s)
        return []

    def _offer_ready(self, event: events.OfferReady) -> list[Action]:
        job = self.state.live.get(event.job)
        if job is not None:
            job.ready = event.grant
        return []

    def _workers_resized(self, event: events.WorkersResized) -> list[Action]:
        job = self.state.live.get(event.job)
        return [] if job is None else grants.resize_in_place(self.state, job, event.grant)

    def _job_profiled(self, event: events.JobProfiled) -> list[Action]:
        state, job = self.state, self.state.live.get(event.job)
        if job is None or job.running is None or job.running.grant != event.grant:
            return []
        profile = event.profile.at_rate(state.rate(job))
        state.profiles.take(job.spec, state.gpu_type(job), profile, event.all_reduce_s)
        self._touch(state.live)
        triggers.policy_due(state, f"{job.id} was profiled")
        return []

    def _epoch_finished(self, event: events.EpochFinished) -> list[Action]:
        job = self.state.live.get(event.job)
        if job is None or job.running is None or job.running.grant != event.grant:
            return []
        if event.epoch < job.epochs_done:
            job.epochs_repeated += 1
        epochs = max(event.epoch + 1 - job.epochs_done, 1)  # a body may tell of several at once
        job.epochs_done = max(job.epochs_done, event.epoch + 1)
        job.reported = event.grant
        self._attain(job, epochs - job.part, event.epoch_s)
        job.part = 0.0
        self._learn(job, job.running.batch_size, event.epoch_s)
        if job.trained:
            return []
        job.phase = "running"
        return grants.reach_boundary(self.state, job)

    def _safe_point_reached(self, event: events.SafePointReached) -> list[Action]:
        job = self.state.live.get(event.job)
        if job is None or job.running is None or job.running.grant != event.grant:
            return []
        if event.epoch == job.epochs_done:  # an older one is redone, and counted at its boundary
            self._attain(job, max(event.part - job.part, 0.0), event.epoch_s)
            job.epochs_repeated += max(job.part - event.part, 0.0)  # told, but not saved
            job.part = event.part
            job.reported = event.grant
        job.phase = "running"
        return grants.reach_safe_point(self.state, job)

    def _attain(self, job: Job, epochs: float, epoch_s: float) -> None:
        """Count the GPU time that so many epochs, or a part of one, took."""
        job.attained_gpu_s += epochs * epoch_s * job.workers_now * job.spec.gpus_per_worker

    def _learn(self, job: Job, batch_size: int, epoch_s: float) -> None:
        """Take a measured epoch in, and have the policy asked where it drifts from prediction."""
        state, workers = self.state, job.workers_now
        seen_s, times = epoch_s * state.rate(job), job.times.get(batch_size)
        if times and times.mean_s.get(workers) == seen_s and job.spec.profile_epoch_s is not None:
            return  # as all of them on so many workers
        predicted_s = state.predicted_s(job)
        if abs(epoch_s - predicted_s) > DRIFT * predicted_s:
            triggers.policy_due(
                state, f"{job.id} took {epoch_s:.2f} s an epoch, not {predicted_s:.2f} s"
            )
        job.times.setdefault(batch_size, EpochTimes()).observe(workers, seen_s)

    def _workers_stopped(self, event: events.WorkersStopped) -> list[Action]:
        job = self.state.live.get(event.job)
        if job is None:
            return []
        actions = grants.stop(self.state, job, event.grant, lost=event.lost)
        if not job.trained and job.running is None and job.offer is None and job.wanted is None:
            triggers.policy_due(self.state, f"{job.id} has no workers left")
        return actions

    def _gpus_freed(self, event: events.GpusFreed) -> list[Action]:
        self.state.ledger.freed(event.job, event.server)
        return []

    def _job_ended(self, event: events.JobEnded) -> list[Action]:
        job = self.state.live.get(event.job)
        if job is None:
            return []
        if event.outcome == "finished":
            self._remember(job)
        triggers.policy_due(self.state, f"{job.id} {event.outcome}")
        return grants.end(self.state, job, event.outcome, event.error)

    def _remember(self, job: Job) -> None:
        """Later jobs of the same shape are predicted from what this one took."""
        for batch_size, own in job.times.items():
            shape = shape_of(job.spec, batch_size)
            times = self.state.history.setdefault(shape, EpochTimes())
            for workers, epoch_s in own.mean_s.items():
                times.observe(workers, epoch_s)
        if self.state.names.get(job.spec.name) == 1:
            return  # no other job has its name
        self._columns.touch(
            other.id
            for other in self.state.live_jobs()
            if not other.times and other.spec.name == job.spec.name
        )

    # -- inference

    def _inference_configured(self, event: events.InferenceConfigured) -> list[Action]:
        return lending.configure(self.state, event)

    def _demand_observed(self, event: events.DemandObserved) -> list[Action]:
        lending.observe_demand(self.state, event)
        if self.state.loaning.name != "off" or lending.anything_lent(self.state):
            triggers.loaning_due(self.state, "demand was observed")
        return []

    def _replicas_observed(self, event: events.ReplicasObserved) -> list[Action]:
        return lending.observe_replicas(self.state, event)

    def _loan_opened(self, event: events.LoanOpened) -> list[Action]:
        state = self.state
        server = state.servers.get(event.server)
        if server is not None and server.loan == "opening":
            triggers.policy_due(state, f"{event.server} is on loan")
            server.loan = "open"
            if state.loaning.name == "off":  # it was under way when loaning was switched off
                triggers.loaning_due(state, f"{event.server} is on loan all the same")
        return []

    def _loan_refused(self, event: events.LoanRefused) -> list[Action]:
        server = self.state.servers.get(event.server)
        if server is not None and server.loan == "opening":
            lending.refused(self.state, server)
        return []

    def _loan_closed(self, event: events.LoanClosed) -> list[Action]:
        server = self.state.servers.get(event.server)
        if server is not None:
            if server.loan == "open":  # the fence went by itself
                triggers.policy_due(self.state, f"the loan of {event.server} was lost")
                self._touch(self.state.live)  # what was to stand there is void
            server.loan, server.leave_by_s = "none", None
        return []

    # -- decisions

    def _policy_switched(self, event: events.PolicySwitched) -> list[Action]:
        state = self.state
        policy, parameters = event.policy, dict(event.policy_parameters)
        self._policy = self._load_policy(policy, parameters)
        state.weighs_resizes = event.weighs_resizes
        before, state.policy = state.policy, _switched(state.policy, policy, parameters)
        if event.break_promises:
            promises.break_all(state)
        elif state.policy is not before:
            promises.inherit(state)
        state.loaning = _switched(state.loaning, event.loaning, dict(event.loaning_parameters))
        triggers.policy_due(state, f"the policy is now {event.policy}")
        if state.inference is not None:
            triggers.loaning_due(state, f"the loaning is now {event.loaning}")
        return []

    def _time_passed(self, event: events.TimePassed) -> list[Action]:
        triggers.periods_over(self.state, self._policy.interval_s)
        promises.expire(self.state)
        return lending.end_overdue(self.state)

    def _policy_decided(self, event: events.PolicyDecided) -> list[Action]:
        if not triggers.answered(self.state.policy, event.ask):
            return []
        self.state.policy.memory = event.memory
        self.state.policy.review_at_s = event.decision.review_at_s
        return self._apply(event.decision)

    def _apply(self, decision: Decision) -> list[Action]:
        servers = self._servers.servers(self.state)
        actions, changed = decisions.apply(self.state, servers, self._standing, decision)
        self._touch(changed)
        self.state.plan_step_s = promises.next_change_s(self.state)
        return actions

    def _loaning_decided(self, event: events.LoaningDecided) -> list[Action]:
        if not triggers.answered(self.state.loaning, event.ask):
            return []
        self.state.loaning.memory = event.memory
        if event.decision.reclaim:
            triggers.policy_due(self.state, f"inference takes {list(event.decision.reclaim)} back")
        self._touch(self.state.live)
        return lending.apply(self.state, event.decision)

    def _decision_failed(self, event: events.DecisionFailed) -> list[Action]:
        setting = self.state.policy if event.asked == "policy" else self.state.loaning
        if not triggers.answered(setting, event.ask):
            return []
        setting.error = event.error
        return self._apply(Decision({})) if event.asked == "policy" else []  # promises are kept

    # -- after a restart

    def _scheduler_restarted(self, event: events.SchedulerRestarted) -> list[Action]:
        self.state.reconciling = True
        return []

    def _reconciled(self, event: events.Reconciled) -> list[Action]:
        state = self.state
        state.reconciling = False
        for setting in (state.policy, state.loaning):
            setting.outstanding = None  # the answer went down with the process
        triggers.policy_due(state, "the scheduler restarted")
        return grants.still_owed(state) + lending.still_owed(state)

    # -- helpers

    def _may_settle(self, event: Event) -> bool:
        """Whether a target that waits may find its GPUs free now, or a server be unused."""
        if type(event) not in _FREES_NOTHING:
            return True
        job = self.state.live.get(getattr(event, "job", ""))
        return job is not None and job.wanted is not None

    def _trains_on(self, job_id: str) -> bool:
        """Whether a job that is at a boundary goes on as it is: nothing was decided about it."""
        job = self.state.live.get(job_id)
        if job is None or job.trained:
            return False
        return job.phase == "running" and job.offer is None and job.wanted is None

    def _touch(self, jobs: Iterable[str]) -> None:
        """Note that these jobs changed, for all that is kept of them as columns."""
        for kept in (self._columns, self._standing):
            kept.touch(jobs)

    def _touch_what_changed(self, event: Event, actions: list[Action]) -> None:
        own: str | None = getattr(event, "job", None)
        touched = [] if own is None else [own]
        if actions:
            touched += [a.job for a in actions if isinstance(a, ReleaseGrant)]
            touched += [a.grant.job for a in actions if isinstance(a, Offer)]
        self._columns.touch(touched)
        if type(event) is not events.EpochFinished or not self._trains_on(event.job):
            self._standing.touch(touched)

    def _asks(self) -> list[Action]:
        state, actions = self.state, list[Action]()
        if state.reconciling:
            return actions
        if (asked := triggers.ask(state, state.policy)) is not None:
            actions.append(AskPolicy(*asked))
        if (asked := triggers.ask(state, state.loaning)) is not None:
            actions.append(AskLoaning(*asked))
        return actions


def _mean_of(known_s: float, newest_s: float) -> float:
    """The running mean of what starts or resizes cost, with one more."""
    weight = RESTART_SMOOTHING if known_s else 1.0
    return known_s + weight * (newest_s - known_s)


def _switched(old: Setting, name: str, parameters: dict[str, Any]) -> Setting:
    """A new setting starts with no memory; the same one keeps what it has."""
    if old.name == name and old.parameters == parameters:
        return old
    return Setting(name, parameters)
