"""A server is lent to training and comes back under real HTTP load; no request fails."""

import socket
import time
from typing import Any

import pytest
import ray
from ray import serve
from ray.util.scheduling_strategies import PlacementGroupSchedulingStrategy

from raysched.runtime import cluster, groups
from serve_inference.dashboard import ServeRest
from serve_inference.deployment import deploy
from serve_inference.digits import DigitClassifier, digits_pool, train_model, unseen_images
from serve_inference.errors import InferenceError
from serve_inference.load import LoadGenerator, summarise
from serve_inference.observer import Observer

pytestmark = [pytest.mark.real, pytest.mark.timeout(180)]

DEVICE_S = 0.1
LOAD_RPS = 10.0


def wait_until(condition, timeout_s=60.0):
    """Seconds until the condition holds."""
    began_s = time.monotonic()
    while not condition():
        assert time.monotonic() < began_s + timeout_s, "waited in vain"
        time.sleep(0.05)
    return time.monotonic() - began_s


@pytest.fixture(scope="module")
def pool(ray_cluster):
    with socket.socket() as probe:
        probe.bind(("127.0.0.1", 0))
        port = probe.getsockname()[1]
    yield digits_pool(DEVICE_S, port)
    serve.shutdown()


@pytest.fixture(scope="module")
def deployed(pool):
    return deploy(DigitClassifier, pool, train_model(), DEVICE_S)


class Training:
    def server(self):
        return ray.get_runtime_context().get_node_id()


def test_a_taken_port_is_refused_before_serve_starts(pool):
    taken = pytest.raises(InferenceError, match=f"http_port={pool.http_port} .* is taken")
    with socket.create_server(("127.0.0.1", pool.http_port)), taken:
        deploy(DigitClassifier, pool, train_model(), DEVICE_S)


def gpus_in_use(loan):
    return cluster.used_in_group(groups.group_id(loan), 4)


def test_a_server_is_lent_and_comes_back_under_load(
    pool, deployed, monkeypatch, record_property, request
):
    rest = ServeRest()
    observer = Observer(rest, pool)
    assert observer.read()[0].running == dict.fromkeys(deployed.servers, 2)
    load = LoadGenerator(pool.url, lambda _: LOAD_RPS, 60.0, unseen_images())
    load.start()
    request.addfinalizer(load.stop)

    rest.scale(pool.app, pool.deployment, 2)
    vacate_s = wait_until(lambda: len(observer.read()[0].present) == 1)
    (stays,) = observer.read()[0].present
    (empty,) = set(deployed.servers) - {stays}
    nodes = {node.node_id: node for node in cluster.pool_nodes()}
    with monkeypatch.context() as impatient:
        impatient.setattr(groups, "LOAN_WAIT_S", 0.2)
        assert groups.open_loan(nodes[stays]) is None  # replicas are there
    loan = groups.open_loan(nodes[empty])
    assert loan is not None
    assert list(groups.existing()) == [groups.loan_name(nodes[empty].name)]
    in_loan = PlacementGroupSchedulingStrategy(loan, placement_group_bundle_index=0)
    actor: Any = ray.remote(num_cpus=1, num_gpus=4, scheduling_strategy=in_loan)(Training)
    training = actor.remote()
    assert ray.get(training.server.remote(), timeout=30) == empty
    wait_until(lambda: gpus_in_use(loan) == 4)

    rest.scale(pool.app, pool.deployment, 4)  # asked for before the loan is closed
    wait_until(lambda: observer.read()[0].unplaced == 2)
    ray.kill(training)
    wait_until(lambda: gpus_in_use(loan) == 0)
    groups.remove(loan)
    refill_s = wait_until(lambda: sum(observer.read()[0].running.values()) == 4)
    assert observer.read()[0].running == dict.fromkeys(deployed.servers, 2)
    assert not groups.existing()

    summary = summarise(load.stop())
    assert summary.failed == 0
    assert summary.wrong <= 0.1 * summary.sent
    for name, value in (("vacate_s", vacate_s), ("refill_s", refill_s), ("load", summary)):
        record_property(name, str(value))
    print(f"vacate {vacate_s:.2f} s, refill {refill_s:.2f} s, {summary}")


def test_every_arrival_is_counted_once(pool, deployed):
    def arrivals(observer):
        _, demand = observer.read()
        return 0 if demand is None else demand.arrived

    often, once = Observer(ServeRest(), pool), Observer(ServeRest(), pool)
    assert arrivals(often) == arrivals(once) == 0
    load = LoadGenerator(pool.url, lambda _: 20.0, 3.0, unseen_images())
    load.start()
    counted = 0
    for _ in range(5):
        time.sleep(0.4)
        counted += arrivals(often)
    sent = len(load.wait())
    assert counted + arrivals(often) == sent == arrivals(once)
