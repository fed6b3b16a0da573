"""Samples of many streams, gathered for each group before anything changes."""

from collections.abc import Mapping, Sequence
from typing import Any

import numpy as np

from newnormal.core.times import is_late, late_error
from newnormal.errors import InputError, NewnormalError
from newnormal.fleet.group import Group, Rows
from newnormal.fleet.results import StreamError
from newnormal.fleet.streams import FleetStreams
from newnormal.tabular import StreamTables, Table, parse_time, parse_times, to_sample
from newnormal.tabular.frames import as_array
from newnormal.tabular.samples import unmasked
from newnormal.tabular.times import zone_of, zone_of_times
from newnormal.types import NO_TIME, Bools, Floats, Ints, ns_of_time


class Gathered:
    """What one call hands to each group, and what it cannot take."""

    def __init__(self) -> None:
        # for each group its rows, and the row of the input that each of them came from
        self.work: list[tuple[Group, Rows, Ints]] = []
        self.errors: list[StreamError] = []  # the samples that are not taken

    def refuse(self, name: str, error: NewnormalError, rows: Sequence[int]) -> None:
        """Take note that rows of the input are not taken."""
        self.errors.append(StreamError(name, error, tuple(rows)))


def gather_tables(streams: FleetStreams, tables: StreamTables) -> Gathered:
    """Return series of many streams by group; a stream is taken whole, or not at all."""
    gathered, start = Gathered(), 0
    by_group: dict[int, list[tuple[Group, int, Table, Ints]]] = {}
    for name, error in tables.errors.items():
        gathered.refuse(name, error, _rows(tables, name, 0, start).tolist())
    for name, table in tables.tables.items():
        rows = _rows(tables, name, len(table.values), start)
        start += len(table.values)
        try:
            group, at = streams.where(name)
            if table.times is not None and len(table.times):
                _check_time(group, at, ns_of_time(table.times[0]))
        except NewnormalError as error:
            gathered.refuse(name, error, rows.tolist())
            continue
        by_group.setdefault(id(group), []).append((group, at, table, rows))
    for parts in by_group.values():
        groups, places, series, origins = zip(*parts, strict=True)
        counts = np.array([len(table.values) for table in series])
        last = np.cumsum(counts)
        samples = np.ascontiguousarray(np.concatenate([table.values for table in series]))
        times = np.concatenate([_ns_of(table) for table in series])
        group_rows = Rows(np.array(places), last - counts, last, samples, times)
        gathered.work.append((groups[0], group_rows, np.concatenate(origins)))
    return gathered


def gather_array(streams: FleetStreams, samples: Any, times: Any) -> Gathered:
    """Return one sample of every stream, (S, C) in the fleet's order."""
    groups = [group for group in streams.groups if group.streams]
    if not groups:
        raise InputError(
            "expected a fleet with streams, found none",
            hint="fleet.fit(histories) fits them, fleet.add(name, history) adds one",
        )
    if len(groups) > 1:
        raise InputError(
            "expected a mapping from names to samples, found an array: the streams of this fleet "
            "differ in shape",
            hint='fleet.step({"web-1": sample, ...})',
        )
    group = groups[0]
    try:
        values = np.array(unmasked(as_array(samples)), dtype=np.float64, order="C")
    except (TypeError, ValueError) as error:
        if isinstance(error, InputError):
            raise
        raise InputError(
            f"expected an array of numbers, found {_shown(samples)}",
            hint="pass NaN for a missing value",
        ) from None
    if values.shape != (len(streams), group.channels):
        raise InputError(
            f"expected an array of shape ({len(streams)}, {group.channels}), a row a stream in the "
            f"fleet's order, found shape {values.shape}",
            hint='a part of the streams comes as a mapping: fleet.step({"web-1": sample, ...})',
        )
    gathered = Gathered()
    places = streams.places(group)
    when = _times(times, streams.names)
    infinite = np.isinf(values).any(axis=1)
    newest = group.newest[places].view("datetime64[ns]")
    wrong: Bools = infinite | is_late(when.view("datetime64[ns]"), newest)
    for row in np.flatnonzero(wrong).tolist():
        name, at = streams.names[row], int(places[row])
        try:
            to_sample(values[row], group.streams[at].fitted.channels, int(group.seen[at]))
            _check_time(group, at, int(when[row]))
        except NewnormalError as error:
            gathered.refuse(name, error, [row])
    taken = np.flatnonzero(~wrong)
    if len(taken) < len(values):
        values, when, places = values[taken], when[taken], places[taken]
    gathered.work.append((group, _single_rows(places, values, when), taken))
    return gathered


def gather_samples(streams: FleetStreams, samples: Mapping[str, Any], times: Any) -> Gathered:
    """Return one sample of each of some streams, by name."""
    gathered = Gathered()
    by_group: dict[int, list[tuple[Group, int, Floats, int, int]]] = {}
    shared = None if isinstance(times, Mapping) else _times(times, tuple(samples))
    for row, (key, sample) in enumerate(samples.items()):
        name = str(key)  # as those of a mapping of histories
        try:
            group, at = streams.where(name)
            values = to_sample(sample, group.streams[at].fitted.channels, int(group.seen[at]))
            when = _ns(times.get(key)) if shared is None else int(shared[row])
            _check_time(group, at, when)
        except NewnormalError as error:
            gathered.refuse(name, error, [row])
            continue
        by_group.setdefault(id(group), []).append((group, at, values, when, row))
    for parts in by_group.values():
        groups, places, series, moments, origins = zip(*parts, strict=True)
        rows = _single_rows(np.array(places), np.concatenate(series), np.array(moments))
        gathered.work.append((groups[0], rows, np.array(origins)))
    return gathered


def _single_rows(places: Ints, values: Floats, times: Ints) -> Rows:
    """Return one row of each stream."""
    first = np.arange(len(values))
    return Rows(places, first, first + 1, values, times)


def _check_time(group: Group, at: int, when: int) -> None:
    """Raise an InputError unless a sample with this time may come next."""
    newest = int(group.newest[at])
    if when != NO_TIME and is_late(when, newest):
        time = np.datetime64(when, "ns")
        raise late_error(time, np.datetime64(newest, "ns"), sample=int(group.seen[at]))


def _ns(time: Any) -> int:
    return NO_TIME if time is None else ns_of_time(parse_time(time))


def _ns_of(table: Table) -> Ints:
    if table.times is None:
        return np.full(len(table.values), NO_TIME)
    return table.times.astype("datetime64[ns]").view(np.int64)


def _times(times: Any, names: tuple[str, ...]) -> Ints:
    """Return the times of a sample of each stream in ns: none, one for all, one each, by name."""
    if times is None:
        return np.full(len(names), NO_TIME)
    if isinstance(times, Mapping):
        return np.array([_ns(times.get(name)) for name in names])
    if isinstance(times, str) or not hasattr(times, "__len__"):
        return np.full(len(names), _ns(times))
    parsed = parse_times(times)
    if len(parsed) != len(names):
        raise InputError(
            f"times: expected one for all, or one for each of {len(names)} samples, "
            f"found {len(parsed)}"
        )
    return np.ascontiguousarray(parsed.astype("datetime64[ns]")).view(np.int64)


def zone_of_step(times: Any) -> str | None:
    """Return the zone of the times of one sample of each stream."""
    if isinstance(times, Mapping):
        return zone_of(next(iter(times.values()), None))
    if isinstance(times, str) or not hasattr(times, "__len__"):
        return zone_of(times)
    return zone_of_times(times)


def _shown(samples: Any, most: int = 60) -> str:
    text = repr(samples)
    return text if len(text) <= most else f"{text[:most]}..."


def _rows(tables: StreamTables, name: str, count: int, start: int) -> Ints:
    """Return the rows of the input that a stream's samples came from."""
    if tables.rows is not None and name in tables.rows:
        return tables.rows[name]
    return np.arange(start, start + count)
