"""Checkpoints of a fleet whose engine keeps the log."""

from collections.abc import Callable

from newnormal.fleet.folder.lock import FolderLock
from newnormal.fleet.folder.writer import FleetContents, FolderWriter
from newnormal.fleet.streams import FleetStreams
from newnormal.fleet.work import Gathered


class FleetCheckpoints:
    """Saves what has changed of a fleet: all streams at one position of the engine's log.

    After a kill the fleet is as it was there, and the engine applies what it logged since.

    `writer`, `lock`: of the folder. `contents` gives what the fleet is now. `position`: of the
    last checkpoint.
    """

    def __init__(
        self,
        writer: FolderWriter,
        lock: FolderLock,
        contents: Callable[[], FleetContents],
        position: int,
    ) -> None:
        self.writer, self._lock, self._contents = writer, lock, contents
        self.position = position
        self._is_arranged = False  # whether the folder has the streams that the fleet has

    def samples(self, gathered: Gathered) -> None:
        """Take note of which streams change."""
        if self._is_arranged:
            for group, rows, _ in gathered.work:
                self.writer.touch(group, rows.streams)

    def act(self, streams: FleetStreams, name: str) -> None:
        """Take note of a stream that changes."""
        if self._is_arranged:
            group, at = streams.where(name)
            self.writer.touch(group, [at])

    def structure(self) -> None:
        """Take note that streams were added, removed or fitted anew."""
        self._is_arranged = False

    def save(self, position: int) -> None:
        """Save every stream that has changed, as of a position of the log."""
        self.position = position
        if not self._is_arranged:
            self.writer.arrange(self._contents().streams)
        self.writer.write_changed()
        self.writer.write(sorted(self.writer.dirty))
        self.writer.publish(self._contents(), position)
        self._is_arranged = True

    def release(self) -> None:
        """Let go of the folder."""
        self._lock.release()
