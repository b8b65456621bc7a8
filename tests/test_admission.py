"""Bad input is refused at the door, in one line that names field and mend."""

import pickle

import pytest

from raysched.admission import check_fits
from raysched.jobs import InvalidJob, JobSpec, Utility
from tests.pretend_cluster import PretendCluster, spec


@pytest.mark.parametrize(
    ("changed", "said"),
    [
        ({"min_workers": 4, "max_workers": 2}, "workers: the minimum 4 is above the maximum 2"),
        ({"min_workers": 0}, "workers: the minimum is 0; use 1 or more"),
        ({"epochs": 0}, "epochs: is 0; use 1 or more"),
        ({"batch_size": -8}, "batch_size: is -8; use 1 or more"),
        ({"gpus_per_worker": 0}, "gpus_per_worker: is 0; use 1 or more"),
        ({"batch_size": 1}, "batch_size: 1 samples cannot be shared by 2 workers"),
        ({"deadline_s": 0.0}, r"deadline: 0.0 s is not a time to come"),
        ({"expected_s": -1.0}, r"expected: -1.0 s is not a time to come"),
        ({"requested_workers": 3}, "requested_workers: 3 is out of the range of workers"),
        ({"profile_epoch_s": (1.0,)}, "profile_epoch_s: needs 2 positive numbers of seconds"),
        ({"checkpoints": False}, r"checkpoints: a job without them starts over at each resize"),
        ({"gpu_type": "T4", "mixes_gpus": True}, "mixes_gpus: with gpu_type='T4' there is but one"),
    ],
)
def test_a_job_that_makes_no_sense_is_refused(changed, said):
    fields = {"name": "a", "epochs": 1, "min_workers": 1, "max_workers": 2, "batch_size": 64}
    with pytest.raises(InvalidJob, match=said):
        JobSpec(**{**fields, **changed})


@pytest.mark.parametrize(
    ("utility", "said"),
    [
        ((0.0, 1.0, 60.0), "utility: worth is 0.0; use a positive number"),
        ((1.0, -1.0, 60.0), "utility: steepness_per_s is -1.0; use a number from 0"),
        ((1.0, 1.0, float("nan")), "utility: target_s is nan; use a number from 0"),
    ],
)
def test_a_utility_that_makes_no_sense_is_refused(utility, said):
    with pytest.raises(InvalidJob, match=said):
        Utility(*utility)


def test_the_error_survives_the_way_through_ray():
    error = pickle.loads(pickle.dumps(InvalidJob("workers", "too many")))
    assert (str(error), error.field) == ("workers: too many", "workers")


@pytest.fixture
def state():
    """Two training servers of 4 GPUs and two inference servers, loaning off."""
    cluster = PretendCluster()
    cluster.switch("aryl", "off")
    cluster.add_server("t1")
    cluster.add_server("t2")
    cluster.serve()
    return cluster.engine.state


def test_a_job_larger_than_the_cluster_is_refused_with_the_numbers(state):
    check_fits(state, spec(workers=(8, 8)))
    with pytest.raises(InvalidJob, match=r"need 9 GPUs; the cluster has room for 8 .* on 8 GPUs"):
        check_fits(state, spec(workers=(9, 9)))


def test_fragments_count(state):
    state.loaning.name = "aryl"  # 12 GPUs, 4 on each of three servers
    check_fits(state, spec(workers=(3, 3), gpus=3))
    with pytest.raises(InvalidJob, match="room for 3 such workers on 12 GPUs"):
        check_fits(state, spec(workers=(4, 4), gpus=3))


def test_a_worker_larger_than_any_server_is_refused(state):
    with pytest.raises(InvalidJob, match="gpus_per_worker: a worker of 5 GPUs fits on no server"):
        check_fits(state, spec(workers=(1, 1), gpus=5))


def test_with_loaning_the_servers_that_may_be_lent_count(state):
    state.loaning.name = "aryl"
    check_fits(state, spec(workers=(12, 12)))
    with pytest.raises(InvalidJob, match="room for 12"):
        check_fits(state, spec(workers=(13, 13)))


def test_without_a_training_server_the_label_is_named():
    with pytest.raises(InvalidJob, match="no server carries the label pool=training"):
        check_fits(PretendCluster().engine.state, spec())


@pytest.fixture
def two_types():
    """Two servers of 4 V100s, one of 4 T4s."""
    cluster = PretendCluster()
    for server in ("t1", "t2"):
        cluster.add_server(server, gpu_type="V100")
    cluster.add_server("t3", gpu_type="T4", gpu_rate=0.25)
    return cluster.engine.state


def test_a_type_that_no_server_has_is_refused_with_those_that_are_there(two_types):
    check_fits(two_types, spec(workers=(4, 4), gpu_type="T4"))
    said = "gpu_type: no server that training may use has A100 GPUs; there are T4, V100"
    with pytest.raises(InvalidJob, match=said):
        check_fits(two_types, spec(gpu_type="A100"))


def test_a_job_has_to_fit_on_one_type_unless_it_mixes_them(two_types):
    check_fits(two_types, spec(workers=(8, 8)))
    check_fits(two_types, spec(workers=(12, 12), mixes_gpus=True))
    with pytest.raises(InvalidJob, match="room for 8 such workers on 8 GPUs of one type at most"):
        check_fits(two_types, spec(workers=(9, 9)))
    with pytest.raises(InvalidJob, match="room for 4 such workers on 4 GPUs of one type at most"):
        check_fits(two_types, spec(workers=(5, 5), gpu_type="T4"))
