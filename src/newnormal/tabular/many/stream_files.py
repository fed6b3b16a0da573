"""Files and folders with the data of many streams."""

from collections.abc import Callable, Sequence
from dataclasses import replace
from os import PathLike, fspath
from pathlib import Path
from typing import Any

import numpy as np

from newnormal.arrivals.naming import matching
from newnormal.errors import InputError, ParameterError
from newnormal.tabular.columns import Long
from newnormal.tabular.files import is_parquet, named, parquet_frame, read
from newnormal.tabular.many.splitting import (
    SHARED,
    Channels,
    StreamNames,
    StreamTables,
    TimeColumn,
    pivoted,
    split,
)
from newnormal.tabular.many.stream_frames import frame_tables
from newnormal.tabular.many.stream_lines import LineReader, LongLines, StreamLines
from newnormal.tabular.ordering.arranging import kept_rows
from newnormal.tabular.parsing.blocks import ParsedSamples, joined
from newnormal.tabular.reading import InputProfile, Reading
from newnormal.tabular.samples import at_line
from newnormal.tabular.table import Table
from newnormal.tabular.text.file_names import ENDINGS, format_of_name, stem_of
from newnormal.tabular.text.opening import text_lines
from newnormal.types import Ints

_NOTES = 5  # of streams that are notes of the whole file, too


def read_tables(
    path: str | PathLike[str],
    reading: Reading | None = None,
    *,
    by: str | Sequence[str] | None = None,
    long: bool | Long | None = None,
    channels: Channels | None = None,
    strict: bool = False,
    **options: Any,
) -> StreamTables:
    r"""Return the streams of a file, or of a folder with a file a stream.

    `path`: a file (CSV, JSON lines or Parquet) with the samples of many streams, "-" for standard
    input, or a folder, of which each such file is a stream, named by the file's name without its
    ending.
    `reading`: how it is written and what is taken from it, as in `read`: for each stream by itself.
    The label of long data is a tag.
    `by`: the column that names the stream, or several, joined by "/". None for a folder.
    `long`: true or the columns if the rows are (time, tag, value), as in `to_tables`.
    `channels`: the channels of the streams that are known, as in `to_tables`. Columns that are no
    channel are left out, and a channel that is no column is missing throughout.
    `strict`: whether a line or a cell that cannot be read is the error of its stream.
    `options`: the options of `Reading`, instead of one. Long data has its columns in `long`.

    Returns: the tables, and the errors of those streams of which most lines cannot be read: the
    first of these. `profile` has what was found out about the file.

    Raise an InputError if the file is not there, holds no samples, or has no such columns.

    >>> from tempfile import TemporaryDirectory
    >>> with TemporaryDirectory() as folder:
    ...     path = Path(folder, "plant.csv")
    ...     _ = path.write_text("host,load\na,0.5\nb,1.5\na,high\n")
    ...     streams = read_tables(path, by="host")
    >>> streams.tables["a"].values.tolist(), streams.profile.bad_cells["load"].example
    ([[0.5], [nan]], 'high')
    """
    chosen = Reading.of(options) if reading is None else reading
    if reading is not None and options:
        raise ParameterError("expected a reading or its options, found both")
    form = Long() if long is True else long or None
    expected = {} if channels is None else channels
    if fspath(path) != "-" and Path(path).is_dir():
        return _folder_tables(Path(path), by, form, chosen, expected, strict)
    if form is not None and (chosen.columns is not None or chosen.drop):
        raise ParameterError(
            "expected no columns and no drop with long data",
            hint="only its columns of time, tag, value and names are read: leave the option out",
        )
    if by is None and form is None:
        raise InputError(
            f"{fspath(path)}: expected the column that names the stream, found none given",
            hint="name it with by=, or give a folder with a file a stream",
        )
    label = chosen.label
    plain = replace(chosen, label=None)
    if label is not None:
        columns = None if plain.columns is None else _label_beside(plain.columns, label)
        plain = replace(plain, columns=columns)
        expected = {
            name: _label_beside(channel_list, label) for name, channel_list in expected.items()
        }
    names = (by,) if isinstance(by, str) else tuple(by or ())
    try:
        if is_parquet(path, chosen):
            streams, lines = _parquet_tables(path, by, form, plain, expected), None
        else:
            begun = InputProfile()
            with text_lines(path, chosen, begun, names) as chunks:
                parts = _Parts(_reader(by, form, replace(plain, format=begun.kind), strict), strict)
                for chunk in chunks:
                    parts.add(chunk)
            streams = parts.tables(form, names, expected, plain)
            if streams.profile is not None:
                streams.profile.begin(begun)
            lines = parts.lines
        if label is not None:
            streams = _split_labels(streams, label)
        done = _arranged(streams, chosen, lines)
    except InputError as error:
        raise named(path, error) from error.__cause__
    if done.profile is not None:
        done.profile.reading = chosen.remembering(done.profile, names)
    return done


def _reader(by: Any, long: Long | None, reading: Reading, strict: bool) -> LineReader:
    if long is None:
        return StreamLines(by, reading=reading, strict=strict)
    if reading.time:
        long = Long(reading.time[0], long.tag, long.value)
    return LongLines(by or (), long=long, reading=reading, strict=strict)


def _parquet_tables(
    path: str | PathLike[str], by: Any, long: Long | None, reading: Reading, expected: Channels
) -> StreamTables:
    streams = frame_tables(
        parquet_frame(path),
        by=by,
        times=reading.time[0] if reading.time else None,
        long=long,
        channels=expected,
        columns=reading.columns,
        drop=reading.drop,
    )
    if not streams.tables and not streams.errors:
        raise InputError("expected samples, found none")
    return streams


def _arranged(
    streams: StreamTables, reading: Reading, lines: dict[str, Ints] | None
) -> StreamTables:
    """Return the tables in order, as `reading` asks for them."""
    whole = InputProfile() if streams.profile is None else streams.profile
    done = StreamTables({}, streams.rows, dict(streams.errors), whole)
    rows: dict[str, Ints] = dict(streams.rows or {})
    moved = streams.rows is None
    notes: list[str] = []
    counters = {name for table in streams.tables.values() for name in table.channels or ()}
    for rate in reading.rates:
        if counters and not matching([*counters], rate):
            raise InputError(f"rates names column {rate!r}, which is no channel of any stream")
    for name, table in streams.tables.items():
        rates = tuple(rate for rate in reading.rates if matching(table.channels or (), rate))
        numbers = None if lines is None else lines.get(name)
        try:
            ready, kept = kept_rows(
                table,
                replace(reading, rates=rates),
                None if numbers is None else _place_in(numbers),
            )
        except InputError as error:
            done.errors[name] = error
            continue
        done.tables[name] = ready
        moved = moved or kept is None
        if kept is not None and name in rows:
            rows[name] = rows[name][kept]
        if ready.profile is not None:
            whole.duplicates += ready.profile.duplicates
            whole.out_of_order += ready.profile.out_of_order
            about = f"stream {name!r}: " if name else ""
            notes += [about + text for text in ready.profile.notes]
    if len(notes) > _NOTES:
        notes[_NOTES:] = [f"and {len(notes) - _NOTES} more such notes of streams"]
    whole.notes += notes
    if list(done.tables) == [""]:  # long data of one stream
        done.tables[""] = replace(done.tables[""], profile=whole)
    return replace(done, rows=None if moved else rows)


def _place_in(numbers: Ints) -> Callable[[int], str]:
    return lambda row: f"line {numbers[row]}"


def _folder_tables(
    folder: Path, by: Any, long: Long | None, reading: Reading, expected: Channels, strict: bool
) -> StreamTables:
    if by is not None:
        raise ParameterError(f"expected no by with the folder {folder}: each file is a stream")
    files = sorted(
        path
        for path in folder.iterdir()
        if format_of_name(path) is not None and path.is_file() and not path.name.startswith(".")
        if reading.format is None or format_of_name(path) == reading.format
    )
    if not files:
        raise InputError(
            f"{folder}: expected a folder of files that end in {', '.join(ENDINGS)}, found none"
        )
    streams = StreamTables({})
    first: dict[str, Path] = {}
    for path in files:
        name = stem_of(path)
        other = first.setdefault(name, path)
        if other != path:
            raise InputError(
                f"{folder}: expected a file a stream, found {other.name!r} and {path.name!r}",
                hint="rename one of them, or name the format",
            )
        channels = expected.get(name)
        try:
            if long is None:
                streams.tables[name] = read(path, reading, channels=channels, strict=strict)
            else:
                one = {} if channels is None else {"": channels}
                streams.take(
                    name, read_tables(path, reading, long=long, channels=one, strict=strict)
                )
        except InputError as error:
            streams.errors[name] = error
    first_read = next((table.profile for table in streams.tables.values() if table.profile), None)
    return streams if first_read is None else replace(streams, profile=first_read)


class _Parts:
    """The samples of a file's lines so far."""

    def __init__(self, reader: LineReader, strict: bool) -> None:
        self.lines: dict[str, Ints] = {}  # the numbers of each stream's lines
        self._reader, self._strict = reader, strict
        self._blocks: list[tuple[int, ParsedSamples]] = []
        self._samples: ParsedSamples  # of all lines; rows are their numbers

    def add(self, lines: Sequence[str], final: bool = False) -> None:
        self._blocks.append(self._reader.read(lines, final=final))

    def tables(
        self, long: Long | None, by: Sequence[str], expected: Channels, reading: Reading
    ) -> StreamTables:
        self.add([], final=True)
        self._reader.check()
        self._samples = samples = joined(self._blocks, width=len(self._reader.channels))
        if not len(samples.rows):
            for number, _, error in samples.errors:
                raise at_line(number, error)
            raise InputError("expected samples, found none")
        streams = self._wide(by, expected) if long is None else self._long(by, expected, reading)
        whole = self._reader.profile
        if not streams.tables and whole.bad_cells:
            column, bad = next(iter(whole.bad_cells.items()))
            raise at_line(
                bad.line, InputError(f"column {column!r}: expected a number, found {bad.example!r}")
            )
        return replace(streams, profile=whole)

    def _wide(self, by: Sequence[str], expected: Channels) -> StreamTables:
        names = StreamNames(by)
        samples, columns = self._samples, self._reader.channels
        codes, numbers = names.codes(samples.keys), samples.rows
        self._check_names(names, codes)
        times = self._time_column()
        streams = split(names, codes, samples.values, columns, times, expected, of_file=True)
        self.lines = {name: numbers[positions] for name, positions in (streams.rows or {}).items()}
        # Rows count the wrong lines too, as a frame would.
        every = np.sort(np.concatenate([numbers, [number for number, *_ in samples.errors]]))
        input_rows = np.searchsorted(every, numbers)
        rows = {name: input_rows[positions] for name, positions in (streams.rows or {}).items()}
        return self._refused(StreamTables(streams.tables, rows, streams.errors), names)

    def _long(self, by: Sequence[str], expected: Channels, reading: Reading) -> StreamTables:
        names, tags, keys = StreamNames(by), StreamNames(()), self._samples.keys
        if by:
            codes = names.codes([key[0] if len(by) == 1 else key[:-1] for key in keys])
            self._check_names(names, codes)
            tag_codes = tags.codes([key[-1] for key in keys])
        else:
            names.names.append("")
            codes = np.zeros(len(keys), dtype=np.int64)
            tag_codes = tags.codes(keys)
        values = self._samples.values[:, 0]
        times = self._time_column()
        assert times is not None  # long lines have one
        tables = pivoted(names, codes, (tags, tag_codes), values, times, expected, reading=reading)
        return self._refused(tables, names if by else None, long=True)

    def _time_column(self) -> TimeColumn | None:
        times = self._samples.times
        return None if times is None else TimeColumn(times, self._reader.zone)

    def _check_names(self, names: StreamNames, codes: Ints) -> None:
        shared = np.flatnonzero(codes == SHARED)
        if len(shared):
            row = int(shared[0])
            error = names.error(SHARED, self._samples.keys[row])
            raise at_line(int(self._samples.rows[row]), error)

    def _refused(
        self, streams: StreamTables, names: StreamNames | None, long: bool = False
    ) -> StreamTables:
        """Leave out streams of which most lines are wrong, under the first of their errors."""
        wrong: dict[str, list[tuple[int, InputError]]] = {}
        for number, key, error in self._samples.errors:
            name = ""
            if names is not None and key is not None:
                cell = key if not long else key[0] if len(key) == 2 else key[:-1]
                code = int(names.codes([cell])[0])
                name = names.names[code] if code >= 0 else ""
            wrong.setdefault(name, []).append((number, error))
        for name, bad in wrong.items():
            table = streams.tables.get(name)
            if table is not None and not self._strict and len(bad) <= len(table.values):
                profile = InputProfile() if table.profile is None else table.profile
                profile.bad_lines, profile.first_bad = len(bad), at_line(*bad[0]).message
                streams.tables[name] = replace(table, profile=profile)
            elif name or names is None or self._strict:
                streams.tables.pop(name, None)
                (streams.rows or {}).pop(name, None)
                streams.errors.setdefault(name, at_line(*bad[0]))
        return streams


def _label_beside(channels: str | Sequence[str], label: str) -> tuple[str, ...]:
    """Return channels, and the column of labels behind them."""
    names = (channels,) if isinstance(channels, str) else tuple(channels)
    return (*(name for name in names if name != label), label)


def _split_labels(streams: StreamTables, label: str) -> StreamTables:
    rows: dict[str, Ints] | None = None if streams.rows is None else {}
    labelled = StreamTables({}, rows, dict(streams.errors), streams.profile)
    for name, table in streams.tables.items():
        try:
            labelled.tables[name] = _with_labels(table, label)
        except InputError as error:
            labelled.errors[name] = error
        else:
            if labelled.rows is not None and streams.rows is not None:
                labelled.rows[name] = streams.rows[name]
    return labelled


def _with_labels(table: Table, label: str) -> Table:
    channels = table.channels or ()
    if label not in channels or len(channels) == 1:
        what = "channels beside the labels" if label in channels else "labels"
        raise InputError(f"column {label!r}: expected {what}, found none")
    column = channels.index(label)
    labels = table.values[:, column]
    if np.isnan(labels).all():
        raise InputError(f"column {label!r}: expected labels, found none")
    wrong = np.flatnonzero(~np.isin(labels, (0.0, 1.0)))
    if len(wrong):
        value = labels[wrong[0]]
        raise InputError(
            f"column {label!r}, sample {wrong[0]}: expected a label 0 or 1, "
            f"found {'none' if np.isnan(value) else f'{value:g}'}"
        )
    return replace(
        table,
        values=np.ascontiguousarray(np.delete(table.values, column, axis=1)),
        channels=tuple(name for name in channels if name != label),
        labels=labels.astype(np.int64),
    )
