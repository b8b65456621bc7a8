"""What is refused at the door: jobs that this cluster can never run."""

from __future__ import annotations

from collections import Counter
from dataclasses import dataclass

from raysched.jobs import InvalidJob, JobSpec
from raysched.state import Server, State


def check_fits(state: State, spec: JobSpec) -> None:
    """Raise `InvalidJob`, with the numbers, for a job larger than the cluster can ever be.

    The cluster at its largest is the training pool and, with loaning on, all inference servers
    but those that always serve. A job that does not mix GPU types has to fit on one of them.
    """
    check_within(largest(state), spec)


@dataclass(frozen=True, slots=True)
class Largest:
    """How many servers of how many GPUs the cluster has at its largest: in all, and by type."""

    servers: Counter[int]
    by_type: dict[str, Counter[int]]


def largest(state: State) -> Largest:
    """The cluster at its largest, by the servers and the loaning as they are now."""
    servers = Counter[int]()
    by_type: dict[str, Counter[int]] = {}
    for server in _at_its_largest(state):
        gpus = state.ledger.accounts[server.id].gpus
        servers[gpus] += 1
        by_type.setdefault(server.gpu_type, Counter())[gpus] += 1
    return Largest(servers, by_type)


def check_within(cluster: Largest, spec: JobSpec) -> None:
    """`check_fits`, for many jobs on one cluster."""
    if not cluster.servers:
        raise InvalidJob("workers", "no server carries the label pool=training; start one with it")
    groups = _groups(cluster, spec)
    largest_gpus = max(map(max, groups))
    if spec.gpus_per_worker > largest_gpus:
        raise InvalidJob(
            "gpus_per_worker",
            f"a worker of {spec.gpus_per_worker} GPUs fits on no server: the largest has "
            f"{largest_gpus}; lower gpus_per_worker",
        )
    roomiest = max(groups, key=lambda servers: _room(servers, spec.gpus_per_worker))
    room = _room(roomiest, spec.gpus_per_worker)
    if spec.min_workers > room:
        of_one_type = " of one type" if len(groups) > 1 or spec.gpu_type else ""
        raise InvalidJob(
            "workers",
            f"at least {spec.min_workers} workers of {spec.gpus_per_worker} GPUs need "
            f"{spec.base_gpus} GPUs; the cluster has room for {room} such workers on "
            f"{_room(roomiest, 1)} GPUs{of_one_type} at most; lower the minimum",
        )


def _groups(cluster: Largest, spec: JobSpec) -> list[Counter[int]]:
    """Each group of servers on which the job may stand together."""
    servers = {"": cluster.servers} if spec.mixes_gpus else cluster.by_type
    if not spec.gpu_type:
        return list(servers.values())
    if spec.gpu_type not in servers:
        raise InvalidJob(
            "gpu_type",
            f"no server that training may use has {spec.gpu_type} GPUs; there are "
            f"{', '.join(sorted(servers))}",
        )
    return [servers[spec.gpu_type]]


def _room(servers: Counter[int], gpus_per_worker: int) -> int:
    """Workers that fit on these servers."""
    return sum(count * (gpus // gpus_per_worker) for gpus, count in servers.items())


def _at_its_largest(state: State) -> list[Server]:
    """Every server that training may ever use."""
    pools: dict[str, list[Server]] = {"training": [], "inference": []}
    for server in state.servers.values():
        pools[server.pool].append(server)
    lendable: list[Server] = []
    if state.inference is not None and state.loaning.name != "off":
        keep = state.inference.config.min_servers
        largest = sorted(pools["inference"], key=lambda s: -state.ledger.accounts[s.id].gpus)
        lendable = largest[: max(len(largest) - keep, 0)]
    return pools["training"] + lendable
