"""The jobs of paper 003: what it prints of them holds, and chance stays within its bounds."""

from collections import Counter

import numpy as np
import pytest

from policies.problem import Floats
from raysched.errors import UserError
from raysched.simulator.workloads.ffdl import (
    CATEGORIES,
    EPOCHS,
    HIGH_OVER_LOW,
    MIXED_LENGTHS_MIN,
    Workload,
    generate,
)

BURSTY = Workload(800, 720, phase_min=120)


def factors(category: int, batch_size: int) -> Floats:
    """Throughput over that of one GPU with its largest batch, on 1 … 10 GPUs."""
    model = CATEGORIES[category]
    known = model.characteristics(samples=1000)
    alone = known.rate(np.array([model.largest_per_gpu]), np.array([1]))[0, 0]
    rates: Floats = known.rate(np.array([batch_size]), np.arange(1, 11))[0] / alone
    return rates


def on_2_gpus(category: int) -> float:
    return float(factors(category, 2 * CATEGORIES[category].largest_per_gpu)[1])


def category_of(name: str) -> int:
    return int(name.split("-")[1][1:])


def test_the_same_seed_draws_the_same_jobs_and_another_one_others():
    assert generate(BURSTY, 3) == generate(BURSTY, 3)
    assert [a.at_s for a in generate(BURSTY, 3)] != [a.at_s for a in generate(BURSTY, 4)]
    names = {a.job for seed in (3, 4) for a in generate(BURSTY, seed)}
    assert len(names) == sum(len(generate(BURSTY, seed)) for seed in (3, 4))


def test_as_many_jobs_come_as_are_expected_and_the_categories_are_equally_likely():
    drawn = [generate(BURSTY, seed) for seed in range(10)]
    total = sum(map(len, drawn))
    assert total == pytest.approx(8000, abs=4 * 8000**0.5)
    shares = Counter(category_of(a.job) for arrivals in drawn for a in arrivals)
    assert sorted(shares) == [1, 2, 3, 4]
    assert all(n / total == pytest.approx(0.25, abs=0.02) for n in shares.values())


def test_high_phases_bring_four_times_as_many_as_low_ones():
    at_min = np.array([a.at_s / 60 for seed in range(10) for a in generate(BURSTY, seed)])
    high = np.sum(at_min // 120 % 2 == 0)
    assert high / (len(at_min) - high) == pytest.approx(HIGH_OVER_LOW, rel=0.12)
    assert 0 <= at_min.min() < at_min.max() <= 720


def test_one_rate_without_phases():
    at_min = np.array([a.at_s / 60 for a in generate(Workload(4000, 240), 0)])
    halves = np.histogram(at_min, bins=2, range=(0, 240))[0]
    assert halves[0] / halves[1] == pytest.approx(1, abs=0.13)


def test_jobs_take_the_printed_minutes_on_one_gpu_with_the_largest_batch():
    for arrival in generate(BURSTY, 0)[:40]:
        category = category_of(arrival.job)
        took_s = EPOCHS * arrival.seconds(1, CATEGORIES[category].largest_per_gpu)
        assert took_s == pytest.approx(60 * MIXED_LENGTHS_MIN[category - 1])


def test_category_4_is_not_elastic_and_the_others_go_up_to_10_gpus():
    for arrival in generate(BURSTY, 0)[:40]:
        fixed = category_of(arrival.job) == 4
        assert (arrival.spec.max_workers, len(arrival.spec.admissible) == 1) == (
            1 if fixed else 10,
            fixed,
        )


@pytest.mark.parametrize(
    ("batch_per_gpu", "factor"), [(8, 0.86), (11, 1.06), (16, 1.3), (22, 1.45), (32, 1.66)]
)
def test_table_ii(batch_per_gpu, factor):
    assert factors(1, 2 * batch_per_gpu)[1] == pytest.approx(factor)


def test_what_the_text_prints_of_scaling():
    """§IV-D: 160 samples on 5 GPUs are 1.6 times as fast as 32 on the best number, 2. §IV-E: the
    smallest batch scales 1.3 times as far in category 1 as in category 2."""
    smallest = factors(1, 32)
    assert smallest.argmax() + 1 == 2
    assert factors(1, 160)[4] / smallest[1] == pytest.approx(1.6)
    assert smallest.max() / factors(2, 16).max() == pytest.approx(1.3)


def test_categories_are_bound_by_compute_by_both_and_by_communication():
    assert on_2_gpus(1) > on_2_gpus(3) > 1 > on_2_gpus(2)


@pytest.mark.parametrize(
    ("wrong", "named"),
    [
        ({"jobs": 0}, "jobs"),
        ({"minutes": float("inf")}, "minutes"),
        ({"phase_min": 900}, "phase_min"),
        ({"categories": (1, 5)}, "categories"),
        ({"categories": ()}, "categories"),
        ({"lengths_min": (16.0,)}, "lengths_min"),
    ],
)
def test_bad_parameters_are_named(wrong, named):
    with pytest.raises(UserError, match=named):
        Workload(**({"jobs": 800, "minutes": 720} | wrong))
