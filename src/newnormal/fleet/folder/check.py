"""Verify the folder of a fleet, and repair what can be repaired."""

import os
import shutil
from dataclasses import dataclass, field, replace
from pathlib import Path
from typing import Any, NamedTuple

from newnormal.errors import StateError
from newnormal.fleet.fleet import Fleet
from newnormal.fleet.folder.fits import FitReader
from newnormal.fleet.folder.listing import read_listing
from newnormal.fleet.folder.lock import FolderLock
from newnormal.fleet.folder.manifest import Manifest, read_manifest
from newnormal.fleet.folder.names import COPY, DAMAGED, MANIFEST
from newnormal.fleet.folder.recovery import Lost, Read, events_of, read_streams
from newnormal.fleet.folder.writer import FolderWriter, leftovers
from newnormal.fleet.stream import Stream
from newnormal.fleet.streams import FleetStreams
from newnormal.state.files import remove_file

_NAMED = 5


class FleetProblem(NamedTuple):
    """What is not as it should be."""

    text: str  # what was found
    repair: str  # what `check(folder, repair=True)` does about it; empty: nothing can be done
    streams: tuple[str, ...] = ()  # the streams that it costs something
    # Whether a kill leaves this, and the next checkpoint clears it up by itself.
    left_by_kill: bool = False


@dataclass
class FleetReport:
    """What `check` found."""

    folder: Path  # the folder
    streams: int = 0  # how many streams can be read
    # In the order of the files: the manifest, streams.
    problems: list[FleetProblem] = field(default_factory=list)
    repaired: bool = False  # whether they were repaired

    @property
    def ok(self) -> bool:
        """Whether `Fleet.load` reads everything, perhaps because of the repair."""
        return self.repaired or all(problem.left_by_kill for problem in self.problems)

    def __str__(self) -> str:
        lines = [f"{self.folder}: {self.streams} streams"]
        for problem in self.problems:
            verb = "repaired" if self.repaired and problem.repair else "repair"
            repair = problem.repair or "none: restore the folder from a backup"
            lines += [problem.text, f"  {verb}: {repair}"]
        if not self.problems:
            lines.append("no problem found")
        return "\n".join(lines)

    def add(self, text: str, repair: str, *streams: str, left_by_kill: bool = False) -> None:
        """Add a problem."""
        self.problems.append(FleetProblem(text, repair, streams, left_by_kill))


def check(
    folder: str | os.PathLike[str],
    *,
    repair: bool = False,
    model: object = None,
    threshold: object = None,
) -> FleetReport:
    """Verify every file of a fleet's folder, and say what a repair would do.

    Parameters
    ----------
    folder
        Of `Fleet.save`. Without `repair` it is only read; a fleet that another process has open may
        look different from one file to the next.
    repair
        Whether to do it. What a repair takes away is kept in the folder ``damaged`` in there.
    model, threshold
        As for `Fleet.load`.
    """
    path = Path(folder)
    lock = FolderLock(path).acquire() if repair and path.is_dir() else None
    try:
        return _Check(path, model, threshold).run(repair)
    finally:
        if lock is not None:
            lock.release()


class _Check:
    def __init__(self, folder: Path, *classes: object) -> None:
        self.folder, self.classes = folder, classes
        self.report = FleetReport(folder)
        self.readable = False  # whether there is any stream
        self.rewrite = False  # whether shards have to be written anew
        self.damaged: set[str] = set()  # files to keep beside

    def run(self, repair: bool) -> FleetReport:
        report = self.report
        try:
            manifest = read_manifest(self.folder)
        except StateError as error:
            report.add(error.message, "")
            return report
        self._manifests()
        read = self._streams(manifest)
        for file in leftovers(self.folder, manifest):
            text = f"{file.name} belongs to no checkpoint"
            report.add(text, "remove it", left_by_kill=True)
        if not self.readable:
            report.problems = [problem._replace(repair="") for problem in report.problems]
        elif repair and report.problems:
            self._repair(manifest, read)
            report.repaired = True
            if self.rewrite:
                report.streams = len(read.streams)
        return report

    # ------------------------------------------------------------------ what there is

    def _manifests(self) -> None:
        manifests: list[Manifest] = []
        for name, other in ((MANIFEST, COPY), (COPY, MANIFEST)):
            try:
                manifests.append(Manifest.parse((self.folder / name).read_bytes(), name))
            except (OSError, StateError) as error:
                text = error.message if isinstance(error, StateError) else f"{name}: no such file"
                self.report.add(text, f"write it from {other}")
        if len(manifests) == 2 and manifests[0] != manifests[1]:
            text = f"{COPY} is older than {MANIFEST}"
            self.report.add(text, "write it anew", left_by_kill=True)

    def _streams(self, manifest: Manifest) -> Read:
        report, folder = self.report, self.folder
        read = read_streams(folder, manifest, *self.classes, skip_damaged=True)
        report.streams = len(read.streams)
        self.readable = len(read.streams) > 0
        for lost in read.lost:
            self.rewrite = True
            self.damaged.add(lost.file)
            names = ", ".join(map(repr, lost.names[:_NAMED]))
            more = f" and {len(lost.names) - _NAMED} more" if len(lost.names) > _NAMED else ""
            streams = f"streams {names}{more} cannot be read: " if names else ""
            if lost.nameless:
                streams = f"{lost.nameless} streams, whose names are not known, cannot be read: "
            again = sum(_fit(read.fits, place) is not None for place in lost.fits)
            repair = f"start {again} of them again as they were fitted" if again else ""
            left_out = len(lost.names) - again
            if left_out or not lost.names:
                repair += f"{', ' if repair else ''}leave {left_out or 'them'} out"
            self.readable |= again > 0
            report.add(f"{streams}{lost.error.message}", repair, *lost.names)
        try:
            Fleet._of(folder, replace(read, lost=[]), *self.classes)
        except StateError as error:
            self.readable = False
            report.add(error.message, "")
        self._listings(manifest, read)
        return read

    def _listings(self, manifest: Manifest, read: Read) -> None:
        repairs = {manifest.streams: "write it from the streams"}
        if manifest.events is not None:
            repairs[manifest.events] = "go on without these events, which nobody has taken"
        for name, repair in repairs.items():
            try:
                if name == manifest.events:
                    events_of(self.folder, name, read.streams)
                else:
                    read_listing(self.folder, name)
            except (FileNotFoundError, StateError) as error:
                text = error.message if isinstance(error, StateError) else f"no file {name}"
                self.report.add(text, repair)
                self.rewrite = True

    # ------------------------------------------------------------------ repair

    def _repair(self, manifest: Manifest, read: Read) -> None:
        self._keep()
        manifest.write(self.folder)
        if not self.rewrite:
            for file_left in leftovers(self.folder, manifest):
                remove_file(file_left)
            return
        self._write(manifest, read)

    def _keep(self) -> None:
        """Keep files that are damaged beside the others."""
        for name in sorted(self.damaged):
            target = self.folder / DAMAGED
            if (self.folder / name).exists():
                target.mkdir(exist_ok=True)
                shutil.copy2(self.folder / name, target / name)

    def _write(self, manifest: Manifest, read: Read) -> None:
        """Write the streams that can be read, and those begun again."""
        fleet = Fleet._of(self.folder, replace(read, lost=[]), *self.classes)
        ordered = [
            (member.order, member.stream) for _, members in read.shards for member in members
        ]
        for lost in read.lost:
            ordered += _begun_again(read.fits, lost)
        streams = FleetStreams()
        for _, stream in sorted(ordered, key=lambda pair: pair[0]):
            streams.restore(stream)
        read.streams = fleet._streams = streams
        writer = FolderWriter(self.folder)
        writer.number_from(manifest.next_id)
        writer.arrange(streams)
        writer.write_changed()
        writer.publish(fleet._contents(), manifest.position)


def _fit(fits: FitReader | None, place: tuple[int, int] | None) -> Any:
    """Return the fit at a place; None if it cannot be read."""
    try:
        return None if fits is None or place is None else fits.get(*place)
    except (FileNotFoundError, StateError):
        return None


def _begun_again(fits: FitReader | None, lost: Lost) -> list[tuple[int, Stream]]:
    """Return streams at their start, with their order, where their fit can be read."""
    streams = []
    for name, place, order in zip(lost.names, lost.fits, lost.orders, strict=True):
        if (fit := _fit(fits, place)) is not None:
            block, shape = FleetStreams().common(fit.fitted, fit.shape)
            stream = Stream(name, fit.template, block, shape)
            stream.put(fit.fitted.initial())
            streams.append((order, stream))
    return streams
