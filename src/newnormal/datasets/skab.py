"""SKAB, the Skoltech Anomaly Benchmark: a water circulation testbed, 8 sensors a second."""

import csv
from pathlib import Path

import numpy as np

from newnormal.datasets.base import Dataset, Entry
from newnormal.datasets.reading import as_labels, open_text, read_header, stems
from newnormal.errors import DatasetError
from newnormal.types import Floats, Times

_GROUPS = ("valve1", "valve2", "other")  # upstream's fourth folder, anomaly-free, has no labels
_TRAIN = 400  # samples, as upstream's own notebooks split it
_TIME, _LABEL = "datetime", "anomaly"
_NO_CHANNELS = (_TIME, _LABEL, "changepoint")


def _streams(folder: Path) -> set[str]:
    return {f"{group}/{stem}" for group in _GROUPS for stem in stems(folder / group, "*.csv")}


def _table(path: Path, names: list[str]) -> tuple[Times, Floats]:
    time = names.index(_TIME)
    with open_text(path) as file:
        rows = list(csv.reader(file, delimiter=";"))[1:]
    try:
        times = np.array([row[time] for row in rows], dtype="datetime64[s]")
        numbers = np.array([row[:time] + row[time + 1 :] for row in rows], dtype=np.float64)
    except (ValueError, IndexError) as error:
        raise DatasetError(
            f"{path}: expected a time and numbers separated by semicolons in each row, "
            f"found otherwise: {error}"
        ) from error
    if len(rows) <= _TRAIN:
        raise DatasetError(f"{path}: expected more than {_TRAIN} rows, found {len(rows)}")
    return times, numbers


def _read(folder: Path, stream: str) -> Dataset:
    path = folder / f"{stream}.csv"
    names = read_header(path, (_TIME, _LABEL), delimiter=";")
    times, numbers = _table(path, names)
    numeric = [name for name in names if name != _TIME]
    channels = [name for name in numeric if name not in _NO_CHANNELS]
    series = numbers[:, [numeric.index(name) for name in channels]]
    ordered = bool((np.diff(times) > np.timedelta64(0, "s")).all())
    return Dataset(
        name=f"SKAB/{stream}",
        train=series[:_TRAIN],
        test=series[_TRAIN:],
        labels=as_labels(numbers[_TRAIN:, numeric.index(_LABEL)], path),
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
