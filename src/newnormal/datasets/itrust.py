"""SWaT and WADI: testbeds of iTrust, days of normal operation and then days under attack."""

from pathlib import Path

import numpy as np

from newnormal.datasets.base import Dataset, Entry
from newnormal.datasets.reading import Sheet, fill_forward, one_stream, read_sheet
from newnormal.errors import DatasetError
from newnormal.types import Bools, Floats

# The files of normal operation and of attacks.
_SWAT = ("SWaT_Dataset_Normal_v0.csv", "SWaT_Dataset_Attack_v0.csv")
_WADI = ("WADI_14days_new.csv", "WADI_attackdataLABLE.csv")


def _attacks(path: Path, after: str, normal: Sheet, file: str, known: set[str]) -> Sheet:
    """Return the sheet of attacks, with the columns of the normal one in `file`."""
    attack = read_sheet(path, after=after, labelled=True)
    if attack.names != normal.names:
        raise DatasetError(
            f"{path}: expected the columns of {file}, found otherwise: "
            f"{', '.join(sorted(set(normal.names) ^ set(attack.names))) or 'another order'}"
        )
    if unknown := set(attack.labels) - known:
        usual = "1 or -1" if "1" in known else "Normal or Attack"
        raise DatasetError(
            f"{path}: expected {usual} in the last column, found {sorted(unknown)[0]!r}"
        )
    return attack


def _read_swat(folder: Path, stream: str, typo_is_attack: bool = False) -> Dataset:  # noqa: ARG001
    normal_file, attack_file = _SWAT
    normal = read_sheet(folder / normal_file, after="Timestamp", labelled=True)
    known = {"Normal", "Attack", "A ttack"}
    attack = _attacks(folder / attack_file, "Timestamp", normal, normal_file, known)
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


def _observed(numbers: Floats) -> Bools:
    return np.asarray((~np.isnan(numbers)).any(axis=0))


def _read_wadi(folder: Path, stream: str) -> Dataset:  # noqa: ARG001 - there is only one
    normal_file, attack_file = _WADI
    normal = read_sheet(folder / normal_file, after="Time", labelled=False)
    known = {"1", "-1", "1.0", "-1.0"}
    attack = _attacks(folder / attack_file, "Time", normal, normal_file, known)
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


SWAT = Entry(
    name="SWaT",
    title="Secure Water Treatment, A1 & A2 of December 2015 (51 sensors and actuators)",
    source="https://itrust.sutd.edu.sg/itrust-labs_datasets (on request; the workbooks "
    "SWaT_Dataset_Normal_v0.xlsx and SWaT_Dataset_Attack_v0.xlsx of its folder Physical, "
    "saved as CSV)",
    licence="iTrust's terms of use, not to be passed on",
    period="1 second",
    split="Normal_v0 is train, Attack_v0 is test; cells that are no number repeat the last one",
    files=_SWAT,
    folders=("SWaT",),
    list_streams=one_stream(*_SWAT),
    read=_read_swat,
    options={
        "typo_is_attack": "count rows labelled 'A ttack' as attacks (default False: as normal, "
        "which is what the paper's counts do)"
    },
)
WADI = Entry(
    name="WADI",
    title="Water Distribution, A2 of November 2019 (123 sensors and actuators)",
    source="https://itrust.sutd.edu.sg/itrust-labs_datasets (on request; folder "
    "WADI.A2_19 Nov 2019)",
    licence="iTrust's terms of use, not to be passed on",
    period="1 second",
    split="14days_new is train, attackdataLABLE is test; empty rows and columns dropped, gaps "
    "filled forward, then backward",
    files=_WADI,
    folders=("WADI",),
    list_streams=one_stream(*_WADI),
    read=_read_wadi,
)
