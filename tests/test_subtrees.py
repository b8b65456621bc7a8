"""Buddy placement on servers: whole and compact, few moves, and nobody waits in a circle."""

from hypothesis import given
from hypothesis import strategies as st

from policies.problem import PlacementRule
from raysched import placement
from raysched.placement_problem import Wanted
from tests.builders import Room, rooms_of


def buddy(name, workers, on=None, gpus=1):
    """A job from 1 worker on that wants `workers`."""
    return Wanted(name, workers, 1, gpus, True, PlacementRule.BUDDY, standing=on or {})


def rooms(jobs, **gpus):
    """`rooms(jobs, t1=8, l1=8)`: servers of so many GPUs; those on loan begin with l."""
    held = {server: _held(jobs, server) for server in gpus}
    return [Room(s, size, size - held[s], s.startswith("l")) for s, size in gpus.items()]


def _held(jobs, server):
    return sum(job.standing.get(server, 0) * job.gpus_per_worker for job in jobs)


def place(jobs, rooms):
    return placement.place(jobs, rooms_of(rooms))


def where(jobs, **gpus):
    placed = place(jobs, rooms(jobs, **gpus))
    assert not any(found.shortfall for found in placed.values())
    return {name: dict(found.servers) for name, found in placed.items()}


def test_the_smallest_number_of_servers():
    jobs = [buddy("small", 2), buddy("large", 16), buddy("whole", 8)]
    assert where(jobs, t1=8, t2=8, t3=8, t4=8) == {
        "small": {"t4": 2},
        "large": {"t1": 8, "t2": 8},
        "whole": {"t3": 8},
    }


def test_two_idle_gpus_on_two_servers_become_a_pair():
    """001 §4.3, as in Fig. 2b the pair would be slower across servers."""
    jobs = [buddy("a", 1, {"t1": 1}), buddy("b", 2, {"t1": 2}), buddy("c", 1, {"t2": 1})]
    jobs += [buddy("d", 2, {"t2": 2}), buddy("new", 2)]
    placed = where(jobs, t1=4, t2=4)
    assert len(placed["new"]) == 1
    assert [job.job for job in jobs[:4] if placed[job.job] != job.standing] in (["a"], ["c"])


def test_who_stands_stays_where_a_place_is_idle():
    jobs = [buddy("a", 1, {"t1": 1}), buddy("b", 4, {"t2": 4}), buddy("new", 4)]
    assert where(jobs, t1=8, t2=8) == {"a": {"t1": 1}, "b": {"t2": 4}, "new": {"t2": 4}}


def test_shrinking_stays_and_growing_stays_on_its_server():
    jobs = [buddy("a", 2, {"t1": 4}), buddy("b", 8, {"t2": 4}), buddy("c", 8, {"t3": 8, "t4": 8})]
    assert where(jobs, t1=8, t2=8, t3=8, t4=8) == {"a": {"t1": 2}, "b": {"t2": 8}, "c": {"t3": 8}}


def test_who_was_spread_by_another_policy_is_brought_together():
    jobs = [buddy("a", 4, {"t1": 2, "t2": 2}), buddy("b", 2, {"t2": 2})]
    assert where(jobs, t1=4, t2=4) == {"a": {"t1": 4}, "b": {"t2": 2}}


def test_training_servers_before_those_on_loan():
    jobs = [buddy("old", 6, {"l1": 4}), buddy("new", 2)]
    assert where(jobs, l1=8, t1=8)["new"] == {"t1": 2}


def test_servers_of_other_sizes_and_sizes_that_are_no_powers_of_two():
    jobs = [buddy("a", 3), buddy("b", 4), buddy("c", 2, gpus=2), buddy("d", 2)]
    placed = where(jobs, t1=6, t2=3, t3=4)
    assert placed["a"] == {"t2": 3}
    assert all(len(servers) == 1 for servers in placed.values())


def test_where_others_hold_more_than_is_left_nothing_is_placed():
    found = place([buddy("a", 2)], [Room("t1", 2, -1), Room("t2", 2, 2)])
    assert found["a"].servers == {"t2": 2}


def test_what_finds_no_subtree_is_packed():
    assert where([buddy("a", 8)], t1=6, t2=3) == {"a": {"t1": 5, "t2": 3}}


def test_nobody_waits_in_a_circle():
    """It would cost less to clear t2 for a: but a and c would wait for each other to leave."""
    jobs = [buddy("a", 4, {"t1": 2}), buddy("b", 2, {"t1": 2}), buddy("c", 2, {"t2": 1})]
    placed = where(jobs, t1=4, t2=4)
    assert placed == {"a": {"t1": 4}, "b": {"t2": 2}, "c": {"t2": 2}}
    assert never_waits(jobs, placed, {"t1": 4, "t2": 4})


def never_waits(jobs, placed, gpus):
    """Whether all jobs get to their places, each once what it needs beyond its own is free."""
    free = {server: size - _held(jobs, server) for server, size in gpus.items()}
    waiting = {job.job: dict(job.standing) for job in jobs}
    for _ in jobs:
        for name, has in [*waiting.items()]:
            if all(n - has.get(s, 0) <= free[s] for s, n in placed[name].items()):
                for server in free:
                    free[server] += has.get(server, 0) - placed[name].get(server, 0)
                del waiting[name]
    return not waiting


@given(st.integers(1, 5), st.integers(0, 2), st.sampled_from([1, 2, 4, 8]), st.data())
def test_whatever_starts_ends_and_resizes_is_placed_whole_and_compact(owned, lent, size, data):
    gpus = {f"t{n}": size for n in range(owned)} | {f"l{n}": size for n in range(lent)}
    standing: dict[str, dict[str, int]] = {}
    for step in range(data.draw(st.integers(1, 6), label="steps")):
        names = [*standing, *(f"{step}-{n}" for n in range(data.draw(st.integers(0, 5))))]
        idle, jobs = sum(gpus.values()), []
        for name in names:
            before = sum(standing.get(name, {}).values())
            workers = data.draw(st.sampled_from([before, before, 0, 1, 2, 4, 8, 16]))
            workers = workers if workers <= idle else 0
            idle -= workers
            jobs.append(buddy(name, workers, standing.get(name)))
        placed = where(jobs, **gpus)
        assert never_waits(jobs, placed, gpus)
        for job in jobs:
            fewest = -(-job.workers // size)
            assert len(placed[job.job]) == fewest, (job, placed)
        standing = {name: servers for name, servers in placed.items() if servers}
