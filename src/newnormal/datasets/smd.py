"""SMD, the Server Machine Dataset: 28 machines of an Internet company, five weeks each."""

from pathlib import Path

import numpy as np

from newnormal.datasets.base import Dataset, Entry, numbered
from newnormal.datasets.reading import as_labels, read_numbers, stems


def _streams(folder: Path) -> set[str]:
    parts = ("train", "test", "test_label")
    return set.intersection(*(stems(folder / part, "machine-*.txt") for part in parts))


def _read(folder: Path, stream: str) -> Dataset:
    file = f"machine-{stream}.txt"
    train = read_numbers(folder / "train" / file)
    labels = folder / "test_label" / file
    return Dataset(
        name=f"SMD/{stream}",
        train=train,
        test=read_numbers(folder / "test" / file),
        labels=as_labels(read_numbers(labels), labels),
        channels=numbered(train.shape[1]),
        period=np.timedelta64(1, "m"),
    )


ENTRY = Entry(
    name="SMD",
    title="the Server Machine Dataset (28 servers, 38 metrics)",
    source="https://github.com/NetManAIOps/OmniAnomaly (folder ServerMachineDataset)",
    licence="MIT",
    period="1 minute",
    split="upstream's train and test",
    files=(
        "train/machine-{stream}.txt",
        "test/machine-{stream}.txt",
        "test_label/machine-{stream}.txt",
    ),
    folders=("SMD", "ServerMachineDataset"),
    list_streams=_streams,
    read=_read,
)
