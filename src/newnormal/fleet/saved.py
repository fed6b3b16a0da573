"""A fleet in a folder: save, load, and open with a log of what changes it."""

from __future__ import annotations

import json
import os
import threading
import warnings
from collections import deque
from collections.abc import Callable
from pathlib import Path
from types import TracebackType
from typing import Any, NamedTuple, Self

from newnormal.base import BaseDetector
from newnormal.errors import NewnormalError, NewnormalWarning, ParameterError, StateError
from newnormal.fleet.folder.journal import Checkpoints, Journal
from newnormal.fleet.folder.lock import FolderLock
from newnormal.fleet.folder.log import FileLog, SampleLog
from newnormal.fleet.folder.manifest import Manifest, read_manifest
from newnormal.fleet.folder.names import MANIFEST, new_epoch
from newnormal.fleet.folder.records import Act
from newnormal.fleet.folder.recovery import Read, consistent, read_streams
from newnormal.fleet.folder.replaying import Replay, notes, replay
from newnormal.fleet.folder.writer import Contents, FolderWriter
from newnormal.fleet.incidents import IncidentTracker
from newnormal.fleet.results import FleetEvent, FleetVerdicts
from newnormal.fleet.streams import Streams
from newnormal.fleet.work import Gathered

_Path = str | os.PathLike[str]


class Replayed(NamedTuple):
    """Verdicts of a record that was judged again when a folder was opened.

    Attributes
    ----------
    position
        The position in the log after its record.
    verdicts
        What was made of it, the same as then.
    note, noted
        The newest note in the log, and the position after its record. A caller that notes what it
        has printed prints what has a later position.
    """

    position: int
    verdicts: FleetVerdicts
    note: bytes | None
    noted: int


OnReplay = Callable[[Replayed], None]


class Saved:
    """The part of a `Fleet` that is about its folder."""

    detector: BaseDetector
    fleet_alarms_per_day: float | None
    failures_: dict[str, NewnormalError]
    _streams: Streams
    _tracker: IncidentTracker
    _ticks: int
    _reading: dict[str, Any]
    _events: deque[FleetEvent]
    _lock: threading.RLock
    _journal: Journal | None
    _position: int
    _noted: tuple[bytes | None, int]

    def __init__(self, detector: BaseDetector | None = None) -> None:
        raise NotImplementedError

    def _advance(self, gathered: Gathered, flush: bool) -> FleetVerdicts:
        raise NotImplementedError

    def _act(self, name: str, verb: str, alarm: Any = None, change: Any = None) -> Self:
        raise NotImplementedError

    # ------------------------------------------------------------------ save and load

    def save(self, folder: _Path, *, position: int | None = None) -> None:
        """Write the whole fleet to a folder, atomically; an older fleet there is replaced.

        Parameters
        ----------
        folder
            Made if there is none. `Fleet.load` reads it, `Fleet.open` goes on with it.
        position
            Where the fleet stands in a log of the caller's own, that `open` will be given.
        """
        path = Path(folder)
        with self._lock:
            if self._journal is not None and _same(path, self._journal.folder):
                self._journal.checkpoint()
                return
            if not len(self._streams):
                raise StateError("expected a fleet with streams, found none", hint="fit it first")
            _make(path)
            lock = FolderLock(path).acquire()
            try:
                writer = FolderWriter(path)
                writer.arrange(self._streams)
                writer.write_changed(position or 0)
                epoch = new_epoch() if position is None else None
                writer.publish(self._contents(), position or 0, epoch)
            finally:
                lock.release()

    @classmethod
    def load(
        cls,
        folder: _Path,
        *,
        log: SampleLog | None = None,
        skip_damaged: bool = False,
        model: object = None,
        threshold: object = None,
    ) -> Self:
        """Return the fleet of a folder as it is now, in memory; the folder is not changed.

        Another process may have it open.

        Parameters
        ----------
        folder
            Of `save`.
        log
            Where the fleet was opened with a log of the caller's own: that.
        skip_damaged
            Leave out streams that are damaged, with a warning, instead of an error.
        model, threshold
            The class of a model and of a threshold that are not built in, as for `newnormal.load`.
        """
        path = Path(folder)

        def read(manifest: Manifest) -> Any:
            found = read_streams(path, manifest, model, threshold, skip_damaged=skip_damaged)
            fleet = cls._of(path, found, model, threshold)
            own = _log_of(path, manifest, log)
            if own is None:
                return fleet
            try:
                state = notes(own, manifest)
                fleet._replay(own, found, state, None)
            finally:
                if log is None:
                    own.close()
            return fleet

        found: Self = consistent(path, read)
        return found

    @classmethod
    def open(
        cls,
        folder: _Path,
        *,
        log: SampleLog | None = None,
        every: int = 1000,
        on_replay: OnReplay | None = None,
        sync: bool = False,
        model: object = None,
        threshold: object = None,
    ) -> Self:
        """Return the fleet of a folder, which goes on there: a kill at any moment loses nothing.

        Every call is written to a log before it changes the fleet, and a share of the streams is
        saved at a time. No other process can open the folder until `close`; use it as a context.

        Parameters
        ----------
        folder
            Of `save`.
        log
            A log of the caller's own, instead of files in the folder. Where the folder was saved
            without one, its position 0 is where the fleet stands; or see `save`.
        every
            Calls with samples, within which each stream is saved once.
        on_replay
            Called with the verdicts of each record after the last checkpoint: a caller that was
            killed may not have seen them.
        sync
            Whether each record is on the disk before the fleet goes on: then a loss of power loses
            nothing either.
        model, threshold
            As for `load`.
        """
        if every < 1:
            raise ParameterError(f"every: expected at least 1, found {every}")
        path = Path(folder)
        read_manifest(path)  # raises where there is no fleet
        lock = FolderLock(path).acquire()
        try:
            found = consistent(path, lambda each: read_streams(path, each, model, threshold))
            manifest = found.manifest
            fleet = cls._of(path, found, model, threshold)
            own = _log_of(path, manifest, log, sync, required=True)
            assert own is not None
            state = notes(own, manifest)
            fleet._replay(own, found, state, on_replay)
            epoch = manifest.epoch
            is_other = log is not None and epoch is not None
            if log is not None and is_other:
                own.close()
                own, epoch, state = log, None, Replay(0, state.note, 0)
            if isinstance(own, FileLog):
                own.recover(state.position)
            writer = FolderWriter(path)
            writer.adopt(manifest, found.shares)
            writer.dirty = set(range(len(writer.shares)))
            fleet._journal = Journal(writer, lock, own, epoch, every, fleet._contents, state)
            if is_other:
                fleet._journal.checkpoint()
            elif any(share.changed for share in writer.shares):
                fleet._journal.structure()
        except BaseException:
            lock.release()
            raise
        return fleet

    @classmethod
    def attach(cls, folder: _Path, *, model: object = None, threshold: object = None) -> Self:
        """Return the fleet of a folder for a caller that keeps a log; an empty one without folder.

        Nothing is written but by ``checkpoint(position)``. After a kill, `attach` gives the fleet
        as it was at `position`, and the caller applies what it logged after that.
        """
        path = Path(folder)
        _make(path)
        lock = FolderLock(path).acquire()
        try:
            writer = FolderWriter(path)
            if (path / MANIFEST).exists():
                found = consistent(path, lambda each: read_streams(path, each, model, threshold))
                manifest = found.manifest
                if manifest.epoch is not None or manifest.first < manifest.position:
                    raise StateError(
                        f"{path}: expected a fleet whose caller keeps the log, found its own log",
                        hint="use Fleet.open(folder)",
                    )
                fleet = cls._of(path, found, model, threshold)
                writer.adopt(manifest, found.shares)
            else:
                fleet = cls()
            state = Replay(fleet._position, None, 0)
            fleet._journal = Checkpoints(writer, lock, fleet._contents, state)
        except BaseException:
            lock.release()
            raise
        return fleet

    @classmethod
    def _of(cls, folder: Path, found: Read, model: object, threshold: object) -> Self:
        """Return the fleet of what was read."""
        manifest, origin = found.manifest, str(folder / MANIFEST)
        fleet = cls(BaseDetector.from_options(manifest.detector, origin, model, threshold))
        fleet.fleet_alarms_per_day = manifest.limit
        fleet._streams = found.streams
        fleet._tracker = IncidentTracker.from_json(manifest.incidents)
        fleet._ticks, fleet._reading = manifest.ticks, manifest.reading
        fleet._events.extend(found.events)
        fleet._position, fleet._noted = manifest.position, (manifest.note, manifest.noted)
        if found.lost_names:
            names = ", ".join(map(repr, found.lost_names[:5]))
            warnings.warn(
                f"{len(found.lost_names)} streams of {folder} are damaged and left out: {names}"
                f"{' and more' if len(found.lost_names) > 5 else ''}",
                NewnormalWarning,
                stacklevel=5,
            )
        return fleet

    def _replay(
        self, log: SampleLog, found: Read, state: Replay, on_replay: OnReplay | None
    ) -> None:
        def judged(position: int, verdicts: FleetVerdicts) -> None:
            if on_replay is not None:
                on_replay(Replayed(position, verdicts, state.note, state.noted))

        def act(name: str, body: Act) -> None:
            self._act(name, body.verb, body.alarm, body.change)

        replay(log, found, self._advance, act, judged)
        self._position, self._noted = state.position, (state.note, state.noted)

    def _contents(self) -> Contents:
        """Return what a folder holds of the fleet."""
        reading = {}
        for name, value in self._reading.items():
            try:
                if json.loads(json.dumps(value)) in (value, list(value or ())):
                    reading[name] = value
            except (TypeError, ValueError):  # a frame of times, say: it is given again
                continue
        return Contents(
            self.detector.options_as_json(),
            self.fleet_alarms_per_day,
            reading,
            self._ticks,
            self._tracker.to_json(),
            self._streams,
            self._events,
        )

    # ------------------------------------------------------------------ while it is open

    @property
    def position(self) -> int:
        """The position in the log after the last record that is applied."""
        return self._position if self._journal is None else self._journal.position

    @property
    def last_note(self) -> tuple[bytes | None, int]:
        """The newest note in the log, None without one, and the position after its record."""
        journal = self._journal
        return self._noted if journal is None else (journal.note, journal.noted)

    def note(self, note: bytes, *, with_next: bool = False) -> int:
        """Write a note of the caller's to the log; return the position after it.

        `last_note` and `on_replay` give the newest one back when the folder is opened again. With
        `with_next` it is a part of the next record: both are there, or none of them.
        """
        with self._lock:
            journal = self._opened_journal()
            journal.write_note(bytes(note), with_next)
            return journal.position

    def checkpoint(self, position: int | None = None) -> None:
        """Save all streams now; `position` is that of the log of a caller that keeps one."""
        with self._lock:
            self._opened_journal().checkpoint(position)

    def close(self, *, save: bool = True) -> None:
        """Save all streams and let go of the folder; the fleet goes on in memory.

        Without `save` the folder is as a kill would leave it: `open` replays the log.
        """
        with self._lock:
            if self._journal is not None:
                journal = self._journal
                self._position, self._noted = journal.position, (journal.note, journal.noted)
                self._journal = None
                if save:
                    journal.close()
                else:
                    journal.abandon()

    def __enter__(self) -> Self:
        return self

    def __exit__(
        self,
        kind: type[BaseException] | None,
        error: BaseException | None,
        trace: TracebackType | None,
    ) -> None:
        del kind, error, trace
        self.close()

    def take_out(self, name: str, path: _Path) -> None:
        """Write one stream as an ordinary state file, which `newnormal.load` reads.

        ``fleet.add(name, newnormal.load(path))`` puts it into a fleet.
        """
        with self._lock:
            detector = self._streams[name].detector()
        detector.save(path)

    def _opened_journal(self) -> Journal:
        if self._journal is None:
            raise StateError(
                "expected a fleet that is open on a folder, found one in memory",
                hint="use Fleet.open(folder)",
            )
        return self._journal


def last_note(folder: _Path) -> bytes | None:
    """Return the newest note in the log of a folder, which another process may have open."""
    path = Path(folder)

    def read(manifest: Manifest) -> bytes | None:
        log = _log_of(path, manifest, None, required=True)
        assert log is not None
        try:
            return notes(log, manifest).note
        finally:
            log.close()

    return consistent(path, read)


def _log_of(
    folder: Path,
    manifest: Manifest,
    log: SampleLog | None,
    sync: bool = False,
    required: bool = False,
) -> SampleLog | None:
    """Return the log that a folder goes on with; None where all is in its files."""
    if manifest.epoch is not None:
        return FileLog(folder, manifest.epoch, sync=sync)
    if log is None and (required or manifest.first < manifest.position):
        raise StateError(
            f"{folder} belongs to a log of the caller's own, found none",
            hint="give it: Fleet.open(folder, log=...)",
        )
    return log


def _make(path: Path) -> None:
    try:
        path.mkdir(parents=True, exist_ok=True)
    except OSError as error:
        raise StateError(
            f"cannot write {path}: {error.strerror}",
            hint="give a folder, or a name that nothing has",
        ) from error


def _same(one: Path, other: Path) -> bool:
    return one.resolve() == other.resolve()
