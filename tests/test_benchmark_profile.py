"""The benchmark of profiles: what it makes of what it measured."""

from __future__ import annotations

import pytest

from benchmarks.profile import MODELS, PROFILED_ON, Size, build, spec_of, summary, text
from raysched.profile import to_measure


def sizes(off):
    """Of one model on 1 … 4 workers, predicted by so much too fast on each."""
    return [
        Size("a model", 64, workers, 100.0, 100.0 * (1 + too_fast), 100.0)
        for workers, too_fast in enumerate(off, 1)
    ]


def test_only_sizes_beyond_those_profiled_count():
    found = summary(sizes([0.9, 0.9, 0.1, 0.2]))
    assert found["median_off"] == pytest.approx(0.15)
    assert found["worst_off"] == pytest.approx(0.2)
    assert found["median_off_of_all"] == pytest.approx(0.55)
    assert found["median_off_corrected"] == 0.0


@pytest.mark.parametrize(("off", "said"), [(0.1, "met"), (-0.2, "MISSED")])
def test_a_missed_target_is_said(off, said):
    measured = sizes([off] * 4)
    found = summary(measured)
    assert found["met"] is (said == "met")
    printed = text(measured, found)
    assert f"target 15%: {said}." in printed
    assert printed.count("(profiled)") == PROFILED_ON


@pytest.mark.parametrize("name", MODELS)
def test_models_take_what_is_profiled(name):
    import torch

    model = build(name)
    for batch in to_measure(spec_of(name)):
        assert model(torch.randn(batch, 64)).shape == (batch, 10)
