"""Inference servers on loan: empty, fence, use, leave, give back (004 §4).

    none ─► opening ─► open ─► reclaiming ─► closing ─► none
      (empty: fence)  (ours)  (jobs leave)  (fence goes)

Serve chooses which server empties (it packs its replicas); the engine fences it once it is seen
empty. On a reclaim the deployment is asked to grow *first*: its pending replicas start the moment
the fence goes.
"""

from __future__ import annotations

import math
from collections.abc import Set

import numpy as np

from loaning.problem import LoanDecision, LoanProblem, OnLoan
from policies.reason import Reason, because
from raysched import grants
from raysched.actions import Action, CloseLoan, OpenLoan, ScaleReplicas
from raysched.events import DemandObserved, InferenceConfigured, ReplicasObserved
from raysched.state import Inference, Job, Server, State

DEMAND_SAMPLES = 4096
"""Demand samples kept for the forecast: more than an hour at one a second."""


def configure(state: State, event: InferenceConfigured) -> list[Action]:
    """An inference deployment is there; it starts on the whole of its pool."""
    replicas = len(_pool(state)) * event.replicas_per_server
    state.inference = Inference(config=event, replicas=replicas)
    return []


def observe_demand(state: State, event: DemandObserved) -> None:
    """Keep a sample for the forecast."""
    if state.inference is None:
        return
    for column, value in (
        (state.inference.demand_at_s, event.at_s),
        (state.inference.demand_rps, event.rps),
    ):
        column.append(value)
        del column[:-DEMAND_SAMPLES]


def observe_replicas(state: State, event: ReplicasObserved) -> list[Action]:
    """Note where replicas stand, and fence servers that were asked to empty and are."""
    inference = state.inference
    if inference is None:
        return []
    inference.present, inference.running = dict(event.present), dict(event.running)
    return _fence_empty(state)


def apply(state: State, decision: LoanDecision) -> list[Action]:
    """Carry a loaning decision out: ask servers to empty, or take loaned ones back."""
    inference = state.inference
    if inference is None:
        return []
    actions: list[Action] = []
    for server_id in decision.reclaim:
        server = state.servers.get(server_id)
        if server is not None and server.loan == "open":  # it may have gone meanwhile
            actions += _reclaim(state, server, decision.reason)
            if inference.config.grace_s is not None:
                server.leave_by_s = state.now_s + inference.config.grace_s
    serving = _serving(state)
    if decision.needed > serving:
        inference.vacating -= min(inference.vacating, decision.needed - serving)
    inference.vacating += decision.lend
    return _scale(state, decision.reason) + actions + _fence_empty(state)


def refused(state: State, server: Server) -> None:
    """A replica came first: the server serves on, another one has to empty."""
    server.loan = "none"
    if state.inference is not None:
        state.inference.vacating += 1


def close_emptied(state: State, freed: str | None = None) -> list[Action]:
    """Give back every reclaimed server that no job holds any more.

    `freed`: only on this server may none be that was there when this was last done.
    """
    actions: list[Action] = []
    if state.inference is None:  # nothing was ever lent
        return actions
    emptied = _pool(state) if freed is None else [s for s in (state.servers.get(freed),) if s]
    for server in emptied:
        if server.loan == "reclaiming" and not state.ledger.accounts[server.id].in_use:
            server.loan, server.leave_by_s = "closing", None
            actions.append(CloseLoan(server.id))
    return actions


def next_deadline_s(state: State) -> float | None:
    """By when workers must be gone from the next reclaimed server; None: nothing is waited for."""
    if state.inference is None or state.inference.config.grace_s is None:
        return None
    times = [s.leave_by_s for s in _pool(state) if s.leave_by_s is not None]
    return min(times, default=None)


def end_overdue(state: State) -> list[Action]:
    """End workers that still stand where they had to be gone by now."""
    actions: list[Action] = []
    deadline_s = next_deadline_s(state)
    if deadline_s is None or deadline_s > state.now_s:
        return actions
    late = {s.id for s in _pool(state) if s.leave_by_s is not None and s.leave_by_s <= state.now_s}
    for server in late:
        state.servers[server].leave_by_s = None
    for job in state.live_jobs():
        if late & job.standing.keys():
            actions += grants.cut_short(state, job)
    return actions


def still_owed(state: State) -> list[Action]:
    """Actions that were sent and not answered, to be sent again after a restart."""
    owed: list[Action] = []
    if state.inference is not None:
        why = because("as before the restart")
        owed.append(ScaleReplicas(state.inference.config.deployment, state.inference.replicas, why))
    for server in _pool(state):
        if server.loan == "opening":
            owed.append(OpenLoan(server.id))
        elif server.loan == "closing":
            owed.append(CloseLoan(server.id))
    return owed


def anything_lent(state: State) -> bool:
    """Whether a server is on loan or on its way to be."""
    vacating = state.inference.vacating if state.inference else 0
    return vacating > 0 or any(s.loan in ("opening", "open") for s in _pool(state))


def problem(state: State) -> LoanProblem | None:
    """What the loaning policy sees now; None while there is nothing to lend."""
    inference = state.inference
    if inference is None:
        return None
    return LoanProblem(
        now_s=state.now_s,
        demand_at_s=np.array(inference.demand_at_s),
        demand_rps=np.array(inference.demand_rps),
        server_rps=inference.config.server_rps,
        serving=_serving(state),
        vacating=inference.vacating,
        lead_s=lead_s(state, inference),
        on_loan=_on_loan(state),
        min_serving=inference.config.min_servers,
    )


def lead_s(state: State, inference: Inference) -> float:
    """How long a reclaim takes: the longest way of a job to its next boundary or safe point, but no
    longer than the grace, then a restart and the refill."""
    leave_s = max(
        (
            min(state.predicted_s(job), job.spec.every_s or math.inf)
            for job in state.live_jobs()
            if job.running is not None and job.times
        ),
        default=0.0,
    )
    if inference.config.grace_s is not None:
        leave_s = min(leave_s, inference.config.grace_s)
    return leave_s + state.restart_s + inference.config.refill_s


def _pool(state: State) -> list[Server]:
    return [s for s in state.servers.values() if s.pool == "inference"]


def _serving(state: State) -> int:
    """Servers that serve or are on their way back, without those asked to empty."""
    lent = sum(s.loan in ("opening", "open") for s in _pool(state))
    vacating = state.inference.vacating if state.inference else 0
    return len(_pool(state)) - lent - vacating


def _scale(state: State, reason: Reason) -> list[Action]:
    inference = state.inference
    if inference is None:
        return []
    replicas = _serving(state) * inference.config.replicas_per_server
    if replicas == inference.replicas:
        return []
    inference.replicas = replicas
    return [ScaleReplicas(inference.config.deployment, replicas, reason)]


def _fence_empty(state: State) -> list[Action]:
    inference = state.inference
    actions: list[Action] = []
    for server in _pool(state):
        if inference is None or inference.vacating == 0:
            break
        if server.loan == "none" and not inference.present.get(server.id, 0):
            server.loan = "opening"
            inference.vacating -= 1
            actions.append(OpenLoan(server.id))
    return actions


def _reclaim(state: State, server: Server, why: Reason) -> list[Action]:
    """Workers leave the server at their next boundary: elastic ones shrink, the rest is
    preempted."""
    server.loan = "reclaiming"
    actions: list[Action] = []
    for job in state.live_jobs():
        if server.id not in job.target:
            continue
        remaining = {s: n for s, n in job.target.items() if s != server.id}
        workers = sum(remaining.values())
        if workers < job.spec.min_workers:
            remaining, workers = {}, 0
        reason = because(
            "leaves {server}, which inference takes back: {workers} of {before} workers stay "
            "(at least {minimum} are needed); " + str(why).replace("{", "{{").replace("}", "}}"),
            server=server.id,
            workers=workers,
            before=job.workers,
            minimum=job.spec.min_workers,
        )
        actions += grants.want(state, job, remaining, reason)
    return actions


def _on_loan(state: State) -> OnLoan:
    """By the standing targets, which is what a reclaim changes."""
    servers = [s.id for s in _pool(state) if s.loan == "open"]
    lent = frozenset(servers)
    jobs = [job for job in state.live.values() if not lent.isdisjoint(job.target)]
    workers = [[target.get(s, 0) for s in servers] for target in (job.target for job in jobs)]
    return OnLoan(
        servers=tuple(servers),
        jobs=tuple(j.id for j in jobs),
        workers=np.array(workers, dtype=np.int64).reshape(len(jobs), len(servers)),
        elsewhere=np.array([_elsewhere(state, j, lent) for j in jobs], dtype=np.int64),
        min_workers=np.array([j.spec.min_workers for j in jobs], dtype=np.int64),
        gpus_per_worker=np.array([j.spec.gpus_per_worker for j in jobs], dtype=np.int64),
        checkpoints=np.array([j.spec.checkpoints for j in jobs], dtype=np.bool_),
    )


def _elsewhere(state: State, job: Job, lent: Set[str]) -> int:
    return sum(n for s, n in job.target.items() if s not in lent and state.trainable(s))
