"""Files and folders that grow, rotated ones included.

One module because what the columns of a file are is found out once, and goes with its position.
"""

import base64
import itertools
import json
import os
import threading
import time
import zlib
from collections import OrderedDict
from collections.abc import Iterator, Mapping, Sequence
from typing import Any, ClassVar, NamedTuple

import numpy as np

from newnormal.arrivals.arrival import Arrival
from newnormal.arrivals.naming import fitting_name
from newnormal.errors import InputError, NewnormalError, ParameterError, StateError
from newnormal.io.sources.base import Source
from newnormal.io.sources.folders import EDGE
from newnormal.io.sources.tailing import CHUNK, Tailed, TailedLines, Tailing
from newnormal.tabular import LineParser, ParsedSamples, Reading
from newnormal.tabular.many.splitting import StreamNames
from newnormal.tabular.text.encodings import encoding_of, is_binary
from newnormal.tabular.text.line_cutting import RefusedLine
from newnormal.types import Floats, Ints

_HEAD = 500  # lines in which the columns are looked for
_FEW = (50, 10, 3)  # lines in which they are looked for then
_PARSERS = 4_000  # that are kept


class FileRows(NamedTuple):
    """What lines of a file hold."""

    streams: list[str] | None  # the name of each sample's stream; None: all are of the file's
    # As those of an `Arrival`.
    channels: tuple[str, ...]
    times: Ints
    values: Floats
    # How many lines hold no sample, and what is wrong with the last of these.
    bad: int = 0
    problem: str = ""


class FileLines:
    """Reads the lines of followed files.

    `reading`: how they are written, and what is taken from them. `by`: the columns that name the
    stream.
    """

    def __init__(self, reading: Reading, by: Sequence[str] = ()) -> None:
        self._reading, self._by = reading, tuple(by)
        self._recent: OrderedDict[int, Tailed] = OrderedDict()  # those that have a parser

    def read(self, tailing: Tailing, tailed: Tailed, most: int) -> FileRows | None:
        """Return the next samples of a file, at most `most`, and go behind them; None: none now."""
        known = tailed.offset > 0 and tailed.facts is not None
        piece = tailing.read(tailed, most if known else max(most, _HEAD))
        if piece is None:
            return None
        if piece.too_long:
            longest = self._reading.longest_line
            why = f"expected a line of at most {longest:,} bytes, found a longer one"
            return _none(1, f"line {piece.first}: {why}")
        texts = self._texts(piece)
        try:
            if known:
                parser = self._parser(tailed)
                samples, count = parser.parse_many(texts, piece.first), len(texts)
            else:
                parser, samples, count = self._begun(tailing, tailed, piece, texts)
            if not parser.has_plan:
                tailed.looked = piece.last or (tailed.size, tailed.changed)
                return None
            if len(samples.rows) and samples.times is None:
                raise InputError("expected a column of times, found none")
        except NewnormalError as error:
            tailed.parser = None
            tailing.refuse(tailed, error.message)
            return None
        if len(samples.rows) > most:
            count = int(samples.rows[most - 1]) + 1
        tailing.take(piece, count)
        tailed.telling = tailed.telling or len(samples.rows) > 0
        self._keep(tailed, parser)
        tailing.files.forms[tailed.family] = tailed.facts or {}
        return self._rows(samples, parser, piece.first, count)

    # ------------------------------------------------------------------ parsers

    def _parser(self, tailed: Tailed) -> LineParser:
        if tailed.parser is None:
            tailed.parser = self._restored(tailed.facts)
        parser: LineParser = tailed.parser
        return parser

    def _keep(self, tailed: Tailed, parser: LineParser) -> None:
        tailed.parser, tailed.facts = parser, parser.facts()
        self._recent[id(tailed)] = tailed
        self._recent.move_to_end(id(tailed))
        if len(self._recent) > _PARSERS:
            _, oldest = self._recent.popitem(last=False)
            oldest.parser = None

    def _new(self) -> LineParser:
        return LineParser(self._reading, by=self._by, grows=True, texts=True)

    def _restored(self, facts: Any) -> LineParser:
        parser = self._new()
        try:
            parser.restore(facts)
        except (TypeError, ValueError, AttributeError, KeyError) as error:
            raise InputError(f"expected the form of a file, found {facts!r}") from error
        return parser

    def _begun(
        self, tailing: Tailing, tailed: Tailed, piece: TailedLines, texts: Sequence[str]
    ) -> tuple[LineParser, ParsedSamples, int]:
        """Return the parser of a file that is read for the first time.

        Returns: it, the samples of the first lines, and how many lines these are.
        """
        _check_kind(piece.raw[:EDGE])
        before = tailing.files.forms.get(tailed.family)
        if before is not None:  # a file that was cut short goes on without its header
            parser = self._restored(before)
            samples = parser.parse_many(texts, piece.first)
            first = next((at for at, text in enumerate(texts) if text.strip()), None)
            if first is None or first not in {at for at, *_ in samples.errors}:
                return parser, samples, len(texts)
        if tailed.offset:  # its beginning is passed over
            parser = self._new()
            parser.parse_many(self._head(tailed), 1)
            samples = parser.parse_many(texts, piece.first)
            return parser, _cut(samples, first=0), len(texts)
        # Where a line is bad, times may be found in the lines before it alone.
        for count in (len(texts), *(few for few in _FEW if few < len(texts))):
            parser = self._new()
            samples = parser.parse_many(texts[:count], piece.first)
            if parser.time is not None or not parser.has_plan:
                break
        return parser, samples, count

    def _head(self, tailed: Tailed) -> list[str]:
        """Return the first lines of a file, before its position."""
        with tailed.path.open("rb") as file:
            head = file.read(min(tailed.offset, CHUNK))
        lines = head.split(b"\n")[:-1]
        return self._texts(TailedLines(tailed, lines[:_HEAD], 1))

    # ------------------------------------------------------------------ texts and samples

    def _texts(self, piece: TailedLines) -> list[str]:
        """Return lines as texts; `RefusedLine` those that are none."""
        joined = b"\n".join(piece.lines)
        longest = self._reading.longest_line
        if self._reading.encoding is None and (
            len(joined) <= longest or max(map(len, piece.lines)) <= longest
        ):
            try:
                text = joined.decode("utf-8-sig" if piece.first == 1 else "utf-8")
            except UnicodeDecodeError:
                pass
            else:
                return [each.strip("\r") for each in text.split("\n")] if piece.lines else []
        return [
            self._text(line, first=piece.first + at == 1) for at, line in enumerate(piece.lines)
        ]

    def _text(self, line: bytes, *, first: bool) -> str:
        longest = self._reading.longest_line
        if len(line) > longest:
            return RefusedLine(
                InputError(f"expected a line of at most {longest:,} bytes, found a longer one")
            )
        given = self._reading.encoding
        utf8 = "utf-8-sig" if first else "utf-8"
        # Text that is no UTF-8 is most often that of Western Windows.
        for encoding in (utf8, "cp1252", "latin-1") if given is None else (given,):
            try:
                return line.decode(encoding).strip("\r")
            except UnicodeDecodeError:
                continue
        return RefusedLine(InputError(f"expected {given} text, found bytes that are none"))

    def _rows(self, samples: ParsedSamples, parser: LineParser, first: int, count: int) -> FileRows:
        """Return the samples of the first `count` lines."""
        wrong = [(at, error) for at, _, error in samples.errors if at < count]
        taken = samples.rows < count
        values, times = samples.values[taken], samples.times
        moments = np.empty(0, np.int64)
        if times is not None:
            moments = times[taken].astype("datetime64[ns]").astype(np.int64)
        streams = None
        if self._by:
            names = StreamNames(self._by)
            keys = list(itertools.compress(samples.keys, taken.tolist()))
            codes = names.codes(keys)
            rows = samples.rows[taken].tolist()
            wrong += [
                (rows[at], names.error(int(codes[at]), keys[at]))
                for at in np.flatnonzero(codes < 0).tolist()
            ]
            good = codes >= 0
            values, moments, codes = values[good], moments[good], codes[good]
            streams = [names.names[code] for code in codes.tolist()]
        problem = ""
        if wrong:
            at, error = max(wrong, key=lambda each: each[0])
            problem = f"line {first + at}: {error.message}"
        values = np.where(np.isinf(values), np.nan, values)
        return FileRows(streams, parser.channels or (), moments, values, len(wrong), problem)


def _check_kind(head: bytes) -> None:
    """Raise an InputError for a file that is no text of 8 bits."""
    encoding = encoding_of(head, ended=False)
    if encoding is not None and encoding.startswith(("UTF-16", "UTF-32")):
        raise InputError(f"expected text in UTF-8 or an encoding of 8 bits, found {encoding}")
    if is_binary(head):
        raise InputError("expected lines of CSV or JSON, found binary data")


def _cut(samples: ParsedSamples, first: int) -> ParsedSamples:
    """Return samples without those of lines before a position, which were held."""
    kept = samples.rows >= first
    times, labels = samples.times, samples.labels
    return ParsedSamples(
        samples.values[kept],
        None if times is None else times[kept],
        None if labels is None else labels[kept],
        samples.rows[kept],
        tuple(error for error in samples.errors if error[0] >= first),
        list(itertools.compress(samples.keys, kept.tolist())),
    )


def _none(bad: int, problem: str) -> FileRows:
    return FileRows(None, (), np.empty(0, np.int64), np.empty((0, 0)), bad, problem)


_SHARE = 500  # lines of a file that are read at once, at least
_TURN = 0.5  # s after which what was read is given out
_STREAMS = 50_000  # whose channels are remembered
_TELL = 3600.0  # s for which a bad line is reported
_SHOWN = 3  # files that `check` tries
_READING = ("format", "encoding", "delimiter", "decimal", "date_format", "tz")
_LISTS = ("na", "time", "columns", "drop")


class FilesSource(Source):
    """Follows files of CSV or JSON lines: those that patterns name, and new ones as they come.

    Each complete line is a sample, given once: files are followed when they are renamed, copied and
    cut short, or compressed. The position of a source has that of each file.

    Options: `paths`, patterns; `stream`, what a file's stream is called (``"{name}"``), or `by`,
    the columns that name it; `start`, ``"beginning"`` or ``"end"``; `format`, `encoding`,
    `delimiter`, `decimal`, `date_format`, `tz`, `na`, `time`, `columns` and `drop`, as those of
    `newnormal.tabular.Reading`, which are found out where they are not given.
    """

    pause: ClassVar[float] = 1.0  # seconds between two looks at the folders

    def __init__(self, name: str, options: Mapping[str, Any]) -> None:
        super().__init__(name, options)
        self._paths: tuple[str, ...] = self.options.texts("paths")
        by: tuple[str, ...] = self.options.texts("by", ())
        stream: str | None = self.options.text("stream", None)
        self._from_end = self.options.choice("start", "beginning", "end") == "end"
        reading = {each: self.options.text(each, None) for each in _READING}
        reading |= {each: self.options.texts(each, None) for each in _LISTS}
        self.options.end()
        where = self.options.where
        if by and stream is not None:
            raise ParameterError(
                f"{where}: expected stream or by, found both",
                hint="by names the columns that hold the stream's name",
            )
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
            if not (waiting := self._tailing.waiting()):
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
        if new := tuple(names[at] for at in there if names[at] not in known):
            known += new
            if stream in self._channels or len(self._channels) < _STREAMS:
                self._channels[stream] = known
        columns = {name: at for at, name in enumerate(names)}
        if channels := tuple(name for name in known if name in columns):
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
                f"source {self.name}: expected the positions of files, found something else",
                hint="give the source another name to read the files from the beginning",
            ) from error
        return True

    # ------------------------------------------------------------------ people

    def notice(self) -> str:
        """Return which files are not read, and how many lines could not be."""
        notices = []
        files = self._tailing.files
        if files.folders.problem:
            notices.append(files.folders.problem)
        if refused := [each for each in files if each.refused and not each.gone]:
            last = refused[-1]
            count = "1 file is" if len(refused) == 1 else f"{len(refused):,} files are"
            notices.append(f"{count} not read: {_shown(last.name)}: {last.refused}")
        if files.lost:
            notices.append(files.lost)
        problem, when = self._problem
        if problem and time.monotonic() - when < _TELL:
            count = "1 line was" if self._bad == 1 else f"{self._bad:,} lines were"
            notices.append(f"{count} skipped: {problem}")
        return "; ".join(notices)

    def check(self) -> str:
        """Look at the files; return how many there are and what the first ones hold."""
        tailing = Tailing(self._paths)
        try:
            tailing.scan()
            if tailing.files.folders.problem:
                raise InputError(tailing.files.folders.problem)
            if not (files := list(tailing.files)):
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
