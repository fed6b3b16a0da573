"""A fleet that is open on its folder: what changes it is logged first, shares are saved in turn."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from typing import Any

from newnormal.errors import ParameterError, StateError
from newnormal.fleet.folder.lock import FolderLock
from newnormal.fleet.folder.log import SampleLog
from newnormal.fleet.folder.records import ACT, NOTE, SAMPLES, Act, Record, Samples
from newnormal.fleet.folder.replaying import Replay
from newnormal.fleet.folder.writer import Contents, FolderWriter
from newnormal.fleet.streams import Streams
from newnormal.fleet.work import Gathered

LONGEST_NOTE = 1 << 24  # bytes


class Journal:
    """Writes the log and the checkpoints of a fleet.

    A checkpoint is made before a call is logged, not after it was judged: when the fleet is called
    again, the caller has done with the verdicts of the last call what it wanted. So all verdicts
    that it may not have seen come again when the folder is opened after a kill.

    Parameters
    ----------
    writer, lock
        Of the folder.
    log
        Where records go.
    epoch
        The name of the log's files; None where the log is the caller's.
    every
        Calls with samples, within which each share is saved once.
    contents
        Gives what the fleet is now.
    found
        What the log held.
    """

    def __init__(
        self,
        writer: FolderWriter,
        lock: FolderLock,
        log: SampleLog,
        epoch: str | None,
        every: int,
        contents: Callable[[], Contents],
        found: Replay,
    ) -> None:
        self.writer, self._lock, self._log, self._epoch = writer, lock, log, epoch
        self._every, self._contents = every, contents
        self.position, self.note, self.noted = found
        self._attached: bytes | None = None  # goes with the next record
        self._calls = 0  # with samples, since shares were saved
        self._next = 0  # the share that is saved next
        self._is_arranged = True  # whether the folder has the streams that the fleet has

    @property
    def folder(self) -> Any:
        """The path of the folder."""
        return self.writer.folder

    # ------------------------------------------------------------------ records

    def samples(self, gathered: Gathered, flush: bool) -> None:
        """Log samples, before they are judged."""
        self._settle()
        self._calls += 1
        if self._calls * len(self.writer.shares) >= self._every:
            self._roll()
        body = Samples.of(gathered, flush, self.writer.ids)
        self._append(SAMPLES, body)
        for group, rows, _ in gathered.work:
            self.writer.touch(group, rows.streams)

    def act(self, streams: Streams, name: str, verb: str, alarm: Any, change: Any) -> None:
        """Log feedback, before it acts."""
        self._settle()
        group, at = streams.where(name)
        self._append(ACT, Act(self.writer.id_of(name), verb, alarm, change))
        self.writer.touch(group, [at])

    def write_note(self, note: bytes, with_next: bool) -> None:
        """Log a note of the caller's, by itself or as a part of the next record."""
        if len(note) > LONGEST_NOTE:
            raise ParameterError(
                f"note: expected at most {LONGEST_NOTE:,} bytes, found {len(note):,}"
            )
        self._attached = note
        if not with_next:
            self._append(NOTE, None)

    def _append(self, kind: int, body: Samples | Act | None) -> None:
        note = self._attached
        self.position = self._log.append(Record(kind, body, note).write())
        if note is not None:
            self.note, self.noted, self._attached = note, self.position, None

    # ------------------------------------------------------------------ checkpoints

    def structure(self) -> None:
        """Save streams that were added, removed or fitted anew, before anything else happens."""
        self._is_arranged = False
        self.writer.arrange(self._contents().streams)
        self.writer.write_changed(self.position)
        self._publish()
        self._is_arranged = True

    def checkpoint(self, position: int | None = None) -> None:
        """Save every share that has changed; `position` is for a caller that keeps the log."""
        if position is not None:
            raise ParameterError(
                "position: expected none, found one: this fleet keeps its log itself",
                hint="Fleet.attach is for callers that keep the log",
            )
        self._settle()
        self.writer.write(sorted(self.writer.dirty), self.position)
        self._calls = 0
        self._publish()

    def _settle(self) -> None:
        if not self._is_arranged:  # it could not be written when it was changed
            self.structure()

    def _roll(self) -> None:
        """Save the shares whose turn it is."""
        shares = len(self.writer.shares)
        count = min(max(1, self._calls * shares // self._every), shares)
        turn = [(self._next + at) % shares for at in range(count)]
        self.writer.write([at for at in turn if at in self.writer.dirty], self.position)
        self._next = (self._next + count) % shares
        self._calls = 0
        self._publish()

    def _publish(self) -> None:
        flush = getattr(self._log, "flush", None)
        if callable(flush):  # the manifest must not be ahead of the log on the disk
            flush()
        manifest = self.writer.publish(
            self._contents(), self.position, self._epoch, (self.note, self.noted)
        )
        self._log.trim(manifest.first)

    def close(self) -> None:
        """Save everything, and let go of the folder."""
        try:
            self.checkpoint()
        finally:
            self.abandon()

    def abandon(self) -> None:
        """Let go of the folder as a kill would: the log has what is not saved."""
        self._log.close()
        self._lock.release()


class Checkpoints(Journal):
    """Writes the checkpoints of a fleet whose caller keeps the log, and nothing else.

    All streams are saved at one position, only by `checkpoint`: after a kill the fleet is as it
    was there, and its caller applies what it logged since.
    """

    def __init__(
        self, writer: FolderWriter, lock: FolderLock, contents: Callable[[], Contents], at: Replay
    ) -> None:
        super().__init__(writer, lock, _NoLog(), None, 1, contents, at)
        self._is_arranged = False

    def samples(self, gathered: Gathered, flush: bool) -> None:
        """Take note of which streams change."""
        del flush
        if self._is_arranged:
            for group, rows, _ in gathered.work:
                self.writer.touch(group, rows.streams)

    def act(self, streams: Streams, name: str, verb: str, alarm: Any, change: Any) -> None:
        """Take note of which stream changes."""
        del verb, alarm, change
        if self._is_arranged:
            group, at = streams.where(name)
            self.writer.touch(group, [at])

    def write_note(self, note: bytes, with_next: bool) -> None:
        """Refuse: notes are for fleets that keep their log."""
        del note, with_next
        raise StateError(
            "expected a fleet that keeps its log, found one whose caller does",
            hint="write the note to the log of the caller",
        )

    def structure(self) -> None:
        """Take note that streams were added, removed or fitted anew."""
        self._is_arranged = False

    def checkpoint(self, position: int | None = None) -> None:
        """Save every stream that has changed, as of a position of the caller's log."""
        if position is not None:
            self.position = position
        if not self._is_arranged:
            self.writer.arrange(self._contents().streams)
        self.writer.write_changed(self.position)
        self.writer.write(sorted(self.writer.dirty), self.position)
        self._publish()
        self._is_arranged = True


class _NoLog:
    """In the place of a log that the caller keeps."""

    def append(self, record: bytes) -> int:
        raise NotImplementedError

    def read(self, position: int) -> Iterator[tuple[int, bytes]]:
        del position
        return iter(())

    def trim(self, position: int) -> None:
        pass

    def close(self) -> None:
        pass
