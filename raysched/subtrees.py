"""Buddy placement on a cluster's servers (001 §4.3): each job in the fewest servers, live.

Pure. A server of a number of GPUs that is no power of two, or smaller than the largest, is a
subtree with GPUs taken, and so is one where others hold some. Which of a server's GPUs a job has
is not for us to say: powers of two fit into a server in any case, so that they are counted anew
each time, the largest first.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field

from policies.problem import PlacementRule
from raysched.buddy import Tree, allot
from raysched.placement_problem import Rooms, Wanted


@dataclass(frozen=True, slots=True)
class Need:
    """What one job shall have, and has. `worker_gpus` stay on one server."""

    job: str
    gpus: int
    worker_gpus: int
    standing: Mapping[str, int] = field(default_factory=dict)  # server -> GPUs


@dataclass(frozen=True, slots=True)
class Space:
    """A server: the GPUs for these jobs, those that they stand on included."""

    server: str
    gpus: int
    on_loan: bool


def on_subtrees(jobs: Sequence[Wanted], rooms: Rooms) -> dict[str, dict[str, int]]:
    """Jobs by buddy allocation, as if their policy had named the servers of their subtrees: workers
    by job and server.

    Subtrees know no types of GPU: where there are several, jobs are packed.
    """
    servers = rooms.servers
    needs = {
        job.job: Need(
            job.job,
            job.workers * job.gpus_per_worker,
            job.gpus_per_worker,
            {server: workers * job.gpus_per_worker for server, workers in job.standing.items()},
        )
        for job in jobs
        if job.rule is PlacementRule.BUDDY and job.servers is None
    }
    if not needs or len(set(servers.gpu_type)) > 1:
        return {}
    gpus = dict(zip(servers.ids, rooms.free_gpus.tolist(), strict=True))
    for need in needs.values():
        for server in need.standing.keys() & gpus.keys():
            gpus[server] += need.standing[server]
    on_loan = servers.on_loan.tolist()
    spaces = [Space(s, gpus[s], loan) for s, loan in zip(servers.ids, on_loan, strict=True)]
    found = subtrees([*needs.values()], spaces)
    return {
        job: {server: gpus // needs[job].worker_gpus for server, gpus in there.items()}
        for job, there in found.items()
    }


def subtrees(needs: Sequence[Need], spaces: Sequence[Space]) -> dict[str, dict[str, int]]:
    """Job -> server -> GPUs, for the jobs that have a subtree; the others are to be packed.

    Left out are sizes that are no powers of two, what finds no subtree, and jobs that would wait
    for each other in a circle: a job leaves what it has only when what it gets is free.
    """
    spaces = sorted(spaces, key=lambda space: space.on_loan)
    largest = max((space.gpus for space in spaces), default=0)
    per_server = 2 ** max(largest - 1, 0).bit_length()
    fitting = [n for n in needs if n.gpus & (n.gpus - 1) == 0 and 0 < n.worker_gpus <= per_server]
    fits = {need.job for need in fitting}
    left = {space.server: space.gpus for space in spaces}
    for need in needs:
        if need.job not in fits:
            _hold(left, need.standing)
    left = {server: max(gpus, 0) for server, gpus in left.items()}  # GPUs may have been lost
    lent = sum(space.on_loan for space in spaces)
    tree = Tree((len(spaces) - lent, lent), per_server)
    held, loose, taken = _numbered(fitting, left, per_server)
    wanted = {need.job: need.gpus for need in fitting if need.gpus}
    names = [space.server for space in spaces]
    best: dict[str, dict[str, int]] = {}
    for settled in (False, True):  # the second is less often a circle, and moves more jobs
        found = allot(tree, held, wanted, taken=taken, loose=loose, settled=settled).gpus
        placed = {
            need.job: _by_server(found.get(need.job, ()), names, per_server)
            for need in fitting
            if need.job in found or not need.gpus
        }
        live = _without_circles(fitting, placed, left)
        best = max(best, live, key=len)
        if len(live) == len(placed):
            break
    return best


def _numbered(
    needs: Sequence[Need], left: Mapping[str, int], per_server: int
) -> tuple[dict[str, list[int]], dict[str, list[int]], list[int]]:
    """The GPUs that jobs keep, by number, what others stand on, and those that are not there."""
    unused = {
        server: list(range(at * per_server, at * per_server + gpus))
        for at, (server, gpus) in enumerate(left.items())
    }
    taken = [
        number
        for at, gpus in enumerate(left.values())
        for number in range(at * per_server + gpus, (at + 1) * per_server)
    ]
    held: dict[str, list[int]] = {}
    for need in sorted(needs, key=lambda need: -need.gpus):  # so that each is aligned
        stays = _stays(need, per_server)
        if stays and all(len(unused.get(server, ())) >= gpus for server, gpus in stays.items()):
            held[need.job] = _first(unused, stays)
    loose = {
        need.job: _first(unused, need.standing)
        for need in needs
        if need.gpus and need.job not in held
    }
    return held, loose, taken


def _first(unused: dict[str, list[int]], gpus: Mapping[str, int]) -> list[int]:
    """Use so many of each server's GPUs, as far as they are there."""
    numbers: list[int] = []
    for server, count in gpus.items():
        there = unused.get(server, [])
        numbers += there[:count]
        unused[server] = there[count:]
    return numbers


def _stays(need: Need, per_server: int) -> dict[str, int]:
    """The part of a job's servers that it keeps: enough, and as few as can be; else nothing."""
    here = min(need.gpus, per_server)
    enough = [server for server, gpus in need.standing.items() if gpus >= here]
    servers = enough[: need.gpus // here] if here else []
    return dict.fromkeys(servers, here) if len(servers) * here == need.gpus else {}


def _by_server(gpus: Sequence[int], names: Sequence[str], per_server: int) -> dict[str, int]:
    by_server: dict[str, int] = {}
    for number in gpus:
        server = names[number // per_server]
        by_server[server] = by_server.get(server, 0) + 1
    return by_server


def _without_circles(
    needs: Sequence[Need], placed: Mapping[str, dict[str, int]], left: Mapping[str, int]
) -> dict[str, dict[str, int]]:
    """Without the jobs that could never take their places, whatever the order."""
    free = dict(left)
    for need in needs:
        _hold(free, need.standing)
    live: dict[str, dict[str, int]] = {}
    waiting = [need for need in needs if need.job in placed]
    while waiting:
        went = [need for need in waiting if _takes(free, need.standing, placed[need.job])]
        if not went:
            break
        live |= {need.job: placed[need.job] for need in went}
        waiting = [need for need in waiting if need.job not in live]
    return live


def _takes(free: dict[str, int], standing: Mapping[str, int], target: Mapping[str, int]) -> bool:
    """Have a job change places if what it needs beyond what it has is free."""
    if any(gpus - standing.get(server, 0) > free[server] for server, gpus in target.items()):
        return False
    _hold(free, target)
    _hold(free, {server: -gpus for server, gpus in standing.items()})
    return True


def _hold(free: dict[str, int], gpus: Mapping[str, int]) -> None:
    for server, count in gpus.items():
        if server in free:
            free[server] -= count
