"""Streams of any length and lines of any length: bounded memory, time that grows no faster."""

import os
import threading
import time
import tracemalloc
from collections.abc import Iterator
from contextlib import closing, contextmanager
from pathlib import Path

import pytest

from newnormal.io.sources.lines import FileInput, LineOptions

_MOST = 24 << 20  # bytes at once
_SHORT = 3 << 18  # bytes of a short stream
_PIECE = 1 << 20
_SECONDS = 20  # of the processor for 50 MB: a tenth of one where this was written


class Counted:
    """What a source has given."""

    def __init__(self) -> None:
        self.samples = self.problems = 0
        self.peak = 0
        self.seconds = 0.0


def wide(number: int) -> str:
    when = f"2026-01-{1 + number // 86400:02}T{number // 3600 % 24:02}:{number // 60 % 60:02}"
    return f"{when}:{number % 60:02}Z,x,{number % 97}.25,{number % 89}.5,1\n"


def blocks(size: int) -> Iterator[bytes]:
    """Give about `size` bytes of lines of five columns, the same again and again."""
    yield b"time,host,a,b,c\n"
    piece = "".join(map(wide, range(2_000))).encode()
    for _ in range(size // len(piece)):
        yield piece


def one_line(size: int) -> Iterator[bytes]:
    """Give a line, one without an end of `size` bytes, and one behind it."""
    yield b"time,host,a,b,c\n" + wide(0).encode()
    for _ in range(size // _PIECE):
        yield b"7" * _PIECE
    yield b"\n" + wide(1).encode()


@contextmanager
def written(pieces: Iterator[bytes], path: Path) -> Iterator[Path]:
    """A FIFO that pieces are written to while it is read."""
    os.mkfifo(path)

    def write() -> None:
        with path.open("wb") as file:
            file.writelines(pieces)

    writer = threading.Thread(target=write)
    writer.start()
    try:
        yield path
    finally:
        writer.join(60)
    assert not writer.is_alive()


def drained(source: FileInput) -> Counted:
    """Read a source to its end."""
    found = Counted()
    tracemalloc.start()
    started = time.process_time()
    try:
        with closing(source):
            while (batch := source.next_batch(4096)) is not None:
                found.samples += len(batch)
                found.problems += len(batch.problems)
        found.seconds = time.process_time() - started
        found.peak = tracemalloc.get_traced_memory()[1]
    finally:
        tracemalloc.stop()
    return found


OPTIONS = {"one": LineOptions(("a", "b", "c")), "many": LineOptions(by=("host",))}


@pytest.mark.parametrize("kind", OPTIONS)
def test_a_longer_stream_takes_no_more_memory(kind: str, tmp_path: Path) -> None:
    peaks = []
    for size in (_SHORT, 16 * _SHORT):
        with written(blocks(size), tmp_path / f"live{size}.csv") as path:
            found = drained(FileInput(str(path), OPTIONS[kind]))
        assert found.samples > size // 60
        assert found.problems == 0
        peaks.append(found.peak)
    # What is kept of each line would be twice that. How much one batch has depends on how far the
    # writer is ahead.
    assert peaks[1] < peaks[0] + 8 * _SHORT


@pytest.mark.parametrize("kind", OPTIONS)
@pytest.mark.parametrize("place", ["file", "fifo"])
def test_a_line_of_50_mb_is_refused_and_skipped(kind: str, place: str, tmp_path: Path) -> None:
    path = tmp_path / "live.csv"
    if place == "file":
        with path.open("wb") as file:
            file.writelines(one_line(50 << 20))
        found = drained(FileInput(str(path), OPTIONS[kind]))
    else:
        with written(one_line(50 << 20), path):
            found = drained(FileInput(str(path), OPTIONS[kind]))
    assert (found.samples, found.problems) == (2, 1)
    assert found.peak < _MOST
    assert found.seconds < _SECONDS
