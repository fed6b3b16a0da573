"""The UCR anomaly archive: series of one channel, each with one anomaly."""

import re
from pathlib import Path

import numpy as np

from newnormal.datasets.base import Dataset, Entry
from newnormal.datasets.reading import as_labels, read_header, read_numbers, stems
from newnormal.errors import DatasetError

_COLUMNS = ("value", "anomaly")
_NAME = re.compile(r"\d{3}_\w+")


def _streams(folder: Path) -> set[str]:
    return {stem for stem in stems(folder, "*.csv") if _NAME.fullmatch(stem)}


def _read(folder: Path, stream: str) -> Dataset:
    path = folder / f"{stream}.csv"
    names = read_header(path, _COLUMNS)
    table = read_numbers(path, skip=1, columns=map(names.index, _COLUMNS))
    labels = as_labels(table[:, 1], path)
    marked = np.flatnonzero(labels)
    if len(marked) != 1:
        raise DatasetError(f"{path}: expected one marked sample, found {len(marked)}")
    split = min(len(table) * 35 // 100, int(marked[0]) * 80 // 100)
    if not split:
        raise DatasetError(
            f"{path}: expected samples before the marked one, found it at sample {marked[0]}"
        )
    return Dataset(
        name=f"UCR/{stream}",
        train=table[:split, :1],
        test=table[split:, :1],
        labels=labels[split:],
        channels=("value",),
    )


ENTRY = Entry(
    name="UCR",
    title="the UCR anomaly archive (250 univariate series)",
    source="https://www.cs.ucr.edu/~eamonn/time_series_data_2018/",
    licence="free for research, cite Wu and Keogh",
    period="not published",
    split="the first 35 % are train, or 80 % of the samples before the anomaly if these are fewer",
    files=("{stream}.csv",),
    folders=("UCR",),
    list_streams=_streams,
    read=_read,
)
