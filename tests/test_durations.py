"""Durations as people write them."""

import pytest

from raysched.durations import seconds


@pytest.mark.parametrize(
    ("written", "expected_s"),
    [("90s", 90), ("5m", 300), ("2h", 7200), ("1d", 86400), ("1h30m", 5400), ("0.5s", 0.5)],
)
def test_units(written, expected_s):
    assert seconds(written) == expected_s


def test_a_number_is_seconds():
    assert seconds(12) == 12.0
    assert seconds(0.25) == 0.25


@pytest.mark.parametrize("written", ["", "2", "h", "two hours", "2h!", "-5m", "5 m 3"])
def test_anything_else_is_refused_with_the_mend(written):
    with pytest.raises(ValueError, match="write 90s, 5m, 2h, 1d or a number"):
        seconds(written)
