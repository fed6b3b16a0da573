"""Streams that are in no catalogue: labelled files of a user, and series of TSB-AD-M."""

import csv
import json
import re
from collections.abc import Container, Iterator, Sequence
from dataclasses import dataclass, replace
from pathlib import Path

import numpy as np

from newnormal import datasets
from newnormal.datasets import Dataset
from newnormal.errors import DatasetError
from newnormal_reproduce.engine.arrays import Floats, Ints

TSB_AD = "TSB-AD-M"
_SIZE = ("skipped", "samples", "anomalous")  # fields of `BenchmarkSeries`


@dataclass(frozen=True)
class LabelledFile:
    """A file of a user: its column of labels, and how many of its samples are history."""

    path: Path
    label: str
    history: int

    def __str__(self) -> str:
        return f"{self.path.name} --label {self.label} --history {self.history}"

    def read(self, name: str) -> Dataset:
        """Read it."""
        data = datasets.read_labelled(self.path, label=self.label, history=self.history)
        return replace(data, name=name)


@dataclass(frozen=True)
class BenchmarkSeries:
    """A series of TSB-AD-M: its first samples are history, and all of them are judged."""

    path: Path  # of the official file, or the folder that has the stream it is rebuilt from
    history: int
    stream: str = ""  # what it is rebuilt from, such as "SMD/2-1"
    skipped: int = 0  # samples of the stream's test part before it
    samples: int = 0  # how many must come out, and how many of them are anomalous
    anomalous: int = 0

    def read(self, name: str) -> Dataset:
        """Read or rebuild it; what is rebuilt must have the official size."""
        values, labels = self._rebuilt() if self.stream else self._official()
        if self.stream and (len(values), labels.sum()) != (self.samples, self.anomalous):
            raise DatasetError(
                f"{name}: expected {self.samples} samples, {self.anomalous} of them anomalous, "
                f"found {len(values)} and {labels.sum()}",
                hint=f"this {self.stream} is not the one that TSB-AD has",
            )
        channels = tuple(map(str, range(values.shape[1])))
        return Dataset(name, values[: self.history], values, labels, channels)

    def _official(self) -> tuple[Floats, Ints]:
        with self.path.open(encoding="utf-8") as file:
            last = file.readline().strip().rpartition(",")[2]
            if last != "Label":
                raise DatasetError(f"{self.path}: expected Label as last column, found {last!r}")
            table = np.loadtxt(file, delimiter=",", ndmin=2)
        return table[:, :-1], table[:, -1].astype(np.int64)

    def _rebuilt(self) -> tuple[Floats, Ints]:
        owner, _, channel = self.stream.partition("/")
        packed = _packed(self.path, self.stream)
        if packed.is_file():
            with np.load(packed, allow_pickle=False) as file:
                values, labels = file["test"].astype(np.float64), file["label"].astype(np.int64)
        else:
            data = datasets.load(self.stream, self.path)
            values, labels = data.test, data.labels
        for entry in datasets.catalogue():
            if entry.name == owner in ("MSL", "SMAP"):
                # TSB-AD labels by a channel's last line, ends included.
                lines = _lines(entry.folder(self.path) / "labeled_anomalies.csv")
                spans = [each["anomaly_sequences"] for each in lines if each["chan_id"] == channel]
                labels = np.zeros(len(values), dtype=np.int64)
                for start, end in json.loads(spans[-1] if spans else "[]"):
                    labels[start : end + 1] = 1
        return values[self.skipped :], labels[self.skipped :]


def benchmark_series(
    folders: Sequence[Path], streams: Container[str]
) -> dict[str, BenchmarkSeries]:
    """Return the series with an official file, and those that can be rebuilt from these streams."""
    found: dict[str, BenchmarkSeries] = {}
    for folder in folders:
        for path in (*folder.glob("*.csv"), *(folder / TSB_AD).glob("*.csv")):
            if history := re.search(r"_tr_(\d+)_1st_", path.name):
                found.setdefault(path.stem, BenchmarkSeries(path, int(history[1])))
        for line in _lines(folder / TSB_AD / "published.csv"):
            stream = f"{line['file'].split('_')[1]}/{line['stream']}"
            if stream in streams or _packed(folder, stream).is_file():
                first, *size = (int(line[name]) for name in ("history", *_SIZE))
                rebuilt = BenchmarkSeries(folder, first, stream, *size)
                found.setdefault(Path(line["file"]).stem, rebuilt)
    return {f"{TSB_AD}/{name}": found[name] for name in sorted(found)}


def published_figures(folders: Sequence[Path]) -> dict[str, dict[str, float]]:
    """Return published figures by column, such as ``auc_pr:online:CNN``, and series."""
    figures: dict[str, dict[str, float]] = {}
    for folder in folders:
        for line in _lines(folder / TSB_AD / "published.csv"):
            for column, text in line.items():
                if ":" in column and text:
                    name = f"{TSB_AD}/{Path(line['file']).stem}"
                    figures.setdefault(column, {})[name] = float(text)
    return figures


def period(values: Floats) -> int:
    """Return the period of a channel in samples, which TSB-AD takes as the tolerance of VUS.

    >>> period(np.sin(np.arange(1000) * 2 * np.pi / 50)), period(np.arange(1000.0))
    (50, 125)

    Notes
    -----
    As ``find_length_rank`` of TSB-AD (Liu and Paparrizos, "The Elephant in the Room", NeurIPS
    2024): of the autocorrelation's local maxima at lags of 4 to 399 the highest, over the first
    20,000 samples; 125 if there is none or if it is below 6 or above 303. With it COPOD, which has
    no parameters, has its published VUS-PR on all nine series of SMD.
    """
    samples = values[:20_000] - values[:20_000].mean()
    spectrum = np.abs(np.fft.rfft(samples, 2 * len(samples))) ** 2
    near = np.fft.irfft(spectrum)[3 : min(401, len(samples))]
    peaks = 1 + np.flatnonzero((near[1:-1] > near[:-2]) & (near[1:-1] > near[2:]))
    lag = 3 + int(peaks[np.argmax(near[peaks])]) if len(peaks) else 0
    return lag if 6 <= lag <= 303 else 125


def _packed(root: Path, stream: str) -> Path:
    return root / "more" / f"{stream}.npz"


def _lines(path: Path) -> Iterator[dict[str, str]]:
    if path.is_file():
        with path.open(encoding="utf-8") as file:
            yield from csv.DictReader(file)
