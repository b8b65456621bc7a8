"""Placement: best fit decreasing, groups on loaned servers, standing workers, gangs."""

from collections import Counter
from dataclasses import replace

import pytest
from hypothesis import given
from hypothesis import strategies as st

from policies.problem import PlacementRule
from raysched import placement
from raysched.placement import base_demands
from raysched.placement_problem import Placed, Wanted
from tests.builders import Room, rooms_of, server_ids
from tests.strategies import servers, typed_servers


def rooms(**free_gpus):
    """`rooms(t1=4, l1=2)`: servers of 4 GPUs with so many free; those on loan begin with l."""
    return [Room(name, 4, free, name.startswith("l")) for name, free in free_gpus.items()]


def wants(name, workers, low=None, gpus=1, on=None, servers=None, rule=PlacementRule.PACK):
    """A job that wants `workers`, at least `low` (inelastic without), and stands `on` servers."""
    return Wanted(
        job=name,
        workers=workers,
        min_workers=workers if low is None else low,
        gpus_per_worker=gpus,
        elastic=low is not None,
        rule=rule,
        standing=on or {},
        servers=servers,
    )


def apart(name, workers, low=None, **kwargs):
    return wants(name, workers, low, rule=PlacementRule.APART, **kwargs)


def place(jobs, rooms):
    return placement.place(jobs, rooms_of(rooms))


def where(jobs, rooms):
    return {name: dict(placed.servers) for name, placed in place(jobs, rooms).items()}


class TestBestFitDecreasing:
    def test_a_job_goes_to_the_fullest_server_that_has_room(self):
        jobs = [wants("old", 1, on={"t1": 1}), wants("older", 3, on={"t2": 3}), wants("new", 1)]
        assert where(jobs, rooms(t1=3, t2=1))["new"] == {"t2": 1}

    def test_a_server_in_use_comes_before_an_empty_one_with_as_much_room(self):
        jobs = [wants("old", 2, on={"t2": 2}), wants("new", 2)]
        assert where(jobs, rooms(t1=4, t2=2))["new"] == {"t2": 2}

    def test_what_others_hold_makes_a_server_non_empty(self):
        assert where([wants("a", 1)], rooms(t1=4, t2=3)) == {"a": {"t2": 1}}

    def test_larger_workers_are_placed_first(self):
        jobs = [wants("small", 2), wants("large", 1, gpus=4)]
        assert where(jobs, rooms(t1=2, t2=4)) == {"small": {"t1": 2}, "large": {"t2": 1}}

    def test_equals_in_the_order_given(self):
        assert where([wants("a", 4), wants("b", 4)], rooms(t1=4, t2=4)) == {
            "a": {"t1": 4},
            "b": {"t2": 4},
        }

    def test_training_servers_come_before_those_on_loan(self):
        assert where([wants("a", 6)], rooms(l1=4, t1=4)) == {"a": {"l1": 2, "t1": 4}}


class TestGangs:
    def test_all_base_demands_come_before_any_flexible_worker(self):
        jobs = [wants("elastic", 4, 1), wants("late", 2, 2)]
        placed = place(jobs, rooms(t1=4))
        assert placed["late"].workers == 2
        assert placed["elastic"].workers == 2
        assert str(placed["elastic"].shortfall) == (
            "2 of 4 workers are placed: no server has 1 of the 0 free GPUs"
        )

    def test_a_gang_that_fits_only_in_part_is_not_placed(self):
        placed = place([wants("a", 2, gpus=3)], rooms(t1=4, t2=2))["a"]
        assert placed.servers == {} and placed.workers == 0
        assert str(placed.shortfall) == (
            "2 workers of 3 GPUs each must start together, 1 fit into the 6 GPUs "
            "that are free or flexible"
        )

    def test_what_a_failed_gang_would_have_taken_goes_to_others(self):
        jobs = [wants("gang", 2, gpus=3), wants("small", 4, 1)]
        assert where(jobs, rooms(t1=4, t2=2)) == {"gang": {}, "small": {"t2": 2, "t1": 2}}

    def test_flexible_workers_make_room_for_a_gang_that_fits_only_in_fragments(self):
        jobs = [
            wants("a", 3, 1, on={"t1": 3}),
            wants("b", 3, 1, on={"t2": 3}),
            wants("gang", 1, gpus=2),
        ]
        result = where(jobs, rooms(t1=1, t2=1))
        assert result["gang"] == {"t1": 1}
        assert result["a"] == {"t1": 2, "t2": 1}
        assert result["b"] == {"t2": 3}

    def test_base_workers_do_not_make_room(self):
        jobs = [wants("a", 3, on={"t1": 3}), wants("gang", 1, gpus=2)]
        assert where(jobs, rooms(t1=1)) == {"a": {"t1": 3}, "gang": {}}

    def test_a_running_job_that_lost_a_server_comes_before_one_that_starts(self):
        jobs = [wants("new", 1, gpus=2), wants("hurt", 4, on={"t1": 2, "gone": 2})]
        assert where(jobs, rooms(t1=2)) == {"new": {}, "hurt": {"t1": 4}}

    def test_a_running_job_whose_base_fits_nowhere_leaves_its_servers(self):
        jobs = [wants("hurt", 4, on={"t1": 2, "gone": 2}), wants("other", 2, on={"t1": 2})]
        assert where(jobs, rooms(t1=0)) == {"hurt": {}, "other": {"t1": 2}}


class TestStanding:
    def test_workers_do_not_move_to_pack_better(self):
        jobs = [wants("a", 2, 1, on={"t1": 1, "t2": 1}), wants("b", 1, on={"t3": 1})]
        assert where(jobs, rooms(t1=3, t2=3, t3=3))["a"] == {"t1": 1, "t2": 1}

    def test_a_job_grows_beside_what_stands(self):
        assert where([wants("a", 4, 1, on={"t2": 1})], rooms(t1=4, t2=3)) == {"a": {"t2": 4}}

    def test_a_job_that_shrinks_leaves_where_it_has_the_fewest_workers(self):
        jobs = [wants("a", 3, 1, on={"t1": 2, "t2": 3})]
        assert where(jobs, rooms(t1=2, t2=1)) == {"a": {"t2": 3}}

    def test_a_job_that_shrinks_first_leaves_loaned_servers_that_are_flexible(self):
        jobs = [
            apart("a", 4, 1, on={"t1": 1, "l1": 2, "l2": 3}),
            apart("b", 1, 1, on={"l1": 1}),
        ]
        # Everything on l2 is flexible; b's base holds l1.
        assert where(jobs, rooms(t1=3, l1=1, l2=1))["a"] == {"t1": 1, "l1": 2, "l2": 1}

    def test_a_preempted_job_leaves_everything_to_others(self):
        jobs = [wants("a", 0, 2, on={"t1": 4}), wants("b", 4)]
        assert where(jobs, rooms(t1=0)) == {"a": {}, "b": {"t1": 4}}


class TestNamedServers:
    def test_a_policy_that_names_servers_gets_them(self):
        jobs = [wants("a", 3, servers={"t2": 1, "l1": 2}), wants("b", 1)]
        assert where(jobs, rooms(t1=4, t2=4, l1=4)) == {
            "a": {"t2": 1, "l1": 2},
            "b": {"t2": 1},
        }

    @pytest.mark.parametrize(
        ("servers", "needed", "free"), [({"t1": 1, "t2": 5}, 5, 4), ({"gone": 1}, 1, 0)]
    )
    def test_or_nothing_and_a_reason(self, servers, needed, free):
        placed = place([wants("a", 6, servers=servers)], rooms(t1=4, t2=4))["a"]
        assert placed.servers == {}
        server = next(reversed(servers))
        assert str(placed.shortfall) == (
            f"{needed} GPUs were to be had on server {server}, {free} are free there"
        )


class TestApart:
    def test_inelastic_jobs_prefer_training_servers_elastic_ones_those_on_loan(self):
        jobs = [apart("fixed", 2), apart("elastic", 2, 2)]
        assert where(jobs, rooms(t1=4, l1=4)) == {"fixed": {"t1": 2}, "elastic": {"l1": 2}}

    def test_base_and_flexible_workers_stand_on_separate_loaned_servers(self):
        jobs = [apart("a", 4, 2), apart("b", 2, 1)]
        assert where(jobs, rooms(t1=4, l1=4, l2=4)) == {
            "a": {"l1": 2, "l2": 2},
            "b": {"l1": 1, "l2": 1},
        }

    def test_flexible_workers_go_to_training_servers_before_the_base_group(self):
        assert where([apart("a", 6, 2)], rooms(t1=2, l1=4)) == {"a": {"t1": 2, "l1": 4}}

    def test_base_workers_go_to_training_servers_before_the_flexible_group(self):
        jobs = [apart("a", 4, 2, on={"t1": 2, "l1": 2}), apart("b", 3, 3)]
        assert where(jobs, rooms(t1=2, l1=2)) == {
            "a": {"t1": 2, "l1": 2},
            "b": {"t1": 2, "l1": 1},
        }

    def test_inelastic_jobs_on_loaned_servers_join_the_base_group(self):
        jobs = [
            apart("fixed", 1),
            apart("a", 6, 2, on={"t1": 4, "l1": 2}),
            apart("b", 2, on={"l2": 2}),
        ]
        assert where(jobs, rooms(t1=0, l1=2, l2=2))["fixed"] == {"l2": 1}


def typed_rooms(**free_gpus):
    """As `rooms`; servers on loan have T4s, those of the training pool V100s."""
    return [
        replace(room, gpu_type="T4", gpu_rate=0.25)
        if room.on_loan
        else replace(room, gpu_type="V100")
        for room in rooms(**free_gpus)
    ]


class TestTypes:
    def test_a_job_stands_on_gpus_of_one_type(self):
        placed = place([wants("a", 6, 2)], typed_rooms(t1=3, l1=4))["a"]
        assert placed.servers == {"t1": 3}
        assert str(placed.shortfall) == (
            "3 of 6 workers are placed: no server has 1 of the 0 free GPUs"
        )

    def test_it_starts_on_the_first_type_on_which_it_fits_whole(self):
        jobs = [wants("small", 2), wants("large", 4, 1)]
        assert where(jobs, typed_rooms(t1=4, l1=4)) == {"small": {"t1": 2}, "large": {"l1": 4}}

    def test_training_servers_first_then_the_faster_type(self):
        faster = Room("l2", 4, 4, True, "A100", 2.0)
        assert where([wants("a", 2)], [faster, *typed_rooms(t1=4, l1=4)]) == {"a": {"t1": 2}}
        assert where([wants("a", 2)], [*typed_rooms(t1=1, l1=4), faster]) == {"a": {"l2": 2}}

    def test_on_the_type_that_its_policy_names(self):
        jobs = [replace(wants("a", 2, 1), gpu_type="T4")]
        assert where(jobs, typed_rooms(t1=4, l1=4)) == {"a": {"l1": 2}}

    def test_or_nowhere(self):
        placed = place([replace(wants("a", 2), gpu_type="A100")], typed_rooms(t1=4))["a"]
        assert placed.servers == {}
        assert str(placed.shortfall) == (
            "2 workers of 1 A100 GPUs each must start together, 0 fit into the 0 GPUs that are "
            "free or flexible"
        )

    def test_a_job_that_stands_keeps_its_type(self):
        jobs = [wants("a", 4, 1, on={"l1": 1})]
        assert where(jobs, typed_rooms(t1=4, l1=3)) == {"a": {"l1": 4}}

    def test_a_job_that_is_moved_leaves_its_type_altogether(self):
        jobs = [replace(wants("a", 3, 1, on={"l1": 3}), gpu_type="V100"), wants("b", 1, gpus=4)]
        assert where(jobs, typed_rooms(t1=4, l1=1)) == {"a": {"t1": 3}, "b": {"l1": 1}}

    def test_a_job_that_lost_its_servers_moves_to_a_type_with_room(self):
        jobs = [wants("a", 3, on={"l1": 1, "gone": 2})]
        assert where(jobs, typed_rooms(t1=4, l1=0)) == {"a": {"t1": 3}}

    @pytest.mark.parametrize("gpu_type", [None, "T4"])
    def test_servers_of_several_types_are_refused_even_if_named(self, gpu_type):
        job = replace(wants("a", 2, servers={"t1": 1, "l1": 1}), gpu_type=gpu_type)
        placed = place([job], typed_rooms(t1=4, l1=4))["a"]
        assert placed.servers == {}
        assert "all workers were to be on T4 GPUs, not on T4 and V100" in str(placed.shortfall)

    def test_a_job_that_mixes_types_takes_any(self):
        jobs = [replace(wants("a", 6), mixes_gpus=True)]
        assert where(jobs, typed_rooms(t1=4, l1=4)) == {"a": {"t1": 4, "l1": 2}}

    def test_its_base_stands_on_training_servers_its_flexible_workers_on_loan(self):
        jobs = [replace(apart("a", 6, 2), mixes_gpus=True)]
        assert where(jobs, typed_rooms(t1=4, l1=3)) == {"a": {"t1": 3, "l1": 3}}


SERVERS = rooms_of(rooms(t1=4, l1=4, l2=4)).servers


class TestBaseDemands:
    def test_workers_on_training_servers_are_base_first(self):
        assert base_demands([{"l1": 2, "t1": 2}], [3], SERVERS) == [{"t1": 2, "l1": 1}]

    def test_then_servers_that_some_job_cannot_leave(self):
        standing = [{"l1": 2, "l2": 2}, {"l2": 1}]
        assert base_demands(standing, [2, 1], SERVERS) == [{"l2": 2}, {"l2": 1}]

    def test_then_in_the_order_of_servers(self):
        assert base_demands([{"l2": 2, "l1": 2}], [2], SERVERS) == [{"l1": 2}]


@st.composite
def scenes(draw, cluster_of=servers):
    """Servers, and jobs that want something and may stand where there is room."""
    cluster = draw(cluster_of)
    free = {name: server.gpus for name, server in zip(server_ids(cluster), cluster, strict=True)}
    jobs = []
    for number in range(draw(st.integers(0, 8))):
        low, gpus = draw(st.integers(1, 4)), draw(st.integers(1, 4))
        high = low + draw(st.integers(0, 5))
        standing: dict[str, int] = {}
        for server, room in free.items():
            workers = draw(st.integers(0, min(room // gpus, high - sum(standing.values()))))
            if workers:
                standing[server] = workers
                free[server] -= workers * gpus
        jobs.append(
            Wanted(
                job=f"job{number}",
                workers=draw(st.sampled_from([0, *range(low, high + 1)])),
                min_workers=low,
                gpus_per_worker=gpus,
                elastic=high > low,
                rule=draw(st.sampled_from(PlacementRule)),
                standing=standing,
            )
        )
    return jobs, [
        Room(name, server.gpus, free[name], server.on_loan, server.gpu_type, server.gpu_rate)
        for name, server in zip(server_ids(cluster), cluster, strict=True)
    ]


@given(scenes())
def test_no_gpu_twice_gangs_whole_nobody_gets_more_than_wanted(scene):
    jobs, rooms = scene
    check_books(jobs, rooms, place(jobs, rooms))


def check_books(jobs, rooms, placed):
    used = dict.fromkeys((room.server for room in rooms), 0)
    for job in jobs:
        workers = placed[job.job].workers
        assert workers == 0 or job.min_workers <= workers <= job.workers
        assert (workers < job.workers) == (placed[job.job].shortfall is not None)
        for server, there in placed[job.job].servers.items():
            assert there > 0
            used[server] += there * job.gpus_per_worker
    # The free GPUs, and what the jobs stood on: never what others hold.
    for room in rooms:
        stood = sum(job.standing.get(room.server, 0) * job.gpus_per_worker for job in jobs)
        assert used[room.server] <= room.free_gpus + stood


@given(scenes(cluster_of=typed_servers), st.data())
def test_on_one_type_unless_the_job_mixes_them(scene, data):
    jobs, rooms = scene
    wishes = st.sampled_from([None, "V100", "T4"])
    jobs = [replace(job, gpu_type=data.draw(wishes)) for job in jobs]
    jobs = [replace(job, mixes_gpus=not job.gpu_type and data.draw(st.booleans())) for job in jobs]
    placed = place(jobs, rooms)
    check_books(jobs, rooms, placed)
    type_of = {room.server: room.gpu_type for room in rooms}
    for job in jobs:
        types = {type_of[server] for server in placed[job.job].servers}
        assert job.mixes_gpus or len(types) <= 1
        assert job.gpu_type is None or types <= {job.gpu_type}


@given(scenes())
def test_running_jobs_keep_their_place(scene):
    jobs, rooms = scene
    placed = place(jobs, rooms)
    for job in jobs:
        stood = sum(job.standing.values())
        if job.workers and stood >= job.min_workers:
            assert placed[job.job].workers >= job.min_workers
            # No job that stands whole wants room that it does not hold: nobody has to make way.
            if all(sum(other.standing.values()) >= other.min_workers for other in jobs):
                stays = sum(
                    min(there, placed[job.job].servers.get(server, 0))
                    for server, there in job.standing.items()
                )
                assert stays == min(stood, job.workers)


@given(scenes())
def test_the_same_again_gives_the_same(scene):
    jobs, rooms = scene
    assert place(jobs, rooms) == place(jobs, rooms)


@given(scenes())
def test_base_demands_and_flexible_ones_make_up_all_workers(scene):
    jobs, rooms = scene
    standing = [job.standing for job in jobs]
    bases = base_demands(standing, [job.min_workers for job in jobs], rooms_of(rooms).servers)
    for job, base in zip(jobs, bases, strict=True):
        assert sum(base.values()) == min(job.min_workers, sum(job.standing.values()))
        assert all(0 < there <= job.standing[server] for server, there in base.items())


@given(scenes())
def test_who_stays_whole_need_not_be_placed(scene):
    jobs, rooms = scene
    jobs = [
        replace(job, rule=PlacementRule.PACK) if job.rule is PlacementRule.BUDDY else job
        for job in jobs
    ]
    stay = [job for job in jobs if job.workers == job.min_workers == sum(job.standing.values())]
    settled = Counter[str]()
    for job in stay:
        settled.update(job.standing)
    others = placement.place([job for job in jobs if job not in stay], rooms_of(rooms, settled))
    assert place(jobs, rooms) == others | {job.job: Placed(job.standing) for job in stay}
