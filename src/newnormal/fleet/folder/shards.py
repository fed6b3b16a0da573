"""The file of a shard of the streams: their blocks, one after the other, and what they are.

Behind the blocks come what streams have only sometimes (shadows and baselines, as blocks of their
own) and facts as JSON: number, order, name and fit of each stream, a digest of each block, and its
past alarms and changes. The manifest has a digest of everything behind the blocks, so that damage
to one block costs one stream.
"""

import json
from collections.abc import Sequence
from dataclasses import dataclass, field
from hashlib import blake2b
from pathlib import Path
from typing import Any, NamedTuple

import numpy as np
from numpy.typing import NDArray

from newnormal.acceptance import TimedAcceptance
from newnormal.acceptance.shadow import blank_shadow
from newnormal.alarms.feedback_target import PAST
from newnormal.alarms.threshold import threshold_of
from newnormal.core.arena import ALIGNMENT, Layout, blank_block, place, view
from newnormal.core.state import StreamState
from newnormal.errors import StateError
from newnormal.fleet.folder.fits import Fit
from newnormal.fleet.folder.manifest import ShardFile, layouts_to_json, take_layouts
from newnormal.fleet.folder.names import AGAIN, new_name, ordinary
from newnormal.fleet.stream import Stream
from newnormal.kernels.stream import KEPT_UNDO, Baseline
from newnormal.packing.events import EventReader, past_facts
from newnormal.packing.limits import check_arrays, check_shadow, sizes_of
from newnormal.state.facts import MALFORMED, Facts
from newnormal.state.files import write_new
from newnormal.state.versions import VERSION, migrated_arrays
from newnormal.types.tables import flatten

_DIGEST = 8  # bytes of a block's
_MOST = 1 << 24
_PARTS = ("accepted", *(f"undo{at}" for at in range(KEPT_UNDO)), "shadow")


class ShardMember(NamedTuple):
    """A stream of a shard."""

    id: int  # never used again
    order: int  # its place among the streams of the fleet
    stream: Stream
    fit: tuple[int, int]  # offset and length in the file of the fits


def write_shard(folder: Path, members: Sequence[ShardMember], layout: int) -> ShardFile:
    """Write the file of a shard under a new name."""
    blocks = [member.stream.block for member in members]
    rare = _Rare()
    past: dict[str, Any] = {}
    for row, member in enumerate(members):
        rare.add(row, member.stream)
        if member.stream.past:
            past[str(row)] = past_facts(member.stream.past)
    facts = {
        "id": [member.id for member in members],
        "order": [member.order for member in members],
        "name": [member.stream.name for member in members],
        "fit": [list(member.fit) for member in members],
        "digests": "".join(_digest(block) for block in blocks),
        "past": past,
        "rare": rare.places,
        "layouts": layouts_to_json(rare.layouts),
    }
    text = json.dumps(facts, separators=(",", ":"), allow_nan=False).encode()
    tail: list[Any] = [*(block.data for block in rare.blocks), text]
    digest = blake2b(digest_size=32)
    for part in tail:
        digest.update(part)
    name = new_name("live")
    content: list[Any] = [block.data for block in blocks]
    write_new(folder / name, content + tail)
    facts_at = sum(map(len, blocks)) + sum(map(len, rare.blocks))
    return ShardFile(name, layout, len(members), facts_at, facts_at + len(text), digest.hexdigest())


def _digest(block: Any) -> str:
    return blake2b(block, digest_size=_DIGEST).hexdigest()


class _Rare:
    """What some streams of a shard have besides, as blocks."""

    def __init__(self) -> None:
        self.places: list[list[Any]] = []  # row, name, layout, offset
        self.layouts: list[Layout] = []
        self.blocks: list[NDArray[np.uint8]] = []
        self._known: dict[Layout, int] = {}
        self._end = 0

    def add(self, row: int, stream: Stream) -> None:
        undo = {f"undo{at}": baseline for at, baseline in enumerate(stream.undo)}
        parts = {"accepted": stream.accepted, **undo, "shadow": stream.shadow}
        for name, tree in parts.items():
            if tree is None:
                continue
            layout = Layout.of(tree)
            if layout not in self._known:
                self._known[layout] = len(self.layouts)
                self.layouts.append(layout)
            block = blank_block(layout.nbytes)
            block[:] = 0  # what is between the arrays is the same in every file
            place(tree, layout, block)
            self.places.append([row, name, self._known[layout], self._end])
            self.blocks.append(block)
            self._end += layout.nbytes


@dataclass
class ShardReader:
    """Reads the file of a shard, in steps: what is damaged is known before anything is used."""

    file: ShardFile
    layout: Layout
    content: NDArray[np.uint8]
    version: int = VERSION  # of the newnormal that wrote it
    # Of each stream.
    id: list[int] = field(default_factory=list)
    order: list[int] = field(default_factory=list)
    name: list[str] = field(default_factory=list)
    fit: list[tuple[int, int]] = field(default_factory=list)
    # The rows whose blocks are not what was written.
    damaged: list[int] = field(default_factory=list)

    @classmethod
    def open(
        cls, folder: Path, file: ShardFile, layout: Layout, version: int = VERSION
    ) -> "ShardReader":
        """Map the file, and read what its streams are."""
        path = folder / file.name
        try:
            size = ordinary(path).stat().st_size
            if size != file.size or not file.rows * layout.nbytes <= file.facts_at <= size:
                raise StateError(
                    f"{file.name} is truncated or corrupted: expected {file.size} bytes, "
                    f"found {size}",
                    hint=AGAIN,
                )
            # Copy-on-write: what the fleet changes is its own, the file stays as it is.
            content = np.asarray(np.memmap(path, np.uint8, "c"))
        except FileNotFoundError:
            raise
        except OSError as error:
            raise StateError(f"cannot read {path}: {error.strerror}", hint=AGAIN) from error
        reader = cls(file, layout, content, version)
        tail: Any = content[file.rows * layout.nbytes :]
        if blake2b(tail.data, digest_size=32).hexdigest() != file.digest:
            raise StateError(f"{file.name} is truncated or corrupted", hint=AGAIN)
        try:
            reader._read_facts(json.loads(bytes(content[file.facts_at :])))
        except StateError as error:
            raise StateError(f"{file.name}: {error.message}", hint=AGAIN) from None
        except MALFORMED as error:
            raise StateError(f"{file.name}: {error}", hint=AGAIN) from error
        return reader

    def _read_facts(self, content: Any) -> None:
        facts, rows = Facts(content), self.file.rows
        for name in ("id", "order", "name", "fit"):
            if len(column := facts.list(name, _MOST)) != rows:
                raise facts.wrong(name, f"{rows} of them", len(column))
            setattr(self, name, column)
        whole = all(type(n) is int and 0 <= n < 2**62 for n in (*self.id, *self.order))
        if not whole or not all(isinstance(name, str) for name in self.name):
            raise StateError("id, order, name: expected numbers and texts, found others")
        self.fit = [(int(offset), int(length)) for offset, length in self.fit]
        if any(offset < 0 or not 0 < length < 2**40 for offset, length in self.fit):
            raise StateError("fit: expected places, found others")
        digests, width = facts.text("digests"), 2 * _DIGEST
        if len(digests) != width * rows:
            raise facts.wrong("digests", f"{rows} of them", digests)
        self._past = facts.part("past").rest()
        self._layouts = take_layouts(facts)
        self._rare: dict[int, dict[str, tuple[Layout, int]]] = {}
        start = rows * self.layout.nbytes
        for row, name, layout, offset in facts.list("rare", _MOST):
            if not all(type(number) is int for number in (row, layout, offset)):
                raise StateError("rare: expected whole numbers, found others")
            part = self._layouts[layout]
            end = start + offset + part.nbytes
            if name not in _PARTS or not 0 <= row < rows or layout < 0 or offset % ALIGNMENT:
                raise StateError(f"rare: expected a part of a stream, found {name!r:.60}")
            if offset < 0 or end > self.file.facts_at:
                raise StateError("rare: expected parts within the file, found others")
            self._rare.setdefault(row, {})[name] = part, start + offset
        facts.done()
        self.damaged = [
            row
            for row in range(rows)
            if _digest(self.block(row)) != digests[width * row : width * (row + 1)]
        ]

    def block(self, row: int) -> NDArray[np.uint8]:
        """Return the block of a stream."""
        start = row * self.layout.nbytes
        return self.content[start : start + self.layout.nbytes]

    def is_whole(self, fits: Sequence[Fit]) -> bool:
        """Whether the arrays of all streams are what they can be: checked at once, where alike."""
        if len(fits) < self.file.rows or self.version != VERSION:
            return False
        different = list({id(fit): fit for fit in fits}.values())
        sizes = sizes_of(different[0].fitted)
        layouts = all(fit.shape.layout == self.layout for fit in different)
        if not layouts or any(sizes_of(fit.fitted) != sizes for fit in different):
            return False
        arrays = _stacked(self.layout, self.content, self.file.rows)
        try:
            check_arrays(StreamState, arrays, sizes, self.name, [fit.fitted for fit in fits])
        except StateError:
            return False
        return True

    def place(self, row: int, stream: Stream, *, checked: bool = False) -> None:
        """Give a stream what the file has of it; its block may be that of the file already.

        `checked` says that the arrays of all streams were.
        """
        wanted = stream.shape.layout
        block = self.block(row)
        if wanted is not self.layout and wanted == self.layout:
            self.layout = wanted  # the next stream's is the same object
        if wanted is self.layout and self.version == VERSION:
            stream.block = block
        else:
            _copy_fields(self.layout, block, wanted, stream.block, self.version)
        fitted, title = stream.fitted, f"stream {stream.name!r}"
        if not checked:
            live = _stacked(wanted, stream.block, 1)
            check_arrays(StreamState, live, sizes_of(fitted), [title], [fitted])
        if fitted.moving_start is not None and (moving := stream.open().moving) is not None:
            threshold_of(fitted.rule, moving)
        self._place_rare(stream, self._rare.get(row, {}), title)
        if str(row) in self._past:
            self._remember(row, stream)

    def _place_rare(self, stream: Stream, parts: dict[str, tuple[Layout, int]], title: str) -> None:
        arrays, sizes = stream.shape.arrays, sizes_of(stream.fitted)
        for name in (part for part in _PARTS if part in parts):
            layout, offset = parts[name]
            if name != "shadow":
                tree: Any = arrays.last_quiet
            elif isinstance(stream.fitted.acceptance, TimedAcceptance):
                assert stream.fitted.drift is not None
                timing, width = stream.fitted.acceptance.timing, len(stream.fitted.drift.margins)
                tree = blank_shadow(arrays.model, timing, width)
            else:
                tree = None
            if tree is None:
                raise StateError(f"stream {stream.name!r}: expected no {name} without acceptance")
            filled = self._tree(tree, layout, offset)
            if name == "shadow":
                check_shadow(filled, stream.open().model.step, sizes, f"{title}, its shadow")
                stream.keep_shadow(filled)
                continue
            arrays_of = {each: array[None] for each, array in flatten(filled)}
            check_arrays(Baseline, arrays_of, sizes, [f"{title}, its {name.strip('012')}"])
            if name == "accepted":
                stream.accepted = filled
            else:
                stream.undo = (*stream.undo, filled)

    def _tree(self, tree: Any, layout: Layout, offset: int) -> Any:
        wanted = Layout.of(tree)
        block = blank_block(wanted.nbytes)
        _copy_fields(
            layout, self.content[offset : offset + layout.nbytes], wanted, block, self.version
        )
        return view(tree, wanted, block)

    def _remember(self, row: int, stream: Stream) -> None:
        reader = EventReader(stream.fitted.channels, stream.fitted.model.vote_count)
        facts = Facts({"past": self._past[str(row)]})
        try:
            stream.remember(reader.past(facts.parts("past", PAST)))
        except StateError as error:
            raise StateError(f"stream {stream.name!r}: {error.message}", hint=AGAIN) from None


def _stacked(layout: Layout, content: NDArray[np.uint8], rows: int) -> dict[str, NDArray[Any]]:
    arrays = {}
    for array in layout.fields:
        dtype = np.dtype(array.dtype)
        inner: list[int] = []
        size = dtype.itemsize
        for length in reversed(array.shape):
            inner.insert(0, size)
            size *= length
        arrays[array.name] = np.ndarray(
            (rows, *array.shape), dtype, content.data, array.offset, (layout.nbytes, *inner)
        )
    return arrays


def _copy_fields(
    layout: Layout,
    source: NDArray[np.uint8],
    wanted: Layout,
    target: NDArray[np.uint8],
    version: int = VERSION,
) -> None:
    """Copy arrays by name from a block of one layout, of one version, to one of another."""
    arrays = {name: array[0] for name, array in _stacked(layout, source, 1).items()}
    arrays = migrated_arrays(arrays, version)
    views = {name: array[0] for name, array in _stacked(wanted, target, 1).items()}
    for name in sorted(arrays.keys() | views.keys()):
        old, new = _kind(arrays.get(name)), _kind(views.get(name))
        if old != new:
            raise StateError(f"{name}: expected {new}, found {old}", hint=AGAIN)
        views[name][...] = arrays[name]


def _kind(array: NDArray[Any] | None) -> str:
    return "no such array" if array is None else f"{array.dtype.str} of shape {array.shape}"
