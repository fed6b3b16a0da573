"""WADI: a water distribution testbed, fourteen days of normal operation and two under attack."""

from pathlib import Path

import numpy as np

from newnormal.datasets.base import Dataset, Entry
from newnormal.datasets.reading import check_same_columns, fill_forward, present, read_sheet
from newnormal.errors import DatasetError
from newnormal.types import Bools, Floats

_NORMAL = "WADI_14days_new.csv"
_ATTACK = "WADI_attackdataLABLE.csv"


def _streams(folder: Path) -> set[str]:
    return {""} if all(present(folder / file) for file in (_NORMAL, _ATTACK)) else set()


def _observed(numbers: Floats) -> Bools:
    return np.asarray((~np.isnan(numbers)).any(axis=0))


def _read(folder: Path, stream: str) -> Dataset:  # noqa: ARG001 - there is only one
    normal = read_sheet(folder / _NORMAL, after="Time", labelled=False)
    attack = read_sheet(folder / _ATTACK, after="Time", labelled=True)
    check_same_columns(attack, normal, folder / _ATTACK, _NORMAL)
    if unknown := set(attack.labels) - {"1", "-1", "1.0", "-1.0"}:
        raise DatasetError(
            f"{folder / _ATTACK}: expected 1 or -1 in the last column, found {sorted(unknown)[0]!r}"
        )
    # Four columns are empty in both files; a channel needs a number in each.
    kept = np.flatnonzero(_observed(normal.numbers) & _observed(attack.numbers))
    train, test = normal.numbers[:, kept], attack.numbers[:, kept]
    for part in (train, test):
        fill_forward(part)
        fill_forward(part[::-1])
    return Dataset(
        name="WADI",
        train=train,
        test=test,
        labels=np.array([label in ("-1", "-1.0") for label in attack.labels], dtype=np.int64),
        channels=tuple(normal.names[column] for column in kept),
        period=np.timedelta64(1, "s"),
    )


ENTRY = Entry(
    name="WADI",
    title="Water Distribution, A2 of November 2019 (123 sensors and actuators)",
    source="https://itrust.sutd.edu.sg/itrust-labs_datasets (on request; folder "
    "WADI.A2_19 Nov 2019)",
    licence="iTrust's terms of use, not to be passed on",
    period="1 second",
    split="14days_new is train, attackdataLABLE is test; empty rows and columns dropped, gaps "
    "filled forward, then backward",
    files=(_NORMAL, _ATTACK),
    folders=("WADI",),
    list_streams=_streams,
    read=_read,
)
