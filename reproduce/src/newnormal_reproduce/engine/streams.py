"""The streams that experiments run on: those found in folders, and generated ones."""

import hashlib
from collections.abc import Callable, Iterable, Sequence
from dataclasses import dataclass
from functools import cached_property, lru_cache
from os import PathLike
from pathlib import Path
from typing import TypeAlias

import numpy as np

from newnormal import datasets
from newnormal.datasets import Dataset, neurips_ts_mul, neurips_ts_uni, plant
from newnormal.errors import DatasetError, ParameterError
from newnormal_reproduce.engine.drifting import DRIFTING
from newnormal_reproduce.engine.published import PaperSetting, borrowed, settings
from newnormal_reproduce.engine.series import (
    TSB_AD,
    BenchmarkSeries,
    LabelledFile,
    benchmark_series,
)

Roots: TypeAlias = str | PathLike[str] | Iterable[str | PathLike[str]]

# Streams that need no files, by name, each of one seed.
SYNTHETIC: dict[str, Callable[[], Dataset]] = {
    "synthetic/plant": plant,
    "synthetic/neurips-ts-uni": neurips_ts_uni,
    "synthetic/neurips-ts-mul": neurips_ts_mul,
}
_GENERATED = {**SYNTHETIC, **DRIFTING}

Place: TypeAlias = Path | LabelledFile | BenchmarkSeries  # of a stream; a path is a folder's
_RESERVED = ("AnoShift", TSB_AD)  # data sets with an experiment of their own


@dataclass(frozen=True)
class DataStream:
    """A stream that was found: its place, its size, and digests of its content."""

    name: str
    root: Place
    channels: int
    train: int
    test: int
    anomalous: int
    train_digest: str
    digest: str

    @property
    def setting(self) -> PaperSetting:
        """The paper's settings for it, or `borrowed` ones."""
        papers = (setting for setting in settings() if setting.name == self.name)
        return next(papers, None) or borrowed(self.name, self.channels)


class DataStreams:
    """The streams in some folders, of which the first that has one is used, and files of a user."""

    def __init__(self, roots: Roots, series: Sequence[LabelledFile] = ()) -> None:
        folders = [Path(roots)] if isinstance(roots, str | PathLike) else [*map(Path, roots)]
        for folder in folders:
            if not folder.is_dir():
                raise DatasetError(
                    f"expected a folder with data sets, found no folder {str(folder)!r}",
                    hint="`newnormal data list` shows which data sets there are and where to get "
                    "them",
                )
        self.folders = folders
        self.series = {f"series/{file.path.stem}": file for file in series}
        if len(self.series) < len(series):
            raise ParameterError(
                f"series: expected files of different names, found {', '.join(self.series)} twice",
                hint="a file is named by its name without the ending",
            )
        self.absent: dict[str, str] = {}  # what was named and not found, and where to get it
        self._about: dict[str, DataStream] = {}
        for name in self.series:  # a file that cannot be read is an error now
            self.about(name)

    @cached_property
    def places(self) -> dict[str, Place]:
        """The place of each stream found, by the stream's name."""
        found: dict[str, Place] = {
            name: folder for folder in reversed(self.folders) for name in datasets.available(folder)
        }
        return {**found, **benchmark_series(self.folders, found), **self.series}

    @property
    def common(self) -> list[str]:
        """The streams found that no other experiment has for itself."""
        return [name for name in self.places if name.partition("/")[0] not in _RESERVED]

    def about(self, name: str) -> DataStream:
        """Return the description of a stream, which is read once for that."""
        if name not in self._about:
            root = self.places.get(name, Path())
            data = load_stream(name, root)
            train = _digest(data.train)
            self._about[name] = DataStream(
                name=name,
                root=root,
                channels=len(data.channels),
                train=len(data.train),
                test=len(data.test),
                anomalous=int(data.labels.sum()),
                train_digest=train,
                digest=_digest(data.test, data.labels) + train,
            )
        return self._about[name]

    def has(self, name: str) -> bool:
        """Return whether a stream was found."""
        return name in self.places or name in _GENERATED

    def chosen(self, wanted: Sequence[str] | None, default: Sequence[str]) -> list[str]:
        """Return names of streams: those requested or the default, and a user's files."""
        names = default if wanted is None else self.named(wanted)
        for text in wanted or ():
            if not any(map(self.has, meant := self.named([text]))):
                self.absent[text] = where_to_get(meant[0])
        return list(dict.fromkeys([*names, *self.series]))

    def named(self, wanted: Sequence[str]) -> list[str]:
        """Return the names of streams that are requested in upper or lower case.

        A data set's name alone, such as ``"NAB"``, means all of its streams that were found.
        """
        every = [*(setting.name for setting in settings()), *self.places, *_GENERATED]
        names: list[str] = []
        for text in wanted:
            lowered = text.lower()
            meant = [name for name in every if name.lower() == lowered]
            meant = meant or [name for name in every if name.lower().startswith(f"{lowered}/")]
            if not meant:
                raise ParameterError(
                    f"datasets: expected data sets of the paper or found in the folders given, "
                    f"found {text!r}",
                    hint=f"they are {', '.join(dict.fromkeys(every))}",
                )
            names += meant
        return list(dict.fromkeys(names))


def load_stream(name: str, root: Place) -> Dataset:
    """Read or generate a stream; the last one stays in memory for the next call."""
    return _load(name, root)


def forget_data() -> None:
    """Drop the stream that stays in memory."""
    _load.cache_clear()


def where_to_get(name: str) -> str:
    """Return where to get the data set of a stream."""
    owner = name.partition("/")[0]
    if owner == TSB_AD:
        return "get TSB-AD-M.zip from https://github.com/TheDatumOrg/TSB-AD; expected are its files"
    return next(entry.hint for entry in datasets.catalogue() if entry.name == owner)


@lru_cache(maxsize=1)
def _load(name: str, root: Place) -> Dataset:
    if name in _GENERATED:
        return _GENERATED[name]()
    return datasets.load(name, root) if isinstance(root, Path) else root.read(name)


def _digest(*arrays: np.ndarray) -> str:
    digest = hashlib.sha256()
    for array in arrays:
        digest.update(f"{array.dtype.str}{array.shape}".encode())
        digest.update(np.ascontiguousarray(array).tobytes())
    return digest.hexdigest()[:20]
