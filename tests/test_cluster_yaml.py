"""`cluster.yaml` is what `ray up` accepts and what the scheduler needs. No cloud is asked."""

import copy
import shlex
from pathlib import Path
from typing import Any

import pytest
import yaml
from ray.autoscaler._private.util import prepare_config, validate_config

ROOT = Path(__file__).parent.parent


@pytest.fixture
def cluster() -> dict[str, Any]:
    config: dict[str, Any] = yaml.safe_load((ROOT / "cluster.yaml").read_text())
    return config


def prepared(config: dict[str, Any]) -> dict[str, Any]:
    """The configuration as `ray up` completes and checks it."""
    complete: dict[str, Any] = prepare_config(copy.deepcopy(config))
    validate_config(complete)
    return complete


def test_ray_accepts_it(cluster):
    assert set(prepared(cluster)["available_node_types"]) == {"head", "training", "inference"}


def test_ray_would_refuse_a_misspelt_field(cluster):
    cluster["available_node_types"]["training"]["labls"] = {"pool": "training"}
    with pytest.raises(Exception, match="labls"):
        prepared(cluster)


def test_each_node_type_is_labelled_with_its_pool(cluster):
    for name, node_type in cluster["available_node_types"].items():
        assert node_type["labels"] == {"pool": name}
    assert cluster["head_node_type"] == "head"


def test_sizes_are_consistent(cluster):
    types = prepared(cluster)["available_node_types"]
    assert all(t["min_workers"] <= t["max_workers"] for t in types.values())
    assert types["head"]["max_workers"] == 0
    workers = [types["training"], types["inference"]]
    assert all(t["resources"]["GPU"] > 0 for t in workers)
    # Neither pool can use up what the other may need.
    assert sum(t["max_workers"] for t in workers) <= cluster["max_workers"]


def test_the_inference_pool_is_capped_by_itself(cluster):
    # Written out, not filled in by Ray from the cluster's total: a replica that waits for a lent
    # server would buy another one.
    inference = cluster["available_node_types"]["inference"]
    assert 1 <= inference["max_workers"] < cluster["max_workers"]


def test_every_ray_start_requires_the_token(cluster):
    starts = cluster["head_start_ray_commands"] + cluster["worker_start_ray_commands"]
    joining = [c for c in starts if "ray start" in c or "raysched" in c]
    assert len(joining) == 3
    assert all("RAY_AUTH_MODE=token" in shlex.split(c.replace(";", " ")) for c in joining)
    assert "~/.ray/auth_token" in cluster["file_mounts"]


def test_the_head_starts_ray_with_serve_packing_and_then_the_scheduler(cluster):
    commands = cluster["head_start_ray_commands"]
    start = next(i for i, c in enumerate(commands) if "ray start --head" in c)
    exported = shlex.split(commands[start].partition(";")[0])
    environment = dict(word.split("=", 1) for word in exported[1:])
    assert environment["RAY_SERVE_USE_PACK_SCHEDULING_STRATEGY"] == "1"
    ten_years_s = 10 * 365 * 86400
    assert float(environment["RAY_SERVE_NODE_COMPACTION_DELAY_S"]) > ten_years_s
    assert any("raysched start" in c for c in commands[start + 1 :])


def test_what_is_installed_on_the_nodes_is_copied_there(cluster):
    mounts = cluster["file_mounts"]
    ours = {far: near for far, near in mounts.items() if far.startswith("~/raysched/")}
    assert all((ROOT / near).exists() for near in ours.values())
    assert set(ours.values()) >= {"pyproject.toml", "constraints.txt", "raysched", "policies"}
    assert set(ours.values()) >= {"loaning", "serve_inference"}
