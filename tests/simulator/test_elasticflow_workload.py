"""Models and deadlines drawn for a trace that has none (001 §6.1)."""

from collections import Counter
from pathlib import Path

import numpy as np
import pytest

from raysched.simulator.models import Measured
from raysched.simulator.traces import Profiles, philly
from raysched.simulator.workloads.elasticflow import TABLE_2, Draw, with_deadlines

HEADER = "timestamp,duration,num_gpus,gpu_time,cluster\n"


@pytest.fixture
def profiles():
    """Each model by a speed of its own, twice as fast on 4 GPUs."""
    tables: dict[str, dict[int, Measured]] = {}
    for number, (model, batch_size) in enumerate(TABLE_2, start=1):
        tables.setdefault(model, {})[batch_size] = Measured((1, 4), (number, 2.0 * number))
    return Profiles(Path("nowhere"), tables)


def trace(tmp_path, *rows):
    path = tmp_path / "philly.csv"
    path.write_text(HEADER + "".join(row + "\n" for row in rows))
    return philly.read(path, cluster="vc").arrivals


def many(tmp_path):
    return trace(tmp_path, *(f"2017-10-09 07:00:00,{600 + n},1,0,vc" for n in range(1400)))


def test_a_job_has_the_iterations_that_its_model_does_in_its_duration(tmp_path, profiles):
    jobs = trace(tmp_path, "2017-10-09 07:01:00,1000,4,0,vc", "2017-10-09 07:02:00,1000,1,0,vc")
    draw = Draw(settings=(("bert", 64),), tightness=(0.75, 0.75))
    on_4, on_1 = with_deadlines(jobs, profiles, 0, draw=draw, cap=lambda *_: 8)
    speed = profiles.tables["bert"][64].speed
    assert (on_4.at_s, on_1.at_s) == (0.0, 60.0)
    assert (on_4.spec.requested_workers, on_4.spec.max_workers) == (4, 4)
    assert (on_1.spec.requested_workers, on_1.spec.batch_size) == (1, 64)
    assert on_4.spec.deadline_s == on_1.spec.deadline_s == pytest.approx(750.0)
    # As long as in the trace on its GPUs; on one GPU the larger one takes twice as long.
    assert on_4.epoch_s[3] * on_4.spec.epochs == pytest.approx(1000, abs=1 / speed(4))
    assert on_4.epoch_s[0] * on_4.spec.epochs == pytest.approx(2000, abs=2 / speed(4))
    assert on_1.epoch_s[0] * on_1.spec.epochs == pytest.approx(1000, abs=1 / speed(1))


def test_short_jobs_and_other_clusters_are_left_out(tmp_path, profiles):
    jobs = trace(
        tmp_path,
        "2017-10-09 07:01:00,599,1,0,vc",
        "2017-10-09 07:02:00,600,1,0,vc",
        "2017-10-09 07:03:00,9000,1,0,other",
    )
    assert [a.job for a in with_deadlines(jobs, profiles, 0)] == ["philly-3"]


def test_the_seed_decides_whatever_the_cap_is(tmp_path, profiles):
    jobs = many(tmp_path)

    def drawn(seed, cap=64):
        found = with_deadlines(jobs, profiles, seed, cap=lambda *_: cap)
        return [(a.spec.batch_size, a.spec.deadline_s, a.epoch_s[0]) for a in found]

    assert drawn(1) == drawn(1, cap=2) != drawn(2)


def test_settings_and_deadlines_are_uniform(tmp_path, profiles):
    jobs = many(tmp_path)
    drawn = with_deadlines(jobs, profiles, 0)
    tightness = np.array([a.spec.deadline_s for a in drawn]) / np.arange(600, 2000)
    assert 0.5 <= tightness.min() < 0.51 and 1.49 < tightness.max() <= 1.5
    assert tightness.mean() == pytest.approx(1.0, abs=0.03)
    batch_sizes = Counter(a.spec.batch_size for a in drawn)
    settings = Counter(batch_size for _, batch_size in TABLE_2)
    for batch_size, count in settings.items():
        assert batch_sizes[batch_size] == pytest.approx(100 * count, abs=60)
