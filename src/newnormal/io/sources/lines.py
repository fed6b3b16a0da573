"""Lines of CSV or JSON, from standard input or a file that may grow, as samples of streams.

One module because bytes, lines and what the columns are go to one position together.
"""

import os
import time
from abc import ABC, abstractmethod
from collections import deque
from collections.abc import Callable, Mapping, Sequence
from copy import deepcopy
from dataclasses import dataclass, field, replace
from pathlib import Path
from typing import Any, ClassVar, Literal, NamedTuple

import numpy as np

from newnormal.errors import InputError, ParameterError, StateError
from newnormal.io.sources.base import FRESH
from newnormal.io.sources.folders import EDGE, digest
from newnormal.tabular import (
    LineParser,
    Long,
    LongLines,
    Problem,
    Reading,
    StreamBatch,
    StreamLines,
)
from newnormal.tabular.text.encodings import UTF8
from newnormal.tabular.text.line_cutting import LineCutter, OversizedLine, line_texts
from newnormal.tabular.text.opening import OpenInput, open_input
from newnormal.tabular.text.raw_bytes import POLL_S, RawFile


@dataclass(frozen=True)
class LineOptions:
    """How lines are read.

    Attributes
    ----------
    channels
        Of the stream, in the order of the values, where all lines are samples of one stream.
    reading
        How the input is written and what is taken from it: as in `newnormal watch --help`.
    by
        The columns that name the stream; none if all lines are of one.
    long
        The columns of lines with one value each; None: a line is a sample.
    follow
        Wait for more at the end of the input instead of ending.
    unfinished
        Leave an unfinished line or sample at the end of the input to the next start.
    report
        Called with a line for the user; None drops it.
    strict
        A cell that is no number makes its line a bad one; else it is a missing value.
    """

    channels: tuple[str, ...] = ()
    reading: Reading = field(default_factory=Reading)
    by: Sequence[str] = ()
    long: Long | None = None
    follow: bool = False
    unfinished: bool = False
    report: Callable[[str], None] | None = None
    strict: bool = False

    def parser(self) -> "SampleLines | StreamLines | LongLines":
        """Return a new parser of lines."""
        reading, strict, report = self.reading, self.strict, self.report
        if self.long is not None:
            time = reading.time[0] if reading.time else None
            long = self.long if time is None else replace(self.long, time=time)
            return LongLines(self.by, long=long, reading=reading, strict=strict, report=report)
        if self.by:
            return StreamLines(self.by, reading=reading, strict=strict, report=report)
        return SampleLines(self)


class SampleLines:
    """Parses lines that are samples of one stream, which is called "".

    The columns are known from the header and the first line of data; lines before that are held.
    Both lines are facts, so that a resumed input is parsed exactly as before. A pipe that goes on
    without its header is read by these columns; one whose sender begins anew has a header again,
    which is taken.
    """

    def __init__(self, options: LineOptions) -> None:
        self._parser = LineParser(
            options.reading,
            channels=options.channels,
            strict=options.strict,
            report=options.report,
        )
        self._channels = options.channels

    def facts(self) -> dict[str, Any]:
        """Return the lines that the columns were found in, and how cells are written."""
        return self._parser.facts()

    def restore(self, facts: Mapping[str, Any]) -> None:
        """Restore what `facts` returned, before the first line is read."""
        self._parser.restore(facts)

    @property
    def zone(self) -> str | None:
        """The zone of the newest time; None if it has none."""
        return self._parser.zone

    def parse(self, lines: Sequence[str], first: int, *, final: bool = False) -> StreamBatch:
        """Return the samples of the next lines; the parameters are those of `StreamLines.parse`."""
        samples = self._parser.parse_many(lines, first, final=final)
        before = np.searchsorted(samples.rows, [row for row, *_ in samples.errors]).tolist()
        problems = tuple(
            Problem(error, first + row, samples_before)
            for (row, _, error), samples_before in zip(samples.errors, before, strict=True)
        )
        return StreamBatch(
            ("",),
            np.zeros(len(samples.rows), np.int64),
            self._channels,
            samples.values,
            samples.times,
            first + samples.rows,
            problems,
        )

    def check(self) -> None:
        """Raise an InputError, at the end of the input, if lines are held that cannot be read."""
        self._parser.check()


class LineLayout:
    """What the columns of lines are; its errors name the input.

    `options`: how the lines are read. `name`: what the input is called in messages.
    """

    def __init__(self, options: LineOptions, name: str) -> None:
        self._options, self._name = options, name
        self._parser = options.parser()

    @property
    def zone(self) -> str | None:
        """The zone of the newest time; None if it has none."""
        return self._parser.zone

    def facts(self) -> dict[str, Any]:
        """Return the lines that the columns were found in, how cells are written, what is held."""
        return self._parser.facts()

    def restore(self, facts: object) -> None:
        """Restore what `facts` returned."""
        parser = self._options.parser()
        try:
            if not isinstance(facts, Mapping):
                raise TypeError(f"found {facts!r}")
            for line in ("opened_by", "settled_by"):
                if not isinstance(facts[line], str | None):
                    raise TypeError(f"found {facts!r}")
            parser.restore(facts)
        except InputError as error:
            raise self._named(error) from None
        except (TypeError, ValueError, AttributeError, KeyError) as error:
            raise StateError(
                f"position: expected layout with the lines opened_by and settled_by, {error}",
                hint=FRESH,
            ) from error
        self._parser = parser

    def parse(self, lines: Sequence[str], first: int, *, final: bool = False) -> StreamBatch:
        """Return the samples of the next lines, the first of which has the number `first`.

        `final`: whether no more will come. Raise an InputError if every line would be a bad one.
        """
        try:
            batch = self._parser.parse(lines, first, final=final)
        except InputError as error:
            raise self._named(error) from None
        is_empty = not len(batch) and not batch.problems
        if final and is_empty and isinstance(self._parser, LongLines):
            return self._parser.flush()
        return batch

    def undecided(self) -> StreamBatch:
        """Return what lines hold of which it is not known yet, if there were no more."""
        return deepcopy(self._parser).parse([], 0, final=True)

    def check(self) -> None:
        """Raise an InputError, at the end of the input, if lines are held that cannot be read."""
        try:
            self._parser.check()
        except InputError as error:
            raise self._named(error) from None

    def _named(self, error: InputError) -> InputError:
        return InputError(f"{self._name}: {error.message}", hint=error.hint)


class LineInput(ABC):
    """Lines as samples of streams, batch by batch; each kind of input has its own positions.

    `input`: a path, or "-" for standard input. `options`: how the lines are read.

    Attributes
    ----------
    record
        What a record is called in messages.
    kind
        What the folder of a watch calls this kind of input.
    repeats
        Whether samples that were taken before may come again, as by a pipe whose sender begins
        anew.
    """

    record: ClassVar[str] = "line"
    kind: ClassVar[str]
    repeats = False

    def __init__(self, input: str, options: LineOptions) -> None:  # noqa: A002
        self.input, self.options = input, options
        try:
            self._opened: OpenInput = open_input(
                input, options.reading, options.by, live=True, follow=options.follow
            )
        except InputError as error:
            raise self._named(error) from error
        self._layout = LineLayout(_of_lines(options, self._opened.kind), self.name)
        self._restart(0, 0)

    def _restart(self, offset: int, line: int, newline: bytes | None = None) -> None:
        self._offset = offset  # behind the last line given out
        self._line = line  # the number of that line
        self._lines: list[bytes] = []  # complete, in reverse: the next one is last
        self._cutter = LineCutter(self.options.reading.longest_line, newline)
        self._ended = False

    @property
    def name(self) -> str:
        """What the input is called in messages."""
        return self.input

    @property
    def identity(self) -> str:
        """What tells this input from others, however the user spelled it."""
        return self.name

    @property
    def is_exact(self) -> bool:
        """Whether `resume` goes to exactly the position of a snapshot."""
        return not self.repeats

    @property
    def zone(self) -> str | None:
        """The zone of the newest time: an IANA name, or an offset; None if it has none."""
        return self._layout.zone

    @property
    def waiting(self) -> int:
        """How many samples of long lines are not complete."""
        return len(self._layout.facts().get("pending", ()))

    def next_batch(self, limit: int) -> StreamBatch | None:
        """Return the samples of at most `limit` lines; an empty batch if none came; None: end."""
        if not self._lines and not self._ended:
            self._fill()
        if not self._lines and self._ended:
            return self._last()
        count = min(limit, len(self._lines))
        first = self._line + 1
        lines = self._lines[len(self._lines) - count :][::-1]
        texts = line_texts(lines, first == 1, self._opened.encoding or UTF8)
        batch = self._layout.parse(texts, first)
        self._pass(lines)
        return batch

    def undecided(self) -> StreamBatch:
        """Return what lines hold of which it is not known yet, if there were no more."""
        return self._layout.undecided()

    @abstractmethod
    def snapshot(self) -> dict[str, Any]:
        """Return the position behind the last batch as JSON values."""

    @abstractmethod
    def resume(self, snapshot: Mapping[str, Any]) -> bool:
        """Go to the position of a snapshot; return False if it belongs to another input."""

    def go_back(self, snapshot: Mapping[str, Any], number: int) -> bool:
        """Go to the position before a line, of which a snapshot was taken; False: it has none."""
        if self.repeats or not self.resume(snapshot):
            return False
        while (missing := number - 1 - self._line) > 0:
            if self.next_batch(missing) is None:
                break
        return True

    def stop(self) -> bool:
        """Read no more bytes.

        Return True if lines were received that cannot be read again: `next_batch` is then called
        until it returns None.
        """
        self._ended = True
        return True

    def close(self) -> None:
        """Close the input. May be called twice."""
        self._opened.close()

    def _last(self) -> StreamBatch | None:
        """Return the samples that are known because the input has ended."""
        self._layout.check()
        if self.options.unfinished:
            return None
        batch = self._layout.parse([], self._line + 1, final=True)
        return batch if len(batch) or batch.problems else None

    def _read(self) -> bytes | None:
        """Return the next bytes; b"" if none came within `POLL_S`, None at the end."""
        try:
            return self._opened.poll()
        except InputError as error:
            raise self._named(error) from error

    def _fill(self) -> None:
        if piece := self._read():
            self._lines = self._cutter.cut(piece)[::-1]
        elif piece is None:
            self._ended = True
            if not self._cutter.unfinished:
                return
            if self.options.unfinished and not self._opened.finished:
                if self.options.report is not None:
                    self.options.report("the last line has no end yet: left for the next start")
            else:
                self._lines = self._cutter.finish()

    def _named(self, error: InputError) -> InputError:
        return InputError(f"{self.name}: {error.message}", hint=error.hint)

    def _pass(self, lines: Sequence[bytes]) -> None:
        """Go behind the next lines."""
        count = len(lines)
        del self._lines[len(self._lines) - count :]
        self._offset += sum(map(len, lines)) + count * self._cutter.last_end
        if self._cutter.skipped:
            self._offset += sum(line.size for line in lines if isinstance(line, OversizedLine))
        self._line += count


def line_input(input: str, options: LineOptions) -> LineInput:  # noqa: A002
    """Return the lines of a file, or of standard input, which is "-"."""
    return PipeInput(input, options) if input == "-" else FileInput(input, options)


def _of_lines(options: LineOptions, kind: Literal["csv", "jsonl"] | None) -> LineOptions:
    """Return the options with the format of the lines; None: the first one tells it."""
    many, given = options.by or options.long is not None, options.reading.format
    if given in ("csv", "jsonl") if kind is None else many and given in (None, "csv", "jsonl"):
        return options
    return replace(options, reading=replace(options.reading, format=kind))


class PipeInput(LineInput):
    """Lines from standard input. It has no positions: one pipe cannot be told from another."""

    kind = "pipe"
    repeats = True

    @property
    def name(self) -> str:
        """What it is called in messages."""
        return "standard input"

    def snapshot(self) -> dict[str, Any]:
        """Return what each column is."""
        return {"layout": self._layout.facts()}

    def resume(self, snapshot: Mapping[str, Any]) -> bool:
        """Go on with the next line: a header is taken, else the columns are those of before."""
        layout = snapshot.get("layout")
        if isinstance(layout, Mapping) and layout.get("opened_by") is not None:
            # Samples of long lines that are not complete are sent again.
            columns = {
                name: fact for name, fact in layout.items() if name not in ("pending", "held")
            }
            self._layout.restore(columns)
        return True


class Recent:
    r"""Bytes that were read, as far back as a digest needs them.

    `count`: how many bytes before a position are needed. `offset`: the position where reading
    begins. `before`: the bytes before it.

    >>> recent = Recent(4)
    >>> recent.add(b"time,a\n")
    >>> recent.add(b"1,2\n")
    >>> recent.before(7), recent.before(11)
    (b'e,a\n', b'1,2\n')
    """

    def __init__(self, count: int, offset: int = 0, before: bytes = b"") -> None:
        self._count = count
        self._pieces: deque[tuple[int, bytes]] = deque()  # with the positions where they begin
        self._end = offset
        if before:
            self._pieces.append((offset - len(before), before))

    def add(self, piece: bytes) -> None:
        """Add what was read."""
        self._pieces.append((self._end, piece))
        self._end += len(piece)

    def before(self, offset: int) -> bytes:
        """Return the last bytes before a position."""
        start = max(offset - self._count, 0)
        return b"".join(
            piece[max(start - at, 0) : offset - at]
            for at, piece in self._pieces
            if at < offset and at + len(piece) > start
        )

    def forget(self, offset: int, *, between: bool = False) -> None:
        """Drop what is not needed for positions from `offset` on.

        With `between` only the positions `offset` and the end are left: a line is being skipped.
        """
        if between and self._end - offset > 2 * self._count:
            here, end = self.before(offset), self.before(self._end)
            self._pieces = deque([(offset - len(here), here), (self._end - len(end), end)])
        start = offset - self._count
        while self._pieces and self._pieces[0][0] + len(self._pieces[0][1]) <= start:
            self._pieces.popleft()


class _FilePosition(NamedTuple):
    """The position of a snapshot."""

    path: str | None
    offset: int
    line: int
    encoding: str | None
    newline: bytes | None

    @classmethod
    def of(cls, snapshot: Mapping[str, Any]) -> "_FilePosition":
        """Return a snapshot's position; a StateError if it has none."""
        offset, line = _whole(snapshot, "offset"), _whole(snapshot, "line")
        encoding, newline, path = map(snapshot.get, ("encoding", "newline", "path"))
        if not isinstance(encoding, str | None) or newline not in (None, "\n", "\r"):
            raise StateError(
                f"position: expected an encoding and the end of a line, found {encoding!r} and "
                f"{newline!r}",
                hint=FRESH,
            )
        where = path if isinstance(path, str) else None
        return cls(where, offset, line, encoding, newline and newline.encode())


class FileInput(LineInput):
    """Lines of a file. A snapshot has its path, the position, and digests of the text around it.

    A position is one in the text, after decompression and as UTF-8. It belongs to every file with
    the same text up to it, whatever its name. A FIFO has no positions: one stream through it cannot
    be told from another.
    """

    kind = "file"

    def __init__(self, input: str, options: LineOptions) -> None:  # noqa: A002
        super().__init__(input, options)
        self._path = Path(input)
        self._resolved = str(self._path.resolve())
        self._head = b""  # as it was read: by now another file may have this one's name
        self._recent = Recent(EDGE)
        self.repeats = not self._opened.seekable  # a FIFO, as standard input does

    @property
    def identity(self) -> str:
        """The file's full path, where it was when it was first read."""
        return self._resolved

    def snapshot(self) -> dict[str, Any]:
        """Return the path, the position, and digests of the beginning and of the text before it."""
        if not self._opened.seekable:
            return {"path": self._resolved, "stream": True, "layout": self._layout.facts()}
        newline = self._cutter.newline
        return {
            "path": self._resolved,
            "head": digest(self._head[: self._offset]),
            "tail": digest(self._recent.before(self._offset)),
            "offset": self._offset,
            "line": self._line,
            "encoding": self._opened.encoding,
            "newline": None if newline is None else newline.decode(),
            "layout": self._layout.facts(),
        }

    def resume(self, snapshot: Mapping[str, Any]) -> bool:
        """Go to a snapshot's position, if it is one in this file's text."""
        if not self._opened.seekable:
            return snapshot.get("stream") is True and snapshot.get("path") == self._resolved
        if snapshot.get("stream") is True:
            return False
        position = _FilePosition.of(snapshot)
        # Files of one kind have the same first line: with no more than that, the path decides.
        if position.line <= 1 and position.path != self._resolved:
            return False
        before = self._go_to(position)
        if (
            before is None
            or digest(before) != snapshot.get("tail")
            or digest(self._head[: position.offset]) != snapshot.get("head")
        ):
            self._opened.begin_again()
            self._head, self._recent = b"", Recent(EDGE)
            self._restart(0, 0)
            return False
        self._layout.restore(snapshot.get("layout"))
        self._recent = Recent(EDGE, position.offset, before)
        self._restart(position.offset, position.line, position.newline)
        self._resolved = position.path or self._resolved
        return True

    def _go_to(self, position: _FilePosition) -> bytes | None:
        """Go to a position, and return the text before it; None if it ends before it."""
        opened, offset = self._opened, position.offset
        try:
            opened.begin_again(position.encoding)
            if opened.plain and isinstance(opened.raw, RawFile):
                self._head = opened.raw.range(0, min(offset, EDGE))
                before = opened.raw.range(max(offset - EDGE, 0), offset)
                opened.seek(offset)
                return before if len(before) == min(offset, EDGE) else None
            self._head = before = b""
            left = offset
            while left:
                if not (piece := opened.read(left)):
                    return None
                self._note_head(piece)
                before = (before + piece)[-EDGE:]
                left -= len(piece)
        except ParameterError as error:
            raise StateError(f"position: {error.message}", hint=FRESH) from error
        except InputError as error:
            raise self._named(error) from error
        return before

    def stop(self) -> bool:
        """Read no more, and drop the lines in memory: they can be read again."""
        if self._opened.seekable:
            self._lines = []
        return super().stop()

    def _read(self) -> bytes | None:
        follow = self.options.follow and self._opened.seekable
        replaced = follow and self._is_replaced()
        self._recent.forget(self._offset, between=self._cutter.skipping)
        piece = super()._read()
        if piece:
            self._note_head(piece)
            self._recent.add(piece)
        elif piece is not None and follow:
            if replaced:  # and what was written before it was has been read
                raise InputError(
                    f"{self._path} was replaced or cut short while it was followed",
                    hint="start `newnormal watch` again to read the new file",
                )
            time.sleep(POLL_S)
        return piece

    def _note_head(self, piece: bytes) -> None:
        if len(self._head) < EDGE:
            self._head += piece[: EDGE - len(self._head)]

    def _is_replaced(self) -> bool:
        try:
            now = os.stat(self._path)
        except FileNotFoundError:
            return False  # being rotated: looked at again with the next batch
        assert isinstance(self._opened.raw, RawFile)
        file = self._opened.raw.file
        opened = os.fstat(file.fileno())
        return (now.st_dev, now.st_ino) != (opened.st_dev, opened.st_ino) or (
            now.st_size < file.tell()
        )


def _whole(snapshot: Mapping[str, Any], name: str) -> int:
    value = snapshot.get(name)
    if isinstance(value, bool) or not isinstance(value, int) or not 0 <= value < 1 << 63:
        raise StateError(
            f"position: expected {name} as a whole number from 0, found {value!r}", hint=FRESH
        )
    return value
