"""What is refused at the door: jobs that this cluster can never run."""

from __future__ import annotations

from raysched.jobs import InvalidJob, JobSpec
from raysched.state import State


def check_fits(state: State, spec: JobSpec) -> None:
    """Raise `InvalidJob`, with the numbers, for a job larger than the cluster can ever be.

    The cluster at its largest is the training pool and, with loaning on, all inference servers
    but those that always serve.
    """
    servers = _at_its_largest(state)
    if not servers:
        raise InvalidJob("workers", "no server carries the label pool=training; start one with it")
    largest_gpus = max(servers)
    if spec.gpus_per_worker > largest_gpus:
        raise InvalidJob(
            "gpus_per_worker",
            f"a worker of {spec.gpus_per_worker} GPUs fits on no server: the largest has "
            f"{largest_gpus}; lower gpus_per_worker",
        )
    room = sum(gpus // spec.gpus_per_worker for gpus in servers)
    if spec.min_workers > room:
        raise InvalidJob(
            "workers",
            f"at least {spec.min_workers} workers of {spec.gpus_per_worker} GPUs need "
            f"{spec.base_gpus} GPUs; the cluster has room for {room} such workers on "
            f"{sum(servers)} GPUs at most; lower the minimum",
        )


def _at_its_largest(state: State) -> list[int]:
    """GPUs of every server that training may ever use."""
    gpus = {pool: [] for pool in ("training", "inference")}  # type: dict[str, list[int]]
    for server in state.servers.values():
        gpus[server.pool].append(state.ledger.accounts[server.id].gpus)
    lendable: list[int] = []
    if state.inference is not None and state.loaning.name != "off":
        keep = state.inference.config.min_servers
        lendable = sorted(gpus["inference"], reverse=True)[: max(len(gpus["inference"]) - keep, 0)]
    return gpus["training"] + lendable
