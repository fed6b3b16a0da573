"""Which files patterns name, and what else is in their folders."""

import glob
import hashlib
import os
import re
import stat
from collections.abc import Collection, Iterator, Sequence
from contextlib import suppress
from fnmatch import fnmatch
from pathlib import Path
from typing import NamedTuple

from newnormal.tabular.text.compression import COMPRESSED
from newnormal.tabular.text.file_names import ENDINGS

EDGE = 4096  # bytes of the beginning, and before a position, that tell a text from others

_DAY = r"(?:19|20)\d\d(?P<dash>[-_.]?)(?:0[1-9]|1[0-2])(?P=dash)(?:0[1-9]|[12]\d|3[01])"
_WHEN = rf"(?P<date>{_DAY}(?:[-_.T]?\d\d(?:[-_.:]?\d\d){{0,2}})?)(?:-(?P<run>\d{{1,10}}))?$"
_DATE = re.compile(rf"[-_.]{_WHEN}")
_ALL_DATE = re.compile(_WHEN)
_NUMBER = re.compile(r"\.(\d{1,5})$")
_KEPT = re.compile(r"\.(?:old|bak|orig)$", re.IGNORECASE)
# Compressed in ways that are not read, and what programs write before they rename it.
_OTHERS = (".bz2", ".xz", ".lz4", ".zip", ".7z", ".z", ".swp", ".tmp", ".part", "~")
Ident = tuple[int, int]  # device and inode


class FileName(NamedTuple):
    """What a file's name says."""

    base: str  # what files that follow each other have in common; empty if it is only a date
    ending: str  # of its format
    # What rotation added: the digits of a date, a number behind that, and a number behind the
    # ending; 0 without one.
    date: str
    run: int
    number: int
    compressed: bool  # whether its ending says so

    @property
    def order(self) -> tuple[str, int, int]:
        """What files that follow each other are sorted by, the oldest first."""
        return self.date or "~", self.run, -self.number


def file_name(name: str) -> FileName:
    """Return what a file's name says.

    >>> file_name("press-1.csv").base, file_name("press-1.csv.12.gz").base
    ('press-1', 'press-1')
    >>> file_name("press-1.csv-20260131.gz")[2:]
    ('20260131', 0, 0, True)
    >>> file_name("hall_2026-01-31.csv").base, file_name("hall_2026-01-31.csv").date
    ('hall', '20260131')
    >>> names = ["a.log", "a.log.2", "a.log.1", "a.log-20260101"]
    >>> sorted(names, key=lambda name: file_name(name).order)
    ['a.log-20260101', 'a.log.2', 'a.log.1', 'a.log']
    """
    rest = name
    compressed = False
    for ending in COMPRESSED:
        if rest.lower().endswith(ending):
            rest, compressed = rest[: -len(ending)], True
            break
    number = 0
    if ending_match := _NUMBER.search(rest):
        rest, number = rest[: ending_match.start()], int(ending_match[1])
    elif ending_match := _KEPT.search(rest):
        rest, number = rest[: ending_match.start()], 1
    rest, date, run = _without_date(rest)
    stem, point, ending = rest.rpartition(".")
    if point and stem and f".{ending.lower()}" in ENDINGS:
        rest, ending = stem, f".{ending.lower()}"
    else:
        ending = ""
    if not date:
        rest, date, run = _without_date(rest)
    return FileName(rest, ending, date, run, number, compressed)


def _without_date(name: str) -> tuple[str, str, int]:
    """Return a name without the date at its end, the date's digits, and the number behind it."""
    date_match = _ALL_DATE.match(name) or _DATE.search(name)
    if date_match is None:
        return name, "", 0
    return (
        name[: date_match.start()],
        re.sub(r"\D", "", date_match["date"]),
        int(date_match["run"] or 0),
    )


def is_passed_over(name: str) -> bool:
    """Whether a file is never looked at: hidden, temporary, or compressed in another way."""
    return name.startswith(".") or name.lower().endswith(_OTHERS)


def digest(text: bytes) -> str:
    """Return what tells a text from others, in 12 characters."""
    return hashlib.sha256(text).hexdigest()[:12]


class Family(NamedTuple):
    """Files that follow each other: in one folder, and called the same but for their rotation."""

    folder: str
    base: str
    ending: str


def family_of(folder: str, name: FileName) -> Family:
    """Return the family of a file."""
    return Family(folder, name.base, name.ending)


class FolderEntry(NamedTuple):
    """A file as a folder has it."""

    folder: str
    name: str
    ident: Ident
    size: int
    changed: int  # ns
    matched: bool  # whether a pattern names it; else it may be what a file was renamed to

    @property
    def path(self) -> Path:
        """Where it is."""
        return Path(self.folder, self.name)


class Folders:
    """Looks into the folders of patterns.

    `patterns`: paths of files and folders, with ``*``, ``?`` and ``[…]``; ``**`` is any number of
    folders.
    """

    def __init__(self, patterns: Sequence[str]) -> None:
        self._patterns = [str(Path(pattern).expanduser().absolute()) for pattern in patterns]
        self.problem = ""  # why a folder could not be looked into; empty: all could
        self._changed: dict[str, int] = {}  # when each folder was, in ns

    def changed(self) -> set[str]:
        """Return the folders in which a file came, went or was renamed since the last call."""
        before = self._changed
        self._changed = {}
        for folder in self._folders():
            with suppress(OSError):
                self._changed[folder] = os.stat(folder).st_mtime_ns
        return {folder for folder, when in self._changed.items() if before.get(folder) != when}

    def look(
        self, inodes: Collection[int] = (), families: Collection[Family] = ()
    ) -> dict[Ident, FolderEntry]:
        """Return the files that patterns name, and others of the folders where they matter.

        `inodes`: files that are known: they may be called something else by now. `families`:
        families of which every file matters.
        """
        self.problem = ""
        entries: dict[Ident, FolderEntry] = {}
        for folder, patterns in self._folders().items():
            for each in self._entries(folder, patterns, inodes, families):
                known = entries.get(each.ident)
                if known is None or each.matched > known.matched:
                    entries[each.ident] = each
        return entries

    def _folders(self) -> dict[str, list[str]]:
        tails: dict[str, list[str]] = {}
        for pattern in self._patterns:
            head, tail = (pattern, "*") if os.path.isdir(pattern) else os.path.split(pattern)
            if tail == "**":
                head, tail = os.path.join(head, "**"), "*"
            folders = [head]
            if glob.has_magic(head):
                folders = sorted(filter(os.path.isdir, glob.iglob(head, recursive=True)))
            for folder in folders:
                tails.setdefault(folder.rstrip(os.sep) or os.sep, []).append(tail)
        return tails

    def _entries(
        self,
        folder: str,
        patterns: Sequence[str],
        inodes: Collection[int],
        families: Collection[Family],
    ) -> Iterator[FolderEntry]:
        try:
            entries = os.scandir(folder)
        except FileNotFoundError:
            return  # it may come
        except OSError as error:
            self.problem = f"{folder}: expected a folder that can be read, found: {error.strerror}"
            return
        with entries:
            # A link is passed over where the file itself is there, too.
            for each in sorted(entries, key=lambda each: each.is_symlink()):
                entry = _entry(folder, each, patterns, inodes, families)
                if entry is not None:
                    yield entry


def _entry(
    folder: str,
    entry: os.DirEntry[str],
    patterns: Sequence[str],
    inodes: Collection[int],
    families: Collection[Family],
) -> FolderEntry | None:
    """Return a file if it matters."""
    name = entry.name
    matched = not is_passed_over(name) and any(fnmatch(name, pattern) for pattern in patterns)
    if not (matched or entry.inode() in inodes or family_of(folder, file_name(name)) in families):
        return None
    try:
        status = entry.stat()
    except OSError:
        return None  # it is gone by now
    if not stat.S_ISREG(status.st_mode):
        return None
    ident = status.st_dev, status.st_ino
    return FolderEntry(folder, name, ident, status.st_size, status.st_mtime_ns, matched)
