"""A policy that chooses batch sizes, on a whole cluster: real Ray, real training."""

import pytest

import raysched
from raysched import api
from raysched.demo import digits
from tests.real.live import has_trained, live_scheduler, wait_for

pytestmark = [
    pytest.mark.attack,
    pytest.mark.long,
    pytest.mark.timeout(300),
]  # a cluster beside others is slow

EPOCHS = 40
SAMPLES_PER_S = 2000  # an epoch takes no less than 0.4 s, on two workers


@pytest.fixture
def scheduler(ray_cluster, tmp_path):
    told = {"workers": 1, "batch_size": 64}
    with live_scheduler("fifo", tmp_path, samples_per_s=SAMPLES_PER_S):
        api.set_policy("sized", policy_parameters=told)  # which is known only in the cluster
        yield


def test_a_running_job_trains_with_the_batch_that_its_policy_chooses(scheduler, tmp_path):
    handle = raysched.submit(
        raysched.TorchTrainer(
            digits.train,
            train_loop_config={"data": digits.load_digits()},
            name="tuned",
            epochs=EPOCHS,
            workers=(1, 2),
            batch_size=(32, 256),
            learning_rate="sqrt",
            max_local_batch=48,
            checkpoint=tmp_path,
        )
    )
    for epochs, told in ((3, {"batch_size": 128}), (6, {"workers": 2, "batch_size": 256})):
        wait_for(has_trained("tuned", epochs), f"{epochs} epochs")
        raysched.set_policy("sized", policy_parameters=told)
    metrics = handle.result().metrics
    assert (metrics["workers"], metrics["batch_size"]) == (2, 256)
    assert metrics["accuracy"] > 0.9
    explained = api.explain("tuned")
    assert (explained["epochs_done"], explained["epochs_repeated"]) == (EPOCHS, 0)
