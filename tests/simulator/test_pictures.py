"""What pictures of a comparison show."""

import matplotlib.pyplot as plt
import pytest

from raysched.simulator.picture import FIRST_S, _draw_cdfs, draw_cdfs
from tests.simulator.scenes import job, simulate


def drawn(**seconds):
    """Axes with these curves, by policy."""
    figure, axes = plt.subplots()
    _draw_cdfs(axes, seconds)
    plt.close(figure)
    return axes


def test_a_curve_rises_by_a_job_where_it_came_so_far_and_ends_below_1_where_one_never_did():
    (line,) = drawn(fifo=[200.0, None, 40.0, 100.0]).get_lines()
    assert line.get_xdata().tolist() == pytest.approx([30.0, 40.0, 100.0, 200.0, 260.0])
    assert line.get_ydata().tolist() == [0.0, 0.25, 0.5, 0.75, 0.75]


def test_jobs_that_never_wait_stand_at_the_beginning():
    axes = drawn(fifo=[0.0, 0.0, 50.0])
    (line,) = axes.get_lines()
    assert line.get_xdata()[:3].tolist() == [FIRST_S] * 3
    assert axes.get_xlim()[0] == FIRST_S
    assert [tick.get_text() for tick in axes.get_xticklabels()] == [
        "≤ 1 s",
        "3 s",
        "10 s",
        "30 s",
        "1 min",
    ]


@pytest.mark.parametrize("seconds", [[], [None, None]])
def test_where_no_job_came_so_far_the_curve_stays_at_0(seconds):
    (line,) = drawn(fifo=seconds).get_lines()
    assert set(line.get_ydata().tolist()) == {0.0}


def test_eight_policies_differ_by_colour_and_a_year_has_room_for_its_ticks():
    axes = drawn(**{f"policy{n}": [0.0, 3e7] for n in range(8)})
    assert len({(line.get_color(), line.get_linestyle()) for line in axes.get_lines()}) == 8
    assert len({line.get_color() for line in axes.get_lines()}) == 8
    assert len(axes.get_xticks()) <= 8


def test_both_curves_are_written(tmp_path):
    histories = {"fifo": simulate([job("a"), job("huge", workers=9)], (1, 4)).history}
    draw_cdfs(histories, tmp_path / "cdf.png")
    assert (tmp_path / "cdf.png").read_bytes().startswith(b"\x89PNG")
