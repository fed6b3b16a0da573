"""SKAB, the Skoltech Anomaly Benchmark: a water circulation testbed, 8 sensors a second."""

from pathlib import Path

import numpy as np

from newnormal.datasets.base import Dataset, Entry
from newnormal.datasets.reading import as_labels, read_header, read_timed, stems
from newnormal.errors import DatasetError

_GROUPS = ("valve1", "valve2", "other")  # upstream's fourth folder, anomaly-free, has no labels
_TRAIN = 400  # samples, as upstream's own notebooks split it
_TIME, _LABEL = "datetime", "anomaly"
_NO_CHANNELS = (_TIME, _LABEL, "changepoint")


def _streams(folder: Path) -> set[str]:
    return {f"{group}/{stem}" for group in _GROUPS for stem in stems(folder / group, "*.csv")}


def _read(folder: Path, stream: str) -> Dataset:
    path = folder / f"{stream}.csv"
    names = read_header(path, (_TIME, _LABEL), delimiter=";")
    channels = [name for name in names if name not in _NO_CHANNELS]
    found = "numbers separated by semicolons"
    times, numbers = read_timed(path, _TIME, (*channels, _LABEL), found, delimiter=";")
    if len(times) <= _TRAIN:
        raise DatasetError(f"{path}: expected more than {_TRAIN} rows, found {len(times)}")
    ordered = bool((np.diff(times) > np.timedelta64(0, "s")).all())
    return Dataset(
        name=f"SKAB/{stream}",
        train=numbers[:_TRAIN, :-1],
        test=numbers[_TRAIN:, :-1],
        labels=as_labels(numbers[_TRAIN:, -1], path),
        channels=tuple(channels),
        period=np.timedelta64(1, "s"),
        train_times=times[:_TRAIN] if ordered else None,
        test_times=times[_TRAIN:] if ordered else None,
    )


ENTRY = Entry(
    name="SKAB",
    title="the Skoltech Anomaly Benchmark (34 runs of a testbed, 8 sensors)",
    source="https://github.com/waico/SKAB (folder data)",
    licence="GPL-3.0",
    period="1 second",
    split="the first 400 samples are train",
    files=("{valve1}/{number}.csv",),
    folders=("SKAB", "SKAB/data"),
    list_streams=_streams,
    read=_read,
)
