"""Whole files as tables."""

import os
from collections.abc import Iterator, Sequence
from dataclasses import replace
from itertools import chain
from os import PathLike, fspath
from pathlib import Path
from stat import S_ISREG
from typing import TYPE_CHECKING, Any

from newnormal.errors import InputError, ParameterError, extra
from newnormal.tabular.columns import Selection
from newnormal.tabular.frames import frame_table
from newnormal.tabular.ordering.arranging import arranged
from newnormal.tabular.parsing.blocks import ParsedSamples, joined
from newnormal.tabular.parsing.lines import LineParser
from newnormal.tabular.reading import InputProfile, Reading
from newnormal.tabular.samples import at_line
from newnormal.tabular.table import Table
from newnormal.tabular.text.opening import text_lines

if TYPE_CHECKING:
    import narwhals as nw

_PARQUET = b"PAR1"


def read(
    path: str | PathLike[str],
    reading: Reading | None = None,
    *,
    channels: Sequence[str] | None = None,
    strict: bool = False,
    **options: Any,
) -> Table:
    r"""Return a file's series: CSV, JSON lines, Parquet, or a file of another program.

    `path`: the file, or "-" for standard input (CSV or JSON lines).
    `reading`: how it is written and what is taken from it. All of that is found out where it is not
    given.
    `channels`: the channels expected, matched by name in any order; by count if the file has no
    names. Other columns are ignored, and a channel that is no column is missing throughout.
    `strict`: whether the first line or cell that cannot be read is an error.
    `options`: the options of `Reading`, instead of one:
    ``time="when", drop=["host"], decimal=","``.

    Returns: the series; `Table.profile` has what was found out about the file and what could not be
    read.

    Raise an InputError if the file is not there, holds no samples, or most of its lines cannot be
    read; the message names the line, the column and what was found. Raise a MissingExtraError if
    the file is Parquet and polars is not installed.

    Cells are separated by commas, semicolons, tabs or bars. Lines before the header, and one of
    units below it, are passed over. A file whose first line is all numbers and times has no
    header: its columns are called "0", "1", ... A column without a name is called by its
    position, "column 1" for the first.

    The time is the one column of text that is a time, or two of a date and a time of day, or a
    column called time, timestamp, ts, date, datetime, _time or epoch that holds Unix time.

    An empty cell, NaN, NA and null in any case are missing values; true and false are 1 and 0.
    Any other cell that is no number is missing, too, and counted. A line without a time, or with
    too few or too many cells, is a bad line: it is passed over and counted.

    >>> from tempfile import TemporaryDirectory
    >>> with TemporaryDirectory() as folder:
    ...     path = Path(folder, "plant.csv")
    ...     _ = path.write_text("time;load;host\n31.12.2026;0,5;a\n01.01.2027;;a\n")
    ...     table = read(path, drop="host")
    >>> table.channels, table.values.tolist(), table.profile.written["decimal"]
    (('load',), [[0.5], [nan]], 'comma')
    """
    chosen = Reading.of(options) if reading is None else reading
    if reading is not None and options:
        raise ParameterError("expected a reading or its options, found both")
    try:
        if is_parquet(path, chosen):
            selection = Selection.of_reading(chosen)
            frame = parquet_frame(path)
            table = frame_table(frame, selection, channels=channels)
            profile = InputProfile(header=tuple(map(str, frame.columns)))
            table = arranged(replace(table, profile=profile), chosen)
        else:
            profile = InputProfile()
            with text_lines(path, chosen, profile) as chunks:
                table = _lines_table(chunks, chosen, profile, channels, strict)
        if len(table.values) == 0:
            raise InputError("expected samples, found none")
    except InputError as error:
        raise named(path, error) from error.__cause__
    if table.profile is not None:
        table.profile.reading = chosen.remembering(table.profile)
    return table


def named(path: str | PathLike[str], error: InputError) -> InputError:
    """Return an error that names the file it was found in."""
    name = "standard input" if _is_stdin(path) else fspath(path)
    return InputError(f"{name}: {error.message}", hint=error.hint)


def is_parquet(path: str | PathLike[str], reading: Reading) -> bool:
    """Whether a file is Parquet, which is read as a frame: its times keep their zone."""
    if reading.format is not None or _is_stdin(path):
        return reading.format == "parquet" and not _is_stdin(path)
    try:
        if not S_ISREG(os.stat(path).st_mode):
            return False
        with open(path, "rb") as file:
            return file.read(len(_PARQUET)) == _PARQUET
    except OSError:
        return False


def _is_stdin(path: str | PathLike[str]) -> bool:
    return fspath(path) == "-"


def _lines_table(
    chunks: Iterator[list[str]],
    reading: Reading,
    opened: InputProfile,
    channels: Sequence[str] | None,
    strict: bool,
) -> Table:
    reading = replace(reading, format=opened.kind)
    parser = LineParser(reading, channels=channels, strict=strict)
    blocks: list[tuple[int, ParsedSamples]] = []
    for chunk in chain(chunks, [[]]):
        number = parser.next_line
        blocks.append((number, parser.parse_many(chunk, final=not chunk)))
        for row, _, fault in blocks[-1][1].errors if strict else ():
            raise at_line(number + row, fault)
    parser.profile.begin(opened)
    parser.finish()
    samples = joined(blocks)
    if not len(samples.rows):
        empty = not parser.has_plan and parser.columns.header_line is None
        raise InputError(
            "expected samples, found an empty file"
            if empty
            else "expected samples after the header, found none"
        )
    values, times, labels = samples.values, samples.times, samples.labels
    table = Table(values, parser.channels, times, labels, parser.zone, parser.profile)
    return arranged(table, reading, lambda row: f"line {samples.rows[row]}")


def parquet_frame(path: str | PathLike[str]) -> "nw.DataFrame[Any]":
    """Return a Parquet file as a frame."""
    with extra("parquet", "polars"):
        import polars as pl
    import narwhals as nw

    if _is_stdin(path):
        raise InputError("expected CSV or JSON lines, and Parquet only from a file")
    try:
        # As bytes: polars itself would take a name with a star in it for several files.
        return nw.from_native(pl.read_parquet(Path(path).read_bytes()))
    except OSError as error:
        found = f"expected a file that can be read, found: {error.strerror or error}"
        raise InputError(found) from error
    except pl.exceptions.PolarsError as error:
        raise InputError(f"expected Parquet, found: {error}") from error
