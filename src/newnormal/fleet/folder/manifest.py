"""The manifest of a fleet's folder: which files belong to it, and how far each of them is.

It is small, whatever the number of streams: what is kept of each stream is in the files of the
shards. It is replaced at every checkpoint, and nothing is a part of the fleet before it says so.
"""

import hashlib
import json
import re
from collections.abc import Iterable
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

from newnormal.core.arena import ALIGNMENT, Field, Layout
from newnormal.errors import StateError
from newnormal.fleet.folder.names import AGAIN, COPY, MANIFEST, is_ours, ordinary
from newnormal.state.facts import MALFORMED, Facts
from newnormal.state.files import replace_file
from newnormal.state.versions import VERSION, check_version

FORMAT = "newnormal fleet"
_LONGEST = 1 << 26  # bytes of a manifest
_MOST = 1 << 20  # shards, layouts
_LARGEST = 2**62
_DTYPE = re.compile(r"[<>|=][iufbM]\d{1,2}(\[\w{1,4}\])?")


class LayoutError(StateError):
    """A layout that is not one."""


@dataclass(frozen=True)
class ShardFile:
    """The file of a shard of the streams: its blocks, and behind them what describes them."""

    name: str
    layout: int
    rows: int
    facts_at: int  # where the facts begin, as JSON
    size: int
    digest: str


@dataclass(frozen=True)
class Manifest:
    """What the manifest says."""

    detector: dict[str, Any]  # its method, options and threshold, as in a state file
    limit: float | None  # the fleet's `fleet_alarms_per_day`
    reading: dict[str, Any]  # how `fit` read its data, where that can be written
    # Of the fleet at `position`.
    ticks: int
    incidents: Any
    position: int  # of its engine's log: all shards are there
    next_id: int  # the number that the next stream gets
    # The file of the fits, and how much of it is used.
    fits: str
    fits_size: int
    events: str | None  # the file of the events that nobody has taken, if there are any
    # The file of all streams' names and fits, which is needed only where a shard is damaged.
    streams: str
    layouts: tuple[Layout, ...] = ()
    shards: tuple[ShardFile, ...] = ()
    version: int = field(default=VERSION)

    @property
    def files(self) -> set[str]:
        """The names of the files that belong to the fleet."""
        events = set() if self.events is None else {self.events}
        return {self.fits, self.streams, *(shard.name for shard in self.shards)} | events

    def write(self, folder: Path) -> None:
        """Write it to the folder, in the place of the one before."""
        facts = {
            **vars(self),
            "format": FORMAT,
            "layouts": layouts_to_json(self.layouts),
            "shards": [vars(shard) for shard in self.shards],
        }
        facts["sha256"] = _digest(facts)
        content = (json.dumps(facts, allow_nan=False) + "\n").encode()
        replace_file(folder / MANIFEST, content)
        replace_file(folder / COPY, content, sync=False)

    @classmethod
    def parse(cls, content: bytes, origin: str) -> "Manifest":
        """Return what a file holds, checked."""
        try:
            facts = json.loads(content)
            if not isinstance(facts, dict) or facts.get("format") != FORMAT:
                raise StateError(
                    f"{origin} is not the manifest of a fleet",
                    hint="give a folder that `Fleet.save` wrote",
                )
            version = facts.get("version")
            if isinstance(version, int):
                check_version(version, origin)
            intact = facts.pop("sha256", None) == _digest(facts)
        except (ValueError, RecursionError):
            intact = False
        if not intact:
            raise StateError(f"{origin} is truncated or corrupted", hint=AGAIN)
        try:
            return cls._checked(Facts(facts))
        except LayoutError:
            raise
        except StateError as error:
            raise StateError(f"{origin}: {error.message}", hint=AGAIN) from None
        except MALFORMED as error:
            raise StateError(f"{origin}: {error}", hint=AGAIN) from error

    @classmethod
    def _checked(cls, facts: Facts) -> "Manifest":
        facts.take("format")
        layouts = take_layouts(facts)
        shards = tuple(_shard(part, len(layouts)) for part in facts.parts("shards", _MOST))
        limit = facts.nullable("limit", lambda name: facts.number(name, 0, above=True))
        position = facts.count("position")
        if len({shard.name for shard in shards}) < len(shards):
            raise StateError("shards: expected each file once, found one twice")
        manifest = cls(
            detector=facts.part("detector").rest(),
            limit=limit,
            reading=facts.part("reading").rest(),
            ticks=facts.count("ticks"),
            incidents=facts.take("incidents"),
            position=position,
            next_id=facts.count("next_id", 0, 2**32 - 1),
            fits=_name(facts, "fits"),
            fits_size=facts.count("fits_size"),
            events=facts.nullable("events", lambda name: _name(facts, name)),
            streams=_name(facts, "streams"),
            layouts=layouts,
            shards=shards,
            version=facts.count("version", 1),
        )
        facts.done()
        return manifest


def read_manifest(folder: Path) -> Manifest:
    """Return the manifest of a folder, or its copy where it is damaged."""
    try:
        return _read(folder / MANIFEST)
    except FileNotFoundError:
        if not (folder / COPY).exists():
            what = "no such folder" if not folder.is_dir() else f"no {MANIFEST} in it"
            raise StateError(
                f"{folder}: expected the folder of a fleet, found {what}",
                hint="fleet.save(folder) makes one",
            ) from None
        return _copy(folder, StateError(f"{folder / MANIFEST}: no such file", hint=AGAIN))
    except OSError as error:
        raise StateError(
            f"cannot read {folder / MANIFEST}: {error.strerror}", hint="give a folder you may read"
        ) from error
    except StateError as error:
        if "truncated" not in error.message and "not the manifest" not in error.message:
            raise
        return _copy(folder, error)


def _copy(folder: Path, error: StateError) -> Manifest:
    """Return the copy of a manifest that is damaged, if that is one."""
    try:
        return _read(folder / COPY)
    except (OSError, StateError):
        raise error from None


def _read(path: Path) -> Manifest:
    with ordinary(path).open("rb") as file:
        content = file.read(_LONGEST)
    return Manifest.parse(content, str(path))


def layouts_to_json(layouts: Iterable[Layout]) -> list[dict[str, Any]]:
    """Return layouts as values of JSON."""
    return [{"fields": layout.to_json(), "nbytes": layout.nbytes} for layout in layouts]


def take_layouts(facts: Facts) -> tuple[Layout, ...]:
    """Take layouts out of facts, checked."""
    return tuple(
        _layout_of(part.list("fields", 10_000), part.count("nbytes"))
        for part in facts.parts("layouts", _MOST)
    )


def _layout_of(fields: list[Any], nbytes: int) -> Layout:
    arrays = []
    for name, dtype, shape, offset in fields:
        sizes = tuple(shape)
        plain = all(type(size) is int and 0 <= size < _LARGEST for size in (*sizes, offset))
        if not isinstance(name, str) or not _DTYPE.fullmatch(dtype) or not plain:
            raise LayoutError(f"layouts: expected arrays, found {name!r:.60}", hint=AGAIN)
        array = Field(name, dtype, sizes, offset)
        if array.nbytes < 0 or offset % ALIGNMENT or offset + array.nbytes > nbytes:
            raise LayoutError(f"layouts: expected {name} within the block", hint=AGAIN)
        arrays.append(array)
    names = {array.name for array in arrays}
    if nbytes % ALIGNMENT or nbytes > _LARGEST or len(names) < len(arrays):
        raise LayoutError("layouts: expected whole cache lines, each name once", hint=AGAIN)
    return Layout(tuple(arrays), nbytes)


def _shard(facts: Facts, layouts: int) -> ShardFile:
    shard = ShardFile(
        name=_name(facts, "name"),
        layout=facts.count("layout", 0, layouts - 1),
        rows=facts.count("rows", 1, _LARGEST),
        facts_at=facts.count("facts_at"),
        size=facts.count("size"),
        digest=facts.text("digest"),
    )
    facts.done()
    return shard


def _name(facts: Facts, name: str) -> str:
    """Take the name of a file out; one that could be anywhere else is none."""
    file = facts.text(name)
    if not is_ours(file):
        raise facts.wrong(name, "the name of a file of the folder", file)
    return file


def _digest(facts: dict[str, Any]) -> str:
    text = json.dumps(facts, sort_keys=True, separators=(",", ":"), allow_nan=False)
    return hashlib.sha256(text.encode()).hexdigest()
