"""Files and folders with the data of many streams."""

from __future__ import annotations

from collections.abc import Sequence
from itertools import islice
from os import PathLike, fspath
from pathlib import Path
from typing import Any

import numpy as np

from newnormal.errors import InputError, ParameterError
from newnormal.tabular.files import (
    ENDINGS,
    Format,
    format_of,
    named,
    opened,
    parquet_frame,
    read,
)
from newnormal.tabular.long import Long
from newnormal.tabular.long_lines import LongLines
from newnormal.tabular.splitting import Channels, StreamTables, TimeColumn, pivoted, split
from newnormal.tabular.stream_frames import frame_tables
from newnormal.tabular.stream_labels import label_beside, split_labels
from newnormal.tabular.stream_lines import LineReader, StreamLines
from newnormal.tabular.stream_names import SHARED, StreamNames
from newnormal.types import Floats, Ints

__all__ = ["read_tables"]

_CHUNK = 16_384  # lines parsed at a time: the text of a long file is never in memory whole


def read_tables(
    path: str | PathLike[str],
    *,
    by: str | Sequence[str] | None = None,
    long: bool | Long | None = None,
    format: Format | None = None,  # noqa: A002 - the option's name everywhere
    time: str | None = None,
    columns: str | Sequence[str] | None = None,
    drop: str | Sequence[str] = (),
    label: str | None = None,
    channels: Channels | None = None,
) -> StreamTables:
    r"""Return the streams of a file, or of a folder with a file a stream.

    Parameters
    ----------
    path
        A file (CSV, JSON lines or Parquet) with the samples of many streams, "-" for standard
        input, or a folder, of which each such file is a stream, named by the file's name without
        its ending.
    by
        The column that names the stream, or several, joined by "/". None for a folder.
    long
        True or the columns if the rows are (time, tag, value), as in `to_tables`.
    format, time, columns, drop
        As in `read`. Long data has its columns in `long`.
    label
        The column of labels, 0 or 1; of long data, the tag.
    channels
        The channels of the streams that are known, as in `to_tables`.

    Returns
    -------
    The tables, and the errors of those streams that have a wrong line: the first of these.

    Raises
    ------
    InputError
        If the file is not there, holds no samples, or has no such columns.

    Examples
    --------
    >>> from tempfile import TemporaryDirectory
    >>> with TemporaryDirectory() as folder:
    ...     path = Path(folder, "plant.csv")
    ...     _ = path.write_text("host,load\na,0.5\nb,high\na,0.7\n")
    ...     streams = read_tables(path, by="host")
    >>> streams.tables["a"].values.tolist(), streams.errors["b"].message
    ([[0.5], [0.7]], "line 3: column 'load': expected a number, found 'high'")
    """
    form = Long() if long is True else long or None
    known = {} if channels is None else channels
    options = {"columns": columns, "drop": drop, "format": format, "time": time}
    if fspath(path) != "-" and Path(path).is_dir():
        return _folder_tables(Path(path), by, form, {**options, "label": label}, known)
    if label is not None:
        kept = None if columns is None else label_beside(columns, label)
        with_label = {name: label_beside(own, label) for name, own in known.items()}
        chosen: dict[str, Any] = {**options, "columns": kept, "channels": with_label}
        return split_labels(read_tables(path, by=by, long=form, **chosen), label)
    kind = format_of(path, format)
    if form is not None and (columns is not None or drop):
        raise ParameterError("expected no columns and no drop with long data")
    if by is None and form is None:
        raise InputError(
            f"{fspath(path)}: expected the column that names the stream, found none given",
            hint="name it with by=, or give a folder with a file a stream",
        )
    try:
        if kind == "parquet":
            return _parquet_tables(path, by, form, options, known)
        with opened(path) as lines:
            reader: LineReader = (
                StreamLines(by or (), format=kind, time=time, columns=columns, drop=drop)
                if form is None
                else LongLines(by or (), long=_timed(form, time), format=kind)
            )
            parts = _Parts(reader)
            while chunk := list(islice(lines, _CHUNK)):
                parts.add(chunk)
        return parts.tables(form is not None, (by,) if isinstance(by, str) else by or (), known)
    except InputError as error:
        raise named(path, error) from error.__cause__


def _timed(long: Long, time: str | None) -> Long:
    return long if time is None else Long(time, long.tag, long.value)


def _parquet_tables(
    path: str | PathLike[str], by: Any, long: Long | None, options: dict[str, Any], known: Channels
) -> StreamTables:
    columns, drop = options["columns"], options["drop"]
    return frame_tables(
        parquet_frame(path),
        by=by,
        times=options["time"],
        long=long,
        channels=known,
        columns=(columns,) if isinstance(columns, str) else columns,
        drop=(drop,) if isinstance(drop, str) else drop,
    )


def _folder_tables(
    folder: Path, by: Any, long: Long | None, options: dict[str, Any], known: Channels
) -> StreamTables:
    if by is not None:
        raise ParameterError(f"expected no by with the folder {folder}: each file is a stream")
    given = options["format"]
    files = sorted(
        path
        for path in folder.iterdir()
        if path.suffix.lower() in ENDINGS and path.is_file() and not path.name.startswith(".")
        if given is None or ENDINGS[path.suffix.lower()] == given
    )
    if not files:
        raise InputError(
            f"{folder}: expected a folder of files that end in {', '.join(ENDINGS)}, found none"
        )
    found = StreamTables({})
    first: dict[str, Path] = {}
    for path in files:
        other = first.setdefault(path.stem, path)
        if other != path:
            raise InputError(
                f"{folder}: expected a file a stream, found {other.name!r} and {path.name!r}",
                hint="rename one of them, or name the format",
            )
        own = known.get(path.stem)
        try:
            if long is None:
                found.tables[path.stem] = read(path, channels=own, **options)
            else:
                one = read_tables(
                    path, long=long, channels={} if own is None else {"": own}, **options
                )
                found.take(path.stem, one)
        except InputError as error:
            found.errors[path.stem] = error
    return found


class _Parts:
    """The samples of a file's lines so far."""

    def __init__(self, reader: LineReader) -> None:
        self._reader = reader
        self._keys: list[Any] = []
        self._values: list[Floats] = []
        self._times: list[Any] = []
        self._numbers: list[Ints] = []
        self._errors: list[tuple[int, Any, InputError]] = []

    def add(self, lines: Sequence[str]) -> None:
        """Read some more lines."""
        start, samples = self._reader.read(lines)
        self._keys += samples.keys
        if len(samples.rows):
            self._values.append(samples.values)
            self._times.append(samples.times)
            self._numbers.append(start + samples.rows)
        self._errors += [(start + row, key, error) for row, key, error in samples.errors]

    def tables(self, long: bool, by: Sequence[str], known: Channels) -> StreamTables:
        """Return the tables of all lines."""
        self._reader.check()
        if not self._values and not self._errors:
            raise InputError("expected samples, found none")
        if not self._values:
            raise _at_line(self._errors[0][0], self._errors[0][2])
        return self._long(by, known) if long else self._wide(by, known)

    def _wide(self, by: Sequence[str], known: Channels) -> StreamTables:
        names = StreamNames(by)
        codes = names.codes(self._keys)
        self._check_names(names, codes)
        columns = self._reader.channels
        numbers = np.concatenate(self._numbers)
        found = split(
            names,
            codes,
            _stacked(self._values, len(columns)),
            columns,
            self._time_column(),
            known,
            place=lambda row: f"line {numbers[row]}",
        )
        # Rows count the wrong lines too, as a frame would.
        every = np.sort(np.concatenate([numbers, [number for number, *_ in self._errors]]))
        at = np.searchsorted(every, numbers)
        rows = {name: at[own] for name, own in (found.rows or {}).items()}
        return self._refused(StreamTables(found.tables, rows, found.errors), names)

    def _long(self, by: Sequence[str], known: Channels) -> StreamTables:
        names, tags = StreamNames(by), StreamNames(())
        if by:
            streams = [key[0] if len(by) == 1 else key[:-1] for key in self._keys]
            codes = names.codes(streams)
            self._check_names(names, codes)
            tag_codes = tags.codes([key[-1] for key in self._keys])
        else:
            names.names.append("")
            codes = np.zeros(len(self._keys), dtype=np.int64)
            tag_codes = tags.codes(self._keys)
        values = np.concatenate(self._values)[:, 0]
        times = self._time_column()
        assert times is not None  # long lines have one
        found = pivoted(names, codes, (tags, tag_codes), values, times, known)
        return self._refused(found, names if by else None, long=True)

    def _time_column(self) -> TimeColumn | None:
        if self._times[0] is None:
            return None
        return TimeColumn(np.concatenate(self._times), self._reader.zone)

    def _check_names(self, names: StreamNames, codes: Ints) -> None:
        shared = np.flatnonzero(codes == SHARED)
        if len(shared):
            number = int(np.concatenate(self._numbers)[shared[0]])
            raise _at_line(number, names.error(SHARED, self._keys[shared[0]]))

    def _refused(
        self, found: StreamTables, names: StreamNames | None, long: bool = False
    ) -> StreamTables:
        """Leave out streams with a wrong line, under the first of their errors."""
        wrong: dict[str, InputError] = {}
        for number, key, error in self._errors:
            name = ""
            if names is not None and key is not None:
                cell = key if not long else key[0] if len(key) == 2 else key[:-1]
                code = int(names.codes([cell])[0])
                name = names.names[code] if code >= 0 else ""
            wrong.setdefault(name, _at_line(number, error))
        for name, error in wrong.items():
            found.tables.pop(name, None)
            (found.rows or {}).pop(name, None)
            found.errors.setdefault(name, error)
        return found


def _stacked(parts: list[Floats], width: int) -> Floats:
    """Return the parts as one array, those read before a column was new with it missing."""
    rows = sum(map(len, parts))
    values = np.full((rows, width), np.nan)
    at = 0
    for part in parts:
        values[at : at + len(part), : part.shape[1]] = part
        at += len(part)
    return values


def _at_line(number: int, error: InputError) -> InputError:
    return InputError(f"line {number}: {error.message}", hint=error.hint)
