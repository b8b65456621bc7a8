"""The scheduler's placement groups: one for each worker's slot, one for each server on loan.

A placement group of Ray's cannot be resized, so that a job whose workers come and go in place has
a group for each. All are detached (they survive the scheduler) and named, so that a restarted
scheduler finds them: `raysched/slot/<job>/<server>/<number>` and `raysched/loan/<server>`. A loan's
group is a fence over all GPUs of a server: workers on loaned servers run inside it, Serve's
replicas stay out.
"""

from __future__ import annotations

from ray.util.placement_group import (
    PlacementGroup,
    get_placement_group,
    placement_group,
    placement_group_table,
    remove_placement_group,
)

from raysched.runtime.cluster import NODE_ID_LABEL, Node

PREFIX = "raysched"
LOAN_WAIT_S = 5.0


def slot_name(job: str, server: str, number: int) -> str:
    """The name of the placement group of a job's slot on an owned server."""
    return f"{PREFIX}/slot/{job}/{server}/{number}"


def loan_name(server: str) -> str:
    """The name of the placement group that fences a server on loan."""
    return f"{PREFIX}/loan/{server}"


def open_slot(job: str, node: Node, number: int, gpus: int) -> PlacementGroup:
    """Reserve a worker's GPUs and its CPU on an owned server."""
    group: PlacementGroup = placement_group(
        [{"CPU": 1, "GPU": gpus}],
        name=slot_name(job, node.name, number),
        lifetime="detached",
        bundle_label_selector=[{NODE_ID_LABEL: node.node_id}],
    )
    return group


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
