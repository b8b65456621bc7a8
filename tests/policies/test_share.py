"""Minimum shares and marginal return: against the printed form, trying all, and the theorems."""

import itertools

import numpy as np
import pytest
from hypothesis import assume, given
from hypothesis import strategies as st

from policies.marginal_return import Spare, marginal_return
from policies.share import SATISFIED, Claims, Filled, Plans, minimum_shares
from policies.sizes import Sizes
from tests.builders import job, problem
from tests.policies.literal_share import literal_shares


def sizes_of(*curves):
    """Sizes 0, 1, 2, ... with these speeds."""
    gpus = [gpu for curve in curves for gpu in range(len(curve) + 1)]
    rate = [speed for curve in curves for speed in (0.0, *curve)]
    offset = np.cumsum([0, *(len(curve) + 1 for curve in curves)])
    return Sizes(offset, np.array(gpus), np.array(rate, dtype=float))


def claims_of(sizes, pieces, needed, last_s=None):
    last = np.ones(len(pieces)) if last_s is None else np.array(last_s, dtype=float)
    return Claims(sizes, np.array(pieces), last, np.array(needed, dtype=float))


def filled(gpus, claims, pieces, length_s=None, late=False):
    """The jobs in the order of their deadlines, on so many GPUs."""
    nothing = Filled(Plans.empty(len(claims.pieces)), np.full(pieces, gpus))
    length_s = np.ones(pieces) if length_s is None else length_s
    order = np.argsort(claims.pieces, kind="stable")
    return minimum_shares(length_s, nothing, order, claims, late=late)


def plan(filling, claims, row):
    """The size of one job in each piece."""
    return filling.plans.of(row, claims.pieces[row]).tolist()


CURVE_OF_FIGURE_4 = [1, 1.5, 1.75, 2]


def test_figure_3_one_gpu_each_meets_both_deadlines():
    sizes = sizes_of([1, 1.5], [1, 1.5])
    claims = claims_of(sizes, [3, 4], [3, 3], last_s=[1, 0.5])
    both = filled(2, claims, 4)
    assert both.failed == SATISFIED
    assert plan(both, claims, 0) == [1, 1, 1] and plan(both, claims, 1) == [1, 1, 1, 1]


def test_figure_4_alone_two_gpus_and_4_gpu_seconds():
    claims = claims_of(sizes_of(CURVE_OF_FIGURE_4), [2], [3])
    alone = filled(4, claims, 2)
    assert (alone.failed, plan(alone, claims, 0), alone.plans.done[0]) == (SATISFIED, [2, 2], 3)


def test_figure_4_beside_a_and_b_one_then_four_and_5_gpu_seconds():
    """Powers of two, as the figure's curve has no three GPUs."""
    curves = problem(
        [
            job("A", 1, epoch_s=1.0),
            job("B", 2, epoch_s=1.0),
            job("C", (1, 4), epoch_s=[1, 1 / 1.5, 1 / 1.75, 1 / 2]),
        ]
    ).jobs
    sizes = Sizes.of(curves, powers_of_two=True)
    claims = claims_of(sizes, [1, 1, 2], [1, 1, 3])
    beside = filled(4, claims, 2)
    assert beside.failed == SATISFIED
    assert sizes.gpus_of(2)[plan(beside, claims, 2)].tolist() == [1, 4]
    assert beside.free_gpus.tolist() == [0, 0]


def test_earlier_pieces_keep_the_size_before_once_later_ones_suffice():
    claims = claims_of(sizes_of([1, 2, 3]), [4], [5])
    assert plan(filled(4, claims, 4), claims, 0) == [1, 1, 1, 2]


def test_late_takes_all_it_can_and_fills_the_others():
    claims = claims_of(sizes_of([1, 2], [1]), [1, 2], [9, 1])
    both = filled(2, claims, 2, late=True)
    assert (both.failed, plan(both, claims, 0), plan(both, claims, 1)) == (0, [2], [0, 1])
    assert both.plans.done.tolist() == [2, 1]


class TestSizes:
    def test_powers_of_two_within_the_range(self):
        jobs = problem([job("a", (3, 9)), job("b", (3, 3), gpus=2), job("c", (1, 4))]).jobs
        sizes = Sizes.of(jobs, powers_of_two=True)
        assert [sizes.gpus_of(row).tolist() for row in range(3)] == [
            [0, 4, 8],
            [0, 6],
            [0, 1, 2, 4],
        ]

    def test_all_numbers(self):
        jobs = problem([job("a", (3, 5), gpus=2)]).jobs
        assert Sizes.of(jobs, powers_of_two=False).gpus.tolist() == [0, 6, 8, 10]

    def test_a_size_that_is_no_faster_is_left_out(self):
        jobs = problem([job("a", (1, 4), epoch_s=[4, 5, 4, 2]), job("b")]).jobs
        sizes = Sizes.of(jobs, powers_of_two=False)
        assert sizes.gpus_of(0).tolist() == [0, 1, 4] and sizes.gpus_of(1).tolist() == [0, 1]
        assert sizes.rate_of(0).tolist() == [0, 1 / 4, 1 / 2]

    def test_the_standing_size(self):
        jobs = problem(
            [job("waits", (1, 4)), job("two", (1, 4), running=2), job("three", (1, 4), running=3)]
        ).jobs
        assert Sizes.of(jobs, powers_of_two=True).standing(jobs).tolist() == [0, 2, 4]


speeds = st.lists(st.floats(0.05, 2), min_size=1, max_size=6).map(np.cumsum)


@st.composite
def cases(draw):
    pieces = draw(st.integers(1, 8))
    length_s = np.array(draw(st.lists(st.floats(0.1, 3), min_size=pieces, max_size=pieces)))
    curves = draw(st.lists(speeds, min_size=1, max_size=6))
    due = [draw(st.integers(1, pieces)) for _ in curves]
    last_s = [length_s[end - 1] * draw(st.floats(0.1, 1)) for end in due]
    needed = [draw(st.floats(0, 8)) for _ in curves]
    return draw(st.integers(0, 8)), claims_of(sizes_of(*curves), due, needed, last_s), length_s


@given(cases())
def test_fills_as_printed(case):
    gpus, claims, length_s = case
    pieces = len(length_s)
    filling = filled(gpus, claims, pieces, length_s)
    order = np.argsort(claims.pieces, kind="stable").tolist()
    printed, stuck = literal_shares(length_s, [gpus] * pieces, order, claims)
    assert filling.failed == (SATISFIED if stuck is None else stuck)
    free = np.full(pieces, gpus)
    for number, sizes in printed.items():
        assert plan(filling, claims, number) == sizes
        free[: len(sizes)] -= claims.sizes.gpus_of(number)[sizes]
    assert filling.free_gpus.tolist() == free.tolist() and (free >= 0).all()


@given(
    st.integers(1, 4),
    st.lists(st.tuples(st.integers(1, 5), st.integers(0, 12)), min_size=1, max_size=6),
)
def test_theorem_1_linear_curves_fit_exactly_if_their_gpu_time_does(gpus, jobs):
    """(1): the GPU time of the jobs due by each deadline is at most G times that deadline."""
    jobs = sorted(jobs)
    claims = claims_of(sizes_of(*([*range(1, gpus + 1)] for _ in jobs)), *zip(*jobs, strict=True))
    used = itertools.accumulate(needed for _, needed in jobs)
    fits = all(total <= gpus * due for total, (due, _) in zip(used, jobs, strict=True))
    assert (filled(gpus, claims, 5).failed == SATISFIED) == fits


def grown(gpus, claims, filling, pieces, **change):
    """What marginal return makes of it on so many GPUs now."""
    now = claims.sizes.offset[:-1] + filling.plans.first
    spare = {
        "gpus": gpus - int(claims.sizes.gpus[now].sum()),
        "free_gpus": filling.free_gpus,
        "resize_s": 0.0,
        "standing": np.zeros(len(now), dtype=np.int64),
        "rank": np.arange(len(now)),
        "may_grow": np.ones(len(now), dtype=bool),
    }
    return marginal_return(np.ones(pieces), Spare(**{**spare, **change}), claims, filling.plans)


def gpu_s_by_first(claims, row, pieces):
    """GPU-seconds of one job for each size in the first piece, alone in all later ones."""
    own = sizes_of(claims.sizes.rate_of(row)[1:])
    costs = []
    for size, speed in enumerate(own.rate):
        rest = claims_of(own, [pieces - 1], [claims.needed[row] - speed])
        later = filled(99, rest, pieces - 1)
        cost = size + int(own.gpus[plan(later, rest, 0)].sum())
        costs.append(cost if later.failed == SATISFIED else np.inf)
    return np.array(costs)


@given(st.integers(1, 6), st.data())
def test_theorem_2_marginal_return_takes_the_least_gpu_time(gpus, data):
    """Where jobs do not compete later and GPU time is convex in the GPUs now."""
    pieces, due = 6, []
    for _ in range(data.draw(st.integers(1, 3))):
        steps = sorted(data.draw(st.lists(st.integers(1, 4), min_size=1, max_size=4)))[::-1]
        due.append((np.cumsum(steps), data.draw(st.integers(1, 20))))
    claims = claims_of(sizes_of(*(c for c, _ in due)), [pieces] * len(due), [n for _, n in due])
    filling = filled(99, claims, pieces)
    assume(filling.failed == SATISFIED)
    least = filling.plans.first.tolist()
    assume(sum(least) <= gpus)
    costs = [gpu_s_by_first(claims, row, pieces) for row in range(len(due))]
    assume(all((np.diff(cost[low:], 2) >= 0).all() for low, cost in zip(least, costs, strict=True)))

    first, _ = grown(gpus, claims, filling, pieces)
    full = min(gpus, sum(len(cost) - 1 for cost in costs))
    choices = itertools.product(
        *(range(low, len(cost)) for low, cost in zip(least, costs, strict=True))
    )
    best = min(
        sum(cost[size] for cost, size in zip(costs, choice, strict=True))
        for choice in choices
        if sum(choice) == full
    )
    assert sum(first) == full
    assert sum(cost[size] for cost, size in zip(costs, first, strict=True)) == pytest.approx(best)


@given(cases(), st.integers(0, 4))
def test_growth_takes_nothing_from_any_plan(case, on_loan):
    gpus, claims, length_s = case
    filling = filled(gpus, claims, len(length_s), length_s)
    assume(filling.failed == SATISFIED)
    before = filling.plans.size.copy()
    first, after = grown(gpus + on_loan, claims, filling, len(length_s))
    assert (filling.plans.size == before).all()
    used = np.zeros(len(length_s), dtype=int)
    for row in range(len(claims.pieces)):
        own = claims.sizes.gpus_of(row)[after.of(row, claims.pieces[row])]
        assert after.first[row] == first[row] >= filling.plans.first[row]
        used[: len(own)] += own
    assert used[0] <= gpus + on_loan and (used[1:] <= gpus).all()


def test_spare_gpus_go_where_each_of_them_costs_least():
    """A would take one for 1 GPU-second more, B two for 1.5."""
    gpus, rate = [0, 1, 2, 0, 2, 4], [0, 1, 1.1, 0, 1, 1.3]
    sizes = Sizes(np.array([0, 3, 6]), np.array(gpus), np.array(rate))
    claims = claims_of(sizes, [2, 2], [1.25, 1.25], last_s=[0.25, 0.25])
    first, _ = grown(5, claims, filled(5, claims, 2), 2)
    assert first.tolist() == [1, 2]


def test_what_was_free_for_a_candidate_is_looked_at_again():
    """Both jobs save by growing; together they would need more than the second piece has."""
    claims = claims_of(sizes_of([4, 5], [4, 5]), [2, 2], [5, 5])
    _, after = grown(4, claims, filled(3, claims, 2), 2)
    assert (after.of(0, 2) + after.of(1, 2))[1] <= 3


def test_who_starts_pays_no_resize():
    claims = claims_of(sizes_of([2, 3], [2, 3]), [3, 3], [6, 6])
    standing = np.array([1, 0])
    sizes, _ = grown(3, claims, filled(4, claims, 3), 3, resize_s=0.5, standing=standing)
    assert sizes.tolist() == [1, 2]


@pytest.mark.parametrize(("resize_s", "first"), [(0.0, [2, 1]), (0.5, [1, 2])])
def test_who_stands_at_a_size_pays_no_resize_for_it(resize_s, first):
    claims = claims_of(sizes_of([2, 3], [2, 3]), [3, 3], [6, 6])
    standing = np.array([1, 2])
    sizes, _ = grown(3, claims, filled(4, claims, 3), 3, resize_s=resize_s, standing=standing)
    assert sizes.tolist() == first
