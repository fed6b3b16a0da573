"""Small parts of the core: standardisation, trends, Adam, the calendar's rhythm, far values."""

import json
import pickle
import warnings
from datetime import UTC, datetime, timedelta
from zoneinfo import ZoneInfo

import numpy as np
import pytest

from newnormal import M2N2, Detector
from newnormal.core.outliers import ChannelOutliers, find_outliers, without
from newnormal.core.period import find_period
from newnormal.core.phases import SampleClock, TimeClock, clock_from_json
from newnormal.core.rhythm import Rhythm
from newnormal.core.scaling import Scaler
from newnormal.core.state import nbytes
from newnormal.errors import MissingExtraError, NewnormalWarning
from newnormal.kernels.step import SATURATION
from newnormal.kernels.training import adam_step
from newnormal.types import Floats, Times
from newnormal.types.zones import utc_offset
from tests.present import present


def every(minutes: float, count: int, start: str = "2026-01-05") -> Times:
    """Return regular times from a Monday on."""
    step = np.timedelta64(int(minutes * 60), "s")
    times: Times = np.datetime64(start, "ns") + np.arange(count) * step
    return times


def minute_of_day(times: Times) -> Floats:
    seconds: Floats = (times - times.astype("datetime64[D]")).astype("timedelta64[s]").astype(float)
    return seconds / 60


def daily(times: Times, noise: float = 0.2, seed: int = 0) -> Floats:
    wave = np.sin(minute_of_day(times) / 1440 * 2 * np.pi)
    return (wave + np.random.default_rng(seed).normal(0, noise, len(times)))[:, None]


def nightly(times: Times, seed: int = 0) -> Floats:
    """Return two channels with a daily swing and a job from 03:30 to 03:50."""
    values = np.concatenate(
        [20 * daily(times, 0.1, seed), 10 * daily(times, 0.2, seed + 1)], axis=1
    )
    minute = minute_of_day(times)
    values[(minute >= 210) & (minute < 230)] += [50, 20]
    scaled: Floats = (values - values.mean(axis=0)) / values.std(axis=0)
    return scaled


def naive_phase(clock: TimeClock, time: np.datetime64) -> float:
    """The phase of one time by the standard library's calendar."""
    if np.isnat(time):
        return float("nan")
    utc = datetime(1970, 1, 1, tzinfo=UTC) + timedelta(
        microseconds=int(time.astype("datetime64[us]").astype(int))
    )
    local = utc if clock.zone is None else utc.astimezone(ZoneInfo(clock.zone))
    local = local.replace(tzinfo=None) - timedelta(microseconds=clock.shift / 1000)
    midnight = datetime(local.year, local.month, local.day)
    at = int((local - midnight) / timedelta(days=1) * clock.bins + 1e-9)
    kind = {1: 0, 2: int(local.weekday() >= 5), 7: local.weekday()}[clock.kinds]
    return float(kind * clock.bins + at)


@pytest.mark.parametrize("kinds", [1, 2, 7])
@pytest.mark.parametrize("zone", [None, "Europe/Berlin", "Australia/Lord_Howe", "Asia/Kathmandu"])
@pytest.mark.parametrize("start", ["2026-03-27", "2026-10-23", "1969-12-30"])
def test_phases_are_those_of_the_calendar(kinds: int, zone: str | None, start: str) -> None:
    clock = TimeClock(96, kinds, shift=-450 * 10**9, zone=zone)
    times = every(15, 96 * 5, start)
    times[7] = np.datetime64("NaT")
    comp = clock.phases(times, 0, len(times))
    np.testing.assert_array_equal(comp, [naive_phase(clock, time) for time in times])
    single = [clock.phases(times[row : row + 1], row, 1)[0] for row in range(len(times))]
    np.testing.assert_array_equal(comp, single)


@pytest.mark.parametrize(("zone", "hour"), [("+05:30", 5), ("-03:00", 21), ("UTC", 0), (None, 0)])
def test_a_fixed_offset_is_added(zone: str | None, hour: int) -> None:
    assert TimeClock(24, zone=zone).phases(every(1, 2), 0, 2).tolist() == [hour, hour]


def test_samples_without_times_have_no_phase_by_time() -> None:
    assert np.isnan(TimeClock(24).phases(None, 5, 3)).all()


def test_a_zone_without_data_counts_as_utc_with_a_warning() -> None:
    with pytest.warns(NewnormalWarning, match="zone 'Mars/Olympus': expected data") as caught:
        offset = utc_offset("Mars/Olympus")
    assert offset(1_963_584) == 0
    assert "hint: pip install tzdata" in str(caught[0].message)


def test_phases_by_number_are_the_same_for_one_sample_and_many() -> None:
    clock = SampleClock(288, 1440, 4000)
    comp = clock.phases(None, 100, 3000)
    np.testing.assert_array_equal(comp, [(4100 + n) % 1440 * 288 // 1440 for n in range(3000)])
    assert [clock.phases(None, 100 + n, 1)[0] for n in (0, 17, 2999)] == [*comp[[0, 17, 2999]]]


@pytest.mark.parametrize(
    "clock", [TimeClock(288, 2, -5, "Europe/Berlin"), TimeClock(24), SampleClock(96, 96, 1000)]
)
def test_a_clock_comes_back_from_json_and_from_a_pickle(clock: TimeClock | SampleClock) -> None:
    assert clock_from_json(json.loads(json.dumps(clock.to_json()))) == clock
    assert pickle.loads(pickle.dumps(clock)) == clock


def test_levels_and_spreads_are_those_of_each_time_of_day() -> None:
    times = every(5, 288 * 20)
    rhythm = present(Rhythm.fit(daily(times), times))
    assert rhythm.levels.shape == rhythm.spreads.shape == (288, 1)
    assert rhythm.levels.dtype == np.float32
    truth = np.sin(np.arange(288) / 288 * 2 * np.pi)
    np.testing.assert_allclose(rhythm.levels[:, 0], truth, atol=0.15)
    np.testing.assert_allclose(rhythm.spreads[:, 0], 0.2, atol=0.08)


def test_each_bin_is_near_the_median_of_its_days() -> None:
    """The slow twin: medians and median distances, one bin at a time, without smoothing."""
    times = every(30, 48 * 10)
    values = daily(times)
    rhythm = present(Rhythm.fit(values, times))
    phases = rhythm.phases(times)
    for phase in range(48):
        mine = np.sort(values[phases == phase, 0])
        assert len(mine) == 10
        assert rhythm.levels[phase, 0] == pytest.approx((mine[4] + mine[5]) / 2, abs=1e-6)
        away = np.sort(np.abs(mine - rhythm.levels[phase, 0]))
        assert rhythm.spreads[phase, 0] >= 1.4826 * (away[4] + away[5]) / 2 * 0.5


@pytest.mark.parametrize("minutes", [5, 1])
def test_a_nightly_job_stays_sharp(minutes: float) -> None:
    times = every(minutes, int(1440 / minutes) * 30)
    values = nightly(times)
    half = len(times) // 2
    rhythm = present(Rhythm.fit(values[:half], times[:half]))
    phases = rhythm.phases(times[half:]).astype(int)
    away = np.abs(values[half:] - rhythm.levels[phases]) / rhythm.spreads[phases]
    assert away.max() < 6
    noon = rhythm.phases(every(minutes, 1, "2026-03-01T12:00")).astype(int)
    at_night = values[half:][(minute_of_day(times[half:]) == 215)].mean(axis=0)
    assert (np.abs(at_night - rhythm.levels[noon]) / rhythm.spreads[noon]).max() > 10


@pytest.mark.parametrize("late", [-0.5, 0.5])
def test_a_job_is_met_though_the_clock_of_the_samples_jitters(late: float) -> None:
    times = every(5, 288 * 14)
    rhythm = present(Rhythm.fit(nightly(times), times))
    moved = times + np.timedelta64(int(late * 60), "s")
    np.testing.assert_array_equal(rhythm.phases(moved), rhythm.phases(times))


def test_missing_days_and_gaps_change_little() -> None:
    times = every(5, 288 * 20)
    values = daily(times)
    rng = np.random.default_rng(3)
    days = (times - times[0]) // np.timedelta64(1, "D")
    keep = ~np.isin(days, [3, 4, 11]) & (rng.random(len(times)) > 0.1)
    values[rng.random(len(times)) > 0.9] = np.nan
    keep &= ~((minute_of_day(times) >= 600) & (minute_of_day(times) < 620))  # never seen
    rhythm = present(Rhythm.fit(values[keep], times[keep]))
    truth = np.sin(np.arange(288) / 288 * 2 * np.pi)
    np.testing.assert_allclose(rhythm.levels[:, 0], truth, atol=0.25)
    assert np.isfinite(rhythm.spreads).all()
    assert (rhythm.spreads > 0).all()


@pytest.mark.parametrize("start", ["2026-03-15", "2026-10-11"])
def test_daylight_saving_does_not_move_a_job_of_local_time(start: str) -> None:
    zone = ZoneInfo("Europe/Berlin")
    times = every(5, 288 * 28, start)
    local = [datetime.fromtimestamp(int(t.astype(int)) // 10**9, zone) for t in times]
    job = np.array([each.hour == 6 and each.minute < 30 for each in local])
    values = (job * 6.0 + np.random.default_rng(0).normal(0, 0.3, len(times)))[:, None]
    rhythm = present(Rhythm.fit(values, times, zone="Europe/Berlin"))
    phases = rhythm.phases(times).astype(int)
    away = np.abs(values - rhythm.levels[phases]) / rhythm.spreads[phases]
    assert away.max() < 8
    if (in_utc := Rhythm.fit(values, times)) is not None:  # half of the days are an hour off
        phases = in_utc.phases(times).astype(int)
        assert (np.abs(values - in_utc.levels[phases]) / in_utc.spreads[phases]).max() > 8


def taxi(times: Times, seed: int = 0) -> Floats:
    """Return rides in the manner of a city: weekends begin late and last into the night."""
    hour = minute_of_day(times) / 60
    weekday = (times.astype("datetime64[D]").astype(int) + 3) % 7
    rides = 1.5 * np.cos((hour - np.where(weekday >= 5, 23.0, 19.0)) / 24 * 2 * np.pi)
    return (rides + np.random.default_rng(seed).normal(0, 0.15, len(times)))[:, None]


def test_weekends_have_levels_of_their_own_only_where_they_differ() -> None:
    times = every(30, 48 * 28)
    rhythm = present(Rhythm.fit(taxi(times), times))
    assert isinstance(rhythm.clock, TimeClock)
    assert rhythm.clock.kinds > 1
    later = every(30, 48 * 28, "2026-02-02")
    phases = rhythm.phases(later).astype(int)
    error = taxi(later, 1) - rhythm.levels[phases]
    assert error.std() < 0.25
    times = every(30, 48 * 28)
    rhythm = present(Rhythm.fit(daily(times), times))
    assert isinstance(rhythm.clock, TimeClock)
    assert rhythm.clock.kinds == 1


def test_a_job_of_working_days_is_not_expected_on_weekends() -> None:
    times = every(5, 288 * 28)
    weekday = (times.astype("datetime64[D]").astype(int) + 3) % 7
    minute = minute_of_day(times)
    job = (minute >= 210) & (minute < 230) & (weekday < 5)
    values = (job * 8.0 + np.random.default_rng(0).normal(0, 0.3, len(times)))[:, None]
    rhythm = present(Rhythm.fit(values, times))
    assert np.abs(values - rhythm.levels[rhythm.phases(times).astype(int)]).max() < 2


def test_a_channel_without_rhythm_has_its_plain_mean_and_spread() -> None:
    times = every(15, 96 * 14)
    noise = np.random.default_rng(1).normal(2, 3, len(times))[:, None]
    constant = np.full((len(times), 1), 4.0)
    rhythm = present(Rhythm.fit(np.concatenate([daily(times), noise, constant], axis=1), times))
    assert rhythm.explained.tolist() == [True, False, False]
    np.testing.assert_allclose(rhythm.levels[:, 1:], [[noise.mean(), 4]] * 96, rtol=1e-5)
    np.testing.assert_allclose(rhythm.spreads[:, 1:], [[noise.std(), 1]] * 96, rtol=1e-5)


@pytest.mark.parametrize(
    ("minutes", "days"), [(15, 6), (720, 60)], ids=["less than a week", "too few samples a day"]
)
def test_there_is_no_rhythm_of_too_little(minutes: float, days: int) -> None:
    times = every(minutes, int(1440 / minutes * days))
    assert Rhythm.fit(daily(times, 0), times) is None


def test_there_is_no_rhythm_of_noise_nor_of_a_random_walk_nor_of_nothing() -> None:
    times = every(15, 96 * 21)
    noise = np.random.default_rng(0).normal(size=(len(times), 3))
    for values in (noise, noise.cumsum(axis=0) / 30, noise * 0, noise * np.nan):
        assert Rhythm.fit(values, times) is None


def test_two_anomalous_days_of_history_do_not_matter() -> None:
    times = every(15, 96 * 14)
    values = daily(times)
    values[200:260] += 40
    values[1200:1210] -= 40
    rhythm = present(Rhythm.fit(values, times))
    truth = np.sin(np.arange(96) / 96 * 2 * np.pi)
    np.testing.assert_allclose(rhythm.levels[:, 0], truth, atol=0.3)


@pytest.mark.parametrize(("channels", "most"), [(5, 40_000), (38, 250_000)])
def test_the_tables_are_small(channels: int, most: int) -> None:
    times = every(5, 288 * 28)
    rng = np.random.default_rng(0)
    values = np.repeat(taxi(times), channels, axis=1) + rng.normal(0, 0.1, (len(times), channels))
    assert nbytes(present(Rhythm.fit(values, times))) < most


def test_a_rhythm_comes_back_from_its_facts_and_arrays() -> None:
    times = every(15, 96 * 14)
    rhythm = present(Rhythm.fit(daily(times), times, zone="Europe/Berlin"))
    twin = Rhythm.of(json.loads(json.dumps(rhythm.to_json())), rhythm.levels, rhythm.spreads)
    assert twin.clock == rhythm.clock
    assert twin.explained.tolist() == rhythm.explained.tolist()
    assert rhythm.sentence(["load"]) == (
        "Rhythm: each channel of history has a level and a spread by the time of day "
        "(Europe/Berlin)."
    )


@pytest.mark.parametrize(("period", "count"), [(288, 288 * 4), (1440, 1440 * 5), (125, 125 * 20)])
def test_the_period_of_a_series_without_times_is_found(period: int, count: int) -> None:
    wave = np.sin(np.arange(count + 500) / period * 2 * np.pi)
    values = (wave + np.random.default_rng(0).normal(0, 0.2, len(wave)))[:, None]
    assert find_period(values[:count]) == period
    rhythm = present(Rhythm.fit(values[:count], None))
    assert (values[count:] - rhythm.levels[rhythm.phases(None, 0, 500).astype(int)]).std() < 0.3
    assert rhythm.sentence(["load"]).endswith(
        f"a period of {period:,} samples. Without times, the stream is taken to follow history "
        "directly."
    )


@pytest.mark.parametrize("period", [98.3, 30.0, 700.0, 154.545])
def test_a_period_short_or_inexact_or_seen_too_seldom_gives_no_rhythm(period: float) -> None:
    wave = np.sin(np.arange(2000) / period * 2 * np.pi)[:, None]
    with warnings.catch_warnings():
        warnings.simplefilter("error")
        assert Rhythm.fit(wave, None) is None


def test_noise_constant_and_missing_series_have_no_period() -> None:
    noise = np.random.default_rng(0).normal(size=(3000, 2))
    for values in (noise, noise * 0, noise * np.nan, noise.cumsum(axis=0), noise[:50]):
        assert find_period(values) is None


@pytest.mark.parametrize("value", [0.1, 1e-300, 1.7e308, -3.3, 0.0])
def test_a_constant_channel_is_exactly_0_and_keeps_scale_1(value: float) -> None:
    history = np.full((1000, 1), value)  # the mean of 1,000 times 0.1 is not 0.1
    scaler = Scaler.fit(history)
    assert scaler.mean[0] == value
    assert scaler.scale[0] == 1
    assert (scaler.apply(history) == 0).all()


@pytest.mark.parametrize("size", [1e-310, 1e-200, 1.0, 1e200, 1e307])
def test_no_size_of_values_over_or_underflows(size: float) -> None:
    values = np.random.default_rng(0).normal(size=(200, 1)) * size
    scaled = Scaler.fit(values).apply(values)
    np.testing.assert_allclose(scaled.mean(), 0, atol=1e-9)
    np.testing.assert_allclose(scaled.std(), 1, rtol=1e-9 if size > 1e-300 else 1e-2)


def test_a_scaled_value_saturates_and_a_missing_one_stays_missing() -> None:
    scaler = Scaler(np.array([-1e308]), np.array([1e-3]))
    found = scaler.apply(np.array([[1.7e308], [-1.7e308], [0.0]]))
    assert found.ravel().tolist() == [SATURATION, -SATURATION, SATURATION]
    scaler = Scaler.fit(np.array([[1.0], [np.nan], [3.0]]))
    assert (scaler.mean[0], scaler.scale[0]) == (2, 1)
    assert np.isnan(scaler.apply(np.array([[np.nan]]))).all()


@pytest.mark.parametrize("model", ["mlp", "usad"])
def test_the_trend_starts_at_the_mean_of_history(model: str) -> None:
    history = np.random.default_rng(0).normal((10, -3), (2, 0.1), (80, 2))
    try:
        detector = M2N2(window=4, model=model, epochs=1).fit(history)
    except MissingExtraError as error:
        pytest.skip(str(error))
    np.testing.assert_allclose(detector.trend_, history.mean(axis=0), rtol=1e-6)
    level = np.full((400, 2), (12.0, -2.9))
    detector.set_params(decay=0.5).fit(history).run(level)
    np.testing.assert_allclose(detector.trend_, level[0], rtol=1e-6)


def test_under_a_constant_gradient_adam_moves_by_the_rate_each_step() -> None:
    gradient = np.array([3.0, -0.5, 0.0], dtype=np.float32)
    weights, first, second = (np.zeros(3, dtype=np.float32) for _ in range(3))
    for step in range(1, 101):
        adam_step(weights, gradient, first, second, step, 1e-3)
    # 1 - 0.999 taken in float32 is off by 1.3e-5, and moves the weights 6e-6 too far.
    np.testing.assert_allclose(weights, [-0.1, 0.1, 0.0], rtol=2e-6)


COUNT = 10_080


def normal(seed: int = 0, channels: int = 2, count: int = COUNT) -> Floats:
    return np.random.default_rng(seed).normal(20, 2, (count, channels))


def naive(values: Floats) -> list[int]:
    """The slow twin: which samples of one channel are left out."""
    seen = [(abs(v - np.nanmedian(values)), n) for n, v in enumerate(values) if not np.isnan(v)]
    seen.sort(key=lambda each: -each[0])
    found: list[int] = []
    for j in range(1, max(1, len(seen) // 100) + 1):
        if seen[j][0] > 0 and seen[j - 1][0] >= 10 * seen[j][0]:
            found = sorted(n for _, n in seen[:j])
    return found


@pytest.mark.parametrize(
    ("samples", "value"),
    [([5000], 2e4), ([17], -9999.0), (list(range(100, 2100, 100)), -9999.0)],
    ids=["one at 1e4 standard deviations", "one -9999", "twenty -9999"],
)
def test_a_few_far_values_are_left_out_and_scales_stay(samples: list[int], value: float) -> None:
    clean = normal()
    history = clean.copy()
    history[samples, 1] = value
    (found,) = find_outliers(history)
    assert (found.channel, found.samples.tolist(), found.count) == (1, samples, COUNT)
    assert (found.values == value).all()
    assert found.samples.tolist() == naive(history[:, 1])
    cleaned = without(history, [found])
    np.testing.assert_allclose(Scaler.fit(cleaned).scale, Scaler.fit(clean).scale, rtol=0.1)
    assert np.isnan(cleaned).sum() == len(samples)
    assert not np.isnan(history).any()


def test_heavy_tails_frequent_values_and_those_of_a_constant_channel_are_not_left_out() -> None:
    rng = np.random.default_rng(0)
    assert find_outliers(rng.lognormal(0, 1, (COUNT, 100))) == ()
    assert find_outliers(rng.standard_t(3, (COUNT, 100))) == ()
    history = np.zeros((1000, 1))
    history[500] = 100
    assert find_outliers(history) == ()
    history = normal(channels=1, count=1000)
    history[:11] = -9999
    assert find_outliers(history) == ()
    history[0] = 20
    assert len(find_outliers(history)[0].samples) == 10


@pytest.mark.parametrize("size", [1e-300, 1.0, 1e300])
def test_the_rule_is_that_of_its_twin_at_any_size(size: float) -> None:
    rng = np.random.default_rng(1)
    for scale in (5, 30, 200, 5000):
        history = rng.normal(size=(400, 1))
        history[rng.random(400) < 0.1] = np.nan
        history[rng.choice(400, 3, replace=False)] *= scale
        comp = [each.samples.tolist() for each in find_outliers(history * size)]
        assert (comp or [[]]) == [naive(history[:, 0])]


def test_few_values_are_all_kept_and_nothing_missing_is_found() -> None:
    assert find_outliers(np.array([[1.0]] * 10 + [[2.0], [1e9]])) == ()
    assert find_outliers(np.full((100, 2), np.nan)) == ()
    history = normal()
    assert without(history, ()) is history


def test_the_sentence_names_channel_samples_times_and_values() -> None:
    found = ChannelOutliers(1, np.array([0, 1, 2, 3]), np.array([-9999.0, -9999, -9999, 5e6]), 800)
    times = np.datetime64("2026-01-01", "ns") + np.arange(4) * np.timedelta64(1, "h")
    assert found.sentence(["a", "cpu"], times) == (
        "channel 'cpu': 4 of 800 values left out of history: -9,999 to 5 M at samples "
        "0 (2026-01-01T00:00:00), 1 (2026-01-01T01:00:00), 2 (2026-01-01T02:00:00) and 1 more"
    )


def test_fit_warns_of_what_it_leaves_out_and_a_step_of_thirty_deviations_is_found() -> None:
    history = normal(3, 2, 1500)
    history[700, 0] = -9999
    with pytest.warns(NewnormalWarning, match="channel '0': 1 of 1,500 values left") as caught:
        detector = Detector(alarms_per_day=1, epochs=2).fit(history)
    assert caught[0].filename == __file__
    assert "-9,999 at sample 700\nhint: each is ten times as far" in str(caught[0].message)
    assert "Channel '0': 1 of 1,500 values left out of history" in detector.explain()
    live = normal(4, 2, 400)
    live[200:, 0] += 60
    assert detector.run(live).anomalous[200:205].any()


def test_what_was_left_out_is_in_the_state_file(tmp_path: object) -> None:
    history = normal(3, 1, 300)
    history[100] = 1e6
    with pytest.warns(NewnormalWarning):
        detector = Detector(epochs=1).fit(history)
    assert type(detector).from_state(detector.to_state()).explain() == detector.explain()


def test_m2n2_takes_history_as_it_is() -> None:
    history = normal(3, 1, 300)
    history[100] = 1e6
    assert M2N2(epochs=1).fit(history)._fitted.step.scale[0] == Scaler.fit(history).scale[0]
