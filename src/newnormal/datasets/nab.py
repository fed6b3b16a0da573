"""NAB, the Numenta Anomaly Benchmark: 58 series of one channel, with anomaly windows."""

import json
from pathlib import Path

import numpy as np

from newnormal.datasets.base import Dataset, Entry
from newnormal.datasets.reading import open_text, present, read_timed
from newnormal.errors import DatasetError
from newnormal.types import Ints, Times

_WINDOWS = "labels/combined_windows.json"


def _windows(folder: Path) -> dict[str, list[list[str]]]:
    path = folder / _WINDOWS
    try:
        with open_text(path) as file:
            return json.load(file)  # type: ignore[no-any-return]
    except ValueError as error:
        raise DatasetError(
            f"{path}: expected JSON of windows by file, found otherwise: {error}"
        ) from error


def _streams(folder: Path) -> set[str]:
    if not present(folder / _WINDOWS):
        return set()
    files = (file for file in _windows(folder) if present(folder / "data" / file))
    return {file.removesuffix(".csv") for file in files}


def _labels(times: Times, windows: list[list[str]]) -> Ints:
    labels = np.zeros(len(times), dtype=np.int64)
    for window in windows:
        start, end = np.array(window, dtype="datetime64[us]")
        labels[(times >= start) & (times <= end)] = 1
    return labels


def _read(folder: Path, stream: str, cap: int | None = 750) -> Dataset:
    """Read one series.

    NAB's scorer skips a probationary period of min(⌊0.15 n⌋, 0.15 · 5000) samples
    (`getProbationPeriod` in its `nab/util.py`). That period is train here.
    """
    file = f"{stream}.csv"
    times, values = read_timed(folder / "data" / file, "timestamp", ("value",), "a number")
    windows = _windows(folder)
    if file not in windows:
        raise DatasetError(f"{folder / _WINDOWS}: expected windows for {file}, found none")
    probation = len(values) * 15 // 100
    split = probation if cap is None else min(probation, cap)
    steps = np.diff(times)
    # Two series of realKnownCause repeat a time or go back in it.
    ordered = bool((steps > np.timedelta64(0, "s")).all())
    return Dataset(
        name=f"NAB/{stream}",
        train=values[:split],
        test=values[split:],
        labels=_labels(times, windows[file])[split:],
        channels=("value",),
        period=np.median(steps.astype(np.int64)).astype("timedelta64[s]") if len(steps) else None,
        train_times=times[:split] if ordered else None,
        test_times=times[split:] if ordered else None,
    )


ENTRY = Entry(
    name="NAB",
    title="the Numenta Anomaly Benchmark (58 univariate series)",
    source="https://github.com/numenta/NAB (folders data and labels)",
    licence="MIT",
    period="the median step of each file's times",
    split="no train upstream: the probationary period, min(15 %, 750 samples), is train",
    files=("data/{stream}.csv", _WINDOWS),
    folders=("NAB",),
    list_streams=_streams,
    read=_read,
    options={"cap": "the most samples of train (default 750, as NAB has it); None for a full 15 %"},
)
