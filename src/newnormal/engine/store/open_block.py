"""The newest samples of a stream, in memory until they fill a block."""

import numpy as np

from newnormal.engine.store.columns import SAMPLES, BlockColumns
from newnormal.engine.store.levels import BLOCK
from newnormal.engine.values import StoredRows

_ROOM = 32  # rows of an empty one; it doubles until it has those of a block


class OpenBlock:
    """The samples behind the last full block of a stream.

    Arrays that were given away by `columns` are never altered: rows are written behind them.
    """

    __slots__ = ("_arrays", "_columns", "channels", "length", "number", "written")

    def __init__(self, number: int, samples: BlockColumns | None = None) -> None:
        self.number = number  # of the block that they will fill
        self.length = 0  # how many there are
        self.written = 0  # how many of them are in the database, or wait for the next commit
        self._make(())
        if samples is not None and len(samples):
            self._make(samples.channels, samples)
            self.length = self.written = len(samples)

    @property
    def count(self) -> int:
        """The number of the next sample of the stream."""
        return self.number * BLOCK + self.length

    @property
    def columns(self) -> BlockColumns:
        """The samples that are here now."""
        return self._columns.part(0, self.length)

    def take(self, rows: StoredRows, begin: int, end: int) -> None:
        """Add rows that the block has room for."""
        if rows.channels != self.channels:
            self._widen(rows.channels)
        start, stop = self.length, self.length + end - begin
        if stop > len(self._columns):
            self._grow(stop)
        own = None
        if rows.channels != self.channels:
            own = [self.channels.index(name) for name in rows.channels]
        for column, array in zip(SAMPLES, self._arrays, strict=True):
            added = getattr(rows, column.name)[begin:end]
            if own is None or not column.wide:
                array[start:stop] = added
            else:
                array[start:stop] = np.nan
                array[start:stop, own] = added
        self.length = stop

    def next_block(self) -> None:
        """Begin the next block."""
        self.number += 1
        self.length = self.written = 0
        self._make(self.channels)

    def _make(self, channels: tuple[str, ...], samples: BlockColumns | None = None) -> None:
        """Take new arrays, with the samples in them."""
        count = 0 if samples is None else len(samples)
        self._columns = BlockColumns.empty(SAMPLES, channels, min(BLOCK, max(_ROOM, count)))
        self.channels = channels
        self._arrays = tuple(self._columns.arrays[column.name] for column in SAMPLES)
        if samples is not None:
            for column, array in zip(SAMPLES, self._arrays, strict=True):
                array[:count] = samples.arrays[column.name]

    def _grow(self, rows: int) -> None:
        kept = self.columns
        room = min(BLOCK, max(rows, 2 * len(self._columns)))
        larger = BlockColumns.empty(SAMPLES, self.channels, room)
        for column in SAMPLES:
            larger.arrays[column.name][: self.length] = kept.arrays[column.name]
        self._columns = larger
        self._arrays = tuple(larger.arrays[column.name] for column in SAMPLES)

    def _widen(self, channels: tuple[str, ...]) -> None:
        """Have room for these channels, too."""
        if not self.length:
            self._make(channels)
            return
        union = tuple(dict.fromkeys((*self.channels, *channels)))
        if union != self.channels:
            self._make(union, self.columns.of_channels(union))
