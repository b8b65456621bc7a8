"""Which slots of jobs stand: opened when a grant is first asked for, closed when none needs them.

A slot stays while the job's grants change around it, and so does the worker in it.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field

from ray.util.placement_group import PlacementGroup

from raysched.actions import Grant
from raysched.runtime import groups
from raysched.runtime.cluster import Node
from raysched.runtime.protocol import GrantedSlots, Place, Slot
from raysched.state import Job


@dataclass(slots=True)
class _JobSlots:
    gpus: int
    """Of each worker."""
    owned: dict[Place, PlacementGroup] = field(default_factory=dict)
    lent: set[Place] = field(default_factory=set)
    """On servers on loan: workers there run in the loan's placement group."""


class SlotBook:
    """The slots of all jobs."""

    def __init__(self) -> None:
        self._jobs: dict[str, _JobSlots] = {}

    def open(
        self,
        job: Job,
        grant: Grant,
        nodes: Mapping[str, Node],
        loans: Mapping[str, PlacementGroup],
    ) -> GrantedSlots:
        """The slots of a grant, those on owned servers first; opens those that do not stand yet."""
        standing = self._jobs.setdefault(job.id, _JobSlots(job.spec.gpus_per_worker))
        slots = []
        for server, number in sorted(_places(grant.servers), key=lambda p: (p[0] in loans, p)):
            place, node = (server, number), nodes[server]
            if server in loans:
                standing.lent.add(place)
                group = loans[server]
            else:
                if place not in standing.owned:
                    standing.owned[place] = groups.open_slot(job.id, node, number, standing.gpus)
                group = standing.owned[place]
            slots.append(Slot(group, server, number, node.gpu_rate))
        return GrantedSlots(
            grant.grant, tuple(slots), grant.batch_size, parameter_servers=grant.parameter_servers
        )

    def adopt(
        self, job: Job, found: Mapping[str, PlacementGroup], loans: Mapping[str, PlacementGroup]
    ) -> bool:
        """Take over what stands of a job's slots after a restart of the scheduler. False where one
        in which a worker should be is gone."""
        standing = self._jobs.setdefault(job.id, _JobSlots(job.spec.gpus_per_worker))
        for place in _places(job.held):
            if (group := found.get(groups.slot_name(job.id, *place))) is not None:
                standing.owned[place] = group
        used = _places(job.running.servers if job.running else {})
        standing.lent |= {place for place in used if place[0] in loans}
        return all(place in standing.owned or place in standing.lent for place in used)

    def close_unneeded(self, job_id: str, job: Job | None) -> None:
        """Close the slots that no grant of a job needs any more; None: the job is over."""
        standing = self._jobs.get(job_id)
        if standing is None:
            return
        needed = set() if job is None else set(_places(job.held))
        for place in standing.owned.keys() - needed:
            groups.remove(standing.owned.pop(place))
        standing.lent &= needed
        if job is None:
            del self._jobs[job_id]

    def forget(self, server: str) -> None:
        """A server is gone, and with it the slots there."""
        for standing in self._jobs.values():
            for place in [place for place in standing.owned if place[0] == server]:
                groups.remove(standing.owned.pop(place))
            standing.lent = {place for place in standing.lent if place[0] != server}

    def gpus_on(self, server: str) -> int:
        """GPUs of a server that workers in slots may be using."""
        return sum(
            standing.gpus * sum(place[0] == server for place in (*standing.owned, *standing.lent))
            for standing in self._jobs.values()
        )

    def names(self) -> set[str]:
        """The names of the placement groups that stand for slots."""
        return {
            groups.slot_name(job, *place)
            for job, standing in self._jobs.items()
            for place in standing.owned
        }


def _places(servers: Mapping[str, int]) -> list[Place]:
    return [(server, number) for server, workers in servers.items() for number in range(workers)]
