"""The synthetic data sets: series with known faults, and the benchmarks' files."""

from pathlib import Path

import numpy as np
import pytest

from newnormal.datasets import Dataset, available, load, neurips_ts_mul, neurips_ts_uni, plant
from newnormal.datasets.synthetic import Outliers, Wave
from newnormal.errors import DatasetError, ParameterError
from newnormal.types import Floats, Ints


def events(labels: Ints) -> list[tuple[int, int]]:
    edges = np.diff(np.concatenate([[0], labels, [0]]))
    return list(zip(np.flatnonzero(edges == 1), np.flatnonzero(edges == -1), strict=True))


def wave_of(data: Dataset, wave: Wave) -> Floats:
    times = len(data.train) + np.arange(len(data.test))
    angle = 2 * np.pi * wave.frequency * times + wave.phase
    return np.asarray(wave.amplitude * np.sin(angle) + wave.offset)


@pytest.mark.parametrize("make", [neurips_ts_uni, neurips_ts_mul, plant])
def test_the_same_seed_gives_the_same_bytes_and_another_seed_others(make) -> None:  # type: ignore[no-untyped-def]
    once, again, other = make(seed=3), make(seed=3), make(seed=4)
    assert once.train.tobytes() == again.train.tobytes()
    assert once.test.tobytes() == again.test.tobytes()
    assert once.labels.tobytes() == again.labels.tobytes()
    assert once.test.tobytes() != other.test.tobytes()


def test_the_level_of_the_univariate_wave_moves_for_good_and_is_not_labelled() -> None:
    data = neurips_ts_uni(seed=1, shift=4.5, shift_at=0.25)
    assert data.shifts == (2500,)
    normal = data.labels == 0
    late = np.arange(len(data.test)) >= 2500
    assert abs(data.test[normal & ~late].mean()) < 0.1
    assert abs(data.test[normal & late].mean() - 4.5) < 0.1
    assert normal[late].mean() > 0.85


def test_normal_samples_follow_the_wave_and_outliers_do_not() -> None:
    data = neurips_ts_uni(seed=2, shift=0.0)
    assert data.shifts == ()
    off = np.abs(data.test[:, 0] - wave_of(data, Wave()))
    assert off[data.labels == 0].max() < 0.4  # noise of 0.05 · 1.5
    assert off[data.labels == 1].min() > 0.4


def test_a_global_point_leaves_the_range_and_a_contextual_one_does_not() -> None:
    top = np.abs(neurips_ts_uni(seed=0).train).max()
    far = neurips_ts_uni(seed=0, kinds=("global",), shift=0)
    assert np.abs(far.test[far.labels == 1]).min() > 0.9 * top
    assert np.median(np.abs(far.test[far.labels == 1])) > 1.5 * top
    near = neurips_ts_uni(seed=0, kinds=("contextual",), shift=0)
    assert np.abs(near.test[near.labels == 1]).max() <= 0.95 * 1.5


@pytest.mark.parametrize("kind", ["shapelet", "seasonal", "trend"])
def test_a_pattern_outlier_is_a_stretch_of_twice_the_radius(kind: str) -> None:
    data = neurips_ts_uni(
        seed=0, length=4_000, kinds=(kind,), shift=0, outliers=Outliers(ratio=0.01, radius=8)
    )
    lengths = {stop - start for start, stop in events(data.labels)}
    assert {length % 16 for length in lengths} == {0}
    assert data.labels.sum() == round(0.01 * 4_000 / 16) * 16


def test_a_trend_outlier_carries_the_level_with_it() -> None:
    data = neurips_ts_uni(
        seed=0, length=2_000, kinds=("trend",), shift=0, outliers=Outliers(ratio=0.004, radius=5)
    )
    ((start, stop),) = events(data.labels)
    assert data.shifts == (stop,)
    moved = data.test[:, 0] - wave_of(data, Wave())
    assert np.abs(moved[:start]).max() < 0.4
    np.testing.assert_allclose(np.abs(moved[stop:]), 4.5, atol=0.4)


def test_all_five_kinds_fit_into_one_series() -> None:
    kinds = ("global", "contextual", "shapelet", "seasonal", "trend")
    assert 0.24 < neurips_ts_uni(seed=0, kinds=kinds).labels.mean() <= 0.25


def test_the_multivariate_waves_have_the_published_amplitudes_and_offsets() -> None:
    data = neurips_ts_mul(seed=0)
    np.testing.assert_allclose(data.train.mean(axis=0), [0, 0, 0, 2, -2], atol=0.01)
    np.testing.assert_allclose(
        data.train.std(axis=0) * np.sqrt(2), [1.5, 2.5, 1.5, 2.5, 1.5], rtol=0.01
    )


def test_each_multivariate_channel_has_outliers_of_its_own_kind_only() -> None:
    data = neurips_ts_mul(seed=0, length=2_000)
    assert 0.2 < data.labels.mean() <= 0.25
    for channel in ("global", "contextual", "shapelet", "seasonal"):
        column = data.channels.index(channel)
        sine = Wave(*[(1.5,), (2.5, 0.0, np.pi / 2), (1.5,), (2.5, 2.0, np.pi / 2)][column])
        off = np.abs(data.test[:, column] - wave_of(data, sine)) > 6 * 0.05 * sine.amplitude
        assert 0.01 < off.mean() < 0.06
        assert data.labels[off].all()


def test_the_plants_levels_move_for_good_without_a_label() -> None:
    data = plant(seed=5)
    first, second = data.shifts
    spread = data.train.std(axis=0)
    normal = data.labels == 0
    part = np.arange(len(data.test))
    before = data.test[normal & (part < first)].mean(axis=0)
    after = data.test[normal & (part >= first) & (part < second)].mean(axis=0)
    np.testing.assert_allclose(
        (after - before) / spread, [3.0, -2.4, 0.0, 3.0, 1.8, -1.5], atol=0.35
    )
    assert normal[first:].mean() > 0.9


def test_the_plants_cycle_is_faster_after_the_second_shift() -> None:
    data = plant(seed=5, anomalies=1)
    _, second = data.shifts
    flow = data.test[:, data.channels.index("flow")]

    def cycle(series: Floats) -> float:
        series = series - np.convolve(series, np.ones(240) / 240, mode="same")
        power = np.abs(np.fft.rfft(series[240:-240]))
        return float(1 / np.fft.rfftfreq(len(series) - 480)[power.argmax()])

    assert cycle(flow[:second]) == pytest.approx(60, rel=0.02)
    assert cycle(flow[second:]) == pytest.approx(40, rel=0.02)


def test_the_plants_anomalies_come_after_the_shifts_and_differ_from_what_would_have_been() -> None:
    data = plant(seed=6)
    starts = np.array([start for start, _ in events(data.labels)])
    first, second = data.shifts
    assert (starts < first).sum() >= 8
    assert (starts >= first).sum() > 2 * (starts < first).sum()
    assert (starts >= second).sum() >= 8
    assert 40 <= len(starts) <= 48
    one, none = plant(seed=7, live=640, anomalies=10), plant(seed=7, live=640, anomalies=1)
    assert one.labels.sum() > none.labels.sum()
    changed = (one.test != none.test).any(axis=1)
    assert set(np.flatnonzero(changed)) <= set(np.flatnonzero(one.labels | none.labels))


def test_the_plants_times_are_a_minute_apart_from_history_to_live() -> None:
    data = plant(seed=0)
    assert data.train_times is not None
    assert data.test_times is not None
    assert (np.diff(np.concatenate([data.train_times, data.test_times])) == data.period).all()


@pytest.mark.parametrize(
    ("call", "message"),
    [
        (lambda: plant(live=100, anomalies=2), "live: expected at least 64 samples for each of 2"),
        (lambda: plant(anomalies=0), "anomalies: expected at least 1, found 0"),
        (lambda: plant(history=1), "history: expected at least 2 samples, found 1"),
        (lambda: neurips_ts_uni(length=99), "length: expected at least 100 samples .* found 99"),
        (lambda: neurips_ts_uni(kinds=("point",)), "kinds: expected .*, found 'point'"),
        (lambda: neurips_ts_uni(shift_at=2), "shift_at: expected a share from 0 to 1, found 2"),
        (lambda: Outliers(ratio=0.5), "ratio: expected a share above 0 and up to 0.1, found 0.5"),
        (lambda: Outliers(radius=0), "radius: expected at least 1 sample, found 0"),
    ],
)
def test_a_value_that_cannot_work_is_named(call, message: str) -> None:  # type: ignore[no-untyped-def]
    with pytest.raises(ParameterError, match=message):
        call()


def test_a_data_set_whose_parts_do_not_fit_is_refused() -> None:
    zeros = np.zeros((4, 2))
    with pytest.raises(DatasetError, match=r"x: expected train samples of 1 channels"):
        Dataset("x", zeros, zeros, np.zeros(4, dtype=np.int64), ("a",))
    with pytest.raises(DatasetError, match="x: expected a label for each of 4 test samples"):
        Dataset("x", zeros, zeros, np.zeros(3, dtype=np.int64), ("a", "b"))
    times = np.arange(3).astype("datetime64[s]")
    with pytest.raises(DatasetError, match="a time for each of 4 test samples, found 3"):
        Dataset("x", zeros, zeros, np.zeros(4, dtype=np.int64), ("a", "b"), test_times=times)


# ------------------------------------------------------------------ the real benchmark files, wh


def load_or_skip(name: str, root: Path):  # type: ignore[no-untyped-def]
    if name not in available(root):
        pytest.skip(f"{name} is not under NEWNORMAL_DATA")
    return load(name, root)


@pytest.mark.parametrize(
    ("name", "train", "test", "channels", "anomalous"),
    [
        ("SMD/1-4", 23706, 23707, 38, 720),
        ("SMD/2-1", 23693, 23694, 38, 1170),
        ("MSL/P-15", 3682, 2856, 55, 20),
        ("SMAP/T-3", 2876, 8579, 25, 182),
        ("CreditCard", 142403, 142404, 29, 223),
        ("JumpStarter/Dataset2/service0", 5760, 7200, 19, 343),
        ("ASD/omi-1", 8640, 4320, 19, 441),
        ("NAB/realKnownCause/nyc_taxi", 750, 9570, 1, 1035),
        ("NAB/realTweets/Twitter_volume_FB", 750, 15083, 1, 1582),
        ("SKAB/valve1/0", 400, 747, 8, 401),
        ("SKAB/other/1", 400, 345, 8, 188),
        ("UCR/011_ECG1", 9439, 20561, 1, 1),
    ],
)
def test_counts_are_the_published_ones(
    name: str, train: int, test: int, channels: int, anomalous: int, data_root: Path
) -> None:
    data = load_or_skip(name, data_root)
    assert data.train.shape == (train, channels)
    assert data.test.shape == (test, channels)
    assert data.labels.sum() == anomalous
    assert data.labels.dtype == np.int64
    assert len(data.channels) == channels


def test_every_stream_found_loads_with_finite_values_and_both_labels(data_root: Path) -> None:
    names = available(data_root)
    assert names
    for name in names:
        data = load(name, data_root)
        assert data.name == name
        assert np.isfinite(data.train).all()
        assert np.isfinite(data.test).all()
        assert set(np.unique(data.labels)) == {0, 1}


@pytest.mark.parametrize(
    ("owner", "groups", "count"),
    [
        ("NAB", {"AWSCloudwatch", "AdExchange", "KnownCause", "Traffic", "Tweets"}, 26),
        ("SKAB", {"valve1", "other"}, 15),
        ("UCR", set(), 17),
    ],
)
def test_every_folder_is_listed(owner: str, groups: set[str], count: int, data_root: Path) -> None:
    names = [name for name in available(data_root) if name.startswith(f"{owner}/")]
    if not names:
        pytest.skip(f"{owner} is not under NEWNORMAL_DATA")
    assert len(names) >= count
    assert groups <= {name.split("/")[1].removeprefix("real") for name in names}


def test_a_data_sets_own_folder_will_do_as_root(data_root: Path) -> None:
    if not (data_root / "SMD").is_dir():
        pytest.skip("SMD is not under NEWNORMAL_DATA")
    inside = available(data_root / "SMD")
    assert inside
    assert inside == [name for name in available(data_root) if name.startswith("SMD/")]


def test_nab_series_whose_clock_steps_back_has_labels_but_no_times(data_root: Path) -> None:
    data = load_or_skip("NAB/realKnownCause/machine_temperature_system_failure", data_root)
    assert data.test_times is None
    assert data.labels.sum() == 2268
    assert data.period == np.timedelta64(5, "m")
