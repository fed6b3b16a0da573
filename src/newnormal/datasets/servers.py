"""SMD, ASD and JumpStarter: servers of Internet companies, as files of train, test and labels."""

from collections.abc import Callable
from functools import partial
from pathlib import Path

import numpy as np

from newnormal.datasets.base import Dataset, Entry, numbered
from newnormal.datasets.reading import as_labels, read_array, read_numbers, stems
from newnormal.types import Floats

_PARTS = ("train", "test", "test_label")


def _streams(pattern: str, before: str, folder: Path) -> set[str]:
    """Return the streams that have all parts; the star of the pattern is their name's end."""
    parts = (pattern.format(part).rpartition("/") for part in _PARTS)
    ends = set.intersection(*(stems(folder / inner, name) for inner, _, name in parts))
    return {before + end for end in ends}


def _grouped(pattern: str, before: str, folder: Path) -> set[str]:
    return {
        f"{group.name}/{stream}"
        for group in folder.glob("Dataset*")
        for stream in _streams(pattern, before, group)
    }


def _read(
    name: str,
    pattern: str,
    before: str,
    period: np.timedelta64,
    read: Callable[[Path], Floats],
    folder: Path,
    stream: str,
) -> Dataset:
    group, _, last = stream.rpartition("/")
    end = last.removeprefix(before)
    train, test, labels = (
        folder / group / pattern.format(part).replace("*", end) for part in _PARTS
    )
    history = read(train)
    return Dataset(
        name=f"{name}/{stream}",
        train=history,
        test=read(test),
        labels=as_labels(read(labels), labels),
        channels=numbered(history.shape[-1]),
        period=period,
    )


_MINUTE = np.timedelta64(1, "m")
_MACHINE = ("{}/machine-*.txt", "")
_OMI = ("omi-*_{}.npy", "omi-")
_SERVICE = ("{}/service*.csv", "service")

SMD = Entry(
    name="SMD",
    title="the Server Machine Dataset (28 servers, 38 metrics)",
    source="https://github.com/NetManAIOps/OmniAnomaly (folder ServerMachineDataset)",
    licence="MIT",
    period="1 minute",
    split="upstream's train and test",
    files=tuple(f"{part}/machine-{{stream}}.txt" for part in _PARTS),
    folders=("SMD", "ServerMachineDataset"),
    list_streams=partial(_streams, *_MACHINE),
    read=partial(_read, "SMD", *_MACHINE, _MINUTE, read_numbers),
)
ASD = Entry(
    name="ASD",
    title="the Application Server Dataset (12 servers, 19 metrics)",
    source="https://github.com/zhhlee/InterFusion (folder data/processed; pickles there, "
    "saved again as .npy)",
    licence="MIT",
    period="5 minutes",
    split="upstream's train (30 days) and test (15 days)",
    files=tuple(f"{{stream}}_{part}.npy" for part in _PARTS),
    folders=("ASD",),
    list_streams=partial(_streams, *_OMI),
    read=partial(_read, "ASD", *_OMI, 5 * _MINUTE, read_array),
)
JUMPSTARTER = Entry(
    name="JumpStarter",
    title="JumpStarter's Dataset2 and Dataset3 (30 services each, 19 metrics)",
    source="https://github.com/NetManAIOps/JumpStarter (folder dataset)",
    licence="MIT",
    period="5 minutes",  # upstream's table: 20 days are 5760 rows of train, 25 are 7200 of test
    split="upstream's train (20 days) and test (25 days)",
    files=tuple(f"{{Dataset2}}/{part}/{{service}}.csv" for part in _PARTS),
    folders=("JumpStarter", "JumpStarter/dataset"),
    list_streams=partial(_grouped, *_SERVICE),
    read=partial(_read, "JumpStarter", *_SERVICE, 5 * _MINUTE, read_numbers),
)
