"""ASD, the Application Server Dataset: 12 servers of an Internet company, 45 days each."""

from pathlib import Path

import numpy as np

from newnormal.datasets.base import Dataset, Entry, numbered
from newnormal.datasets.reading import as_labels, read_array, stems


def _streams(folder: Path) -> set[str]:
    parts = ("train", "test", "test_label")
    numbers = (stems(folder, f"omi-*_{part}.npy") for part in parts)
    return {f"omi-{number}" for number in set.intersection(*numbers)}


def _read(folder: Path, stream: str) -> Dataset:
    train = read_array(folder / f"{stream}_train.npy")
    labels = folder / f"{stream}_test_label.npy"
    return Dataset(
        name=f"ASD/{stream}",
        train=train,
        test=read_array(folder / f"{stream}_test.npy"),
        labels=as_labels(read_array(labels), labels),
        channels=numbered(train.shape[-1]),
        period=np.timedelta64(5, "m"),
    )


ENTRY = Entry(
    name="ASD",
    title="the Application Server Dataset (12 servers, 19 metrics)",
    source="https://github.com/zhhlee/InterFusion (folder data/processed; pickles there, "
    "saved again as .npy)",
    licence="MIT",
    period="5 minutes",
    split="upstream's train (30 days) and test (15 days)",
    files=("{stream}_train.npy", "{stream}_test.npy", "{stream}_test_label.npy"),
    folders=("ASD",),
    list_streams=_streams,
    read=_read,
)
