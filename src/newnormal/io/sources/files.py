"""Files and folders that grow, rotated ones included."""

import base64
import json
import os
import threading
import time
import zlib
from collections.abc import Iterator, Mapping, Sequence
from typing import Any, ClassVar

import numpy as np

from newnormal.errors import InputError, ParameterError, StateError
from newnormal.io.arrivals import Arrival
from newnormal.io.labels import fitting_name
from newnormal.io.options import Options
from newnormal.io.sources.file_lines import FileLines, FileRows
from newnormal.io.sources.pull import PullSource
from newnormal.io.sources.tailed import Tailed
from newnormal.io.sources.tailing import Tailing
from newnormal.tabular import Reading
from newnormal.types import Floats, Ints

_SHARE = 500  # lines of a file that are read at once, at least
_TURN = 0.5  # s after which what was read is given out
_STREAMS = 50_000  # whose channels are remembered
_TELL = 3600.0  # s for which a bad line is reported
_SHOWN = 3  # files that `check` tries
_READING = ("format", "encoding", "delimiter", "decimal", "date_format", "tz")
_LISTS = ("na", "time", "columns", "drop")


class FilesSource(PullSource):
    """Follows files of CSV or JSON lines: those that patterns name, and new ones as they come.

    Each complete line is a sample, given once: files are followed when they are renamed, copied and
    cut short, or compressed. The position of a source has that of each file.

    Options: `paths`, patterns; `stream`, what a file's stream is called (``"{name}"``), or `by`,
    the columns that name it; `from`, ``"beginning"`` or ``"end"``; `format`, `encoding`,
    `delimiter`, `decimal`, `date_format`, `tz`, `na`, `time`, `columns` and `drop`, as those of
    `newnormal.tabular.Reading`, which are found out where they are not given.
    """

    pause: ClassVar[float] = 1.0  # seconds between two looks at the folders

    def __init__(self, name: str, options: Mapping[str, Any]) -> None:
        super().__init__(name, options)
        given = Options(f"source {name}", options)
        self._paths: tuple[str, ...] = given.texts("paths")
        by: tuple[str, ...] = given.texts("by", ())
        stream: str | None = given.text("stream", None)
        begin: str = given.text("from", "beginning")
        reading = {each: given.text(each, None) for each in _READING}
        reading |= {each: given.texts(each, None) for each in _LISTS}
        given.end()
        where = f"source {name}"
        if by and stream is not None:
            raise ParameterError(
                f"{where}: expected stream or by, found both",
                hint="by names the columns that hold the stream's name",
            )
        if begin not in ("beginning", "end"):
            raise ParameterError(f"{where}: from: expected beginning or end, found {begin!r}")
        self._stream = _checked_form(where, stream or "{name}")
        if reading["format"] not in (None, "csv", "jsonl"):
            raise ParameterError(
                f"{where}: format: expected csv or jsonl, found {reading['format']!r}"
            )
        try:
            self._reading = Reading.of(reading)
            _check_encoding(self._reading.encoding)
        except ParameterError as error:
            raise ParameterError(f"{where}: {error.message}", hint=error.hint) from error
        self._by = by
        self._from_end = begin == "end"
        self._tailing = Tailing(self._paths, from_end=self._from_end)
        self._lines = FileLines(self._reading, by)
        self._channels: dict[str, tuple[str, ...]] = {}  # of each stream, those that had a value
        self._fitted: tuple[tuple[str, ...], tuple[str, ...]] = ((), ())
        self._bad = 0
        self._problem = ("", 0.0)  # what was wrong with the last bad line, and when
        self._next = 0.0  # when to look at the folders again
        self._ended = threading.Event()
        self._working = threading.Lock()

    # ------------------------------------------------------------------ batches

    def next_batch(self, limit: int) -> Sequence[Arrival]:
        """Return the samples of the next lines of all files in turn."""
        with self._working:
            arrivals, tired = self._filled(limit)
        if not arrivals and not tired:
            self._ended.wait(max(0.0, min(self._next - time.monotonic(), self.pause)))
        return arrivals

    def _filled(self, limit: int) -> tuple[list[Arrival], bool]:
        """Return samples, and whether there may be more at once."""
        found: list[Arrival] = []
        count = 0
        until = time.monotonic() + _TURN
        while count < limit and not self._ended.is_set():
            now = time.monotonic()
            if now > until:
                return found, True
            if self._tailing.due or now >= self._next:
                self._next = now + self.pause
                self._tailing.scan()
            waiting = self._tailing.waiting()
            if not waiting:
                return found, False
            share = max(_SHARE, (limit - count) // len(waiting))
            for each in waiting:
                if count >= limit or self._tailing.due or time.monotonic() > until:
                    break
                rows = self._lines.read(self._tailing, each, min(share, limit - count))
                if rows is not None:
                    self._note(each, rows)
                    arrivals = list(self._arrivals(each, rows))
                    found += arrivals
                    count += sum(len(arrival.times) for arrival in arrivals)
        return found, True

    def _note(self, tailed: Tailed, rows: FileRows) -> None:
        self._bad += rows.bad
        if rows.problem:
            self._problem = f"{_shown(tailed.name)} {rows.problem}", time.monotonic()

    def _arrivals(self, tailed: Tailed, rows: FileRows) -> Iterator[Arrival]:
        """Give the samples of each stream."""
        if not len(rows.times):
            return
        names = self._names(rows.channels)
        if rows.streams is None:
            yield from self._arrival(self._stream_of(tailed), names, rows.times, rows.values)
            return
        own: dict[str, list[int]] = {}
        for at, stream in enumerate(rows.streams):
            own.setdefault(stream, []).append(at)
        for stream, numbers in own.items():
            times, values = rows.times[numbers], rows.values[numbers]
            yield from self._arrival(fitting_name(stream), names, times, values)

    def _arrival(
        self, stream: str, names: tuple[str, ...], times: Ints, values: Floats
    ) -> Iterator[Arrival]:
        """Give samples in those columns in which the stream has had a value."""
        known = self._channels.get(stream, ())
        there = np.flatnonzero(~np.isnan(values).all(axis=0)).tolist()
        new = tuple(names[at] for at in there if names[at] not in known)
        if new:
            known += new
            if stream in self._channels or len(self._channels) < _STREAMS:
                self._channels[stream] = known
        columns = {name: at for at, name in enumerate(names)}
        channels = tuple(name for name in known if name in columns)
        if channels:
            yield Arrival(stream, channels, times, values[:, [columns[name] for name in channels]])

    def _names(self, channels: tuple[str, ...]) -> tuple[str, ...]:
        """Return names that channels can have; one that is there twice gets a number."""
        if self._fitted[0] != channels:
            names: dict[str, None] = {}
            for channel in channels:
                name = fitting_name(channel)
                while name in names:
                    name = fitting_name(f"{channel} {len(names)}")
                names[name] = None
            self._fitted = channels, tuple(names)
        return self._fitted[1]

    def _stream_of(self, tailed: Tailed) -> str:
        folder = os.path.basename(tailed.family.folder)
        name = tailed.family.base or folder
        return fitting_name(self._stream.replace("{folder}", folder).replace("{name}", name))

    # ------------------------------------------------------------------ positions

    def snapshot(self) -> dict[str, Any]:
        """Return the position in each file, compressed: there may be thousands."""
        kinds: dict[tuple[str, ...], int] = {}
        streams = {
            name: kinds.setdefault(channels, len(kinds))
            for name, channels in self._channels.items()
        }
        content = {
            "files": self._tailing.files.to_json(),
            "streams": streams,
            "channels": [list(kind) for kind in kinds],
        }
        text = json.dumps(content, separators=(",", ":")).encode()
        return {
            "paths": list(self._paths),
            "files": base64.b64encode(zlib.compress(text, 1)).decode(),
        }

    def resume(self, snapshot: Mapping[str, Any]) -> bool:
        """Go to the position in each file, unless the paths are all others."""
        paths, packed = snapshot.get("paths"), snapshot.get("files")
        try:
            if not isinstance(paths, list) or not isinstance(packed, str):
                raise TypeError
            if not set(paths) & set(self._paths):
                return False
            content = json.loads(zlib.decompress(base64.b64decode(packed)))
            kinds = [tuple(each) for each in content["channels"]]
            self._channels = {name: kinds[at] for name, at in content["streams"].items()}
            self._tailing.files.restore(content["files"])
        except (TypeError, ValueError, KeyError, IndexError, zlib.error) as error:
            raise StateError(
                f"source {self.name}: expected the places of files, found something else",
                hint="give the source another name to read the files from the beginning",
            ) from error
        return True

    # ------------------------------------------------------------------ people

    def notice(self) -> str:
        """Return which files are not read, and how many lines could not be."""
        said = []
        files = self._tailing.files
        if files.folders.problem:
            said.append(files.folders.problem)
        refused = [each for each in files if each.refused and not each.gone]
        if refused:
            last = refused[-1]
            count = "1 file is" if len(refused) == 1 else f"{len(refused):,} files are"
            said.append(f"{count} not read: {_shown(last.name)}: {last.refused}")
        if files.lost:
            said.append(files.lost)
        problem, when = self._problem
        if problem and time.monotonic() - when < _TELL:
            count = "1 line was" if self._bad == 1 else f"{self._bad:,} lines were"
            said.append(f"{count} skipped: {problem}")
        return "; ".join(said)

    def check(self) -> str:
        """Look at the files; return how many there are and what the first ones hold."""
        tailing = Tailing(self._paths)
        try:
            tailing.scan()
            if tailing.files.folders.problem:
                raise InputError(tailing.files.folders.problem)
            files = list(tailing.files)
            if not files:
                return f"no file yet that {' or '.join(self._paths)} names"
            size = sum(each.size for each in files)
            lines = FileLines(self._reading, self._by)
            channels: tuple[str, ...] = ()
            for each in tailing.waiting()[:_SHOWN]:
                rows = lines.read(tailing, each, 100)
                if each.refused:
                    raise InputError(
                        f"{each.path}: {each.refused}",
                        hint="name other paths, or how it is written: time, delimiter, format",
                    )
                if rows is not None:
                    channels += tuple(name for name in rows.channels if name not in channels)
        finally:
            tailing.close()
        count = "1 file" if len(files) == 1 else f"{len(files):,} files"
        streams = (
            "" if self._by else f" of {len({self._stream_of(each) for each in files}):,} streams"
        )
        columns = ", ".join(channels[:5]) + (", …" if len(channels) > 5 else "")
        return f"{count}{streams}, {size:,} bytes; the columns are {columns or 'not known yet'}"

    def close(self) -> None:
        """Close what is open."""
        self._ended.set()
        with self._working:
            self._tailing.close()


def _checked_form(where: str, form: str) -> str:
    rest = form.replace("{name}", "").replace("{folder}", "")
    if "{" in rest or "}" in rest:
        raise ParameterError(
            f"{where}: stream: expected a text with {{name}} and {{folder}}, found {form!r}",
            hint="{name} is the file's name without its date, number and ending",
        )
    return form


def _check_encoding(encoding: str | None) -> None:
    """Raise a ParameterError for an encoding whose lines do not end in one byte."""
    if encoding is None:
        return
    try:
        good = "a\n".encode(encoding) == b"a\n"
    except (LookupError, UnicodeError):
        good = False
    if not good:
        raise ParameterError(
            f"encoding: expected one of 8 bits such as utf-8 or latin-1, found {encoding!r}"
        )


def _shown(name: str) -> str:
    return name.encode("utf-8", "backslashreplace").decode()
