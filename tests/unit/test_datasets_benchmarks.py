"""The real benchmark files, where NEWNORMAL_DATA has them, against published counts."""

from __future__ import annotations

from pathlib import Path

import numpy as np
import pytest

from newnormal.datasets import available, load


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
def test_every_folder_of_a_collection_is_listed(
    owner: str, groups: set[str], count: int, data_root: Path
) -> None:
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
