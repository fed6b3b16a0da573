"""Samples of many streams, one after the other, as arrivals."""

from collections.abc import Callable, Sequence
from typing import Any

import numpy as np

from newnormal.arrivals import pivot
from newnormal.arrivals.arrival import Arrival
from newnormal.errors import InputError
from newnormal.io.decoders.base import DecoderLimits, TooManyError, check_name
from newnormal.tabular.parsing.decimals import NumberReader
from newnormal.tabular.parsing.time_columns import parse_times
from newnormal.texts import shortened
from newnormal.types import Floats, Ints


def times_of(values: Sequence[Any], where: Callable[[int], str]) -> Ints:
    """Return times in ns since 1970, as `parse_times` takes them; `where` one is, for errors."""
    return parse_times(values, lambda row: f"{where(row)}: time").astype(np.int64)


def numbers_of(values: Sequence[Any], where: Callable[[int], str]) -> Floats:
    """Return values as float64, NaN where one is missing, as `NumberReader` reads them.

    `where`: where one is and which channel it is of, for errors.
    """
    numbers, bad = NumberReader().read(values)
    for row in bad:
        raise InputError(
            f"{where(row)}: expected a number, found {shortened(ascii(values[row]))}",
            hint="leave a missing value out, or send null",
        )
    return numbers


class _RowGroup:
    """The samples of one stream that have the same channels."""

    __slots__ = ("channels", "rows", "stream", "times", "values")

    def __init__(self, stream: str, channels: tuple[str, ...]) -> None:
        self.stream = stream
        self.channels = channels
        self.times: list[Any] = []
        self.values: list[Any] = []
        self.rows: list[int] = []


class SampleRows:
    """Collects samples, each with the channels that it has.

    `limits`: how many samples and channels there may be. `now`: the time in ns of samples without
    one. `word`: what a row is called in errors, such as ``"line"``, and what the first one's number
    is.
    """

    def __init__(
        self, limits: DecoderLimits, now: int, word: str = "sample", first: int = 0
    ) -> None:
        self._limits = limits
        self._now = now
        self._word = word
        self._first = first
        self._groups: dict[tuple[str, tuple[str, ...]], _RowGroup] = {}
        self._checked: set[tuple[str, ...]] = set()
        self._count = 0

    def where(self, row: int) -> str:
        """Return where a row is, for errors."""
        return f"{self._word} {self._first + row}"

    def add(
        self, row: int, stream: Any, time: Any, channels: tuple[str, ...], values: Sequence[Any]
    ) -> None:
        """Add a sample.

        `row`: its number, counted from 0. `time`: as it was sent; None: it has none.
        """
        try:
            group = self._groups.get((stream, channels))
        except TypeError:  # a name that is a list
            group = None
        if group is None:
            group = self._begun(row, stream, channels)
        group.times.append(time)
        group.values += values
        group.rows.append(row)
        self._count += 1
        if self._count > self._limits.samples:
            raise too_many_samples(self._limits)

    def _begun(self, row: int, stream: Any, channels: tuple[str, ...]) -> _RowGroup:
        name = check_name(stream, "stream", self.where(row))
        if channels not in self._checked:
            check_channels(channels, self._limits, self.where(row))
            self._checked.add(channels)
        made = self._groups[name, channels] = _RowGroup(name, channels)
        return made

    def arrivals(self) -> list[Arrival]:
        """Return all of them, in the order in which the streams came."""
        groups = list(self._groups.values())
        # All at once: a body often has one sample of each of many streams.
        numbers = numbers_of(
            [value for group in groups for value in group.values],
            lambda at: self._where_value(groups, at),
        )
        times = self._times(groups)
        arrivals = []
        row = cell = 0
        for group in groups:
            count, width = len(group.rows), len(group.channels)
            values = numbers[cell : cell + count * width].reshape(count, width)
            arrivals.append(Arrival(group.stream, group.channels, times[row : row + count], values))
            row += count
            cell += count * width
        return arrivals

    def _where_value(self, groups: Sequence[_RowGroup], at: int) -> str:
        for group in groups:
            if at < len(group.values):
                row, column = divmod(at, len(group.channels))
                where = self.where(group.rows[row])
                return f"{where}: channel {group.channels[column]!r} of {group.stream!r}"
            at -= len(group.values)
        return "the body"

    def _times(self, groups: Sequence[_RowGroup]) -> Ints:
        times = [time for group in groups for time in group.times]
        rows = [row for group in groups for row in group.rows]
        without = [at for at, time in enumerate(times) if time is None]
        if without:
            self._check_single(groups)
            for at in without:
                times[at] = 0
        moments = times_of(times, lambda at: self.where(rows[at]))
        moments[without] = self._now
        return moments

    def _check_single(self, groups: Sequence[_RowGroup]) -> None:
        """Raise an InputError if two samples of a stream have no time: they would have the same."""
        seen: set[str] = set()
        for group in groups:
            for time, row in zip(group.times, group.rows, strict=True):
                if time is None and group.stream in seen:
                    raise without_time(group.stream, self.where(row))
                if time is None:
                    seen.add(group.stream)


def without_time(stream: str, where: str) -> InputError:
    """Return the error of a sample without a time that is not the only one of its stream."""
    return InputError(
        f"{where}: expected a time, since there are several samples of {stream!r}, found none",
        hint="only a single sample gets the time at which it came",
    )


def check_channels(channels: Sequence[str], limits: DecoderLimits, where: str) -> None:
    """Raise an InputError unless these can be the channels of a stream."""
    if not channels:
        raise InputError(
            f"{where}: expected the value of a channel, found none",
            hint='such as "values": {"temperature": 21.5}',
        )
    if len(channels) > limits.channels:
        raise too_many_channels(len(channels), limits, where)
    for name in channels:
        check_name(name, "channel", where)
    if len(set(channels)) < len(channels):
        twice = next(name for name in channels if list(channels).count(name) > 1)
        raise InputError(
            f"{where}: expected each channel once, found {twice!r} twice", hint="rename one of them"
        )


def too_many_channels(count: int, limits: DecoderLimits, where: str) -> TooManyError:
    """Return the error of a sample with too many channels."""
    return TooManyError(
        f"{where}: expected at most {limits.channels} channels, found {count}",
        hint="make several streams of them, or raise limits.channels",
    )


def too_many_samples(limits: DecoderLimits) -> TooManyError:
    """Return the error of a body with too many samples."""
    return TooManyError(
        f"expected at most {limits.samples:,} samples, found more",
        hint="send them in several requests, or raise limits.samples_per_request",
    )


def from_long(
    streams: Sequence[str],
    channels: Sequence[str],
    times: Ints,
    values: Floats,
    limits: DecoderLimits,
    where: Callable[[int], str] = lambda row: f"sample {row}",
) -> list[Arrival]:
    """Return values that came one by one as arrivals: those of one time are one sample.

    `streams`, `channels`: the names of each value's stream and channel. `times`, `values`: (N,)
    each. `where`: where a value was, for errors.
    """
    if len(values) > limits.samples:
        raise too_many_samples(limits)
    rows: dict[str, list[int]] = {}
    for row, name in enumerate(streams):
        rows.setdefault(name, []).append(row)
    arrivals: list[Arrival] = []
    for name, stream_rows in rows.items():
        check_name(name, "stream", where(stream_rows[0]))
        columns_of: dict[str, int] = {}
        columns = np.array(
            [columns_of.setdefault(channels[row], len(columns_of)) for row in stream_rows]
        )
        names = tuple(columns_of)
        check_channels(names, limits, where(stream_rows[0]))
        picked = np.array(stream_rows)
        arrivals += pivot.arrivals(name, names, times[picked], columns, values[picked])
    return arrivals
