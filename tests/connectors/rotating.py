"""A program that writes lines to a file, and what rotates that: the slow, obvious record of both.

`written` has every complete line once, in order: what a source must give, whatever happened.
"""

import gzip
import os
import random
import shutil
from collections.abc import Callable
from datetime import date, timedelta
from pathlib import Path

BEGIN = 1_767_225_600  # s: 2026-01-01
HEADER = "time,count,wave,status\n"


def line(number: int) -> str:
    """Return a line of CSV; its time and its first value are its number."""
    moment = BEGIN + number
    return f"{moment},{number},{number % 7 / 2},OK\n"


class Rotating:
    """One file, with the ways in which it is written and rotated.

    Each way keeps to what the real ones promise: a line is written to one file, in order; who
    copies and cuts short does so between two lines; a program writes to the old file until it opens
    the new one.
    """

    def __init__(self, folder: Path, seed: int, name: str = "plant.csv") -> None:
        self.folder, self.name = folder, name
        self.rng = random.Random(seed)
        self.written: list[int] = []
        self._next = 0
        self._begun = ""  # what was written of the line that is being written
        self._dated = self.rng.random() < 0.3
        self._days = 0
        self._files: list[str] = []  # rotated ones, the newest first
        self._seen = False
        self._create()

    @property
    def path(self) -> Path:
        return self.folder / self.name

    def look(self) -> None:
        """Take note that somebody has seen the file as it is, for good."""
        self._seen = self._seen or self.path.stat().st_size > len(HEADER)

    def _create(self) -> None:
        self._seen = False
        self._handle = self.path.open("ab", buffering=0)
        if self.rng.random() < 0.8 or not self.written:
            self._handle.write(HEADER.encode())

    def append(self) -> None:
        """Write some lines, the last one not always to its end."""
        for _ in range(self.rng.randrange(1, 40)):
            self._finish()
            self._begun = ""
            text = line(self._next)
            cut = self.rng.randrange(1, len(text))
            self._handle.write(text[:cut].encode())
            self._begun = text[cut:]
        if self.rng.random() < 0.7:
            self._finish()

    def _finish(self) -> None:
        if self._begun:
            self._handle.write(self._begun.encode())
            self.written.append(self._next)
            self._next += 1
            self._begun = ""

    def rename(self) -> None:
        """Rotate as logrotate does: rename, and create anew; the program goes on for a while."""
        os.rename(self.path, self.folder / self._rotated())
        if self.rng.random() < 0.5:
            self.append()
        self._finish()
        self._handle.close()
        self._create()

    def copy(self) -> None:
        """Rotate by copying and cutting short, where somebody has seen the file."""
        if not self._seen:
            return
        self._finish()
        shutil.copy(self.path, self.folder / self._rotated())
        os.truncate(self.path, 0)
        self._seen = False

    def copy_slowly(self, meanwhile: Callable[[], object]) -> None:
        """Rotate by copying and cutting short, and let others look at each step."""
        if not self._seen:
            return
        self._finish()
        copy = self.folder / self._rotated()
        text = self.path.read_bytes()
        cut = self.rng.randrange(len(text) + 1)
        copy.write_bytes(text[:cut])
        meanwhile()
        with copy.open("ab") as file:
            file.write(text[cut:])
        meanwhile()
        os.truncate(self.path, 0)
        self._seen = False

    def _rotated(self) -> str:
        """Return the name of the next rotated file; numbered ones get the next number."""
        self._days += 1
        day = date(2026, 1, 1) + timedelta(days=self._days)
        name = f"{self.name}-{day:%Y%m%d}" if self._dated else f"{self.name}.1"
        if not self._dated:
            self._shift()
        self._files.insert(0, name)
        return name

    def _shift(self) -> None:
        for at in reversed(range(len(self._files))):
            base, _, number = self._files[at].removesuffix(".gz").rpartition(".")
            if not number.isdigit():
                continue
            ending = ".gz" if self._files[at].endswith(".gz") else ""
            name = f"{base}.{int(number) + 1}{ending}"
            os.rename(self.folder / self._files[at], self.folder / name)
            self._files[at] = name

    def compress(self) -> None:
        """Compress a rotated file."""
        plain = [each for each in self._files if not each.endswith(".gz")]
        if not plain:
            return
        name = self.rng.choice(plain)
        path = self.folder / name
        with path.open("rb") as text, gzip.open(f"{path}.gz", "wb") as packed:
            shutil.copyfileobj(text, packed)
        shutil.copystat(path, f"{path}.gz")  # as gzip does
        path.unlink()
        self._files[self._files.index(name)] = f"{name}.gz"

    def rewrite(self) -> None:
        """Write all of the file anew, under another inode, with the same text."""
        self._finish()
        text = self.path.read_bytes()
        self._handle.close()
        other = self.folder / ".new"
        other.write_bytes(text)
        os.rename(other, self.path)
        self._handle = self.path.open("ab", buffering=0)

    def close(self) -> None:
        self._finish()
        self._handle.close()
