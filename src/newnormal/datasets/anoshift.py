"""AnoShift: ten years of Kyoto University's honeypot traffic, whose normal drifts."""

from collections.abc import Iterable
from pathlib import Path

import numpy as np

from newnormal.datasets.base import Dataset, Entry
from newnormal.errors import DatasetError, extra
from newnormal.types import Floats, Ints

_COLUMNS = tuple(str(number) for number in range(4, 13))
_LABEL = "18"
_TRAIN = range(2006, 2011)
_TEST: dict[str, tuple[int, ...]] = {
    "near": (2011, 2012, 2013),
    "far": (2014, 2015),
    **{str(year): (year,) for year in range(2011, 2016)},
}


def _file(folder: Path, year: int) -> Path:
    return folder / "subset" / f"{year}_subset.parquet"


def _streams(folder: Path) -> set[str]:
    def present(years: Iterable[int]) -> bool:
        return all(_file(folder, year).is_file() for year in years)

    return {stream for stream, years in _TEST.items() if present((*_TRAIN, *years))}


def _year(path: Path) -> tuple[Floats, Ints]:
    """Return the rows of one year, shape (T, 9), and whether each is an attack, shape (T,)."""
    with extra("parquet", "polars"):
        import polars as pl
    if not path.is_file():
        raise DatasetError(f"expected the file {path}, found none")
    try:
        # Upstream, too, converts text into numbers and a missing one into 0 as it reads.
        table = pl.read_parquet(path, columns=[*_COLUMNS, _LABEL]).cast(pl.Float64)
    except pl.exceptions.PolarsError as error:
        raise DatasetError(
            f"{path}: expected numbers in the columns {', '.join((*_COLUMNS, _LABEL))}, "
            f"found otherwise: {error}"
        ) from error
    values = table.select(_COLUMNS).fill_null(0.0).fill_nan(0.0).to_numpy()
    return np.ascontiguousarray(values), (table[_LABEL].to_numpy() < 0).astype(np.int64)


def _read(folder: Path, stream: str) -> Dataset:
    if stream not in _TEST:
        raise DatasetError(f"AnoShift: expected one of {', '.join(_TEST)}, found {stream!r}")
    history = [_year(_file(folder, year)) for year in _TRAIN]
    live = [_year(_file(folder, year)) for year in _TEST[stream]]
    return Dataset(
        name=f"AnoShift/{stream}",
        train=np.concatenate([values[labels == 0] for values, labels in history]),
        test=np.concatenate([values for values, _ in live]),
        labels=np.concatenate([labels for _, labels in live]),
        channels=_COLUMNS,
    )


ENTRY = Entry(
    name="AnoShift",
    title="AnoShift, subsets of Kyoto-2006+ network traffic (9 numeric features)",
    source="https://github.com/bit-ml/AnoShift (its Kyoto-2016_AnoShift archive)",
    licence="BSD 3-Clause for AnoShift; Kyoto-2006+ states none that we know of",
    period="none: one sample a connection",
    split="normal rows of 2006 to 2010 are train; near is 2011 to 2013, far 2014 and 2015",
    files=("subset/{year}_subset.parquet",),
    folders=("AnoShift", "Kyoto-2016_AnoShift"),
    list_streams=_streams,
    read=_read,
)
