"""Whole files as tables."""

from __future__ import annotations

import sys
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from io import TextIOWrapper
from itertools import chain, islice
from os import PathLike, fspath
from pathlib import Path
from typing import TYPE_CHECKING, Any, Literal

import numpy as np
from numpy.typing import NDArray

from newnormal.errors import InputError, MissingExtraError, ParameterError
from newnormal.tabular.columns import Selection
from newnormal.tabular.frames import frame_table
from newnormal.tabular.lines import LineFormat, LineParser, Samples
from newnormal.tabular.table import Table, check_times
from newnormal.types import Ints

if TYPE_CHECKING:
    import narwhals as nw

__all__ = ["ENDINGS", "Format", "format_of", "named", "opened", "parquet_frame", "read"]

Format = Literal["csv", "jsonl", "parquet"]

ENDINGS: dict[str, Format] = {
    ".csv": "csv",
    ".tsv": "csv",
    ".txt": "csv",
    ".jsonl": "jsonl",
    ".ndjson": "jsonl",
    ".json": "jsonl",
    ".parquet": "parquet",
}

# Lines parsed at a time, so that only the numbers of a long file are ever in memory.
_CHUNK = 16_384


def read(
    path: str | PathLike[str],
    *,
    format: Format | None = None,  # noqa: A002 - the option's name everywhere
    time: str | None = None,
    columns: str | Sequence[str] | None = None,
    drop: str | Sequence[str] = (),
    label: str | None = None,
    channels: Sequence[str] | None = None,
) -> Table:
    r"""Return a file's series: CSV, JSON lines or Parquet.

    Parameters
    ----------
    path
        The file, or "-" for standard input (CSV or JSON lines).
    format
        By default found from the name: ``.csv``, ``.tsv`` and ``.txt``; ``.jsonl``, ``.ndjson``
        and ``.json``, one object a line; ``.parquet``. Standard input is JSON lines if it
        begins with a brace, else CSV.
    time
        The column of times. By default the one column whose first cell is text that is an ISO
        8601 time, if there is one; a column of numbers only counts if named.
    columns
        The only columns to take channels from. The time is still found outside them.
    drop
        Columns to leave out.
    label
        The column of labels: 0 or 1, true or false.
    channels
        The channels expected, matched by name in any order; by count if the file has no names.

    Raises
    ------
    InputError
        If the file is not there, holds no samples, or has anything in it that is not expected;
        the message names the line, the column and what was found.
    MissingExtraError
        If the file is Parquet and polars is not installed.

    Notes
    -----
    CSV is UTF-8, separated by commas, semicolons or tabs, whichever the first line has most of.
    An empty cell, NaN, NA and null in any case are missing values; true and false are 1 and 0.
    Blank lines are passed over. A file whose first line is all numbers and times has no header:
    its columns are called "0", "1", ... A column without a name is called by its position,
    "column 1" for the first.

    Examples
    --------
    >>> from tempfile import TemporaryDirectory
    >>> with TemporaryDirectory() as folder:
    ...     path = Path(folder, "plant.csv")
    ...     _ = path.write_text("time,load,host\n2026-01-01,0.5,a\n2026-01-02,,a\n")
    ...     table = read(path, drop="host")
    >>> table.channels, table.values.tolist()
    (('load',), [[0.5], [nan]])
    """
    selection = Selection.of(time, columns, drop, label)
    kind = format_of(path, format)
    try:
        if kind == "parquet":
            table = frame_table(parquet_frame(path), selection, channels=channels)
        else:
            with opened(path) as lines:
                table = _lines_table(lines, kind, selection, channels)
        if len(table.values) == 0:
            raise InputError("expected samples, found none")
    except InputError as error:
        raise named(path, error) from error.__cause__
    return table


def named(path: str | PathLike[str], error: InputError) -> InputError:
    """Return an error that names the file it was found in."""
    name = "standard input" if _is_stdin(path) else fspath(path)
    return InputError(f"{name}: {error.message}", hint=error.hint)


def format_of(path: str | PathLike[str], format: Format | None = None) -> Format | None:  # noqa: A002
    """Return a file's format, found from its name unless it is given; None for standard input.

    >>> format_of("plant.ndjson")
    'jsonl'
    """
    known = sorted(set(ENDINGS.values()))
    if format is not None:
        if format not in known:
            raise ParameterError(f"expected format {', '.join(known)}, found {format!r}")
        return format
    if _is_stdin(path):
        return None
    suffix = Path(path).suffix.lower()
    if suffix not in ENDINGS:
        raise InputError(
            f"{fspath(path)}: expected a name that ends in {', '.join(ENDINGS)}, "
            f"found {suffix or 'no ending'}",
            hint=f"name the format with --format {'|'.join(known)} (format=)",
        )
    return ENDINGS[suffix]


def _is_stdin(path: str | PathLike[str]) -> bool:
    return fspath(path) == "-"


@contextmanager
def opened(path: str | PathLike[str]) -> Iterator[Iterator[str]]:
    """Open text to read line by line, its failures as input errors."""
    try:
        if _is_stdin(path):
            if sys.stdin is None:
                raise InputError(
                    "expected lines, found it closed",
                    hint="pipe lines into the command, or give the path of a file",
                )
            stdin = TextIOWrapper(sys.stdin.buffer, encoding="utf-8-sig")
            try:
                yield stdin
            finally:
                stdin.detach()
        else:
            with open(path, encoding="utf-8-sig") as file:
                yield file
    except UnicodeDecodeError as error:
        raise InputError(
            f"expected UTF-8 text, found byte 0x{error.object[error.start]:02x}",
            hint="save the file as UTF-8, or name the format with --format (format=)",
        ) from error
    except OSError as error:
        raise _unreadable(error) from error


def _unreadable(error: OSError) -> InputError:
    return InputError(f"expected a file that can be read, found: {error.strerror or error}")


def _lines_table(
    lines: Iterator[str],
    kind: LineFormat | None,
    selection: Selection,
    channels: Sequence[str] | None,
) -> Table:
    number, first = next(
        ((at, line) for at, line in enumerate(lines, start=1) if not line.isspace()), (0, "")
    )
    if not first:
        raise InputError("expected samples, found an empty file")
    try:
        parser = LineParser(first, kind, channels, selection)
    except InputError as error:
        raise _at_line(number, error) from None
    if parser.header_consumed:
        number += 1
    else:
        lines = chain([first], lines)

    parts: list[Samples] = []
    places: list[Ints] = []
    while chunk := list(islice(lines, _CHUNK)):
        samples = parser.parse_many(chunk)
        for row, fault in samples.errors:
            raise _at_line(number + row, fault)
        if len(samples.rows):
            parts.append(samples)
            places.append(number + samples.rows)
        number += len(chunk)
    if not parts:
        raise InputError("expected samples after the header, found none")

    values = np.concatenate([part.values for part in parts])
    times = _joined([part.times for part in parts])
    if times is not None:
        at = np.concatenate(places)
        check_times(times, len(values), place=lambda row: f"line {at[row]}")
    labels = _joined([part.labels for part in parts])
    return Table(values, parser.channels, times, labels, parser.zone)


def _joined(arrays: list[NDArray[Any] | None]) -> NDArray[Any] | None:
    found = [array for array in arrays if array is not None]
    return np.concatenate(found) if found else None


def _at_line(number: int, error: InputError) -> InputError:
    return InputError(f"line {number}: {error.message}", hint=error.hint)


def parquet_frame(path: str | PathLike[str]) -> nw.DataFrame[Any]:
    """Return a Parquet file as a frame."""
    try:
        import polars as pl
    except ImportError:
        raise MissingExtraError.of("parquet", "polars") from None
    import narwhals as nw

    if _is_stdin(path):
        raise InputError("expected CSV or JSON lines, and Parquet only from a file")
    try:
        # As bytes: polars itself would take a name with a star in it for several files.
        return nw.from_native(pl.read_parquet(Path(path).read_bytes()))
    except OSError as error:
        raise _unreadable(error) from error
    except pl.exceptions.PolarsError as error:
        raise InputError(f"expected Parquet, found: {error}") from error
