"""The table of data sets, the three verbs over it, and a labelled file of one's own."""

from __future__ import annotations

import os
from os import PathLike
from pathlib import Path
from typing import Any

import numpy as np

from newnormal.datasets import anoshift, creditcard, nab, skab, ucr, yahoo
from newnormal.datasets.base import Dataset, Entry, numbered
from newnormal.datasets.itrust import SWAT, WADI
from newnormal.datasets.nasa import MSL, SMAP
from newnormal.datasets.servers import ASD, JUMPSTARTER, SMD
from newnormal.errors import DatasetError, ParameterError

_ENTRIES = (
    *(SMD, SMAP, MSL, creditcard.ENTRY, nab.ENTRY, ASD, JUMPSTARTER),
    *(skab.ENTRY, ucr.ENTRY, SWAT, WADI, yahoo.ENTRY, anoshift.ENTRY),
)


def catalogue() -> tuple[Entry, ...]:
    """Return what is known of each data set: title, source, licence, period, split, files.

    Examples
    --------
    >>> [entry.name for entry in catalogue()][:3]
    ['SMD', 'SMAP', 'MSL']
    """
    return _ENTRIES


def available(root: str | PathLike[str] | None = None) -> list[str]:
    """Return the full names of all streams that `load` can read from under a folder.

    Parameters
    ----------
    root
        The folder that holds the data sets' folders, or a data set's folder itself. None: that of
        the environment variable NEWNORMAL_DATA.
    """
    folder = _folder(root)
    return [name for entry in _ENTRIES for name in entry.streams(folder)]


def load(name: str, root: str | PathLike[str] | None = None, **options: Any) -> Dataset:
    """Load one stream of a data set from files on this machine.

    Nothing is downloaded: where a file is missing, the error names it, where to get it and
    under which licence.

    Parameters
    ----------
    name
        Data set and stream, such as ``"SMD/1-4"``, ``"MSL/P-15"`` or ``"CreditCard"``;
        `available` lists those found. Case does not matter before the slash.
    root
        As for `available`.
    **options
        What only this data set takes; see ``Entry.options``.

    Raises
    ------
    ParameterError
        If the name or an option is not known.
    DatasetError
        If a file is missing or not in the form its owners hand out.
    """
    folder = _folder(root)
    entry, stream = _entry(name, folder)
    if unknown := sorted(options.keys() - entry.options.keys()):
        raise ParameterError(
            f"{entry.name}: expected no option {unknown[0]!r}",
            hint=f"its options are: {', '.join(entry.options) or 'none'}",
        )
    try:
        return entry.read(entry.folder(folder), stream, **options)
    except DatasetError as error:
        streams = ", ".join(entry.streams(folder)) or "none of its streams"
        raise DatasetError(error.message, hint=f"{entry.hint}; found there: {streams}") from error


def _folder(root: str | PathLike[str] | None) -> Path:
    folder = root or os.environ.get("NEWNORMAL_DATA")
    if not folder:
        raise ParameterError(
            "root: expected the folder of the data sets, found none",
            hint="pass it, or set the environment variable NEWNORMAL_DATA to it",
        )
    return Path(folder)


def _entry(name: str, root: Path) -> tuple[Entry, str]:
    wanted, _, stream = name.partition("/")
    entry = next((entry for entry in _ENTRIES if entry.name.lower() == wanted.lower()), None)
    if entry is None:
        raise ParameterError(
            f"expected the name of a data set, found {name!r}",
            hint=f"known are {', '.join(entry.name for entry in _ENTRIES)}",
        )
    if entry.single and stream:
        raise ParameterError(
            f"{entry.name} is one stream, found {name!r}", hint=f"load {entry.name!r}"
        )
    if not entry.single and not stream:
        streams = entry.streams(root)
        raise ParameterError(
            f"{entry.name} has several streams, found {name!r}",
            hint=f"load one of {', '.join(streams)}" if streams else entry.hint,
        )
    return entry, stream


def read_labelled(path: str | PathLike[str], *, label: str, history: int) -> Dataset:
    """Read a labelled file of your own: its first `history` samples become train, the others test.

    It may be in any form that `newnormal fit` reads. Column `label` has 1 where a sample is
    anomalous, else 0; labels of history are not used.
    """
    from newnormal.tabular import read  # it loads Numba

    table = read(path, label=label)
    samples, labels = len(table.values), np.asarray(table.labels, dtype=np.int64)
    if not 0 < history < samples:
        raise DatasetError(
            f"{path}: expected history of 1 to {samples - 1:,} of its {samples:,} samples, "
            f"found {history:,}",
            hint="the samples after it are judged",
        )
    if not labels[history:].any():
        raise DatasetError(
            f"{path}: expected samples after history with 1 in column {label!r}, found none",
            hint=f"{labels.sum():,} of all samples have 1; a shorter history leaves more after it",
        )
    parts = (slice(history), slice(history, None))
    train, test = (table.values[part] for part in parts)
    times = (None, None) if table.times is None else tuple(table.times[part] for part in parts)
    channels = table.channels or numbered(train.shape[1])
    return Dataset(Path(path).stem, train, test, labels[history:], channels, None, *times)
