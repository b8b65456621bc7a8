"""The scheduler's placement groups: one for each grant, one for each server on loan.

All are detached (they survive the scheduler) and named, so that a restarted scheduler finds them:
`raysched/grant/<job>/<grant>` and `raysched/loan/<server>`. A loan's group is a fence over all
GPUs of a server: workers on loaned servers run inside it, Serve's replicas stay out.
"""

from __future__ import annotations

from collections.abc import Mapping

from ray.util.placement_group import (
    PlacementGroup,
    get_placement_group,
    placement_group,
    placement_group_table,
    remove_placement_group,
)

from raysched.actions import Grant
from raysched.runtime.cluster import NODE_ID_LABEL, Node
from raysched.runtime.protocol import GrantedSlots, Slot

PREFIX = "raysched"
LOAN_WAIT_S = 5.0


def grant_name(job: str, grant: int) -> str:
    """The name of a grant's placement group."""
    return f"{PREFIX}/grant/{job}/{grant}"


def loan_name(server: str) -> str:
    """The name of the placement group that fences a server on loan."""
    return f"{PREFIX}/loan/{server}"


def slots_of(
    grant: Grant,
    gpus_per_worker: int,
    nodes: Mapping[str, Node],
    loans: Mapping[str, PlacementGroup],
) -> tuple[GrantedSlots, PlacementGroup | None]:
    """A place for each worker of a grant, rank 0 on an owned server where there is one.

    Workers on the training pool get a placement group of their own, which is returned beside the
    slots (None where all stand on loaned servers: those run in the loans' groups).
    """
    owned = [s for s in sorted(grant.servers) if s not in loans for _ in range(grant.servers[s])]
    lent = [s for s in sorted(grant.servers) if s in loans for _ in range(grant.servers[s])]
    group = None
    if owned:
        group = placement_group(
            [{"CPU": 1, "GPU": gpus_per_worker}] * len(owned),
            strategy="PACK",
            name=grant_name(grant.job, grant.grant),
            lifetime="detached",
            bundle_label_selector=[{NODE_ID_LABEL: nodes[s].node_id} for s in owned],
        )
    slots = [Slot(group, index, s, nodes[s].gpu_rate) for index, s in enumerate(owned)]
    slots += [Slot(loans[s], 0, s, nodes[s].gpu_rate) for s in lent]
    return GrantedSlots(grant.grant, tuple(slots), grant.batch_size), group


def open_loan(node: Node) -> PlacementGroup | None:
    """Fence a server: all its GPUs, and a CPU for each. None where a replica came first.

    A group that cannot be had is removed: left pending, it would take the server from the next
    replica that leaves.
    """
    group: PlacementGroup = placement_group(
        [{"CPU": min(node.cpus, node.gpus), "GPU": node.gpus}],
        strategy="STRICT_PACK",
        name=loan_name(node.name),
        lifetime="detached",
        bundle_label_selector=[{NODE_ID_LABEL: node.node_id}],
    )
    if group.wait(LOAN_WAIT_S):
        return group
    remove_placement_group(group)
    return None


def remove(group: PlacementGroup) -> None:
    """Remove a placement group; whatever still runs in it is killed by Ray."""
    remove_placement_group(group)


def existing() -> dict[str, PlacementGroup]:
    """Our placement groups that stand, by name. Call from the scheduler's namespace."""
    names = [
        row["name"]
        for row in placement_group_table().values()
        if row["name"].startswith(f"{PREFIX}/") and row["state"] != "REMOVED"
    ]
    return {name: get_placement_group(name) for name in names}


def group_id(group: PlacementGroup) -> str:
    """The id under which Ray names the group's resources."""
    return str(group.id.hex())
