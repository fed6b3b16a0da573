"""The log of a fleet, applied again to the streams that do not have it yet."""

import logging
import os
from collections.abc import Callable
from functools import partial
from pathlib import Path
from typing import Any, NamedTuple

import numpy as np
from numpy.typing import NDArray

from newnormal.core.times import is_late
from newnormal.errors import NewnormalError, StateError
from newnormal.fleet.folder.log import FileLog
from newnormal.fleet.folder.manifest import Manifest
from newnormal.fleet.folder.names import AGAIN
from newnormal.fleet.folder.records import Act, LoggedBlock, Samples, parse
from newnormal.fleet.folder.recovery import Read, consistent
from newnormal.fleet.group import Group
from newnormal.fleet.results import FleetVerdicts
from newnormal.fleet.work import Gathered
from newnormal.types import NO_TIME, Bools, Ints

_LOG = logging.getLogger("newnormal")


class LogEnd(NamedTuple):
    """Where a log ends."""

    position: int  # after the last record
    # The newest marker of the caller's, and the position after its record.
    marker: bytes | None
    marked: int


class Replayed(NamedTuple):
    """Verdicts of a record that was judged again when a folder was opened."""

    position: int  # the position in the log after its record
    verdicts: FleetVerdicts  # what was made of it, the same as then
    # The newest marker in the log, and the position after its record. A caller that marks what it
    # has printed prints what has a later position.
    marker: bytes | None
    marked: int


def log_of(folder: Path, manifest: Manifest, *, sync: bool = False) -> FileLog:
    """Return the log of a folder whose fleet keeps one."""
    if manifest.log_id is None:
        raise StateError(
            f"{folder}: expected a fleet that keeps its log, found one whose caller does",
            hint="use Fleet.attach(folder)",
        )
    return FileLog(folder, manifest.log_id, sync=sync)


def log_end(log: FileLog, manifest: Manifest, *, whole: bool = True) -> LogEnd:
    """Return where a log ends, and the newest marker in it; it must be `whole`."""
    position, marker, marked = manifest.first, manifest.marker, manifest.marked
    for end, record in log.read(manifest.first):
        position = end
        if record and (newer := parse(record, end).marker) is not None and end > marked:
            marker, marked = newer, end
    if whole and position < manifest.position and manifest.first < manifest.position:
        raise StateError(
            f"expected a log up to position {manifest.position} at least, found one up to "
            f"{position}",
            hint=AGAIN,
        )
    return LogEnd(max(position, manifest.position), marker, marked)


def last_marker(folder: str | os.PathLike[str]) -> bytes | None:
    """Return the newest marker in the log of a folder, which another process may have open."""
    path = Path(folder)
    return consistent(path, lambda manifest: log_end(log_of(path, manifest), manifest).marker)


def replay(
    log: FileLog,
    read: Read,
    advance: Callable[[Gathered, bool], FleetVerdicts],
    act: Callable[[str, Act], object],
    judged: Callable[[int, FleetVerdicts], None],
) -> None:
    """Apply the records of a log, each to the streams whose shard does not have it.

    `advance` and `act` are called for records after the position of the manifest, which apply to
    all streams, and `judged` with what `advance` returned. What comes before changes streams only:
    the rest is in the manifest.
    """
    where = StreamPlaces(read)
    for end, record in log.read(read.manifest.first):
        if not record:
            continue
        body = parse(record, end).body
        apply: Callable[[], object] | None = None
        if isinstance(body, Samples):
            gathered = where.gathered(body, end)
            apply = partial(_quietly, gathered, body.flush)
            if end > read.manifest.position:
                apply = partial(advance, gathered, body.flush)
        elif isinstance(body, Act) and (name := where.name(body.id, end)) is not None:
            apply = partial(_feedback, read, name, body)
            if end > read.manifest.position:
                apply = partial(act, name, body)
        verdicts = None if apply is None else _keep_going(end, apply)
        if isinstance(verdicts, FleetVerdicts):
            judged(end, verdicts)


def _keep_going(end: int, apply: Callable[[], object]) -> object:
    """Apply a record; one that raised an error then raises it again, and changes as much."""
    try:
        return apply()
    except NewnormalError as error:
        _LOG.info("the record before position %d raises again: %s", end, error.message)
    except Exception:  # noqa: BLE001 - of a model of the caller's own, which raised it then as well
        _LOG.warning("the record before position %d raises again", end, exc_info=True)
    return None


def _quietly(gathered: Gathered, flush: bool) -> None:
    """Advance streams, without what the fleet makes of it."""
    for group, rows, _ in gathered.work:
        for at, event in group.advance(rows, flush).events:
            concerned = event.change or event.alarm
            if concerned is not None:
                group.streams[at].remember([concerned])


def _feedback(read: Read, name: str, body: Act) -> None:
    group, at = read.streams.where(name)
    group.streams[at].act(body.verb, body.alarm, body.change)
    group.refresh(at)


class StreamPlaces:
    """Where the streams of records are; a record that does not fit them is a StateError."""

    def __init__(self, read: Read) -> None:
        groups: list[Group] = read.streams.groups
        rows: list[tuple[int, int, int, int]] = []
        numbers = {id(group): at for at, group in enumerate(groups)}
        for shard, members in read.shards:
            assert shard.file is not None
            for member in members:
                group, at = read.streams.where(member.stream.name)
                rows.append((member.id, numbers[id(group)], at, shard.file.position))
        rows.sort()
        self._newest = [group.newest.copy() for group in groups]  # times, by group and position
        table = np.array(rows, np.int64).reshape(-1, 4)
        self._groups = groups
        self._ids, self._group, self._at, self._position = (table[:, k].copy() for k in range(4))

    def _find(self, ids: Ints, end: int) -> tuple[Ints, Bools]:
        """Return the rows of streams, and whether a record that ends here applies to each."""
        if not len(self._ids):
            return np.zeros(len(ids), np.int64), np.zeros(len(ids), np.bool_)
        at = np.minimum(np.searchsorted(self._ids, ids), len(self._ids) - 1)
        return at, (self._ids[at] == ids) & (self._position[at] < end)

    def name(self, number: int, end: int) -> str | None:
        """Return the name of a stream to which a record applies."""
        at, applies = self._find(np.array([number]), end)
        if not applies[0]:
            return None
        group = self._groups[self._group[at[0]]]
        name: str = group.streams[self._at[at[0]]].name
        return name

    def check(self, record: bytes, end: int) -> None:
        """Raise a StateError unless the record that ends at a position can be applied."""
        body = parse(record, end).body
        if isinstance(body, Samples):
            self.gathered(body, end)

    def gathered(self, body: Samples, end: int) -> Gathered:
        """Return what groups have to take of a record."""
        gathered = Gathered()
        gathered.errors.extend(body.errors)
        for block in body.blocks:
            at, applies = self._find(block.ids, end)
            for number in np.unique(self._group[at[applies]]).tolist():
                keep: NDArray[Any] = applies & (self._group[at] == number)
                self._take(gathered, block.only(keep), number, at[keep])
        return gathered

    def _take(self, gathered: Gathered, block: LoggedBlock, number: int, at: Ints) -> None:
        group, newest = self._groups[number], self._newest[number]
        if block.samples.shape[1] != group.channels:
            raise StateError(
                f"expected samples of {group.channels} channels in the log, found "
                f"{block.samples.shape[1]}",
                hint="give the log that the fleet's folder belongs to",
            )
        rows = block.rows(self._at[at])
        known = rows.times != NO_TIME
        owners, times = np.repeat(rows.streams, block.counts)[known], rows.times[known]
        before = np.roll(times, 1)
        starts = np.diff(owners, prepend=-1) != 0
        before[starts] = newest[owners[starts]]
        if is_late(times, before).any():
            raise StateError(
                "expected samples in the order of their times in the log, found others",
                hint="give the log that the fleet's folder belongs to",
            )
        np.maximum.at(newest, owners, times)
        gathered.work.append((group, rows, block.origin))
