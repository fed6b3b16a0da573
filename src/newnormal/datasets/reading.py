"""Reading benchmark files: a missing or malformed one is a `DatasetError` that names the place."""

import csv
import gzip
import math
import warnings
from collections.abc import Callable, Iterable, Iterator, Sequence
from dataclasses import dataclass
from itertools import islice
from pathlib import Path
from typing import TextIO, cast

import numpy as np

from newnormal.errors import DatasetError
from newnormal.types import Floats, Ints, Times

_HEADER_WITHIN = 5  # lines; WADI's attack file has one line above its header


def present(path: Path) -> bool:
    """Return whether a file is there, plain or gzipped."""
    return path.is_file() or _gzipped(path).is_file()


def existing(path: Path) -> Path:
    """Return `path`, or its gzipped form where only that is there."""
    if not present(path):
        raise DatasetError(f"expected the file {path} (or {path.name}.gz), found none")
    return path if path.is_file() else _gzipped(path)


def open_text(path: Path) -> TextIO:
    """Open a text file, plain or gzipped, for the csv module."""
    path = existing(path)
    opener = gzip.open if path.suffix == ".gz" else open
    return cast(TextIO, opener(path, "rt", encoding="utf-8-sig", errors="replace", newline=""))


def _gzipped(path: Path) -> Path:
    return path.with_name(path.name + ".gz")


def stems(folder: Path, pattern: str) -> set[str]:
    """Return what `*` matches in the files of `folder` that match `pattern`, gzipped or not."""
    before, after = pattern.split("*")
    names = {path.name.removesuffix(".gz") for path in folder.glob(f"{pattern}*")}
    return {name.removeprefix(before).removesuffix(after) for name in names if name.endswith(after)}


def one_stream(*files: str) -> Callable[[Path], set[str]]:
    """Return what lists the only stream of a data set's folder: it needs all of these files."""
    return lambda folder: {""} if all(present(folder / file) for file in files) else set()


def read_numbers(path: Path, *, skip: int = 0, columns: Iterable[int] | None = None) -> Floats:
    """Read a comma-separated table in which every cell is a number, shape (T, C)."""
    path = existing(path)
    with warnings.catch_warnings():
        warnings.simplefilter("error", UserWarning)  # NumPy only warns of an empty file
        try:
            return np.loadtxt(
                path,
                dtype=np.float64,
                delimiter=",",
                quotechar='"',
                comments=None,
                skiprows=skip,
                usecols=None if columns is None else tuple(columns),
                ndmin=2,
            )
        except (ValueError, UserWarning, OSError, EOFError) as error:
            raise DatasetError(
                f"{path}: expected numbers separated by commas, found otherwise: {error}"
            ) from error


def read_array(path: Path) -> Floats:
    """Read a NumPy ``.npy`` file as float64; pickled objects are refused."""
    if not path.is_file():
        raise DatasetError(f"expected the file {path}, found none")
    try:
        return np.load(path, allow_pickle=False).astype(np.float64)  # type: ignore[no-any-return]
    except (ValueError, OSError, EOFError) as error:
        raise DatasetError(
            f"{path}: expected a NumPy array of numbers, found otherwise: {error}"
        ) from error


def read_header(path: Path, needed: Iterable[str], *, delimiter: str = ",") -> list[str]:
    """Return the names in the first line of a CSV file, which must hold those `needed`."""
    with open_text(path) as file:
        names = [name.strip() for name in next(csv.reader(file, delimiter=delimiter), [])]
    if missing := [name for name in needed if name not in names]:
        raise DatasetError(
            f"{path}: expected the columns {', '.join(missing)}, found {', '.join(names) or 'none'}"
        )
    return names


def read_timed(
    path: Path, time: str, columns: Sequence[str], found: str, *, delimiter: str = ","
) -> tuple[Times, Floats]:
    """Read a column of times and columns of numbers, shape (T, C); `found` says what they hold."""
    names = read_header(path, (time, *columns), delimiter=delimiter)
    at, *numbers = map(names.index, (time, *columns))
    with open_text(path) as file:
        rows = list(csv.reader(file, delimiter=delimiter))[1:]
    try:
        times = np.array([row[at] for row in rows], dtype="datetime64[s]")
        values = np.array([[row[column] for column in numbers] for row in rows], dtype=np.float64)
    except (ValueError, IndexError) as error:
        raise DatasetError(
            f"{path}: expected a time and {found} in each row, found otherwise: {error}"
        ) from error
    return times, values


def as_labels(values: Floats, path: Path) -> Ints:
    """Return a column of zeros and ones as labels, shape (T,)."""
    flat = values.reshape(-1)
    if not np.isin(flat, (0.0, 1.0)).all():
        wrong = flat[~np.isin(flat, (0.0, 1.0))][0]
        raise DatasetError(f"{path}: expected labels 0 and 1, found {wrong:g}")
    return flat.astype(np.int64)


@dataclass(frozen=True)
class Sheet:
    """A spreadsheet's export: columns of numbers, and the label's as text."""

    names: tuple[str, ...]  # of the columns of numbers
    numbers: Floats  # (T, C), NaN where a cell holds no number
    labels: list[str]  # the last column, stripped; empty where the sheet has no label


def read_sheet(path: Path, *, after: str, labelled: bool) -> Sheet:
    """Read a CSV file that a spreadsheet program wrote.

    The header may be below other lines. Semicolons between cells and decimal commas are
    understood. A row with nothing right of its first cell is dropped.

    `path`: the file. `after`: the last column that is no number: numbers are right of it.
    `labelled`: whether the last column is the label.
    """
    with open_text(path) as file:
        line = next((line for line in islice(file, _HEADER_WITHIN) if after in line), None)
        if line is None:
            raise DatasetError(
                f"{path}: expected a header with the column {after} in the first "
                f"{_HEADER_WITHIN} lines, found none"
            )
        delimiter = ";" if line.count(";") > line.count(",") else ","
        header = [name.strip() for name in next(csv.reader([line], delimiter=delimiter))]
        columns = slice(header.index(after) + 1, len(header) - labelled)
        labels: list[str] = []

        def cells() -> Iterator[str]:
            for row in csv.reader(file, delimiter=delimiter):
                if not any(row[1:]):
                    continue
                if len(row) < len(header):
                    raise DatasetError(
                        f"{path}: expected {len(header)} cells in a row, found {len(row)} "
                        f"in row {len(labels) + 1} below the header"
                    )
                labels.append(row[len(header) - 1].strip() if labelled else "")
                yield from row[columns]

        # Cell by cell: as text, WADI would need some 6 GB.
        points = (cell.replace(",", ".") for cell in cells()) if delimiter == ";" else cells()
        numbers = np.fromiter(map(_number, points), dtype=np.float64)
    if not labels:
        raise DatasetError(f"{path}: expected rows below the header, found none")
    return Sheet(tuple(header[columns]), numbers.reshape(len(labels), -1), labels)


def _number(cell: str) -> float:
    try:
        return float(cell or "nan")
    except ValueError:
        return math.nan


def fill_forward(values: Floats) -> None:
    """Replace each NaN, in place, by the last number above it in its column.

    >>> column = np.array([[np.nan], [1.0], [np.nan]])
    >>> fill_forward(column)
    >>> column.ravel()
    array([nan,  1.,  1.])
    """
    rows = np.arange(len(values))
    for column in values.T:
        column[:] = column[np.maximum.accumulate(np.where(np.isnan(column), 0, rows))]
