"""The streams of a fleet from the files of its folder; `replaying` has the log since."""

import os
from collections.abc import Callable
from concurrent.futures import ThreadPoolExecutor
from contextlib import suppress
from dataclasses import dataclass, field
from pathlib import Path
from typing import NamedTuple, TypeAlias, TypeVar

from newnormal.errors import StateError
from newnormal.fleet.folder.fits import Fit, FitReader
from newnormal.fleet.folder.listing import read_events, read_listing
from newnormal.fleet.folder.manifest import Manifest, ShardFile, read_manifest
from newnormal.fleet.folder.names import AGAIN
from newnormal.fleet.folder.shards import ShardMember, ShardReader
from newnormal.fleet.folder.writer import Shard
from newnormal.fleet.processors import cores
from newnormal.fleet.results import FleetEvent
from newnormal.fleet.stream import Stream
from newnormal.fleet.streams import FleetStreams
from newnormal.packing.events import EventReader
from newnormal.state.facts import MALFORMED

_TRIES = 20  # while another process writes
_MOST_EVENTS = 10_000
_Result = TypeVar("_Result")
_Placed: TypeAlias = tuple[int, Stream, int, ShardReader]  # its order, stream, row and file


class Lost(NamedTuple):
    """Streams that cannot be read as they were, and why."""

    names: tuple[str, ...]
    error: StateError
    file: str
    fits: tuple[tuple[int, int] | None, ...] = ()  # where their fits are
    orders: tuple[int, ...] = ()
    nameless: int = 0  # so many more, whose names are not known


@dataclass
class Read:
    """What the files of a folder hold, before the log is replayed."""

    manifest: Manifest
    streams: FleetStreams
    shards: list[tuple[Shard, list[ShardMember]]] = field(default_factory=list)
    lost: list[Lost] = field(default_factory=list)
    events: list[FleetEvent] = field(default_factory=list)
    fits: FitReader | None = None

    @property
    def lost_names(self) -> list[str]:
        """The names of the streams that cannot be read."""
        return [name for lost in self.lost for name in lost.names]


def consistent(folder: Path, read: Callable[[Manifest], _Result]) -> _Result:
    """Return what `read` makes of a folder's manifest, again if another process replaced that."""
    manifest = read_manifest(folder)
    for _ in range(_TRIES):
        try:
            return read(manifest)
        except (FileNotFoundError, StateError) as error:
            again = read_manifest(folder)
            if again == manifest:
                if isinstance(error, StateError):
                    raise
                name = os.path.basename(str(error.filename))
                raise StateError(f"{folder}: no file {name}", hint=AGAIN) from None
            manifest = again
    raise StateError(f"{folder} changes faster than it can be read", hint="read it again later")


def read_streams(
    folder: Path,
    manifest: Manifest,
    model: object = None,
    threshold: object = None,
    *,
    skip_damaged: bool = False,
) -> Read:
    """Return the streams of all shards; with `skip_damaged` without those that are damaged.

    A file that is not there is a FileNotFoundError, unless damaged ones are skipped.
    """
    fits = FitReader(folder, manifest.fits, manifest.fits_size, model, threshold)
    read = Read(manifest, FleetStreams(), fits=fits)
    readers = _opened(folder, manifest, read, skip_damaged)
    placed: list[_Placed] = []
    for reader in readers:
        placed += _streams_of(reader, read, skip_damaged)
    if read.lost and skip_damaged:
        _name_lost(folder, manifest, read, readers)
    if any(lost.names for lost in read.lost) and not skip_damaged:
        raise _damaged(folder, read, manifest)
    _check_once(folder, placed)
    members: dict[int, list[ShardMember]] = {id(reader): [] for reader in readers}
    for order, stream, row, reader in sorted(placed, key=lambda stream: stream[0]):
        read.streams.restore(stream)
        members[id(reader)].append(ShardMember(reader.id[row], order, stream, reader.fit[row]))
    for reader in readers:
        if kept := members[id(reader)]:
            shard = Shard(kept[0].stream.shape.layout, file=reader.file)
            shard.changed = shard.layout != reader.layout or len(kept) < reader.file.rows
            read.shards.append((shard, kept))
    if manifest.events is not None:
        with suppress(*(FileNotFoundError, StateError) if skip_damaged else ()):
            read.events = events_of(folder, manifest.events, read.streams)
    return read


def _opened(folder: Path, manifest: Manifest, read: Read, skip: bool) -> list[ShardReader]:
    def opened(file: ShardFile) -> ShardReader | Exception:
        try:
            return ShardReader.open(folder, file, manifest.layouts[file.layout], manifest.version)
        except (FileNotFoundError, StateError) as error:
            return error

    with ThreadPoolExecutor(min(cores(), 8)) as pool:  # digests are computed in parallel
        results = list(pool.map(opened, manifest.shards))
    readers = []
    for file, result in zip(manifest.shards, results, strict=True):
        if isinstance(result, ShardReader):
            readers.append(result)
            continue
        if not skip:
            raise result
        error = StateError(f"no file {file.name}", hint=AGAIN)
        if isinstance(result, StateError):
            error = result
        read.lost.append(Lost((), error, file.name, nameless=file.rows))
    return readers


def _streams_of(reader: ShardReader, read: Read, skip: bool) -> list[_Placed]:
    """Return the streams of a shard."""
    assert read.fits is not None
    placed: list[_Placed] = []
    fits: dict[int, Fit] = {}
    for row in range(reader.file.rows):
        try:
            if row in reader.damaged:
                raise StateError(
                    f"{reader.file.name}: the block of stream {reader.name[row]!r} is corrupted",
                    hint=AGAIN,
                )
            fits[row] = read.fits.get(*reader.fit[row])
        except FileNotFoundError:
            if not skip:
                raise
            error = StateError(f"no file {read.manifest.fits}", hint=AGAIN)
            read.lost.append(_lost(reader, row, error))
        except StateError as error:
            read.lost.append(_lost(reader, row, error))
    whole = reader.is_whole(list(fits.values()))
    for row, fit in fits.items():
        try:
            block, shape = read.streams.common(fit.fitted, fit.shape)
            live = reader.block(row) if shape.layout == reader.layout else None
            stream = Stream(reader.name[row], fit.template, block, shape, live)
            reader.place(row, stream, checked=whole)
            placed.append((reader.order[row], stream, row, reader))
        except StateError as error:
            text = f"{reader.file.name}: {error.message}"
            read.lost.append(_lost(reader, row, StateError(text, hint=AGAIN)))
        except MALFORMED as error:
            text = f"{reader.file.name}: stream {reader.name[row]!r}: {error}"
            read.lost.append(_lost(reader, row, StateError(text, hint=AGAIN)))
    return placed


def _lost(reader: ShardReader, row: int, error: StateError) -> Lost:
    return Lost(
        (reader.name[row],), error, reader.file.name, (reader.fit[row],), (reader.order[row],)
    )


def _name_lost(folder: Path, manifest: Manifest, read: Read, readers: list[ShardReader]) -> None:
    """Name the streams of shards that cannot be read at all, from the listing of all streams."""
    if not (nameless := [lost for lost in read.lost if not lost.names]):
        return
    try:
        listing = read_listing(folder, manifest.streams)
        columns = zip(*(listing[name] for name in ("id", "order", "name", "fit")), strict=True)
        readable = {number for reader in readers for number in reader.id}
        missing = [
            (int(order), str(name), (int(fit[0]), int(fit[1])))
            for number, order, name, fit in columns
            if number not in readable
        ]
    except (FileNotFoundError, StateError, *MALFORMED):
        return
    first, *others = nameless
    read.lost = [lost for lost in read.lost if lost.names]
    texts = [first.error.message, *(lost.error.message for lost in others)]
    read.lost.append(
        Lost(
            tuple(name for _, name, _ in missing),
            StateError("; ".join(texts), hint=AGAIN),
            first.file,
            tuple(fit for _, _, fit in missing),
            tuple(order for order, _, _ in missing),
        )
    )


def _damaged(folder: Path, read: Read, manifest: Manifest) -> StateError:
    names = read.lost_names
    total = sum(shard.rows for shard in manifest.shards)
    listed = ", ".join(map(repr, names[:5])) + (" and more" if len(names) > 5 else "")
    return StateError(
        f"{folder}: {len(names)} of {total} streams are damaged: {listed}; "
        f"{read.lost[0].error.message}",
        hint=f"{AGAIN}; Fleet.load(folder, skip_damaged=True) leaves them out",
    )


def _check_once(folder: Path, placed: list[_Placed]) -> None:
    names = {stream.name for _, stream, _, _ in placed}
    ids = {reader.id[row] for _, _, row, reader in placed}
    if len(names) < len(placed) or len(ids) < len(placed):
        raise StateError(f"{folder}: expected each stream once, found one twice", hint=AGAIN)


def events_of(folder: Path, name: str, streams: FleetStreams) -> list[FleetEvent]:
    """Return the events of these streams that nobody has taken, from the file of that name."""
    readers = {
        stream.name: EventReader(stream.fitted.channels, stream.fitted.model.vote_count)
        for stream in streams
    }
    return read_events(folder, name, readers, _MOST_EVENTS)
