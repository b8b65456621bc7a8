"""The policy `oasis` as its paper has it: jobs with parameter servers, on a live scheduler."""

import pytest

import raysched
from policies.problem import Decision
from raysched.demo import digits
from raysched.events import PolicyDecided
from tests.real.live import journal_rows, live_scheduler

pytestmark = [pytest.mark.attack, pytest.mark.long, pytest.mark.timeout(240)]


def test_oasis_runs_a_job_with_the_parameter_servers_that_it_names(ray_cluster, tmp_path):
    with live_scheduler("oasis", tmp_path):
        result = raysched.ParameterServerTrainer(
            digits.train,
            epochs=3,
            workers=(1, 4),
            batch_size=32,
            workers_per_parameter_server=2,
            name="digits",
            checkpoint=tmp_path,
            train_loop_config={"data": digits.load_digits()},
        ).fit()
        decided = _decisions()
    assert result.metrics is not None
    named = {
        (allocation.workers, allocation.parameter_servers)
        for decision in decided
        for allocation in decision.allocations.values()
    }
    assert (result.metrics["workers"], result.metrics["parameter_servers"]) in named
    assert all(servers == -(-workers // 2) for workers, servers in named)
    assert result.metrics["accuracy"] > 0.8


def _decisions() -> list[Decision]:
    events = [row.event for row in journal_rows()]
    return [event.decision for event in events if isinstance(event, PolicyDecided)]
