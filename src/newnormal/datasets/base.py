"""What every data set becomes, and what is known of it before it is read."""

from __future__ import annotations

import re
from collections.abc import Callable, Iterable, Mapping
from dataclasses import dataclass, field
from pathlib import Path

import numpy as np

from newnormal.errors import DatasetError
from newnormal.types import Floats, Ints, Times


@dataclass(frozen=True, eq=False, repr=False)
class Dataset:
    """One stream of a data set: history to fit on, a live part to judge, and its labels.

    Attributes
    ----------
    name
        The full name, such as ``"SMD/1-4"``.
    train
        The history, shape (T, C).
    test
        The live part, shape (T, C).
    labels
        1 where a test sample is anomalous, else 0, shape (T,).
    channels
        The channels' names, in the order of the columns.
    period
        The time between samples, or None where it is not known.
    train_times, test_times
        The samples' times, strictly increasing, or None where there are none.
    shifts
        Test samples at which a lasting change to a new normal begins. Known for synthetic data
        only. The samples after them are not anomalous.

    Examples
    --------
    >>> import numpy as np
    >>> Dataset("toy", np.zeros((4, 2)), np.ones((3, 2)), np.array([0, 1, 0]), ("a", "b"))
    Dataset('toy', 2 channels, 4 train and 3 test samples, 1 anomalous)
    """

    name: str
    train: Floats
    test: Floats
    labels: Ints
    channels: tuple[str, ...]
    period: np.timedelta64 | None = None
    train_times: Times | None = None
    test_times: Times | None = None
    shifts: tuple[int, ...] = ()

    def __post_init__(self) -> None:
        for part, series, times in (
            ("train", self.train, self.train_times),
            ("test", self.test, self.test_times),
        ):
            if series.ndim != 2 or series.shape[1] != len(self.channels) or not len(series):
                raise DatasetError(
                    f"{self.name}: expected {part} samples of {len(self.channels)} channels, "
                    f"found an array of shape {series.shape}"
                )
            if times is not None and len(times) != len(series):
                raise DatasetError(
                    f"{self.name}: expected a time for each of {len(series)} {part} samples, "
                    f"found {len(times)}"
                )
        if self.labels.shape != (len(self.test),):
            raise DatasetError(
                f"{self.name}: expected a label for each of {len(self.test)} test samples, "
                f"found labels of shape {self.labels.shape}"
            )

    def __repr__(self) -> str:
        return (
            f"Dataset({self.name!r}, {len(self.channels)} channel{'s'[: len(self.channels) > 1]}, "
            f"{len(self.train)} train and {len(self.test)} test samples, "
            f"{int(self.labels.sum())} anomalous)"
        )


@dataclass(frozen=True)
class Entry:
    """One data set in the catalogue: what it is, where to get it, how it is read.

    Attributes
    ----------
    name
        What comes before the slash in a full name.
    title
        What the data are.
    source
        Where to get them.
    licence
        The terms they come under.
    period
        The time between samples, in words.
    split
        What becomes train and what test.
    files
        The files expected in the data set's folder, braces around what differs by stream.
    folders
        Names the data set's folder may have, the preferred one first.
    options
        Keyword arguments of `load` that only this data set takes, with their meaning.
    list_streams
        From the data set's folder to the streams whose files are all there; the only stream of
        a data set is ``""``.
    read
        From the data set's folder, a stream's name and options to the data.
    """

    name: str
    title: str
    source: str
    licence: str
    period: str
    split: str
    files: tuple[str, ...]
    folders: tuple[str, ...]
    list_streams: Callable[[Path], Iterable[str]] = field(repr=False)
    read: Callable[..., Dataset] = field(repr=False)
    options: Mapping[str, str] = field(default_factory=dict)

    def folder(self, root: Path) -> Path:
        """Return the data set's folder: one of `folders` under `root`, or `root` itself."""
        candidates = [root / name for name in self.folders] + [root]
        for candidate in candidates:
            if self._streams(candidate):
                return candidate
        return next((path for path in candidates[:-1] if path.is_dir()), candidates[0])

    def streams(self, root: Path) -> list[str]:
        """Return the full names of the streams that can be loaded from under `root`."""
        names = sorted(self._streams(self.folder(root)), key=_natural)
        return [f"{self.name}/{stream}" if stream else self.name for stream in names]

    def _streams(self, folder: Path) -> list[str]:
        try:
            return list(self.list_streams(folder))
        except DatasetError:  # a malformed index: `read` raises an error about it
            return []

    @property
    def single(self) -> bool:
        """Whether the data set is one stream, named by the data set alone."""
        return not any("{" in file for file in self.files)

    @property
    def hint(self) -> str:
        """What to do where the data are missing."""
        return (
            f"get {self.title} from {self.source} (licence: {self.licence}); "
            f"expected are {', '.join(self.files)} in the folder {self.folders[0]} under the root"
        )


def numbered(count: int) -> tuple[str, ...]:
    """Return names for channels that have none upstream: their numbers, counted from 0.

    >>> numbered(3)
    ('0', '1', '2')
    """
    return tuple(str(channel) for channel in range(count))


def _natural(name: str) -> list[tuple[str, int]]:
    """Sort key under which 3-4 comes before 3-10."""
    return [(text, int(digits or 0)) for text, digits in re.findall(r"(\D*)(\d*)", name)]
