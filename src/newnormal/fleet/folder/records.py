"""What changes a fleet, as records of a log and back.

A record is its kind, a marker of the caller's, and a body. Streams are named by numbers that are
never used again, so that a record keeps its meaning when streams are added or removed. Everything
is little-endian.
"""

from __future__ import annotations

import json
import struct
from collections.abc import Callable, Iterable
from typing import Any, NamedTuple

import numpy as np
from numpy.typing import NDArray

from newnormal.errors import InputError, StateError
from newnormal.fleet.group import Group, Rows
from newnormal.fleet.results import StreamError
from newnormal.fleet.work import Gathered
from newnormal.state.facts import MALFORMED
from newnormal.types import Floats, Ints
from newnormal.types.tables import COUNT, LARGEST_COUNT

SAMPLES, ACT, MARKER = 1, 2, 3
_HEAD = struct.Struct("<BI")  # kind, length of the marker
_SAMPLES = struct.Struct("<BII")  # flush, number of blocks, length of the errors
_BLOCK = struct.Struct("<QQIB")  # streams, rows, channels, flags
_SINGLE, _ONE_TIME, _IN_ORDER = 1, 2, 4  # flags: what is not written out


class LoggedBlock(NamedTuple):
    """Samples of some streams of one group, one stream after the other."""

    ids: Ints  # (S,)
    counts: Ints  # (S,) rows of each
    samples: Floats  # (N, C)
    times: Ints  # (N,) in ns
    origin: Ints  # (N,) the row of the caller's input

    @classmethod
    def of(cls, ids: Ints, rows: Rows, origin: Ints) -> LoggedBlock:
        """Return the rows of a group, whose streams have these numbers."""
        return cls(ids, rows.last - rows.first, rows.samples, rows.times, origin)

    def write(self) -> list[bytes]:
        """Return it as bytes."""
        streams, rows = len(self.ids), len(self.samples)
        flags = 0
        if streams == rows and (self.counts == 1).all():
            flags |= _SINGLE
        if rows and (self.times == self.times[0]).all():
            flags |= _ONE_TIME
        if rows and (self.origin == np.arange(self.origin[0], self.origin[0] + rows)).all():
            flags |= _IN_ORDER
        return [
            _BLOCK.pack(streams, rows, self.samples.shape[1], flags),
            self.ids.astype("<u4").tobytes(),
            b"" if flags & _SINGLE else self.counts.astype("<i8").tobytes(),
            (self.times[:1] if flags & _ONE_TIME else self.times).astype("<i8").tobytes(),
            (self.origin[:1] if flags & _IN_ORDER else self.origin).astype("<i8").tobytes(),
            np.ascontiguousarray(self.samples, "<f8").tobytes(),
        ]

    @classmethod
    def read(cls, body: _Reader) -> LoggedBlock:
        """Return what `write` was called on."""
        streams, rows, channels, flags = body.unpack(_BLOCK)
        ids = body.array("<u4", streams).astype(np.int64)
        counts = np.ones(streams, np.int64)
        if not flags & _SINGLE:
            counts = body.array("<i8", streams).astype(np.int64)
        times = body.array("<i8", 1 if flags & _ONE_TIME else rows)
        origin = body.array("<i8", 1 if flags & _IN_ORDER else rows).astype(np.int64)
        # Before anything is made of so many rows: they are there, and each is a stream's.
        samples = body.array("<f8", rows * channels).reshape(rows, channels)
        within = (counts >= 0) & (counts <= rows)
        if not channels or not within.all() or counts.sum() != rows or np.isinf(samples).any():
            raise ValueError("rows")
        if len(np.unique(ids)) < streams or not COUNT.holds(origin).all():
            raise ValueError("streams and rows of the input")
        if flags & _ONE_TIME:
            times = np.full(rows, times[0])
        if flags & _IN_ORDER:
            origin = np.arange(origin[0], origin[0] + rows)
        return cls(ids, counts, samples.astype(np.float64), times.astype(np.int64), origin)

    def only(self, keep: NDArray[np.bool_]) -> LoggedBlock:
        """Return the part of these streams."""
        if keep.all():
            return self
        rows = np.repeat(keep, self.counts)
        return LoggedBlock(
            self.ids[keep],
            self.counts[keep],
            np.ascontiguousarray(self.samples[rows]),
            np.ascontiguousarray(self.times[rows]),
            self.origin[rows],
        )

    def rows(self, places: Ints) -> Rows:
        """Return what a group takes; `places` are the positions of its streams there."""
        last = np.cumsum(self.counts)
        return Rows(places, last - self.counts, last, self.samples, self.times)


class Samples(NamedTuple):
    """Samples that were taken, and those that were not."""

    blocks: tuple[LoggedBlock, ...]
    errors: tuple[StreamError, ...]
    flush: bool

    @classmethod
    def of(cls, gathered: Gathered, flush: bool, ids: Callable[[Group], Ints]) -> Samples:
        """Return what one call gathered; `ids` gives the numbers of a group's streams."""
        blocks = [
            LoggedBlock.of(ids(group)[rows.streams], rows, origin)
            for group, rows, origin in gathered.work
        ]
        return cls(tuple(blocks), tuple(gathered.errors), flush)

    def write(self) -> list[bytes]:
        """Return the body of a record."""
        errors = b""
        if self.errors:
            facts = [
                [refused.stream, refused.error.message, refused.error.hint, list(refused.rows)]
                for refused in self.errors
            ]
            errors = json.dumps(facts).encode()
        parts = [_SAMPLES.pack(self.flush, len(self.blocks), len(errors)), errors]
        for block in self.blocks:
            parts += block.write()
        return parts

    @classmethod
    def read(cls, body: _Reader) -> Samples:
        """Return what `write` was called on."""
        flush, count, length = body.unpack(_SAMPLES)
        errors: tuple[StreamError, ...] = ()
        if length:
            errors = tuple(
                StreamError(str(name), InputError(str(message), hint=hint), tuple(map(int, rows)))
                for name, message, hint, rows in json.loads(body.take(length))
            )
        return cls(tuple(LoggedBlock.read(body) for _ in range(count)), errors, bool(flush))


class Act(NamedTuple):
    """Feedback on a stream."""

    id: int
    verb: str
    alarm: Any
    change: Any

    def write(self) -> list[bytes]:
        """Return the body of a record."""
        return [json.dumps(self._asdict(), default=str).encode()]

    @classmethod
    def read(cls, body: _Reader) -> Act:
        """Return what `write` was called on."""
        facts = json.loads(body.take(body.left))
        if facts["verb"] not in ("accept", "reject", "undo"):
            raise ValueError("verb")
        if type(facts["id"]) is not int or not 0 <= facts["id"] <= LARGEST_COUNT:
            raise ValueError("id")
        return cls(facts["id"], facts["verb"], facts["alarm"], facts["change"])


class LogRecord(NamedTuple):
    """One record."""

    kind: int
    body: Samples | Act | None
    marker: bytes | None = None

    def write(self) -> bytes:
        """Return it as bytes."""
        marker = self.marker or b""
        length = len(marker) + 1 if self.marker is not None else 0  # 0: none
        parts: Iterable[bytes] = [] if self.body is None else self.body.write()
        return b"".join((_HEAD.pack(self.kind, length), marker, *parts))


def parse(record: bytes, position: int) -> LogRecord:
    """Return the record that ends at a position of a log.

    >>> parse(LogRecord(MARKER, None, b"printed").write(), 7).marker
    b'printed'
    """
    body = _Reader(record)
    try:
        kind, length = body.unpack(_HEAD)
        marker = bytes(body.take(length - 1)) if length else None
        readers: dict[int, Callable[[_Reader], Samples | Act | None]] = {
            SAMPLES: Samples.read,
            ACT: Act.read,
            MARKER: lambda _: None,
        }
        parsed = LogRecord(kind, readers[kind](body), marker)
        if body.left:
            raise ValueError("length")
    except MALFORMED as error:
        raise StateError(
            f"the record before position {position} of the log is not one of newnormal's: {error}",
            hint="give the log that the fleet's folder belongs to",
        ) from error
    return parsed


class _Reader:
    """Takes parts off the front of a record."""

    def __init__(self, record: bytes) -> None:
        self._record, self._at = memoryview(record), 0

    @property
    def left(self) -> int:
        return len(self._record) - self._at

    def take(self, size: int) -> bytes:
        if not 0 <= size <= self.left:
            raise ValueError("length")
        self._at += size
        return bytes(self._record[self._at - size : self._at])

    def unpack(self, form: struct.Struct) -> tuple[Any, ...]:
        return form.unpack(self.take(form.size))

    def array(self, dtype: str, size: int) -> NDArray[Any]:
        return np.frombuffer(self.take(np.dtype(dtype).itemsize * size), dtype)
