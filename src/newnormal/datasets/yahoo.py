"""Yahoo S5, benchmark A1: 67 hourly series of real traffic to Yahoo's services."""

from pathlib import Path

import numpy as np

from newnormal.datasets.base import Dataset, Entry
from newnormal.datasets.reading import as_labels, read_header, read_numbers, stems
from newnormal.errors import DatasetError

_TRAIN = 400  # samples, as the paper splits it


def _streams(folder: Path) -> set[str]:
    return {f"A1-R{number}" for number in stems(folder / "A1Benchmark", "real_*.csv")}


def _read(folder: Path, stream: str) -> Dataset:
    path = folder / "A1Benchmark" / f"real_{stream.removeprefix('A1-R')}.csv"
    names = read_header(path, ("value", "is_anomaly"))
    table = read_numbers(path, skip=1, columns=map(names.index, ("value", "is_anomaly")))
    if len(table) <= _TRAIN:
        raise DatasetError(f"{path}: expected more than {_TRAIN} rows, found {len(table)}")
    return Dataset(
        name=f"Yahoo/{stream}",
        train=table[:_TRAIN, :1],
        test=table[_TRAIN:, :1],
        labels=as_labels(table[_TRAIN:, 1], path),
        channels=("value",),
        period=np.timedelta64(1, "h"),
    )


ENTRY = Entry(
    name="Yahoo",
    title="Yahoo Webscope S5, benchmark A1 (67 univariate series)",
    source="https://webscope.sandbox.yahoo.com (on request; data set S5)",
    licence="Yahoo's data sharing agreement: non-commercial research, not to be passed on",
    period="1 hour",
    split="the first 400 samples are train",
    files=("A1Benchmark/real_{number}.csv",),
    folders=("Yahoo", "yahoo", "ydata-labeled-time-series-anomalies-v1_0"),
    list_streams=_streams,
    read=_read,
)
