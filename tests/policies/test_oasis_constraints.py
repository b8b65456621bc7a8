"""oasis, constraints (2)-(10) of 002 §III-C one by one: each case ends elsewhere without its own.

One job on an empty cluster, whose utility falls from slot to slot: the schedule of its arrival and
the program in hindsight both end it as early as the constraints allow.
"""

import numpy as np
import pytest

from policies.oasis.market import empty_cluster
from policies.oasis.offline import optimum
from policies.oasis.schedule import offer
from tests.policies.oasis_cases import LITERAL, ps_jobs

NEVER = -1
SLOTS = 4
PLENTY = (99.0, 99.0)
RESOURCES = 5
ONE_OF_EACH = (1.0,) * RESOURCES


def online(jobs, workers, ps, slots):
    """Completion slot, utility, and instances by slot of the schedule that is admitted."""
    cluster = empty_cluster(jobs, workers, ps, slots, LITERAL)
    schedule, after = offer(jobs.request(0, slots), cluster)
    if schedule is None or after is cluster:
        return NEVER, 0.0, [0] * slots, [0] * slots
    placed = (side.sum(axis=1).tolist() for side in (schedule.workers, schedule.ps))
    return schedule.completion_slot, schedule.utility, *placed


def hindsight(jobs, workers, ps, slots):
    """The same of the optimum."""
    best = optimum(jobs, workers, ps, slots)
    placed = (side[0].sum(axis=1).tolist() for side in (best.workers, best.ps))
    return int(best.completion_slot[0]), best.utility, *placed


@pytest.fixture(params=[online, hindsight])
def ending(request):
    """One job's completion slot, and its workers and parameter servers by slot."""

    def ending(server=PLENTY, ps_server=PLENTY, **columns):
        jobs = ps_jobs({"steepness": 1.0, "target_slots": 1.0}, **columns)
        end, utility, y, z = request.param(
            jobs, np.atleast_2d(server), np.atleast_2d(ps_server), SLOTS
        )
        assert end == max((slot for slot in range(SLOTS) if y[slot]), default=NEVER)
        worth = jobs.utility(0, end - jobs.arrival_slot[0]) if end != NEVER else 0.0
        assert utility == pytest.approx(worth)
        return end, y, z

    return ending


def test_2_the_work_is_done(ending):
    assert ending(epochs=3) == (2, [1, 1, 1, 0], [1, 1, 1, 0])


def test_3_no_more_workers_than_chunks(ending):
    """Not on one server, nor on two."""
    end, y, _ = ending([PLENTY] * 2, [PLENTY] * 2, epochs=2, chunks=2)
    assert (end, y) == (1, [2, 2, 0, 0])


@pytest.mark.parametrize("short", range(RESOURCES))
def test_4_workers_fit_their_server_in_each_resource(ending, short):
    """GPU, CPU, memory, storage, bandwidth: by one of them the server has room for one worker."""
    server = [9.0] * RESOURCES
    server[short] = 1.5
    end, y, _ = ending(server, [9.0] * RESOURCES, chunks=2, worker=ONE_OF_EACH, ps=ONE_OF_EACH)
    assert (end, y) == (1, [1, 1, 0, 0])


@pytest.mark.parametrize("short", range(RESOURCES))
def test_5_parameter_servers_fit_their_server_in_each_resource(ending, short):
    server = [9.0] * RESOURCES
    server[short] = 1.5
    end, y, z = ending([9.0] * RESOURCES, server, chunks=2, worker=ONE_OF_EACH, ps=ONE_OF_EACH)
    assert (end, y, z) == (1, [1, 1, 0, 0], [1, 1, 0, 0])


def test_6_parameter_servers_have_the_bandwidth_of_the_workers(ending):
    """There is room for one of them, and it serves two workers."""
    end, y, z = ending(ps_server=(0.0, 2.0), chunks=4, ps=(0.0, 2.0))
    assert (end, y, z) == (1, [2, 2, 0, 0], [1, 1, 0, 0])


def test_7_no_more_parameter_servers_than_workers(ending):
    """A worker would need the bandwidth of two."""
    assert ending(chunks=2, ps=(0.0, 0.6)) == (NEVER, [0] * SLOTS, [0] * SLOTS)


def test_8_the_job_ends_with_its_last_worker(ending):
    """And has the utility of that slot: `ending` sees to it, here where the job cannot be short."""
    assert ending(epochs=SLOTS)[0] == SLOTS - 1


def test_9_no_workers_before_the_arrival(ending):
    """Of a job without traffic: the others' need parameter servers, and (10) holds them back."""
    end, y, _ = ending(arrival_slot=1, epochs=2, worker=(1.0, 0.0))
    assert (end, y) == (2, [0, 1, 1, 0])


def test_10_no_parameter_servers_before_the_arrival(ending):
    """That follows from (7) and (9)."""
    assert ending(arrival_slot=1, epochs=2) == (2, [0, 1, 1, 0], [0, 1, 1, 0])
