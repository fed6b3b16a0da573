"""Consecutive samples of a stream, or points that stand for several, as columns and as bytes."""

import json
import struct
import zlib
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any, NamedTuple

import numpy as np
from numpy.typing import NDArray

from newnormal.engine.values import StoredRows

_HEAD = struct.Struct("<BII")  # version, number of rows, length of the channels' names
_VERSION = 1
_COMPRESSION = 1  # zlib's fastest


class Column(NamedTuple):
    """A column of every row: its name, its type, and whether it has a number a channel."""

    name: str
    kind: np.dtype[Any]
    wide: bool


def _columns(**kinds: str) -> tuple[Column, ...]:
    return tuple(
        Column(name, np.dtype(kind[:3]), kind.endswith("*")) for name, kind in kinds.items()
    )


SAMPLES = _columns(
    times="<i8",
    scores="<f4",
    thresholds="<f4",
    ratios="<f4",
    anomalous="|b1",
    values="<f8*",
    expected="<f4*",
    below="<f4*",
    above="<f4*",
    channel_ratios="<f4*",
)
POINTS = _columns(
    times="<i8",
    scores="<f4",
    thresholds="<f4",
    ratios="<f4",
    anomalous="|b1",
    low="<f8*",
    high="<f8*",
    expected="<f4*",
    least="<f4*",
    most="<f4*",
    channel_ratios="<f4*",
)


@dataclass(frozen=True, eq=False)
class BlockColumns:
    """Rows of samples or of points, by the name of the column; (N,) or (N, C)."""

    layout: tuple[Column, ...]
    channels: tuple[str, ...]
    arrays: Mapping[str, NDArray[Any]]

    def __len__(self) -> int:
        return len(self.arrays["times"])

    def __getitem__(self, name: str) -> NDArray[Any]:
        return self.arrays[name]

    def part(self, begin: int, end: int) -> "BlockColumns":
        """Return the rows from `begin` up to `end`, which is not included."""
        arrays = {name: array[begin:end] for name, array in self.arrays.items()}
        return BlockColumns(self.layout, self.channels, arrays)

    def of_channels(self, channels: tuple[str, ...]) -> "BlockColumns":
        """Return it with these channels in this order; NaN for those that are not in it."""
        if channels == self.channels:
            return self
        column_of = {name: k for k, name in enumerate(self.channels)}
        targets = [k for k, name in enumerate(channels) if name in column_of]
        sources = [column_of[channels[k]] for k in targets]
        arrays = dict(self.arrays)
        for column in self.layout:
            if column.wide:
                wide = np.full((len(self), len(channels)), np.nan, column.kind)
                wide[:, targets] = self.arrays[column.name][:, sources]
                arrays[column.name] = wide
        return BlockColumns(self.layout, channels, arrays)

    @classmethod
    def empty(
        cls, layout: tuple[Column, ...], channels: tuple[str, ...], rows: int = 0
    ) -> "BlockColumns":
        """Return rows that are not yet filled in."""
        arrays = {
            column.name: np.empty((rows, len(channels)) if column.wide else rows, column.kind)
            for column in layout
        }
        return cls(layout, channels, arrays)

    def widened(self) -> dict[str, Any]:
        """Return the arrays by name as int64, float64 and bool."""
        kinds = {"i": np.int64, "f": np.float64, "b": np.bool_}
        return {name: array.astype(kinds[array.dtype.kind]) for name, array in self.arrays.items()}

    def as_rows(self, first: int) -> StoredRows:
        """Return samples as the service has them."""
        assert self.layout is SAMPLES
        return StoredRows(first, self.channels, **self.widened())


def join(parts: Sequence[BlockColumns]) -> BlockColumns:
    """Return at least one part one behind the other, with the channels of all of them."""
    if len(parts) == 1:
        return parts[0]
    channels = parts[0].channels
    if any(part.channels != channels for part in parts):
        channels = tuple(dict.fromkeys(name for part in parts for name in part.channels))
    parts = [part.of_channels(channels) for part in parts]
    layout = parts[0].layout
    arrays = {
        column.name: np.concatenate([part.arrays[column.name] for part in parts])
        for column in layout
    }
    return BlockColumns(layout, channels, arrays)


def encode(columns: BlockColumns) -> bytes:
    """Return the rows as bytes, compressed, without any loss.

    Times are differences. Of numbers, first bytes come first, as those of neighbours are alike:
    this makes compression several times faster, and the result smaller.
    """
    names = json.dumps(columns.channels, separators=(",", ":")).encode()
    parts = [_HEAD.pack(_VERSION, len(columns), len(names)), names]
    for column in columns.layout:
        array = columns.arrays[column.name]
        if column.name == "times":
            array = np.diff(array, prepend=np.int64(0))
        flat = np.ascontiguousarray(array.T if column.wide else array, column.kind)
        size = column.kind.itemsize
        parts.append(flat.reshape(-1).view(np.uint8).reshape(-1, size).T.tobytes())
    return zlib.compress(b"".join(parts), _COMPRESSION)


def decode(data: bytes, layout: tuple[Column, ...]) -> BlockColumns:
    """Return the rows of bytes that `encode` gave; other bytes are a ValueError."""
    try:
        plain = zlib.decompress(data)
        version, count, length = _HEAD.unpack_from(plain)
        offset = _HEAD.size + length
        channels = tuple(json.loads(plain[_HEAD.size : offset]))
    except (zlib.error, struct.error) as error:
        raise ValueError(str(error)) from error
    if version != _VERSION:
        raise ValueError(f"expected version {_VERSION}, found {version}")
    arrays: dict[str, NDArray[Any]] = {}
    for column in layout:
        size, width = column.kind.itemsize, len(channels) if column.wide else 1
        raw = np.frombuffer(plain, np.uint8, count * width * size, offset)
        offset += len(raw)
        flat = np.ascontiguousarray(raw.reshape(size, -1).T).view(column.kind).reshape(-1)
        if column.name == "times":
            flat = np.cumsum(flat)
        arrays[column.name] = flat.reshape(width, count).T if column.wide else flat
    if offset != len(plain):
        raise ValueError(f"expected {offset} bytes, found {len(plain)}")
    return BlockColumns(layout, channels, arrays)
