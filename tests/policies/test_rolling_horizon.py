"""The rolling-horizon model: Fig. 5 and 7 of 000, all forms against each other, bounds."""

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from policies.rolling_horizon import solve
from policies.rolling_horizon_exact import EXACT_GAP, solve_compact, solve_literal
from policies.rolling_horizon_filling import fit
from policies.rolling_horizon_model import (
    loads_gpus,
    model_of,
    modelarts_model,
    modelarts_speed,
    objective_value,
    progress,
    worth,
)
from policies.rolling_horizon_pricing import price_jobs
from tests.oracles.rolling_horizon import best_objective, best_objective_as_printed, best_profit

ROUNDING = 1e-9


@st.composite
def models(draw, jobs=4, steps=3, sizes=3):
    """Few jobs with arbitrary sizes and shares that grow with them; the smallest sizes fit."""
    count = draw(st.integers(1, jobs))
    steps = draw(st.integers(1, steps))
    legal = np.array([draw(_some_of(sizes)) for _ in range(count)])
    unit_gpus = np.array([draw(st.sampled_from([1, 1, 2, 3])) for _ in range(count)])
    gpus = 2 ** np.arange(sizes) * unit_gpus[:, None]
    shares = st.lists(st.floats(0.01, 1.2), min_size=sizes, max_size=sizes, unique=True)
    served = np.array([sorted(draw(shares)) for _ in range(count)])
    slower = np.array([[draw(st.sampled_from([1.0, 0.8, 0.0])) for _ in range(sizes)]] * count)
    least = int(np.where(legal, gpus, 999).min(axis=1).sum())
    return model_of(
        legal,
        gpus,
        served,
        served * slower,
        worth(draw(st.sampled_from(["cumulative", "final"])), steps),
        least + draw(st.integers(0, 6)),
    )


def _some_of(sizes):
    return st.lists(st.booleans(), min_size=sizes, max_size=sizes).filter(any)


def busy(jobs, nodes, seed=0, **parameters):
    """An instance as large as those of 000 §5, demands spread log-normally."""
    draws = np.random.default_rng(seed)
    demand_node_h = np.exp(draws.normal(0.0, 1.5, jobs)).clip(0.01)
    most_nodes = draws.choice([1, 2, 4, 8, 16], jobs, p=[0.02, 0.03, 0.05, 0.1, 0.8])
    return modelarts_model(demand_node_h, nodes=nodes, most_nodes=most_nodes, **parameters)


def plans_of(model, *nodes):
    """The plans that take these GPUs, one sequence for each job."""
    return np.array(
        [
            first + np.searchsorted(model.gpus[first:end], sequence)
            for first, end, sequence in zip(model.offset[:-1], model.offset[1:], nodes, strict=True)
        ]
    )


def test_the_paper_s_speed():
    assert modelarts_speed(np.array([1, 2, 4, 8, 16])).tolist() == pytest.approx(
        [1, 1.6, 2.56, 4.096, 6.5536]
    )


def test_figure_5():
    """3 node-hours, steps of half an hour on 1, 2, 1 and 4 nodes: done in two hours."""
    model = modelarts_model(
        np.array([3.0]), nodes=4, most_nodes=np.array([4]), steps=8, step_s=1800
    )
    plans = plans_of(model, [1, 2, 1, 4, 1, 1, 1, 1])
    served_node_h = 3.0 * progress(model, plans)[0]
    assert served_node_h.tolist() == pytest.approx([0.5, 1.3, 1.8, 3.0, 3.0, 3.0, 3.0, 3.0])
    assert objective_value(model, plans) == pytest.approx((0.5 + 1.3 + 1.8 + 5 * 3.0) / 3.0)


def test_figure_7():
    """A job that ends in the second step: it goes on holding a node, and nothing is lost."""
    demand_node_h = np.array([2 * 1.6 / 12])
    model = modelarts_model(demand_node_h, nodes=2, most_nodes=np.array([2]))
    printed = best_objective_as_printed(
        demand_node_h, nodes=2, least_nodes=[1], most_nodes=[2], steps=5
    )
    assert model.gpus[solve(model).plans].tolist() == [[2, 2, 1, 1, 1]]
    assert solve(model).value == pytest.approx(printed) == pytest.approx(4.5)


@given(models())
def test_the_exact_forms_agree_and_the_fast_one_brackets_them(model):
    optimum = best_objective(model)
    literal, compact, fast = solve_literal(model), solve_compact(model), solve(model, exact_jobs=0)
    assert literal.optimal and compact.optimal
    assert literal.value == pytest.approx(optimum, rel=2 * EXACT_GAP)
    assert compact.value == pytest.approx(optimum, rel=2 * EXACT_GAP)
    assert fast.value <= optimum + ROUNDING <= fast.bound + 2 * ROUNDING
    assert fast.value == pytest.approx(objective_value(model, fast.plans))
    assert (loads_gpus(model, fast.plans) <= model.capacity_gpus).all()


@given(models())
def test_few_jobs_are_solved_exactly(model):
    solution = solve(model)
    assert solution.value == pytest.approx(best_objective(model), rel=2 * EXACT_GAP)
    assert solution.gap <= 2 * EXACT_GAP
    assert not solution.capped


@given(
    st.lists(st.tuples(st.floats(0.05, 1), st.integers(1, 2), st.integers(0, 2)), max_size=2),
    st.integers(0, 3),
)
def test_what_the_linear_model_simplifies_only_costs(jobs, spare):
    """With n in K, the non-linear model gives finished jobs' nodes back: it is never worse."""
    jobs = [(0.3, 1, 1), *jobs]
    demand, least, larger = (np.array(column) for column in zip(*jobs, strict=True))
    most, nodes = least + larger, int(least.sum()) + spare
    model = modelarts_model(
        demand, nodes=nodes, least_nodes=least, most_nodes=most, steps=3, step_s=600
    )
    printed = {
        "nodes": nodes,
        "least_nodes": least.tolist(),
        "most_nodes": most.tolist(),
        "steps": 3,
        "step_s": 600,
    }
    of_powers = best_objective_as_printed(demand, sizes={1, 2, 4}, **printed)
    assert best_objective(model) <= of_powers + ROUNDING
    assert of_powers <= best_objective_as_printed(demand, **printed) + ROUNDING
    if spare >= larger.sum():
        assert best_objective(model) == pytest.approx(of_powers)


@given(models(steps=4), st.data())
def test_each_job_s_priced_plan_is_its_best(model, data):
    prices = np.array([data.draw(st.floats(0, 0.5)) for _ in model.worth])
    plans = np.zeros((model.jobs, len(model.worth)), dtype=np.int64)
    total = price_jobs(model, prices, plans, 1000)
    profit = objective_value(model, plans) - loads_gpus(model, plans) @ prices
    best = sum(best_profit(model, prices, job) for job in range(model.jobs))
    assert total == pytest.approx(best) == pytest.approx(profit)
    assert price_jobs(model, prices, plans, data.draw(st.integers(0, 9))) >= best - ROUNDING


@given(models(jobs=8), st.randoms(use_true_random=False))
def test_any_plans_are_made_to_fit_and_those_that_fit_never_lose(model, random):
    options = list(zip(model.offset[:-1].tolist(), model.offset[1:].tolist(), strict=True))
    plans = np.array(
        [[random.randrange(first, end) for _ in model.worth] for first, end in options]
    )
    value = fit(model, plans)
    assert (loads_gpus(model, plans) <= model.capacity_gpus).all()
    assert value == pytest.approx(objective_value(model, plans))
    assert fit(model, plans) >= value - ROUNDING


@pytest.mark.parametrize("objective", ["cumulative", "final"])
@pytest.mark.parametrize(("jobs", "nodes"), [(60, 70), (170, 190), (400, 600), (400, 4000)])
def test_at_size_the_gap_is_small_and_the_constraints_hold(jobs, nodes, objective):
    model = busy(jobs, nodes, objective=objective)
    solution = solve(model)
    plans = solution.plans
    assert solution.gap <= 1e-3
    assert solution.value == pytest.approx(objective_value(model, plans))
    assert (loads_gpus(model, plans) <= nodes).all()
    assert (plans >= model.offset[:-1, None]).all() and (plans < model.offset[1:, None]).all()


def test_the_last_prices_save_rounds():
    solution = solve(busy(170, 190))
    later = busy(180, 190)
    cold, warm = solve(later), solve(later, solution.prices)
    assert warm.gap <= 1e-4
    assert warm.rounds < cold.rounds


@pytest.mark.parametrize("price", [1e-300, 1e300])
def test_absurd_prices_to_start_with_do_no_harm(price):
    assert solve(busy(170, 190), np.full(5, price)).gap <= 1e-3


def test_prices_bound_whatever_the_cap_on_rounds():
    capped = solve(busy(170, 190), np.full(5, 1e-3), rounds=1)
    best = solve(busy(170, 190))
    assert capped.rounds == 1
    assert capped.value <= best.bound and best.value <= capped.bound


def test_enough_for_all_is_optimal_at_no_price():
    model = busy(50, 5000)
    solution = solve(model)
    assert solution.gap == 0 and solution.rounds == 0 and not solution.prices.any()


def test_a_finished_job_takes_no_more_than_its_smallest_size():
    model = busy(50, 5000)
    plans = solve(model).plans
    after = progress(model, plans)[:, :-1] >= 1
    smallest = np.broadcast_to(model.offset[:-1, None], after.shape)
    assert (plans[:, 1:][after] == smallest[after]).all()


def test_no_jobs():
    solution = solve(busy(1, 4)._replace(offset=np.zeros(1, dtype=np.int64)))
    assert (solution.value, solution.bound, solution.gap, len(solution.plans)) == (0, 0, 0, 0)


def test_smallest_sizes_that_do_not_fit_are_refused():
    with pytest.raises(ValueError, match="capacity_gpus: 3, but the smallest sizes take 4"):
        solve(busy(4, 3))


def test_where_the_exact_search_is_cut_at_once_the_priced_plans_and_bound_stand():
    model = busy(20, 70)
    priced, cut = solve(model, exact_jobs=0), solve(model, exact_nodes=0)
    assert priced.gap > EXACT_GAP
    assert (cut.value, cut.bound, cut.capped) == (priced.value, priced.bound, False)
