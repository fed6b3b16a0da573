"""SWaT: a water treatment testbed, seven days of normal operation and four under attack."""

from pathlib import Path

import numpy as np

from newnormal.datasets.base import Dataset, Entry
from newnormal.datasets.reading import check_same_columns, fill_forward, present, read_sheet
from newnormal.errors import DatasetError

_NORMAL = "SWaT_Dataset_Normal_v0.csv"
_ATTACK = "SWaT_Dataset_Attack_v0.csv"
_KNOWN = {"Normal", "Attack", "A ttack"}


def _streams(folder: Path) -> set[str]:
    return {""} if all(present(folder / file) for file in (_NORMAL, _ATTACK)) else set()


def _read(folder: Path, stream: str, typo_is_attack: bool = False) -> Dataset:  # noqa: ARG001
    normal = read_sheet(folder / _NORMAL, after="Timestamp", labelled=True)
    attack = read_sheet(folder / _ATTACK, after="Timestamp", labelled=True)
    check_same_columns(attack, normal, folder / _ATTACK, _NORMAL)
    if unknown := set(attack.labels) - _KNOWN:
        raise DatasetError(
            f"{folder / _ATTACK}: expected Normal or Attack in the last column, "
            f"found {sorted(unknown)[0]!r}"
        )
    fill_forward(normal.numbers)
    fill_forward(attack.numbers)
    attacks = {"Attack", "A ttack"} if typo_is_attack else {"Attack"}
    return Dataset(
        name="SWaT",
        train=normal.numbers,
        test=attack.numbers,
        labels=np.array([label in attacks for label in attack.labels], dtype=np.int64),
        channels=attack.names,
        period=np.timedelta64(1, "s"),
    )


ENTRY = Entry(
    name="SWaT",
    title="Secure Water Treatment, A1 & A2 of December 2015 (51 sensors and actuators)",
    source="https://itrust.sutd.edu.sg/itrust-labs_datasets (on request; the workbooks "
    "SWaT_Dataset_Normal_v0.xlsx and SWaT_Dataset_Attack_v0.xlsx of its folder Physical, "
    "saved as CSV)",
    licence="iTrust's terms of use, not to be passed on",
    period="1 second",
    split="Normal_v0 is train, Attack_v0 is test; cells that are no number repeat the last one",
    files=(_NORMAL, _ATTACK),
    folders=("SWaT",),
    list_streams=_streams,
    read=_read,
    options={
        "typo_is_attack": "count rows labelled 'A ttack' as attacks (default False: as normal, "
        "which is what the paper's counts do)"
    },
)
