"""A file that is followed: which one it is, and up to which position it was read."""

import time
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any, BinaryIO, NamedTuple

from newnormal.errors import InputError
from newnormal.io.sources.folders import EDGE, Family, FolderEntry, Ident, digest
from newnormal.tabular.text.compression import Poll, compression_of, decompressed

_FLAGS = ("gone", "packed", "done", "skipping", "telling")
_READ = 1 << 18  # bytes that are read at once
_BEGAN = 16  # bytes that tell how it is compressed
_TURN = 0.2  # s for which it goes forward at most


@dataclass(eq=False, slots=True)
class Tailed:
    """A file and the position up to which it was read."""

    # Which file it is; `folder` and `name` are where it was seen last. The ident is None if the
    # file is gone and its inode belongs to another text.
    family: Family
    folder: str
    name: str
    ident: Ident | None
    # The place: bytes of the text and lines before it.
    offset: int = 0
    line: int = 0
    # What its text is known by: a number of its first bytes, the digest of these, and that of the
    # bytes before the position.
    known: int = 0
    head: str = ""
    tail: str = ""
    packed: bool = False  # whether it is compressed; the position is one in the text
    # Whether there is no such file now. What is left of it may be in a copy.
    gone: bool = False
    done: bool = False  # whether it is compressed and was read to its end
    skipping: bool = False  # whether the position is within a line that is too long
    # Whether that tells it from others: it is more than a header, which all of a family have.
    telling: bool = False
    # In bytes, and when it was written last in ns, as it was seen last.
    size: int = 0
    changed: int = 0
    facts: dict[str, Any] | None = None  # what was found out about its form, as JSON values
    # What follows is found out anew after a start.
    matched: bool = False  # whether a pattern names it
    looked: tuple[int, int] | None = None  # size and change at which there was nothing to read
    unfinished: bool = False  # whether its last line had no end then
    doubtful: bool = False  # whether it had another text then
    refused: str = ""  # why it is not read
    since: float = field(default_factory=time.monotonic)  # when it was gone
    not_in: set[tuple[Ident, int, int]] = field(default_factory=set)  # files that are no copies
    parser: Any = None  # what reads its lines; None: it is to be made from the facts

    @property
    def path(self) -> Path:
        """Where it was seen last."""
        return Path(self.folder, self.name)

    @property
    def waits(self) -> bool:
        """Whether there may be something to read."""
        return not (self.gone or self.done) and self.looked != (self.size, self.changed)

    def see(self, entry: FolderEntry) -> None:
        """Note where it is and how large."""
        self.folder, self.name, self.matched = entry.folder, entry.name, entry.matched
        self.size, self.changed, self.ident = entry.size, entry.changed, entry.ident
        self.gone = False

    def lose(self, *, ident: bool = False) -> None:
        """Note that there is no such file any more; with `ident` that its inode is another's."""
        self.gone, self.since = True, time.monotonic()
        self.parser = None
        if ident:
            self.ident = None

    def go_on(self, other: "Tailed") -> None:
        """Take over the position of a file that it has all of the text of."""
        self.offset, self.line, self.skipping = other.offset, other.line, other.skipping
        self.known, self.head, self.tail = other.known, other.head, other.tail
        self.telling = other.telling
        self.facts, self.parser = other.facts, other.parser

    def learn(self, head: bytes) -> None:
        """Take note of the first bytes of its text, which are more than before or the same."""
        if len(head[:EDGE]) > self.known:
            self.known, self.head = len(head[:EDGE]), digest(head[:EDGE])
            self.telling = self.telling or head.count(b"\n") > 1

    def fits(self, head: bytes, before: bytes) -> bool:
        """Whether a text is its own.

        `head`, `before`: the first bytes of the text, and those before the position; at most `EDGE`
        count.
        """
        edge = min(self.offset, EDGE)
        return (
            len(head) >= self.known
            and (not self.known or digest(head[: self.known]) == self.head)
            and len(before) >= edge
            and (not self.offset or digest(before[-edge:]) == self.tail)
        )

    def move(self, before: bytes, raw: bytes, size: int) -> None:
        """Go `size` bytes forward; `before` and `raw` are bytes before and behind the position."""
        self.offset += size
        self.refused = ""
        tail = raw[max(size - EDGE, 0) : size]
        if size < EDGE:
            tail = (before + tail)[-EDGE:]
        self.tail = digest(tail)

    def to_json(self) -> list[Any]:
        """Return it as JSON values."""
        same = self.folder == self.family.folder
        return [
            self.name if same else str(self.path),
            None if self.ident is None else list(self.ident),
            self.offset,
            self.line,
            [self.known, self.head, self.tail],
            [name for name in _FLAGS if getattr(self, name)],
            [self.size, self.changed],
            self.facts,
        ]

    @classmethod
    def of_json(cls, family: Family, content: list[Any]) -> "Tailed":
        """Return what `to_json` made."""
        name, ident, offset, line, text, flags, seen, facts = content
        path = Path(family.folder, name)
        made = cls(family, str(path.parent), path.name, None, offset, line, *text)
        made.ident = None if ident is None else (ident[0], ident[1])
        made.size, made.changed = seen
        made.facts = facts
        for flag in flags:
            setattr(made, flag, True)
        return made


class TailedLines(NamedTuple):
    """Lines of a file that were read and not taken yet."""

    tailed: Tailed
    lines: list[bytes]  # without their ends
    first: int  # the number of the first of them
    too_long: bool = False  # whether there is only a line that is too long, which was skipped
    # As `Tailed.move` takes them.
    before: bytes = b""
    raw: bytes = b""
    ends: bool = True  # whether the last of the lines has an end
    last: tuple[int, int] | None = None  # size and change of the file, if it has no more lines


def edges(path: Path, offset: int) -> tuple[bytes, bytes] | None:
    """Return the first bytes of a file and those before a position; None if it ends before it."""
    edge = min(offset, EDGE)
    try:
        with path.open("rb") as file:
            head = file.read(EDGE)
            file.seek(offset - edge)
            before = file.read(edge)
    except OSError:
        return None
    return (head, before) if len(before) == edge else None


def has_text_of(path: Path, tailed: Tailed) -> bool:
    """Whether a file has the text of another one, as far as that is known."""
    text = edges(path, tailed.offset)
    return tailed.known > 0 and text is not None and tailed.fits(*text)


def is_beginning(path: Path, size: int, other: Path) -> bool:
    """Whether all of a file of a size is how another one begins."""
    one, two = edges(path, size), edges(other, size)
    if not size or one is None or two is None:
        return False
    return one[0][:size] == two[0][:size] and one[1] == two[1]


class Unpacking:
    """A compressed file, open at a position in its text."""

    def __init__(self, path: Path) -> None:
        self.offset = 0  # the place: bytes of the text before it
        # The first bytes of the text as far as they were read, the last before the position (at
        # most `EDGE` each), and bytes behind the position.
        self.head = self.tail = self.rest = b""
        self.ended = False  # whether `rest` goes to the end
        self._file: BinaryIO = path.open("rb")
        try:
            kind = compression_of(self._file.read(_BEGAN))
            self._file.seek(0)
            self._poll: Poll = self._raw if kind is None else decompressed(kind, self._raw)
        except BaseException:
            self._file.close()
            raise

    def _raw(self) -> bytes | None:
        return self._file.read(_READ) or None

    def fill(self, count: int) -> None:
        """Read until there are so many bytes behind the position, or no more."""
        while len(self.rest) < count and not self.ended:
            try:
                piece = self._poll()
            except OSError as error:
                raise InputError(
                    f"expected a file that can be read, found: {error.strerror}"
                ) from error
            if piece is None:
                self.ended = True
            elif piece:
                self.rest += piece
                if len(self.head) < EDGE:
                    self.head += piece[: EDGE - len(self.head)]

    def go(self, offset: int) -> bool:
        """Go forward to a position; return False if it is not there yet, after some time."""
        until = time.monotonic() + _TURN
        while self.offset < offset:
            self.fill(1)
            if not self.rest:
                return True  # the text ends before the position
            self.take(min(len(self.rest), offset - self.offset))
            if time.monotonic() > until and self.offset < offset:
                return False
        return True

    def take(self, count: int) -> None:
        """Go behind so many bytes of `rest`."""
        self.tail = (self.tail + self.rest[:count])[-EDGE:]
        self.rest = self.rest[count:]
        self.offset += count

    def close(self) -> None:
        """Close the file."""
        self._file.close()
