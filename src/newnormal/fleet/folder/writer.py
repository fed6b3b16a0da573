"""Writes a fleet to its folder: shards of the streams under new names, then the manifest."""

import json
from collections.abc import Iterable
from dataclasses import dataclass, field, replace
from pathlib import Path
from typing import Any

import numpy as np

from newnormal.core.arena import Layout
from newnormal.errors import StateError
from newnormal.fleet.folder.fits import FitWriter
from newnormal.fleet.folder.listing import EventWriter, write_listing
from newnormal.fleet.folder.manifest import Manifest, ShardFile
from newnormal.fleet.folder.names import is_ours
from newnormal.fleet.folder.shards import ShardMember, write_shard
from newnormal.fleet.group import Group
from newnormal.fleet.results import FleetEvent
from newnormal.fleet.stream import Stream
from newnormal.fleet.streams import FleetStreams
from newnormal.state.files import remove_file
from newnormal.types import Ints

SHARD = 32 << 20  # bytes of blocks in a file
_MOST_IDS = 2**32 - 1
_WASTE = 1 << 20  # bytes of fits that nobody needs, up to which they stay


@dataclass
class FleetContents:
    """What a folder holds of a fleet."""

    detector: dict[str, Any]  # its method, options and threshold, as in a state file
    limit: float | None
    reading: dict[str, Any]
    ticks: int
    incidents: Any
    streams: FleetStreams
    events: Iterable[FleetEvent] = ()


@dataclass
class Shard:
    """Streams that are written together."""

    layout: Layout
    members: dict[str, None] = field(default_factory=dict)  # their names, in the order of rows
    file: ShardFile | None = None  # None: it was never written
    changed: bool = True  # which streams it has changed: what is on the disk is not of use


@dataclass
class _Entry:
    """A stream, with its number, its place among the others and its shard."""

    id: int
    order: int
    stream: Stream
    shard: Shard


class FolderWriter:
    """Writes the streams of a fleet, by shards."""

    def __init__(self, folder: Path) -> None:
        self.folder = folder
        self.shards: list[Shard] = []
        # the positions in `shards` of those that streams have changed since they were written
        self.dirty: set[int] = set()
        self.fits = FitWriter(folder)
        self._entries: dict[str, _Entry] = {}
        self._next_id = self._next_order = 0
        self._listing: str | None = None  # the file of all streams' names
        self._events = EventWriter()
        self._shards_of: dict[int, Ints] = {}  # by group: of its streams, by position

    # ------------------------------------------------------------------ which streams are where

    def adopt(self, manifest: Manifest, shards: list[tuple[Shard, list[ShardMember]]]) -> None:
        """Go on from a folder as it was read."""
        self.fits = FitWriter(self.folder, manifest.fits, manifest.fits_size)
        self._next_id, self._listing = manifest.next_id, manifest.streams
        for shard, members in shards:
            self.shards.append(shard)
            for member in members:
                shard.members[member.stream.name] = None
                entry = _Entry(member.id, member.order, member.stream, shard)
                self._entries[member.stream.name] = entry
                self.fits.know(member.stream.fitted, member.stream.template, member.fit)
                self._next_order = max(self._next_order, member.order + 1)

    def number_from(self, number: int) -> None:
        """Give no stream a lower number than this one."""
        self._next_id = max(self._next_id, number)

    def arrange(self, streams: FleetStreams) -> None:
        """Give new streams a number and a shard, and forget those that are gone."""
        self._shards_of.clear()
        orders = {name: entry.order for name, entry in self._entries.items()}
        for name, entry in list(self._entries.items()):
            kept = name in streams and streams[name] is entry.stream
            if not kept or not self.fits.has(entry.stream):
                del self._entries[name], entry.shard.members[name]
                entry.shard.changed = True
                self._listing = None
        room = {shard.layout: shard for shard in self.shards if not _is_full(shard)}
        last = -1
        for stream in streams:
            entry_now = self._entries.get(stream.name)
            order = orders.get(stream.name, -1) if entry_now is None else entry_now.order
            if order <= last:
                order, self._next_order = self._next_order, self._next_order + 1
            last = max(last, order)
            if entry_now is not None and entry_now.order == order:
                continue
            if entry_now is not None:
                entry_now.order, entry_now.shard.changed = order, True
            else:
                shard = room.get(stream.shape.layout)
                if shard is None or _is_full(shard):
                    shard = room[stream.shape.layout] = Shard(stream.shape.layout)
                    self.shards.append(shard)
                self._entries[stream.name] = _Entry(self._new_id(), order, stream, shard)
                shard.members[stream.name] = None
                shard.changed = True
            self._listing = None
        self.shards = [shard for shard in self.shards if shard.members]
        self.dirty = set(range(len(self.shards)))

    def _new_id(self) -> int:
        if self._next_id >= _MOST_IDS:
            raise StateError(
                f"expected at most {_MOST_IDS} streams added, found more",
                hint="fleet.save to another folder numbers them anew",
            )
        self._next_id += 1
        return self._next_id - 1

    def touch(self, group: Group, places: Any) -> None:
        """Take note that streams at these positions of a group have changed."""
        if id(group) not in self._shards_of:
            numbers = {id(shard): at for at, shard in enumerate(self.shards)}
            entries = [self._entries[stream.name] for stream in group.streams]
            shards = [numbers[id(entry.shard)] for entry in entries]
            self._shards_of[id(group)] = np.array(shards, np.int64)
        self.dirty.update(np.unique(self._shards_of[id(group)][places]).tolist())

    # ------------------------------------------------------------------ to the disk

    def write(self, which: Iterable[int]) -> None:
        """Write shards as they are."""
        layouts = self._layouts()
        for at in which:
            shard = self.shards[at]
            members = [self._member(name) for name in shard.members]
            shard.file = write_shard(self.folder, members, layouts[shard.layout])
            shard.changed = False
            self.dirty.discard(at)

    def write_changed(self) -> None:
        """Write the shards whose streams are others than before, and fits they need."""
        fits = self.fits
        if not fits.name or fits.size - fits.used(self._fitted()) > max(_WASTE, fits.size // 2):
            self.fits = FitWriter(self.folder)
            for shard in self.shards:
                shard.changed = True
            self._listing = None
        self.fits.add(entry.stream for entry in self._entries.values())
        self.write([at for at, shard in enumerate(self.shards) if shard.changed])
        if self._listing is None:
            entries = self._entries.values()
            columns = {
                "id": [entry.id for entry in entries],
                "order": [entry.order for entry in entries],
                "name": list(self._entries),
                "fit": [list(self.fits.place(entry.stream)) for entry in entries],
            }
            self._listing = write_listing(self.folder, "streams", json.dumps(columns))

    def _fitted(self) -> list[Stream]:
        """Return the streams whose fits are in the file."""
        return [
            entry.stream
            for entry in self._entries.values()
            if entry.shard.file is not None and not entry.shard.changed
        ]

    def _member(self, name: str) -> ShardMember:
        entry = self._entries[name]
        return ShardMember(entry.id, entry.order, entry.stream, self.fits.place(entry.stream))

    def _layouts(self) -> dict[Layout, int]:
        numbers: dict[Layout, int] = {}
        for shard in self.shards:
            numbers.setdefault(shard.layout, len(numbers))
        return numbers

    def publish(
        self,
        contents: FleetContents,
        position: int,
    ) -> Manifest:
        """Write the manifest of a position of the log, and remove what it does not refer to."""
        layouts = self._layouts()
        for shard in self.shards:
            assert shard.file is not None
            shard.file = replace(shard.file, layout=layouts[shard.layout])
        assert self._listing is not None
        manifest = Manifest(
            detector=contents.detector,
            limit=contents.limit,
            reading=contents.reading,
            ticks=contents.ticks,
            incidents=contents.incidents,
            position=position,
            next_id=self._next_id,
            fits=self.fits.name,
            fits_size=self.fits.size,
            events=self._events.write(self.folder, contents.events),
            streams=self._listing,
            layouts=tuple(layouts),
            shards=tuple(shard.file for shard in self.shards if shard.file is not None),
        )
        manifest.write(self.folder)
        for path in leftovers(self.folder, manifest):
            remove_file(path)
        return manifest


def leftovers(folder: Path, manifest: Manifest) -> list[Path]:
    """Return files of a folder that do not belong to its fleet, and that a fleet wrote."""
    return sorted(
        path for path in folder.iterdir() if is_ours(path.name) and path.name not in manifest.files
    )


def _is_full(shard: Shard) -> bool:
    return (len(shard.members) + 1) * shard.layout.nbytes > SHARD and bool(shard.members)
