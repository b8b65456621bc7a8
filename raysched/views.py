"""The state as plain data for people and programs: `status`, `explain`."""

from __future__ import annotations

from typing import Any

from raysched.state import Job, Server, State


def status(state: State, now_s: float) -> dict[str, Any]:
    """Everything that a screen shows."""
    return {
        "now_s": now_s,
        "policy": state.policy.name,
        "policy_parameters": state.policy.parameters,
        "loaning": state.loaning.name,
        "policy_error": state.policy.error,
        "loaning_error": state.loaning.error,
        "servers": [_server(state, server) for server in state.servers.values()],
        "jobs": [job_view(job, now_s) for job in state.jobs.values()],
        "inference": _inference(state),
        "restart_s": state.restart_s,
        "events": state.events,
    }


def job_view(job: Job, now_s: float) -> dict[str, Any]:
    """One job as a row."""
    return {
        "job": job.id,
        "tenant": job.spec.tenant,
        "phase": job.outcome or job.phase,
        "workers": job.workers_now,
        "target": job.workers,
        "range": [job.spec.min_workers, job.spec.max_workers],
        "gpus": job.workers_now * job.spec.gpus_per_worker,
        "parameter_servers": job.running.parameter_servers if job.running else 0,
        "servers": dict(job.standing),
        "epochs_done": job.epochs_done,
        "epochs": job.spec.epochs,
        "epochs_repeated": round(job.epochs_repeated, 2),
        "age_s": (job.ended_s if job.ended_s is not None else now_s) - job.submitted_s,
        "reason": str(job.why),
        "error": job.error,
    }


def explain(state: State, job: Job, now_s: float) -> dict[str, Any]:
    """Why a job stands where it stands, with the numbers behind it; times are of the GPUs where it
    stands, or of those of rate 1 while it waits."""
    epoch_s = state.curve(job, job.batch_size) / state.rate(job)
    sizes = range(job.spec.min_workers, job.spec.max_workers + 1)
    known = zip(sizes, epoch_s.tolist(), strict=True)
    seconds = {n: s for n, s in known if state.fits(job, job.batch_size, n)}
    left = job.spec.epochs - job.epochs_done
    measured = job.times.get(job.batch_size)
    return {
        **job_view(job, now_s),
        "reason_numbers": dict(job.why.numbers),
        "promise": _promise(job),
        "promise_over": job.promise_over,
        "policy": state.policy.name,
        "epoch_s": {n: round(s, 3) for n, s in seconds.items()},
        "batch_size": job.batch_size,
        "measured_at": sorted(measured.mean_s) if measured else [],
        "predicted_from": state.source(job),
        "remaining_s": {n: round(s * left, 1) for n, s in seconds.items()},
        "waits_for_gpus": _missing_gpus(state, job),
    }


def _promise(job: Job) -> dict[str, Any] | None:
    """The plan that the job was promised: seconds and workers from then on."""
    if job.promise is None:
        return None
    return {
        "until_s": job.promise.until_s,
        "plan": [[step.start_s, step.workers] for step in job.promise.plan],
        "kept_by": "the scheduler" if job.inherited else "the policy",
    }


def _missing_gpus(state: State, job: Job) -> dict[str, int]:
    """GPUs by server that its target needs and that are not free yet."""
    if job.wanted is None:
        return {}
    held = state.ledger.held(job.id)
    needed = {s: n * job.spec.gpus_per_worker - held.get(s, 0) for s, n in job.wanted.items()}
    return {
        s: n - max(state.ledger.accounts[s].free, 0)
        for s, n in needed.items()
        if s in state.ledger.accounts and n > state.ledger.accounts[s].free
    }


def _server(state: State, server: Server) -> dict[str, Any]:
    account = state.ledger.accounts[server.id]
    return {
        "server": server.id,
        "pool": server.pool,
        "loan": server.loan,
        "gpus": account.gpus,
        "free": account.free,
        "foreign": account.foreign,
        "granted": dict(account.granted),
        "releasing": dict(account.releasing),
    }


def _inference(state: State) -> dict[str, Any] | None:
    inference = state.inference
    if inference is None:
        return None
    return {
        "deployment": inference.config.deployment,
        "replicas": inference.replicas,
        "running": dict(inference.running),
        "rps": inference.demand_rps[-1] if inference.demand_rps else 0.0,
        "vacating": inference.vacating,
    }
