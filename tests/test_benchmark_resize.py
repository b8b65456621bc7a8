"""The resize benchmark's arithmetic: pauses, samples, figures, and a picture that can be drawn."""

import pytest

from benchmarks import resize
from benchmarks import resize_training as training
from benchmarks.resize_picture import draw


def step(at_s, workers, epoch=0, rank=0, worker="a", **more):
    return {
        "at_s": at_s,
        "workers": workers,
        "epoch": epoch,
        "rank": rank,
        "worker": worker,
        **more,
    }


def phase(at_s, took_s, worker="a"):
    return {"at_s": at_s, "phase": "models", "took_s": took_s, "worker": worker}


def test_a_pause_is_from_the_last_step_before_to_the_first_one_after():
    lines = [step(1.0, 1), step(2.0, 1), phase(2.2, 0.1), phase(2.2, 9.0, "b"), step(2.5, 2, 1)]
    (pause,) = resize.pauses_of([*lines, step(2.6, 2, 1, rank=1, worker="b")])
    assert (pause.before, pause.after, pause.pause_s) == (1, 2, 0.5)
    assert pause.phases == {"models": 0.1}
    assert pause.repeated == 0


def test_steps_of_an_epoch_that_is_begun_again_are_repeated():
    lines = [step(1.0, 1, 0), step(2.0, 1, 1), step(3.0, 1, 1), step(9.0, 2, 1)]
    (pause,) = resize.pauses_of(lines)
    assert pause.repeated == 2


def test_a_sample_that_is_drawn_twice_or_never_is_found():
    half = training.SAMPLES // 2
    first, second = list(range(half)), list(range(half, training.SAMPLES))
    resize.check_samples([step(1.0, 2, drawn=first), step(1.0, 2, rank=1, drawn=second)])
    for drawn in (first, [*second, half]):
        with pytest.raises(resize.Miscounted, match="epoch 0"):
            resize.check_samples([step(1.0, 2, drawn=first), step(1.0, 2, rank=1, drawn=drawn)])


@pytest.fixture
def found():
    def pauses(*seconds):
        return [resize.Pause(1, 2, pause_s, 0, {"models": pause_s / 2}) for pause_s in seconds]

    ways = {
        "in place": pauses(0.2, 0.3, 0.4),
        "our restart": pauses(4.0),
        "fit called again": pauses(9.0),
        "Ray Train's own": pauses(6.0, 8.0),
    }
    steps = [step(0.1 * n, 1, own_s=0.0005) for n in range(4)]
    return resize.summary(ways, steps, loss=1.0005, unbroken_loss=1.0)


def test_what_is_asked_is_judged(found):
    asked = {name: (round(of["found"], 4), of["met"]) for name, of in found["asked"].items()}
    assert asked == {
        "median_s": (0.3, True),
        "p95_s": (0.39, True),
        "of_the_shortest_other": (round(0.3 / 7.0, 4), True),
        "loss_off": (0.0005, True),
        "own_share_of_step": (0.005, True),
    }
    assert "| in place" in resize.text(found)


def test_the_picture_can_be_drawn(found, tmp_path):
    draw(found["pauses"], tmp_path / "resize.png")
    assert (tmp_path / "resize.png").read_bytes().startswith(b"\x89PNG")
