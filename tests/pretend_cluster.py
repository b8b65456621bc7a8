"""A cluster in a few lines, for tests of the brain: it does what the engine says, as slowly and in
whatever order a test wants, and checks that no GPU is ever used twice.

It keeps its own books of who really uses what, apart from the engine's ledger.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import Any, Literal

from loaning import registry as loaning_registry
from policies import registry as policy_registry
from raysched import codec
from raysched.actions import (
    Action,
    AskLoaning,
    AskPolicy,
    CloseLoan,
    EndWorkers,
    Grant,
    OpenLoan,
    ReleaseGrant,
    ScaleReplicas,
)
from raysched.engine import Engine
from raysched.events import (
    DemandObserved,
    EpochFinished,
    Event,
    GpusFreed,
    GrantTaken,
    InferenceConfigured,
    JobEnded,
    JobProfiled,
    JobSubmitted,
    LoanClosed,
    LoanOpened,
    OfferReady,
    PolicySwitched,
    Pool,
    ReplicasObserved,
    SafePointReached,
    ServerAdded,
    ServerLost,
    TimePassed,
    WorkersResized,
    WorkersStarted,
    WorkersStopped,
)
from raysched.jobs import JobSpec
from raysched.profile import Profile
from raysched.questions import Question, question

GPUS = 4
EPOCH_S = 4.0


def spec(
    name: str = "job",
    workers: tuple[int, int] = (1, 4),
    *,
    epochs: int = 4,
    gpus: int = 1,
    **rest: Any,
) -> JobSpec:
    """A small job; `rest` as `JobSpec` calls it."""
    return JobSpec(name, epochs, *workers, batch_size=64, gpus_per_worker=gpus, **rest)


@dataclass
class PretendCluster:
    """The body. `log` holds every event with the actions that followed from it."""

    engine: Engine = field(default_factory=lambda: Engine(load_policy=policy_registry.load))
    log: list[tuple[Event, list[Action]]] = field(default_factory=list)
    questions: list[Question] = field(default_factory=list)
    opening: list[str] = field(default_factory=list)
    closing: list[str] = field(default_factory=list)
    releasing: list[tuple[str, str]] = field(default_factory=list)  # (job, server)
    ending: list[tuple[str, int]] = field(default_factory=list)  # (job, grant)
    in_use: dict[str, dict[str, int]] = field(default_factory=dict)  # job -> server -> GPUs
    gpu_rate: dict[str, float] = field(default_factory=dict)
    joinable: set[str] = field(default_factory=set)  # jobs that are resized in place
    fenced: set[str] = field(default_factory=set)
    replicas: dict[str, int] = field(default_factory=dict)
    wanted_replicas: int = 0
    now_s: float = 0.0

    # -- telling

    def tell(self, event: Event) -> list[Action]:
        """Hand an event over (through JSON, as the journal would), and start what follows."""
        event = codec.as_journaled(event)
        actions = self.engine.handle(event)
        self.log.append((event, actions))
        for action in actions:
            self._start(action)
        self.engine.state.check()
        return actions

    def _start(self, action: Action) -> None:
        if isinstance(action, AskPolicy | AskLoaning):
            posed = question(self.engine, action, loaning_registry.load)
            if posed is not None:
                self.questions.append(posed)
        elif isinstance(action, OpenLoan):
            self.opening.append(action.server)
        elif isinstance(action, CloseLoan):
            self.closing.append(action.server)
        elif isinstance(action, ReleaseGrant):
            self.releasing += [(action.job, server) for server in action.servers]
            self._end_joiners(action.job)
        elif isinstance(action, EndWorkers):
            self.ending.append((action.job, action.grant))
        elif isinstance(action, ScaleReplicas):
            self.wanted_replicas = action.replicas

    def _end_joiners(self, job: str) -> None:
        """Those who were to join for an offer that was withdrawn."""
        record, used = self.engine.state.jobs[job], self.in_use.get(job, {})
        for server, gpus in used.items():
            grants = [g for g in (record.running, record.offer) if g]
            workers = max((g.servers.get(server, 0) for g in grants), default=0)
            used[server] = min(gpus, workers * record.spec.gpus_per_worker)

    # -- what a body does, one thing at a time

    def add_server(
        self, server: str, pool: Pool = "training", gpu_type: str = "GPU", gpu_rate: float = 1.0
    ) -> None:
        self.gpu_rate[server] = gpu_rate
        self.tell(ServerAdded(self.now_s, server, pool, GPUS, gpu_type, gpu_rate=gpu_rate))

    def lose_server(self, server: str) -> None:
        for used in self.in_use.values():
            used.pop(server, None)
        self.replicas.pop(server, None)
        self.fenced.discard(server)
        self.opening = [s for s in self.opening if s != server]
        self.closing = [s for s in self.closing if s != server]
        self.tell(ServerLost(self.now_s, server))

    def serve(
        self,
        servers: int = 2,
        gpu_type: str = "GPU",
        gpu_rate: float = 1.0,
        grace_s: float | None = None,
    ) -> None:
        """An inference deployment of two replicas a server, 20 requests/s each server."""
        for index in range(servers):
            self.add_server(f"i{index + 1}", "inference", gpu_type, gpu_rate)
            self.replicas[f"i{index + 1}"] = 2
        self.wanted_replicas = 2 * servers
        self.tell(InferenceConfigured(self.now_s, "app", 2, 20.0, 2.0, grace_s=grace_s))
        self.see_replicas()

    def switch(
        self, policy: str, loaning: str = "off", *, break_promises: bool = False, **parameters: Any
    ) -> None:
        self.tell(PolicySwitched(self.now_s, policy, parameters, loaning, {}, break_promises))

    def pass_time(self, seconds: float) -> None:
        self.now_s += max(seconds, 0.0)
        self.tell(TimePassed(self.now_s))

    def submit(self, job: str, job_spec: JobSpec) -> None:
        self.tell(JobSubmitted(self.now_s, job, job_spec))

    def decide(self) -> None:
        """Answer the oldest question."""
        if self.questions:
            self.tell(self.questions.pop(0).answer(self.now_s))

    def decide_all(self) -> None:
        while self.questions:
            self.decide()

    def pick_up(self, job: str) -> None:
        """A waiting job takes its offer: its workers use the GPUs from here on."""
        record = self.engine.state.jobs[job]
        if not record.alive or record.running or not record.offer or not record.offer.workers:
            return
        grant = record.offer
        self.tell(GrantTaken(self.now_s, job, grant.grant))
        gpus = record.spec.gpus_per_worker
        self.in_use[job] = {server: n * gpus for server, n in grant.servers.items()}
        self._check_physics()
        self.tell(WorkersStarted(self.now_s, job, grant.grant, 2.0, job in self.joinable))

    def warm(self, job: str) -> None:
        """Those whom an offer adds to a job that trains are ready beside it."""
        record = self.engine.state.jobs[job]
        if job not in self.joinable or record.phase != "running" or record.offer is None:
            return
        if record.ready == record.offer.grant:
            return
        used, gpus = self.in_use[job], record.spec.gpus_per_worker
        for server, workers in record.offer.servers.items():
            used[server] = max(used.get(server, 0), workers * gpus)
        self._check_physics()
        self.tell(OfferReady(self.now_s, job, record.offer.grant))

    def profile(
        self, job: str, measured: Profile, all_reduce_s: Mapping[int, Mapping[int, float]]
    ) -> None:
        """The workers of a job have measured steps of it, and maybe all-reduces."""
        record = self.engine.state.jobs[job]
        if record.running is not None:
            grant = record.running.grant
            self.tell(JobProfiled(self.now_s, job, grant, measured, all_reduce_s))

    def finish_epoch(self, job: str) -> None:
        """A running job reaches a boundary; if it is told to leave, its workers stop."""
        record = self.engine.state.jobs[job]
        if record.phase != "running" or record.running is None:
            return
        grant = record.running
        epoch_s = self._epoch_s(grant)
        self.now_s += epoch_s * (1 - record.part)
        self.tell(EpochFinished(self.now_s, job, grant.grant, record.epochs_done, epoch_s))
        if record.epochs_done == record.spec.epochs:
            self.in_use.pop(job, None)
            self.tell(JobEnded(self.now_s, job, "finished"))
        elif self.engine.state.jobs[job].phase == "leaving":
            self._leave(job, grant)

    def reach_safe_point(self, job: str) -> None:
        """Half of what is left of an epoch is trained and saved; who is told to leave does."""
        record = self.engine.state.jobs[job]
        if record.phase != "running" or record.running is None or not record.spec.checkpoints:
            return
        grant, epoch_s, trained = record.running, self._epoch_s(record.running), 1 - record.part
        self.now_s += epoch_s * trained / 2
        part = record.part + trained / 2
        self.tell(SafePointReached(self.now_s, job, grant.grant, record.epochs_done, part, epoch_s))
        if self.engine.state.jobs[job].phase == "leaving":
            self._leave(job, grant)

    def _epoch_s(self, grant: Grant) -> float:
        return EPOCH_S / sum(n * self.gpu_rate[s] for s, n in grant.servers.items())

    def _leave(self, job: str, grant: Grant) -> None:
        offer = self.engine.state.jobs[job].offer
        if job in self.joinable and offer and set(offer.servers) & set(grant.servers):
            self.resize_in_place(job)
        else:
            self.stop_workers(job)

    def end_workers(self) -> None:
        """The oldest workers that had to be gone are killed, if they are still there."""
        if self.ending:
            job, grant = self.ending.pop(0)
            running = self.engine.state.jobs[job].running
            if running is not None and running.grant == grant:
                self.stop_workers(job)

    def resize_in_place(self, job: str) -> None:
        """At the boundary workers join and leave, and the others stay."""
        offer = self.engine.state.jobs[job].offer
        assert offer is not None
        gpus = self.engine.state.jobs[job].spec.gpus_per_worker
        self.in_use[job] = {server: n * gpus for server, n in offer.servers.items()}
        self._check_physics()
        self.tell(WorkersResized(self.now_s, job, offer.grant))
        self.tell(WorkersStarted(self.now_s, job, offer.grant, 0.5, joinable=True))

    def stop_workers(self, job: str, *, lost: bool = False) -> None:
        record = self.engine.state.jobs[job]
        if record.running is not None:
            self.in_use.pop(job, None)
            self.tell(WorkersStopped(self.now_s, job, record.running.grant, lost))

    def end(self, job: str, outcome: Literal["failed", "cancelled"]) -> None:
        """The job is cancelled, or failed."""
        if self.engine.state.jobs[job].alive:
            self.in_use.pop(job, None)
            self.tell(JobEnded(self.now_s, job, outcome))

    def free(self) -> None:
        """Ray shows the oldest release as free."""
        if self.releasing:
            job, server = self.releasing.pop(0)
            if server in self.engine.state.servers:
                self.tell(GpusFreed(self.now_s, job, server))

    def demand(self, rps: float, seconds: int = 1) -> None:
        """Observed demand, a sample a second; what loaning answers is carried out at once."""
        for _ in range(seconds):
            self.now_s += 1.0
            self.tell(DemandObserved(self.now_s, rps))
            self.decide_all()

    def scale(self) -> None:
        """Serve reaches its number of replicas: it packs, so the last server empties first."""
        left = self.wanted_replicas
        for server in sorted(
            s for s, v in self.engine.state.servers.items() if v.pool == "inference"
        ):
            fits = 0 if server in self.fenced else min(2, left)
            self.replicas[server] = fits
            left -= fits
        self.see_replicas()

    def see_replicas(self) -> None:
        seen = {server: n for server, n in self.replicas.items() if n}
        self.tell(ReplicasObserved(self.now_s, seen, seen))

    def fence(self) -> None:
        """The oldest loan placement group comes to stand."""
        if self.opening:
            server = self.opening.pop(0)
            self.fenced.add(server)
            self.tell(LoanOpened(self.now_s, server))

    def unfence(self) -> None:
        """The oldest one to be closed is gone. Nobody may be on the server any more."""
        if self.closing:
            server = self.closing.pop(0)
            assert not any(server in used for used in self.in_use.values())
            self.fenced.discard(server)
            self.tell(LoanClosed(self.now_s, server))

    def settle(self) -> None:
        """Do everything that is under way, boundaries apart, until nothing is."""
        for _ in range(200):
            before = len(self.log)
            self.decide_all()
            self.end_workers()
            self.fence()
            self.unfence()
            self.free()
            for job in list(self.engine.state.jobs):
                self.pick_up(job)
                self.warm(job)
            if len(self.log) == before:
                return
        raise AssertionError("the cluster does not come to rest")

    def run_to_the_end(self) -> None:
        """Epochs until no job is left."""
        for _ in range(500):
            self.settle()
            running = [j.id for j in self.engine.state.live_jobs() if j.phase == "running"]
            if not running and (step_s := self.engine.state.plan_step_s) is not None:
                self.pass_time(step_s - self.now_s)
            elif not running:
                return
            for job in running:
                self.finish_epoch(job)
        raise AssertionError("the jobs do not come to an end")

    def _check_physics(self) -> None:
        """No GPU is used twice, whatever the engine's ledger says."""
        used: dict[str, int] = {}
        for servers in self.in_use.values():
            for server, gpus in servers.items():
                used[server] = used.get(server, 0) + gpus
        over = {server: gpus for server, gpus in used.items() if gpus > GPUS}
        assert not over, f"GPUs used twice: {over}"


def two_servers(policy: str, **parameters: Any) -> PretendCluster:
    """Two training servers of 4 GPUs, of which the policy knows; nothing is lent."""
    cluster = PretendCluster()
    cluster.switch(policy, **parameters)
    cluster.add_server("t1")
    cluster.add_server("t2")
    cluster.decide_all()
    return cluster
