"""Buddy allocation: nothing fragments, whatever starts, ends and resizes; migrations counted."""

import pytest
from hypothesis import given
from hypothesis import strategies as st

from raysched.buddy import Tree, allot

TWO_SERVERS = Tree((2,), 8)


def blocks_of(held, tree):
    """The servers that each job's GPUs are on."""
    return {job: {gpu // tree.gpus_per_server for gpu in gpus} for job, gpus in held.items()}


def test_a_job_stays_within_a_socket_if_it_can():
    allotted = allot(TWO_SERVERS, {}, {"a": 1, "b": 2, "c": 4})
    assert allotted.gpus == {"c": (0, 1, 2, 3), "b": (4, 5), "a": (6,)}
    assert allotted.migrated == ()


def test_best_fit_takes_the_tightest_subtree():
    held = {"a": (0, 1, 2, 3), "b": (8, 9), "c": (12, 13, 14, 15)}
    assert allot(TWO_SERVERS, held, {"a": 4, "b": 2, "c": 4, "new": 2}).gpus["new"] == (10, 11)


def test_two_idle_gpus_on_two_servers_become_a_pair():
    """001 §4.3: 7 + 7 GPUs are taken, two are idle, one on each server."""
    wanted = {"a4": 4, "a2": 2, "a1": 1, "b4": 4, "b2": 2, "b1": 1}
    held = {
        "a4": (0, 1, 2, 3),
        "a2": (4, 5),
        "a1": (6,),
        "b4": (8, 9, 10, 11),
        "b2": (12, 13),
        "b1": (14,),
    }
    allotted = allot(TWO_SERVERS, held, {**wanted, "c": 2})
    assert allotted.gpus["c"] == (6, 7)
    assert allotted.gpus["a1"] == (15,)
    assert allotted.migrated == ("a1",)


def test_a_large_job_has_whole_servers_of_one_rack():
    tree = Tree((2, 3), 4)
    allotted = allot(tree, {"a": (0,)}, {"a": 1, "big": 8})
    assert blocks_of(allotted.gpus, tree)["big"] == {2, 3}
    assert allotted.migrated == ()


def test_across_racks_only_where_no_rack_has_room():
    tree = Tree((1, 1), 4)
    assert allot(tree, {}, {"big": 8}).gpus["big"] == tuple(range(8))


def test_shrinking_stays_and_growing_is_no_migration():
    allotted = allot(TWO_SERVERS, {"a": (0, 1, 2, 3), "b": (4,)}, {"a": 2, "b": 4})
    assert allotted.gpus == {"a": (0, 1), "b": (4, 5, 6, 7)}
    assert allotted.migrated == ()


def test_growing_stays_on_its_server_if_it_can():
    assert allot(TWO_SERVERS, {"a": (8,)}, {"a": 4}).gpus == {"a": (8, 9, 10, 11)}


def test_what_does_not_fit_goes_without():
    assert allot(TWO_SERVERS, {}, {"a": 16, "b": 1}).gpus == {"a": tuple(range(16))}


def test_a_job_clears_no_block_of_jobs_of_its_own_size():
    held = {f"j{at}": (2 * at, 2 * at + 1) for at in range(8)}
    allotted = allot(TWO_SERVERS, held, {**dict.fromkeys(held, 2), "new": 2})
    assert allotted.gpus == held and allotted.migrated == ()


def test_around_gpus_that_are_taken_all_is_as_before_where_no_subtree_is_found():
    held = {"a": (0, 1), "b": (8,)}
    allotted = allot(TWO_SERVERS, held, {"a": 2, "b": 1, "c": 8}, taken=(4, 12))
    assert allotted.gpus == held and allotted.migrated == ()


@pytest.mark.parametrize(
    ("make", "message"),
    [
        (lambda: Tree((1,), 6), "gpus_per_server is 6; use a power of two"),
        (lambda: Tree((-1,), 8), "servers_per_rack"),
        (lambda: allot(TWO_SERVERS, {}, {"a": 3}), "job a: 3 GPUs; buddy allocation needs"),
        (lambda: allot(TWO_SERVERS, {}, {"a": 0}), "job a: 0 GPUs"),
    ],
)
def test_what_cannot_be_is_refused(make, message):
    with pytest.raises(ValueError, match=message):
        make()


trees = st.builds(
    Tree,
    st.lists(st.integers(0, 3), min_size=1, max_size=3).map(tuple),
    st.sampled_from([1, 2, 4, 8]),
)


@given(trees, st.data())
def test_powers_of_two_never_fragment(tree, data):
    """Any mix of starts, ends and resizes whose GPUs are there finds its subtrees."""
    held: dict[str, tuple[int, ...]] = {}
    for step in range(data.draw(st.integers(1, 6))):
        wanted = {job: len(gpus) for job, gpus in held.items() if data.draw(st.booleans())}
        for job in [*wanted, *(f"{step}-{n}" for n in range(data.draw(st.integers(0, 6))))]:
            idle = tree.gpus - sum(wanted.values()) + wanted.get(job, 0)
            size = 2 ** data.draw(st.integers(0, 5))
            if size <= idle and (job not in wanted or data.draw(st.booleans())):
                wanted[job] = size
        allotted = allot(tree, held, wanted)
        assert {job: len(set(gpus)) for job, gpus in allotted.gpus.items()} == wanted
        taken = [gpu for gpus in allotted.gpus.values() for gpu in gpus]
        assert len(taken) == len(set(taken)) and set(taken) <= set(range(tree.gpus))
        for gpus in allotted.gpus.values():
            assert_is_subtree(gpus, tree)
        stayed = {job for job, size in wanted.items() if len(held.get(job, ())) == size}
        moved = {job for job in stayed if set(held[job]) != set(allotted.gpus[job])}
        assert moved <= set(allotted.migrated) <= stayed
        held = dict(allotted.gpus)


def assert_is_subtree(gpus, tree):
    size, per_server = len(gpus), tree.gpus_per_server
    if size <= per_server:
        assert gpus[0] % size == 0 and gpus == tuple(range(gpus[0], gpus[0] + size))
    else:
        assert len(blocks_of({"job": gpus}, tree)["job"]) * per_server == size
