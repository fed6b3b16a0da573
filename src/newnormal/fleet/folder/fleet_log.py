"""A fleet that is open on its folder: what changes it is logged first, shards are saved in turn."""

from collections.abc import Callable
from pathlib import Path
from typing import Any

from newnormal.errors import ParameterError, StateError
from newnormal.fleet.folder.lock import FolderLock
from newnormal.fleet.folder.log import FileLog
from newnormal.fleet.folder.records import ACT, MARKER, SAMPLES, Act, LogRecord, Samples
from newnormal.fleet.folder.replaying import LogEnd
from newnormal.fleet.folder.writer import FleetContents, FolderWriter
from newnormal.fleet.streams import FleetStreams
from newnormal.fleet.work import Gathered

LONGEST_MARKER = 1 << 24  # bytes


class CallerLog:
    """Writes the checkpoints of a fleet whose caller keeps the log, and nothing else.

    All streams are saved at one position, only by `checkpoint`: after a kill the fleet is as it
    was there, and its caller applies what it logged since.

    `writer`, `lock`: of the folder. `contents` gives what the fleet is now. `end`: where the log
    ends.
    """

    def __init__(
        self,
        writer: FolderWriter,
        lock: FolderLock,
        contents: Callable[[], FleetContents],
        end: LogEnd,
    ) -> None:
        self.writer, self._lock, self._contents = writer, lock, contents
        self.position, self.marker, self.marked = end
        self._is_arranged = False  # whether the folder has the streams that the fleet has

    @property
    def folder(self) -> Path:
        """The path of the folder."""
        return self.writer.folder

    def samples(self, gathered: Gathered, flush: bool) -> None:
        """Take note of which streams change."""
        del flush
        if self._is_arranged:
            self._touch(gathered)

    def _touch(self, gathered: Gathered) -> None:
        for group, rows, _ in gathered.work:
            self.writer.touch(group, rows.streams)

    def act(self, streams: FleetStreams, name: str, verb: str, alarm: Any, change: Any) -> None:
        """Take note of which stream changes."""
        del verb, alarm, change
        if self._is_arranged:
            group, at = streams.where(name)
            self.writer.touch(group, [at])

    def write_marker(self, marker: bytes, with_next: bool) -> None:
        """Refuse: markers are for fleets that keep their log."""
        del marker, with_next
        raise StateError(
            "expected a fleet that keeps its log, found one whose caller does",
            hint="write the marker to the log of the caller",
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

    def _publish(self) -> None:
        self.writer.publish(self._contents(), self.position, None, (self.marker, self.marked))

    def close(self) -> None:
        """Save everything, and let go of the folder."""
        try:
            self.checkpoint()
        finally:
            self.abandon()

    def abandon(self) -> None:
        """Let go of the folder as a kill would: the log has what is not saved."""
        self._lock.release()


class FleetLog(CallerLog):
    """Writes the log and the checkpoints of a fleet.

    A checkpoint is made before a call is logged, not after it was judged: when the fleet is called
    again, the caller has done with the verdicts of the last call what it wanted. So all verdicts
    that it may not have seen come again when the folder is opened after a kill.

    `log`: where records go. `every`: calls with samples, within which each shard is saved once.
    """

    def __init__(
        self,
        writer: FolderWriter,
        lock: FolderLock,
        contents: Callable[[], FleetContents],
        end: LogEnd,
        log: FileLog,
        every: int,
    ) -> None:
        super().__init__(writer, lock, contents, end)
        self._log, self._every = log, every
        self._attached: bytes | None = None  # goes with the next record
        self._calls = 0  # with samples, since shards were saved
        self._next = 0  # the shard that is saved next
        self._is_arranged = True

    # ------------------------------------------------------------------ records

    def samples(self, gathered: Gathered, flush: bool) -> None:
        """Log samples, before they are judged."""
        self._settle()
        self._calls += 1
        if self._calls * len(self.writer.shards) >= self._every:
            self._roll()
        self._append(SAMPLES, Samples.of(gathered, flush, self.writer.ids))
        self._touch(gathered)

    def act(self, streams: FleetStreams, name: str, verb: str, alarm: Any, change: Any) -> None:
        """Log feedback, before it acts."""
        self._settle()
        self._append(ACT, Act(self.writer.id_of(name), verb, alarm, change))
        super().act(streams, name, verb, alarm, change)

    def write_marker(self, marker: bytes, with_next: bool) -> None:
        """Log a marker of the caller's, by itself or as a part of the next record."""
        if len(marker) > LONGEST_MARKER:
            raise ParameterError(
                f"marker: expected at most {LONGEST_MARKER:,} bytes, found {len(marker):,}"
            )
        self._attached = marker
        if not with_next:
            self._append(MARKER, None)

    def _append(self, kind: int, body: Samples | Act | None) -> None:
        marker = self._attached
        self.position = self._log.append(LogRecord(kind, body, marker).write())
        if marker is not None:
            self.marker, self.marked, self._attached = marker, self.position, None

    # ------------------------------------------------------------------ checkpoints

    def structure(self) -> None:
        """Save streams that were added, removed or fitted anew, before anything else happens."""
        self._is_arranged = False
        self.writer.arrange(self._contents().streams)
        self.writer.write_changed(self.position)
        self._publish()
        self._is_arranged = True

    def checkpoint(self, position: int | None = None) -> None:
        """Save every shard that has changed; `position` is for a caller that keeps the log."""
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
        """Save the shards whose turn it is."""
        shards = len(self.writer.shards)
        count = min(max(1, self._calls * shards // self._every), shards)
        turn = [(self._next + at) % shards for at in range(count)]
        self.writer.write([at for at in turn if at in self.writer.dirty], self.position)
        self._next = (self._next + count) % shards
        self._calls = 0
        self._publish()

    def _publish(self) -> None:
        self._log.flush()  # the manifest must not be ahead of the log on the disk
        marker = self.marker, self.marked
        manifest = self.writer.publish(self._contents(), self.position, self._log.log_id, marker)
        self._log.trim(manifest.first)

    def abandon(self) -> None:
        """Let go of the folder as a kill would: the log has what is not saved."""
        self._log.close()
        super().abandon()
