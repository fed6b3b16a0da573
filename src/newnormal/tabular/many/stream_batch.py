"""Samples of many streams, and those of each stream in its own channels."""

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from typing import NamedTuple

import numpy as np

from newnormal.errors import InputError
from newnormal.tabular.columns import match_names
from newnormal.tabular.problems import Problem
from newnormal.types import Bools, Floats, Ints, Times


class StreamRows(NamedTuple):
    """The samples of one stream in a batch."""

    # rows, values: their rows in the batch, and their values in the stream's channels
    rows: Ints
    values: Floats
    problems: tuple[Problem, ...]  # bad ones
    # unknown, absent: columns with values that are no channel, of this stream or one with the same
    # channels; and channels that are no column
    unknown: tuple[str, ...] = ()
    absent: tuple[str, ...] = ()


@dataclass(frozen=True, eq=False)
class StreamBatch:
    """Samples of many streams, in the order of the input."""

    names: tuple[str, ...]  # the names of the streams so far
    codes: Ints  # for each sample the position in `names` of its stream, shape (N,)
    channels: tuple[str, ...]  # the columns of the values
    # one row a sample, shape (N, C); NaN is missing, as are channels that the stream does not have
    values: Floats
    # the samples' times in UTC (datetime64[ns]), or None. Their order is not checked
    times: Times | None
    numbers: Ints  # the line that each sample was read from, counted from 1
    problems: tuple[Problem, ...] = ()  # lines that hold no sample, in order
    # whether the columns cannot be more, as those of a CSV header. If not, a channel that is no
    # column is missing so far
    fixed: bool = True

    def __len__(self) -> int:
        return len(self.codes)

    def select(
        self, channels: Mapping[str, Sequence[str]], *, lenient: bool = False
    ) -> dict[str, StreamRows]:
        """Return the samples of each stream in that stream's channels.

        Parameters
        ----------
        channels
            The channels of each stream; streams that are not in it are left out.
        lenient
            Leave out columns that are no channel, and take a channel that is no column for
            missing, as long as one of them is a column.

        Returns
        -------
        The samples by stream, in the order of first appearance. A sample that has a value in a
        column which is no channel of its stream is a problem. If the columns are `fixed`, so is
        every sample of a stream of which a channel is no column.
        """
        order = np.argsort(self.codes, kind="stable")
        present, starts = np.unique(self.codes[order], return_index=True)
        parts = np.split(order, starts[1:])
        # Most streams have the same channels: those are taken at once.
        alike: dict[tuple[str, ...], list[int]] = {}
        for part, code in enumerate(present.tolist()):
            if self.names[code] in channels:
                alike.setdefault(tuple(channels[self.names[code]]), []).append(part)
        samples: dict[int, StreamRows] = {}
        for stream_channels, members in alike.items():
            selected = self._selected([parts[part] for part in members], stream_channels, lenient)
            samples.update(zip(members, selected, strict=True))
        appearance = np.argsort(order[starts], kind="stable").tolist()
        return {self.names[present[part]]: samples[part] for part in appearance if part in samples}

    def _selected(
        self, parts: Sequence[Ints], channels: tuple[str, ...], lenient: bool
    ) -> Iterator[StreamRows]:
        """Give the samples of streams that have the same channels."""
        position = {name: index for index, name in enumerate(self.channels)}
        rows = np.concatenate(parts)
        taken = self.values[rows]
        values = np.full((len(rows), len(channels)), np.nan)
        for index, name in enumerate(channels):
            if name in position:
                values[:, index] = taken[:, position[name]]
        others = [name for name in self.channels if name not in channels]
        extra: Bools = ~np.isnan(taken[:, [position[name] for name in others]])
        there = [name for name in channels if name in position or not self.fixed]
        if lenient and there:
            some = np.flatnonzero(extra.any(axis=0)).tolist()
            unknown_columns = tuple(others[column] for column in some)
            absent = tuple(name for name in channels if name not in there)
            end = 0
            for part in parts:
                start, end = end, end + len(part)
                yield StreamRows(part, values[start:end], (), unknown_columns, absent)
            return
        good: Bools = ~np.any(extra, axis=1) & (len(there) == len(channels))
        end = 0
        for part in parts:
            start, end = end, end + len(part)
            fits = good[start:end]
            if fits.all():
                yield StreamRows(part, values[start:end], ())
                continue
            problems = []
            for index in np.flatnonzero(~fits).tolist():
                unknown = [others[column] for column in np.flatnonzero(extra[start + index])]
                before = int(np.count_nonzero(fits[:index]))
                error = _mismatch([*there, *unknown], channels)
                problems.append(Problem(error, int(self.numbers[part[index]]), before))
            yield StreamRows(part[fits], values[start:end][fits], tuple(problems))


def _mismatch(columns: Sequence[str], channels: Sequence[str]) -> InputError:
    """Return the error of columns that are not the channels."""
    try:
        match_names(columns, channels)
    except InputError as error:
        return error
    raise AssertionError(f"{columns} are the channels")
