"""JumpStarter: services of a content platform, 20 days of history and 25 to judge."""

from pathlib import Path

import numpy as np

from newnormal.datasets.base import Dataset, Entry, numbered
from newnormal.datasets.reading import as_labels, read_numbers, stems


def _streams(folder: Path) -> set[str]:
    parts = ("train", "test", "test_label")
    return {
        f"{group.name}/service{number}"
        for group in folder.glob("Dataset*")
        for number in set.intersection(*(stems(group / part, "service*.csv") for part in parts))
    }


def _read(folder: Path, stream: str) -> Dataset:
    group, _, service = stream.rpartition("/")
    file = f"{service}.csv"
    train = read_numbers(folder / group / "train" / file)
    labels = folder / group / "test_label" / file
    return Dataset(
        name=f"JumpStarter/{stream}",
        train=train,
        test=read_numbers(folder / group / "test" / file),
        labels=as_labels(read_numbers(labels), labels),
        channels=numbered(train.shape[1]),
        # Upstream's table: 20 days of train, which are 5760 rows, and 25 of test, 7200 rows.
        period=np.timedelta64(5, "m"),
    )


ENTRY = Entry(
    name="JumpStarter",
    title="JumpStarter's Dataset2 and Dataset3 (30 services each, 19 metrics)",
    source="https://github.com/NetManAIOps/JumpStarter (folder dataset)",
    licence="MIT",
    period="5 minutes",
    split="upstream's train (20 days) and test (25 days)",
    files=(
        "{Dataset2}/train/{service}.csv",
        "{Dataset2}/test/{service}.csv",
        "{Dataset2}/test_label/{service}.csv",
    ),
    folders=("JumpStarter", "JumpStarter/dataset"),
    list_streams=_streams,
    read=_read,
)
