"""Files that grow, read by complete lines through all kinds of rotation, each line once.

One module because which file a line is in and how far it was read are decided together.
"""

import os
import time
from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any, BinaryIO, NamedTuple

from newnormal.errors import InputError, NewnormalError
from newnormal.io.sources.folders import (
    EDGE,
    Family,
    FolderEntry,
    Folders,
    Ident,
    digest,
    family_of,
    file_name,
)
from newnormal.tabular.text.compression import Poll, compression_of, decompressed

_FLAGS = ("gone", "packed", "done", "skipping", "telling")
_PIECE = 1 << 18  # bytes that are read at once
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
    # The position: bytes of the text and lines before it.
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
        self.offset = 0  # the position: bytes of the text before it
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
        return self._file.read(_PIECE) or None

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


_KEEP_GONE = 3600.0  # s for which a file that is gone may come again, compressed
_LATEST = 3  # files of a family that a new one is compared with
_READ = 1 << 20  # bytes
CHUNK = 1 << 18  # bytes that are read of a file at once
_LINE = 256  # bytes that a line is taken to have
_SETTLED = 10.0  # s without a change after which a last line without an end is taken as one


class Tracking:
    """Keeps the files of patterns in the order in which they are to be read.

    A file is known by its device and inode and by its text: so one that was renamed is found again,
    and one that has the inode of another is a new one. Where a file is gone, compressed or copied
    and cut short, another one that has its text up to the position that was read takes its part.

    `patterns`: as those of `Folders`. `from_end`: whether files that are there at first are read
    from their ends on.
    """

    def __init__(self, patterns: Sequence[str], *, from_end: bool = False) -> None:
        self.folders = Folders(patterns)
        # what was found out about the form of the file of a family that was read last
        self.forms: dict[Family, dict[str, Any]] = {}
        self.lost = ""  # what was removed before all of it was read, as a sentence
        self._from_end = from_end
        self._changed_before: set[str] = set()  # folders
        self._families: dict[Family, list[Tailed]] = {}  # each the oldest first

    def __iter__(self) -> Iterator[Tailed]:
        return (member for members in self._families.values() for member in members)

    @property
    def families(self) -> list[list[Tailed]]:
        """The files of each family, the oldest first."""
        return list(self._families.values())

    def family(self, tailed: Tailed) -> list[Tailed]:
        """Return the files of the family of a file, the oldest first."""
        return self._families[tailed.family]

    def before(self, tailed: Tailed) -> Tailed | None:
        """Return the file before one in its family."""
        members = self.family(tailed)
        at = members.index(tailed)
        return members[at - 1] if at else None

    def replace(self, tailed: Tailed) -> None:
        """Take note that a file has another text: from the next scan on it is a new one."""
        tailed.doubtful = False
        tailed.size = tailed.offset  # the size is that of the other text
        tailed.lose(ident=True)

    # ------------------------------------------------------------------ finding files

    def scan(self) -> None:
        """Look for new files, for those that grew, and for where those are that were renamed."""
        changed = self.folders.changed()
        # One more time after a change: what is renamed meanwhile may be missed.
        moved = {each for each in self._families if each.folder in changed | self._changed_before}
        self._changed_before = changed
        moved |= {each.family for each in self if each.gone}
        entries = self._look(moved)
        missing = {each.family for each in self if not each.gone and each.ident not in entries}
        if missing:
            moved |= missing
            entries |= self._look(moved)
        known = self._recognised(entries, moved)
        unknown = [entry for ident, entry in entries.items() if ident not in known]
        names = {(entry.folder, entry.name) for entry in entries.values()}
        unknown = self._adopted([each for each in unknown if not _is_being_made(each, names)])
        unknown.sort(key=lambda each: (file_name(each.name).order, each.changed, each.name))
        for entry in [each for each in unknown if self._is_wanted(each, moved)]:
            self._begin(entry)
        self._from_end = False
        self._forget()

    def _is_wanted(self, entry: FolderEntry, moved: set[Family]) -> bool:
        """Whether a new file is to be read.

        Also one that no pattern names and that came after all that are known of its family: it had
        a name of a pattern for a time in which nobody looked.
        """
        if entry.matched or not entry.size:
            return entry.size > 0
        family = family_of(entry.folder, file_name(entry.name))
        if family not in moved:
            return False
        members = self._families[family]
        orders = [file_name(member.name).order for member in members if not member.gone]
        if orders:  # or it was missed between the last two, while they were renamed
            return file_name(entry.name).order > orders[-2:][0]
        return entry.changed > max(each.changed for each in members)

    def _look(self, families: set[Family]) -> dict[Ident, FolderEntry]:
        inodes = {each.ident[1] for each in self if each.ident is not None}
        return self.folders.look(inodes, families)

    def _recognised(self, entries: dict[Ident, FolderEntry], moved: set[Family]) -> set[Ident]:
        """Note where known files are; return the idents of those."""
        known: set[Ident] = set()
        for each in sorted(self, key=lambda each: each.gone):
            entry = None if each.ident is None else entries.get(each.ident)
            if entry is None or entry.ident in known:
                if not each.gone:
                    each.lose()
            elif each.gone and not (_is_of(entry, each.family) and has_text_of(entry.path, each)):
                each.ident = None  # another file has its inode now
            elif not each.gone and each.family in moved and not self._is_same(each, entry):
                self.replace(each)
            else:
                known.add(entry.ident)
                each.see(entry)
        return known

    def _is_same(self, tailed: Tailed, entry: FolderEntry) -> bool:
        """Whether a file is the one that is known, and not another one with its inode."""
        unchanged = (entry.size, entry.changed) == (tailed.size, tailed.changed)
        if entry.path == tailed.path and unchanged:
            return True
        if tailed.packed != file_name(entry.name).compressed:
            return False
        # Machines may write the same lines, and one's new file may get the inode of another's.
        family = family_of(entry.folder, file_name(entry.name))
        strange = family != tailed.family and family in self._families
        return tailed.telling and not strange and _is_copy(entry, tailed)

    def _adopted(self, unknown: list[FolderEntry]) -> list[FolderEntry]:
        """Find what is left of files that are gone; return the other entries."""
        for each in reversed([each for each in self if each.gone and each.telling]):
            for entry in unknown:
                looked = entry.ident, entry.size, entry.changed
                if looked in each.not_in or not _is_of(entry, each.family):
                    continue
                if _is_copy(entry, each):
                    unknown = [other for other in unknown if other is not entry]
                    each.see(entry)
                    each.packed = file_name(entry.name).compressed
                    each.done = each.doubtful = False
                    each.looked = None
                    break
                each.not_in.add(looked)
            else:
                self._note_lost(each)
        return unknown

    def _note_lost(self, tailed: Tailed) -> None:
        left = tailed.size - tailed.offset
        if left > 0 and not tailed.packed:
            self.lost = f"{tailed.path} was removed before its last {left:,} bytes were read"
            tailed.size = tailed.offset

    def _begin(self, entry: FolderEntry) -> None:
        """Follow a new file, unless it is a copy of one: that may be cut short soon."""
        name = file_name(entry.name)
        members = self._families.setdefault(family_of(entry.folder, name), [])
        made = Tailed(family_of(entry.folder, name), entry.folder, entry.name, entry.ident)
        made.packed = name.compressed
        made.see(entry)
        for each in [each for each in members if not (each.gone or each.packed)][-_LATEST:]:
            if _may_be_cut_short(each, entry):
                return
            if (
                not made.packed
                and is_beginning(each.path, each.size, entry.path)
                and has_text_of(each.path, each)
            ):
                made.go_on(each)  # the other one is a copy, which is passed over from now on
                members.remove(each)
        made.learn(_head_of(entry))
        if self._from_end:
            _go_to_end(made)
        older = [
            at
            for at, member in enumerate(members)
            if not member.gone and file_name(member.name).order <= name.order
        ]
        alive = [at for at, each in enumerate(members) if not each.gone]
        members.insert(older[-1] + 1 if older else alive[0] if alive else len(members), made)

    def _forget(self) -> None:
        """Drop what cannot matter any more."""
        now = time.monotonic()
        for family, members in list(self._families.items()):
            # What no pattern names is dropped once it is read; the one before the last may grow.
            last = [each for each in members if not each.gone][-2:]
            kept = [
                member
                for member in members
                if (
                    member.telling and now - member.since < _KEEP_GONE
                    if member.gone
                    else member.matched or _is_open(member) or member in last
                )
            ]
            self._families[family] = kept
            if not kept:
                del self._families[family]
                self.forms.pop(family, None)

    # ------------------------------------------------------------------ as data

    def to_json(self) -> list[Any]:
        """Return all files and their positions as JSON values."""
        return [
            [*family, self.forms.get(family), [member.to_json() for member in members]]
            for family, members in self._families.items()
        ]

    def restore(self, content: list[Any]) -> None:
        """Restore what `to_json` returned."""
        self._from_end = False
        for folder, base, ending, form, members in content:
            family = Family(folder, base, ending)
            if form is not None:
                self.forms[family] = form
            self._families[family] = [Tailed.of_json(family, member) for member in members]


def _is_open(tailed: Tailed) -> bool:
    return tailed.waits or tailed.doubtful or tailed.unfinished or bool(tailed.refused)


def _is_of(entry: FolderEntry, family: Family) -> bool:
    return family_of(entry.folder, file_name(entry.name)) == family


def _is_being_made(entry: FolderEntry, names: set[tuple[str, str]]) -> bool:
    """Whether a compressed file is being made of another one, which is still there."""
    if not file_name(entry.name).compressed:
        return False
    plain = entry.name.rpartition(".")[0]
    return (entry.folder, plain) in names or Path(entry.folder, plain).exists()


def _is_copy(entry: FolderEntry, tailed: Tailed) -> bool:
    """Whether a file has the text of a known one, as far as that is known.

    Of a compressed file only the first bytes are compared: the rest is on the way to the position.
    """
    if not file_name(entry.name).compressed:
        return has_text_of(entry.path, tailed)
    head = _head_of(entry)
    return 0 < tailed.known <= len(head) and digest(head[: tailed.known]) == tailed.head


def _head_of(entry: FolderEntry) -> bytes:
    """Return the first bytes of a file's text; none if it cannot be read."""
    if not file_name(entry.name).compressed:
        text = edges(entry.path, 0)
        return b"" if text is None else text[0]
    try:
        unpacking = Unpacking(entry.path)
    except (OSError, NewnormalError):
        return b""
    try:
        unpacking.fill(EDGE)
    except NewnormalError:
        return b""
    finally:
        unpacking.close()
    return unpacking.head


def _may_be_cut_short(tailed: Tailed, copy: FolderEntry) -> bool:
    """Whether a file is followed that another one is a copy of: its rest may be in the copy."""
    if not file_name(copy.name).compressed and is_beginning(copy.path, copy.size, tailed.path):
        return True
    return tailed.telling and _is_copy(copy, tailed) and not has_text_of(tailed.path, tailed)


def _go_to_end(tailed: Tailed) -> None:
    """Go behind the last complete line of a file."""
    if tailed.packed:
        tailed.done = True
        return
    tail = b""
    try:
        with tailed.path.open("rb") as file:
            for piece in iter(lambda: file.read(_READ), b""):
                if end := piece.rfind(b"\n") + 1:
                    begin = file.tell() - len(piece)
                    tailed.line += piece.count(b"\n")
                    raw = tail + piece
                    tailed.offset = begin - len(tail)
                    tailed.move(b"", raw, len(tail) + end)
                tail = (tail + piece)[-EDGE:]
    except OSError:
        return  # reading it tells why


class Tailing:
    """Follows files: gives their complete lines, and keeps the position of each.

    No file stays open but a compressed one that is being read.

    `patterns`, `from_end`: as those of `Tracking`. `longest`: bytes of the longest line; a longer
    one is skipped. `clock`: the time in s since 1970.
    """

    def __init__(
        self,
        patterns: Sequence[str],
        *,
        from_end: bool = False,
        longest: int = 1_000_000,
        clock: Callable[[], float] = time.time,
    ) -> None:
        self.files = Tracking(patterns, from_end=from_end)  # what is followed
        self.due = True  # whether `scan` is to be called before anything is read
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
        firsts = [
            next(filter(lambda each: each.waits or each.doubtful, members), None)
            for members in self.files.families
        ]
        waiting = [first for first in firsts if first is not None and first.waits]
        at = next((n for n, each in enumerate(waiting) if each.family == self._turn), -1) + 1
        return waiting[at:] + waiting[:at]

    def read(self, tailed: Tailed, most: int) -> TailedLines | None:
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

    def take(self, piece: TailedLines, count: int) -> None:
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

    def _move(self, piece: TailedLines, size: int) -> None:
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

    def _read_plain(self, tailed: Tailed, most: int) -> TailedLines | None:
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
        piece = TailedLines(tailed, [], tailed.line + 1, before=before, raw=raw)
        return self._cut(piece, most, now, ended=ended, final=ended and self._is_final(tailed))

    def _read_packed(self, tailed: Tailed, most: int) -> TailedLines | None:
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
        piece = TailedLines(tailed, [], tailed.line + 1, before=unpacking.tail, raw=unpacking.rest)
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
        self, piece: TailedLines, most: int, now: tuple[int, int], *, ended: bool, final: bool
    ) -> TailedLines | None:
        """Return what was read as complete lines; go behind what is none.

        `ended`: whether the file has no more bytes now. `final`: whether none will come: a last
        line without an end is one.
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
            lines=lines[:most], ends=cut or not taken, last=now if ended and not cut else None
        )

    def _is_final(self, tailed: Tailed) -> bool:
        """Whether nothing is added to a file any more: one after it has lines, and time passed."""
        if self._clock() - tailed.changed / 1e9 < _SETTLED:
            return False
        members = self.files.family(tailed)
        later = members[members.index(tailed) + 1 :]
        return any(each.size for each in later if not each.gone)
