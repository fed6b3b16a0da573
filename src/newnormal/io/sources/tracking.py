"""Which files are followed, and where they are after rotation."""

from __future__ import annotations

import time
from collections.abc import Iterator, Sequence
from pathlib import Path
from typing import Any

from newnormal.errors import NewnormalError
from newnormal.io.sources.folders import Entry, Family, Folders, Ident, family_of
from newnormal.io.sources.rotation import EDGE, digest, file_name
from newnormal.io.sources.tailed import Tailed, edges, has_text_of, is_beginning
from newnormal.io.sources.unpacking import Unpacking

_KEEP_GONE = 3600.0  # s for which a file that is gone may come again, compressed
_LATEST = 3  # files of a family that a new one is compared with
_READ = 1 << 20  # bytes


class Tracking:
    """Keeps the files of patterns in the order in which they are to be read.

    A file is known by its device and inode and by its text: so one that was renamed is found again,
    and one that has the inode of another is a new one. Where a file is gone, compressed or copied
    and cut short, another one that has its text up to the place that was read takes its part.

    Parameters
    ----------
    patterns
        As those of `Folders`.
    from_end
        Whether files that are there at first are read from their ends on.

    Attributes
    ----------
    forms
        What was found out about the form of the file of a family that was read last.
    lost
        What was removed before all of it was read, as a sentence.
    """

    def __init__(self, patterns: Sequence[str], *, from_end: bool = False) -> None:
        self.folders = Folders(patterns)
        self.forms: dict[Family, dict[str, Any]] = {}
        self.lost = ""
        self._from_end = from_end
        self._changed_before: set[str] = set()  # folders
        self._families: dict[Family, list[Tailed]] = {}  # each the oldest first

    def __iter__(self) -> Iterator[Tailed]:
        return (each for members in self._families.values() for each in members)

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

    def _is_wanted(self, entry: Entry, moved: set[Family]) -> bool:
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
        orders = [file_name(each.name).order for each in members if not each.gone]
        if orders:  # or it was missed between the last two, while they were renamed
            return file_name(entry.name).order > orders[-2:][0]
        return entry.changed > max(each.changed for each in members)

    def _look(self, families: set[Family]) -> dict[Ident, Entry]:
        inodes = {each.ident[1] for each in self if each.ident is not None}
        return self.folders.look(inodes, families)

    def _recognised(self, entries: dict[Ident, Entry], moved: set[Family]) -> set[Ident]:
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

    def _is_same(self, tailed: Tailed, entry: Entry) -> bool:
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

    def _adopted(self, unknown: list[Entry]) -> list[Entry]:
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

    def _begin(self, entry: Entry) -> None:
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
            for at, each in enumerate(members)
            if not each.gone and file_name(each.name).order <= name.order
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
                each
                for each in members
                if (
                    each.telling and now - each.since < _KEEP_GONE
                    if each.gone
                    else each.matched or _is_open(each) or each in last
                )
            ]
            self._families[family] = kept
            if not kept:
                del self._families[family]
                self.forms.pop(family, None)

    # ------------------------------------------------------------------ as data

    def to_json(self) -> list[Any]:
        """Return all files and their places as JSON values."""
        return [
            [*family, self.forms.get(family), [each.to_json() for each in members]]
            for family, members in self._families.items()
        ]

    def restore(self, found: list[Any]) -> None:
        """Restore what `to_json` returned."""
        self._from_end = False
        for folder, base, ending, form, members in found:
            family = Family(folder, base, ending)
            if form is not None:
                self.forms[family] = form
            self._families[family] = [Tailed.of_json(family, each) for each in members]


def _is_open(tailed: Tailed) -> bool:
    return tailed.waits or tailed.doubtful or tailed.unfinished or bool(tailed.refused)


def _is_of(entry: Entry, family: Family) -> bool:
    return family_of(entry.folder, file_name(entry.name)) == family


def _is_being_made(entry: Entry, names: set[tuple[str, str]]) -> bool:
    """Whether a compressed file is being made of another one, which is still there."""
    if not file_name(entry.name).compressed:
        return False
    plain = entry.name.rpartition(".")[0]
    return (entry.folder, plain) in names or Path(entry.folder, plain).exists()


def _is_copy(entry: Entry, tailed: Tailed) -> bool:
    """Whether a file has the text of a known one, as far as that is known.

    Of a compressed file only the first bytes are compared: the rest is on the way to the place.
    """
    if not file_name(entry.name).compressed:
        return has_text_of(entry.path, tailed)
    head = _head_of(entry)
    return 0 < tailed.known <= len(head) and digest(head[: tailed.known]) == tailed.head


def _head_of(entry: Entry) -> bytes:
    """Return the first bytes of a file's text; none if it cannot be read."""
    if not file_name(entry.name).compressed:
        found = edges(entry.path, 0)
        return b"" if found is None else found[0]
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


def _may_be_cut_short(tailed: Tailed, copy: Entry) -> bool:
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
                end = piece.rfind(b"\n") + 1
                if end:
                    begin = file.tell() - len(piece)
                    tailed.line += piece.count(b"\n")
                    raw = tail + piece
                    tailed.offset = begin - len(tail)
                    tailed.move(b"", raw, len(tail) + end)
                tail = (tail + piece)[-EDGE:]
    except OSError:
        return  # reading it tells why
