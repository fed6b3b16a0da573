"""Which files patterns name, and what else is in their folders."""

from __future__ import annotations

import glob
import os
import stat
from collections.abc import Collection, Iterator, Sequence
from contextlib import suppress
from fnmatch import fnmatch
from pathlib import Path
from typing import NamedTuple

from newnormal.io.sources.rotation import FileName, file_name, is_passed_over

Ident = tuple[int, int]  # device and inode


class Family(NamedTuple):
    """Files that follow each other: in one folder, and called the same but for their rotation."""

    folder: str
    base: str
    ending: str


def family_of(folder: str, name: FileName) -> Family:
    """Return the family of a file."""
    return Family(folder, name.base, name.ending)


class Entry(NamedTuple):
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

    Parameters
    ----------
    patterns
        Paths of files and folders, with ``*``, ``?`` and ``[…]``; ``**`` is any number of folders.

    Attributes
    ----------
    problem
        Why a folder could not be looked into; empty: all could.
    """

    def __init__(self, patterns: Sequence[str]) -> None:
        self._patterns = [str(Path(each).expanduser().absolute()) for each in patterns]
        self.problem = ""
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
    ) -> dict[Ident, Entry]:
        """Return the files that patterns name, and others of the folders where they matter.

        Parameters
        ----------
        inodes
            Files that are known: they may be called something else by now.
        families
            Families of which every file matters.
        """
        self.problem = ""
        found: dict[Ident, Entry] = {}
        for folder, patterns in self._folders().items():
            for each in self._entries(folder, patterns, inodes, families):
                known = found.get(each.ident)
                if known is None or each.matched > known.matched:
                    found[each.ident] = each
        return found

    def _folders(self) -> dict[str, list[str]]:
        """Return the patterns of names by folder."""
        found: dict[str, list[str]] = {}
        for pattern in self._patterns:
            head, tail = (pattern, "*") if os.path.isdir(pattern) else os.path.split(pattern)
            if tail == "**":
                head, tail = os.path.join(head, "**"), "*"
            folders = [head]
            if glob.has_magic(head):
                folders = sorted(filter(os.path.isdir, glob.iglob(head, recursive=True)))
            for folder in folders:
                found.setdefault(folder.rstrip(os.sep) or os.sep, []).append(tail)
        return found

    def _entries(
        self,
        folder: str,
        patterns: Sequence[str],
        inodes: Collection[int],
        families: Collection[Family],
    ) -> Iterator[Entry]:
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
                found = _entry(folder, each, patterns, inodes, families)
                if found is not None:
                    yield found


def _entry(
    folder: str,
    entry: os.DirEntry[str],
    patterns: Sequence[str],
    inodes: Collection[int],
    families: Collection[Family],
) -> Entry | None:
    """Return a file if it matters."""
    name = entry.name
    matched = not is_passed_over(name) and any(fnmatch(name, each) for each in patterns)
    if not (matched or entry.inode() in inodes or family_of(folder, file_name(name)) in families):
        return None
    try:
        status = entry.stat()
    except OSError:
        return None  # it is gone by now
    if not stat.S_ISREG(status.st_mode):
        return None
    ident = status.st_dev, status.st_ino
    return Entry(folder, name, ident, status.st_size, status.st_mtime_ns, matched)
