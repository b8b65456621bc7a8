import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from loaning.forecast import Forecast, forecast_rps


def forecast(rps, *, now_s=None, lead_s=10.0, window_s=20.0, smooth_s=5.0, period_s=None):
    """Of one sample a second; certain that there is one."""
    at_s = np.arange(1.0, len(rps) + 1)
    now_s = float(len(rps)) if now_s is None else now_s
    found = forecast_rps(
        at_s,
        np.array(rps, dtype=np.float64),
        now_s,
        lead_s,
        window_s=window_s,
        smooth_s=smooth_s,
        period_s=period_s,
    )
    assert found is not None
    return found


def test_a_constant_demand_is_expected_to_stay():
    found = forecast([12.0] * 30)
    assert found.observed_rps == pytest.approx(12.0)
    assert found.expected_peak_rps == pytest.approx(12.0)
    assert found.slope_rps_per_s == pytest.approx(0.0)


def test_a_rise_is_carried_ahead_less_its_standard_error():
    found = forecast([100 + 2.0 * t for t in range(1, 21)])
    assert found.slope_rps_per_s == pytest.approx(2.0)
    # No residuals, so the noise is Poisson's: variance 121 (the mean rate over intervals of 1 s),
    # spread of the times (20³ - 20) / 12 = 665.
    slope_error = np.sqrt(121 / 665)
    assert found.expected_peak_rps == pytest.approx(140 + (2.0 - slope_error) * 10)
    assert found.error_rps == pytest.approx(np.sqrt(121 * (1 / 20 + 9.5**2 / 665)))


def test_noise_beyond_that_of_arrivals_widens_the_error():
    rps = [50.0, 90.0, 50.0, 10.0] * 5
    at_s = np.arange(1.0, 21.0)
    residual = rps - np.polyval(np.polyfit(at_s, rps, 1), at_s)
    variance = (residual**2).sum() / 18  # the line takes two of the 20 degrees of freedom
    assert forecast(rps).error_rps == pytest.approx(np.sqrt(variance * (1 / 20 + 9.5**2 / 665)))


def test_a_fall_is_not_carried_ahead():
    found = forecast([60 - 2.0 * t for t in range(1, 21)])
    assert found.slope_rps_per_s == pytest.approx(-2.0)
    assert found.observed_rps == pytest.approx(24.0)  # 20, 22, 24, 26, 28
    assert found.expected_peak_rps == pytest.approx(24.0)


def test_a_burst_is_never_forecast_away():
    found = forecast([10.0] * 25 + [80.0] * 5)
    assert found.observed_rps == pytest.approx(80.0)
    assert found.expected_peak_rps >= 80.0


def test_only_the_window_counts_and_nothing_later_than_now():
    rps = [90.0] * 10 + [10.0] * 20 + [70.0] * 5
    assert forecast(rps, now_s=30.0).expected_peak_rps == pytest.approx(10.0)


def test_the_last_period_is_remembered():
    day = [10.0] * 50 + [30.0] * 50
    found = forecast(day + day[:45], lead_s=10.0, period_s=100.0)
    assert found.observed_rps == pytest.approx(10.0)
    assert found.expected_peak_rps == pytest.approx(30.0)
    assert forecast(day + day[:30], lead_s=10.0, period_s=100.0).expected_peak_rps < 11.0


def test_a_step_at_the_end_of_the_lead_is_remembered_whole():
    """The mean of the last 5 s shows no more than a part of it by then."""
    rps = [10.0] * 58 + [50.0] * 20 + [10.0] * 72
    found = forecast(rps, now_s=150.0, lead_s=10.0, period_s=100.0)
    assert found.expected_peak_rps == pytest.approx(50.0)


def test_a_period_longer_than_the_history_changes_nothing():
    rps = [10.0, 12.0] * 20
    assert forecast(rps, period_s=1000.0) == forecast(rps)


@pytest.mark.parametrize("at_s", [[], [1.0], [1.0, 2.0], [2.0, 2.0, 2.0]])
def test_too_few_samples_tell_nothing(at_s):
    times = np.array(at_s, dtype=np.float64)
    assert forecast_rps(times, times * 0 + 9, 3.0, 10.0, window_s=20.0, smooth_s=5.0) is None


def test_samples_from_before_the_window_tell_nothing():
    times = np.arange(1.0, 11.0)
    assert forecast_rps(times, times, 60.0, 10.0, window_s=20.0, smooth_s=5.0) is None


def test_without_a_sample_in_the_smoothing_window_the_newest_is_observed():
    found = forecast([10.0] * 9 + [16.0], now_s=18.0)
    assert found.observed_rps == pytest.approx(16.0)


def test_noise_alone_is_seldom_taken_for_a_rise():
    """Poisson arrivals at 8 rps: a peak of twice that is expected in less than 1 in 200 seconds."""
    rng = np.random.default_rng(1)
    rps = rng.poisson(8.0, size=2000).astype(np.float64)
    peaks = [forecast(rps[:end]).expected_peak_rps for end in range(30, 2000)]
    assert np.mean(np.array(peaks) > 16.0) < 0.005


@given(
    rps=st.lists(st.floats(0, 1e4), min_size=3, max_size=60),
    lead_s=st.floats(0, 100),
    period_s=st.none() | st.floats(1, 100),
)
def test_never_below_what_is_observed(rps, lead_s, period_s):
    found = forecast(rps, lead_s=lead_s, window_s=60.0, period_s=period_s)
    assert isinstance(found, Forecast)
    assert found.expected_peak_rps >= found.observed_rps >= 0
    assert found.observed_rps == pytest.approx(np.mean(rps[-5:]), abs=1e-6)
    assert found.error_rps >= 0
