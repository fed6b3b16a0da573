"""Files that grow, read by complete lines through all kinds of rotation, each line once."""

from __future__ import annotations

import os
import time
from collections.abc import Callable, Sequence
from typing import Any

from newnormal.errors import NewnormalError
from newnormal.io.sources.rotation import EDGE
from newnormal.io.sources.tailed import Piece, Tailed
from newnormal.io.sources.tracking import Tracking
from newnormal.io.sources.unpacking import Unpacking

CHUNK = 1 << 18  # bytes that are read of a file at once
_LINE = 256  # bytes that a line is taken to have
_SETTLED = 10.0  # s without a change after which a last line without an end is taken as one


class Tailing:
    """Follows files: gives their complete lines, and keeps the place of each.

    No file stays open but a compressed one that is being read.

    Parameters
    ----------
    patterns, from_end
        As those of `Tracking`.
    longest
        Bytes of the longest line; a longer one is skipped.
    clock
        The time in s since 1970.

    Attributes
    ----------
    files
        What is followed.
    due
        Whether `scan` is to be called before anything is read.
    """

    def __init__(
        self,
        patterns: Sequence[str],
        *,
        from_end: bool = False,
        longest: int = 1_000_000,
        clock: Callable[[], float] = time.time,
    ) -> None:
        self.files = Tracking(patterns, from_end=from_end)
        self.due = True
        self._longest = longest
        self._clock = clock
        self._open: tuple[Tailed, Unpacking] | None = None
        self._turn: Any = None  # the family that was read last

    def scan(self) -> None:
        """Look for new files, for those that grew, and for where those are that were renamed."""
        self.due = False
        self.files.scan()
        for each in self.files:
            if each.doubtful or (each.unfinished and self._is_final(each)):
                each.looked = None

    def waiting(self) -> list[Tailed]:
        """Return the files to read now, one of each family: its oldest that waits.

        The family behind the one that was read last comes first.
        """
        # What comes behind a file in doubt waits, too, for the next scan.
        found = [
            next(filter(lambda each: each.waits or each.doubtful, members), None)
            for members in self.files.families
        ]
        waiting = [each for each in found if each is not None and each.waits]
        at = next((n for n, each in enumerate(waiting) if each.family == self._turn), -1) + 1
        return waiting[at:] + waiting[:at]

    def read(self, tailed: Tailed, most: int) -> Piece | None:
        """Return the next lines of a file, at most `most`; None: there are none now."""
        self._turn = tailed.family
        try:
            if tailed.packed:
                return self._read_packed(tailed, most)
            return None if self._grew_before(tailed) else self._read_plain(tailed, most)
        except FileNotFoundError:
            self.due = True
        except OSError as error:
            self.refuse(tailed, f"expected a file that can be read, found: {error.strerror}")
        except NewnormalError as error:
            self.close()  # what is compressed is begun anew once it changes
            self.refuse(tailed, error.message)
        return None

    def take(self, piece: Piece, count: int) -> None:
        """Go behind the first `count` lines of a piece."""
        tailed = piece.tailed
        size = sum(map(len, piece.lines[:count])) + count
        if count == len(piece.lines):
            tailed.looked = piece.last
            size -= not piece.ends
        tailed.line += count
        self._move(piece, size)

    def refuse(self, tailed: Tailed, why: str) -> None:
        """Do not read a file until it changes."""
        tailed.refused = why
        tailed.looked = tailed.size, tailed.changed

    def close(self) -> None:
        """Close what is open."""
        if self._open is not None:
            self._open[1].close()
            self._open = None

    # ------------------------------------------------------------------ one file

    def _move(self, piece: Piece, size: int) -> None:
        """Go behind so many bytes."""
        tailed = piece.tailed
        tailed.move(piece.before, piece.raw, size)
        if tailed.packed and self._open is not None and self._open[0] is tailed:
            unpacking = self._open[1]
            unpacking.take(size)
            tailed.done = unpacking.ended and not unpacking.rest
            if tailed.done:
                self.close()

    def _grew_before(self, tailed: Tailed) -> bool:
        """Whether the file before one grew since the last scan: its lines come first.

        A program that notices a rotation writes its last lines to the old file, and from then on
        to the new one. So whatever the new one has was written after all that the old one has now.
        """
        before = self.files.before(tailed)
        if before is None or before.gone or before.packed:
            return False
        status = before.path.stat()
        if (status.st_dev, status.st_ino) != before.ident:
            self.due = True
            return True
        before.size, before.changed = status.st_size, status.st_mtime_ns
        return before.waits

    def _read_plain(self, tailed: Tailed, most: int) -> Piece | None:
        with tailed.path.open("rb", buffering=0) as file:
            status = os.fstat(file.fileno())
            if (status.st_dev, status.st_ino) != tailed.ident:
                self.due = True
                return None
            now = status.st_size, status.st_mtime_ns
            edge = min(tailed.offset, EDGE)
            head = file.read(EDGE)
            file.seek(tailed.offset - edge)
            wanted = min(_LINE * (most + 1), CHUNK)
            raw = file.read(edge + wanted)
            before, raw = raw[:edge], raw[edge:]
            if not tailed.fits(head, before):
                self._doubt(tailed, now)
                return None
            tailed.learn(head)
            tailed.doubtful = False
            if b"\n" not in raw and len(raw) == wanted:
                file.seek(tailed.offset)
                raw = file.read(self._longest + 1)
        ended = tailed.offset + len(raw) >= status.st_size
        piece = Piece(tailed, [], tailed.line + 1, before=before, raw=raw)
        return self._cut(piece, most, now, ended=ended, final=ended and self._is_final(tailed))

    def _read_packed(self, tailed: Tailed, most: int) -> Piece | None:
        if self._open is not None and (
            self._open[0] is not tailed or self._open[1].offset > tailed.offset
        ):
            self.close()
        if self._open is None:
            self._open = tailed, Unpacking(tailed.path)
        unpacking = self._open[1]
        if not unpacking.go(tailed.offset):
            return None
        now = tailed.size, tailed.changed
        unpacking.fill(CHUNK)
        if not tailed.fits(unpacking.head, unpacking.tail):
            self.close()
            tailed.not_in.add((tailed.ident or (0, 0), *now))
            tailed.lose(ident=True)
            self.due = True
            return None
        tailed.learn(unpacking.head)
        if b"\n" not in unpacking.rest:
            unpacking.fill(self._longest + 1)
        if not unpacking.rest:
            tailed.done = True
            self.close()
            return None
        piece = Piece(tailed, [], tailed.line + 1, before=unpacking.tail, raw=unpacking.rest)
        return self._cut(piece, most, now, ended=unpacking.ended, final=unpacking.ended)

    def _doubt(self, tailed: Tailed, now: tuple[int, int]) -> None:
        """Take a file that has another text for a new one, if it has that at the next scan, too.

        A program may write all of a file anew to add a line.
        """
        if not tailed.doubtful:
            tailed.doubtful = True
            tailed.looked = now
            return
        self.files.replace(tailed)
        self.due = True

    def _cut(
        self, piece: Piece, most: int, now: tuple[int, int], *, ended: bool, final: bool
    ) -> Piece | None:
        """Return what was read as complete lines; go behind what is none.

        Parameters
        ----------
        ended
            Whether the file has no more bytes now.
        final
            Whether none will come: a last line without an end is one.
        """
        tailed, raw = piece.tailed, piece.raw
        if tailed.skipping and raw:
            end = raw.find(b"\n") + 1
            tailed.skipping = not end
            tailed.line += bool(end)
            self._move(piece, end or len(raw))
            return None
        zeros = len(raw) - len(raw.lstrip(b"\0"))
        if zeros:  # of a program that writes on where it was in a file that was cut short
            self._move(piece, zeros)
            return None
        end = raw.rfind(b"\n")
        if end < 0 and len(raw) > self._longest:
            tailed.skipping = True
            self._move(piece, len(raw))
            return piece._replace(too_long=True)
        rest = raw[end + 1 :]
        if end < 0 and not (final and rest):
            tailed.looked = now
            tailed.unfinished = bool(rest)
            return None
        lines = raw[:end].split(b"\n") if end >= 0 else []
        taken = final and bool(rest)
        if taken:
            lines.append(rest)
        tailed.unfinished = bool(rest) and not taken
        cut = len(lines) > most
        return piece._replace(
            lines=lines[:most],
            ends=cut or not taken,
            last=now if ended and not cut else None,
        )

    def _is_final(self, tailed: Tailed) -> bool:
        """Whether nothing is added to a file any more: one after it has lines, and time passed."""
        if self._clock() - tailed.changed / 1e9 < _SETTLED:
            return False
        members = self.files.family(tailed)
        later = members[members.index(tailed) + 1 :]
        return any(each.size for each in later if not each.gone)
