"""Watching an input: lines in, verdicts out, and a checkpoint that survives any kind of death.

The promise: a checkpoint is written only after the verdicts before it were flushed out, and it
holds the place in the input that belongs to them. So after a clean stop nothing repeats and
nothing is missing; after a kill, the verdicts since the last checkpoint come again, byte for byte.
"""

from __future__ import annotations

import hashlib
import os
import signal
import sys
import time
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path
from types import FrameType
from typing import Any, NamedTuple

import numpy as np

from newnormal import state as state_file
from newnormal.alarms.tracker import OPENED
from newnormal.cli import feedback
from newnormal.cli.console import say
from newnormal.cli.layout import Layout, LayoutError
from newnormal.detector import BaseDetector, from_state, load
from newnormal.errors import InputError, StateError
from newnormal.state import State
from newnormal.tabular import Table
from newnormal.types import Bools, time_text

__all__ = ["BadLineError", "FileSource", "PipeSource", "Watch", "resume"]

_HEAD = 4096  # bytes of a file's beginning that tell it from another of the same name
_READ = 1 << 18
_POLL_S = 0.2
_WORDS = 100  # of a person, that a checkpoint remembers


class Stop(Exception):  # noqa: N818 - not an error
    """The user asked to stop while the input was being waited for."""


class BadLineError(InputError):
    """A line is bad, and `--strict` was asked for."""


class Line(NamedTuple):
    """One line of the input."""

    text: str | None  # None where it is not UTF-8
    number: int  # from 1
    end: int  # the offset behind it


class Interruption:
    """Turns SIGINT and SIGTERM into a clean stop: at once while waiting, else after the batch."""

    def __init__(self) -> None:
        self.asked = False
        self._waiting = False

    @contextmanager
    def installed(self) -> Iterator[None]:
        """Handle the signals inside this context."""
        before = {
            number: signal.signal(number, self._handle)
            for number in (signal.SIGINT, signal.SIGTERM)
        }
        try:
            yield
        finally:
            for number, handler in before.items():
                signal.signal(number, handler)

    @contextmanager
    def waiting(self) -> Iterator[None]:
        """Allow a signal to raise Stop inside this context."""
        self._waiting = True
        try:
            if self.asked:
                raise Stop
            yield
        finally:
            self._waiting = False

    def _handle(self, number: int, frame: FrameType | None) -> None:
        del number, frame
        if self.asked:  # a second time: the user will not wait
            raise KeyboardInterrupt
        self.asked = True
        if self._waiting:
            raise Stop


class PipeSource:
    """Standard input."""

    name = "standard input"

    def read(self) -> bytes:
        """Return what has arrived."""
        return os.read(sys.stdin.fileno(), _READ)

    def close(self) -> None:
        """Leave standard input to its owner."""

    def place(self, offset: int, line: int) -> dict[str, Any]:
        """Return that this is a pipe: it has no places."""
        del offset, line
        return {"kind": "pipe"}

    def is_at(self, place: dict[str, Any]) -> bool:
        """Whether a checkpoint was made of a pipe; one cannot be told from another."""
        return bool(place["kind"] == "pipe")


class FileSource:
    """A file, which may be growing."""

    def __init__(self, path: Path, follow: bool) -> None:
        try:
            self._file = path.open("rb", buffering=0)
        except OSError as error:
            raise InputError(
                f"{path}: expected a file that can be read, found: {error.strerror}"
            ) from error
        self._path = path
        self._resolved = str(path.resolve())
        self._follow = follow
        self._head = b""  # as it was read: by now another file may have this one's name
        self.name = str(path)

    def read(self) -> bytes:
        """Return the next bytes; at the end, wait for more if the file is followed."""
        while True:
            replaced = self._follow and self._is_replaced()
            chunk = self._file.read(_READ) or b""
            self._head += chunk[: _HEAD - len(self._head)]
            if chunk or not self._follow:
                return chunk
            if replaced:  # and what was written before it was has been read
                raise InputError(
                    f"{self._path} was replaced or cut short while it was followed",
                    hint="start `newnormal watch` again to read the new file",
                )
            time.sleep(_POLL_S)

    def close(self) -> None:
        """Close the file."""
        self._file.close()

    def _is_replaced(self) -> bool:
        try:
            now = os.stat(self._path)
        except FileNotFoundError:
            return False  # being rotated; the next look tells
        opened = os.fstat(self._file.fileno())
        return (now.st_dev, now.st_ino) != (opened.st_dev, opened.st_ino) or (
            now.st_size < self._file.tell()
        )

    def place(self, offset: int, line: int) -> dict[str, Any]:
        """Return the file's path, the digest of its beginning, and the place."""
        head = min(offset, _HEAD)
        return {
            "kind": "file",
            "path": self._resolved,
            "head": head,
            "sha256": hashlib.sha256(self._head[:head]).hexdigest(),
            "tail_sha256": self._digest_before(offset),
            "offset": offset,
            "line": line,
        }

    def is_at(self, place: dict[str, Any]) -> bool:
        """Whether a checkpoint's place is one in this very file."""
        if place["kind"] != "file" or place["path"] != str(self._path.resolve()):
            return False
        if os.fstat(self._file.fileno()).st_size < place["offset"]:
            return False
        if hashlib.sha256(self._start(place["head"])).hexdigest() != place["sha256"]:
            return False
        return self._digest_before(place["offset"]) == str(place["tail_sha256"])

    def seek(self, offset: int) -> None:
        """Go on reading from here."""
        self._head = self._start(min(offset, _HEAD))
        self._file.seek(offset)

    def _digest_before(self, offset: int) -> str:
        """Return the digest of the last bytes before a place: a file rewritten differs there."""
        here = self._file.tell()
        start = max(offset - _HEAD, 0)
        self._file.seek(start)
        digest = hashlib.sha256(self._file.read(offset - start) or b"").hexdigest()
        self._file.seek(here)
        return digest

    def _start(self, count: int) -> bytes:
        with self._path.open("rb") as file:
            return file.read(count)


def resume(
    model: Path, checkpoint: Path | None, source: FileSource | PipeSource
) -> tuple[BaseDetector, dict[str, Any] | None]:
    """Return the detector to go on with and its place in the input, None for the beginning."""
    if checkpoint is None or not checkpoint.exists():
        return load(model), None
    state = state_file.read(checkpoint)
    place = state.facts.get("place")
    if place is None:
        if checkpoint.resolve() != model.resolve():
            say(f"{checkpoint} has no place in an input: starting from {model}")
        return load(model), None
    if not source.is_at(place):
        say(f"{checkpoint} belongs to another input: starting from {model}")
        return load(model), None
    detector = from_state(state, str(checkpoint))
    if checkpoint.resolve() != model.resolve() and not _same_fit(detector, model):
        say(f"{checkpoint} continues another fit than {model}: delete it to start from {model}")
    return detector, place


def _same_fit(detector: BaseDetector, model: Path) -> bool:
    try:
        mine, theirs = detector.to_state(), state_file.read(model)
    except StateError:
        return False
    return np.array_equal(mine.tensors["fitted"], theirs.tensors["fitted"])


@dataclass
class Watch:
    """One input watched by one detector."""

    detector: BaseDetector
    source: FileSource | PipeSource
    place: dict[str, Any] | None  # to resume from
    layout: dict[str, Any]  # format, time, columns, drop: for the parser
    state: Path | None = None
    every: int = 1000
    alarms_only: bool = False
    flush: bool = False
    strict: bool = False
    judged: int = 0
    anomalous: int = 0
    alarms: int = 0
    bad: int = 0
    skipped: int = 0

    def __post_init__(self) -> None:
        if self.alarms_only:
            self.detector.track_alarms()
        self._layout = Layout(self.detector.channels_, self.layout, self.source.name)
        self._interruption = Interruption()
        self._offset = 0  # behind the last line consumed
        self._line = 0
        self._tail = b""  # an unfinished line
        self._since = 0  # samples since the last checkpoint
        self._skip_to: np.datetime64 | None = None
        self._resent = False  # whether a pipe may send pending samples again
        self._heard = list(self.place.get("feedback", ())) if self.place else []  # words acted on
        self._elsewhere = self.place is None  # whether what was seen so far was another input
        if isinstance(self.source, FileSource) and self.place is not None:
            self._offset, self._line = self.place["offset"], self.place["line"]
            self.source.seek(self._offset)
            try:
                self._layout.restore(self.place["layout"])
            except LayoutError as error:
                raise error.error from None
            say(f"resuming at line {self._line + 1}")
        elif self.place is not None:
            self._resume_pipe()

    def run(self) -> None:
        """Watch until the input ends or the user stops it; then write the checkpoint."""
        with self._interruption.installed():
            try:
                self._hear()
                self._read()
                self._layout.check()
            except LayoutError as error:
                raise error.error from None
            except InputError:
                self._checkpoint()
                raise
            self._hear()
            self._checkpoint()

    def _read(self) -> None:
        try:
            while not self._interruption.asked:
                with self._interruption.waiting():
                    chunk = self.source.read()
                if not chunk:
                    self._end()
                    break
                self._hear()
                self._feed(chunk)
        except Stop:
            pass

    # ------------------------------------------------------------------ lines

    def _feed(self, chunk: bytes) -> None:
        *complete, self._tail = (self._tail + chunk).split(b"\n")
        self._consume(complete, newline=1)

    def _end(self) -> None:
        growing = isinstance(self.source, FileSource) and self.state is not None
        if self._tail and growing and not self.flush:
            say("the last line has no end yet: left for the next time")
        elif self._tail:
            tail, self._tail = self._tail, b""
            self._consume([tail], newline=0)
        if self.flush:
            self._print(self.detector.run(self._nothing(), flush=True).late, None)

    def _consume(self, raw: list[bytes], newline: int) -> None:
        lines, end, number = [], self._offset, self._line
        for each in raw:
            end += len(each) + newline
            number += 1
            lines.append(Line(_text(each, first=number == 1), number, end))
        if self.state is None:
            self._judge(lines)
            return
        while lines:  # in blocks that end where a checkpoint is due
            room = self.every - self._since
            block, lines = lines[:room], lines[room:]
            self._judge(block)
            if self._since >= self.every:
                self._checkpoint()
            if self._interruption.asked and isinstance(self.source, FileSource):
                return  # the rest can be read again; what a pipe has sent cannot

    def _judge(self, lines: list[Line]) -> None:
        """Judge a block of lines, print its verdicts, and move the place behind it."""
        rows: list[np.ndarray[Any, Any]] = []
        times: list[np.datetime64] = []
        stopped: BadLineError | None = None
        newest = self.detector.last_time_
        for line in lines:
            try:
                sample = self._sample(line)
                if sample is not None:
                    values, when = sample
                    if when is not None:
                        if self._already_judged(when):
                            continue
                        newest = self._in_order(when, newest)
                        times.append(when)
                    rows.append(values)
            except InputError as error:
                self.bad += 1
                message = f"line {line.number}: {error.message}"
                if self.strict:
                    stopped = BadLineError(message, hint=error.hint)
                    break
                say(f"{message}; skipped")
            self._offset, self._line = line.end, line.number
        if rows:
            series = Table(
                np.array(rows),
                self.detector.channels_,
                np.array(times, dtype="datetime64[ns]") if times else None,
            )
            verdicts = self.detector.run(series, flush=False)
            self._print(verdicts.late, verdicts)
            self._since += len(rows)
        if stopped is not None:
            raise stopped

    def _sample(self, line: Line) -> tuple[Any, np.datetime64 | None] | None:
        if line.text is None:
            raise InputError("expected UTF-8 text")
        sample = self._layout.sample(line.text)
        return None if sample is None else (sample.values, sample.time)

    # ------------------------------------------------------------------ times

    def _resume_pipe(self) -> None:
        self._skip_to = self.detector.last_judged_time_
        self._resent = self.detector.last_time_ is not None
        if self._skip_to is not None:
            say(f"resuming: samples up to {time_text(self._skip_to)} were judged and are skipped")
        elif not self._resent:
            say("resuming: the samples have no times, so the next line is taken as new")

    def _already_judged(self, when: np.datetime64) -> bool:
        """Whether a resumed pipe sends a sample again that has its verdict."""
        if self._skip_to is None or when > self._skip_to:
            return False
        self.skipped += 1
        return True

    def _in_order(self, when: np.datetime64, newest: np.datetime64 | None) -> np.datetime64:
        """Return the sample's time, if it is later than the newest one's."""
        if newest is not None and when <= newest:
            if self._resent:  # it was pending: forget it, and take it again
                self.detector.drop_pending(since=when)
            elif self._elsewhere:
                say(f"the model has been to {time_text(newest)}: it keeps only what it learned")
                self.detector.restart()
            else:
                raise InputError(
                    f"expected a time after {time_text(newest)}, found {time_text(when)}",
                )
        self._resent = self._elsewhere = False
        return when

    # ------------------------------------------------------------------ out

    def _print(self, late: Any, verdicts: Any) -> None:
        """Write the verdicts that became final, and flush them out."""
        out = sys.stdout
        for part in (late, verdicts):
            if part is None:
                continue
            final = len(part)
            if part is verdicts:
                final -= min(int(self.detector.counters["pending"]), final)
            self.judged += final
            flags: Bools = part.anomalous[:final]
            self.anomalous += int(flags.sum())
            if not self.alarms_only:
                out.writelines(line + "\n" for line in part.json_lines(0, final))
        events = self.detector.take_events()
        self.alarms += sum(event.kind == OPENED for event in events)
        if self.alarms_only:
            out.writelines(event.to_json() + "\n" for event in events)
        out.flush()

    def _hear(self) -> None:
        """Act on what a person left for this state file, and write that down."""
        if self.state is None or not feedback.waiting(self.state):
            return
        with feedback.take(self.state) as words:
            feedback.follow(self.detector, words, self._heard)
            self._print(None, None)
            self._checkpoint()

    def _checkpoint(self) -> None:
        """Write the detector and its place; the verdicts before it are already out."""
        if self.state is None:
            return
        data = self.detector.to_state()
        place = self.source.place(self._offset, self._line) | {"layout": self._layout.facts()}
        place["feedback"] = self._heard[-_WORDS:]
        state_file.write(self.state, State({**data.facts, "place": place}, data.tensors))
        self._since = 0

    def _nothing(self) -> Table:
        channels = self.detector.channels_
        return Table(np.empty((0, len(channels))), channels, None)


def _text(raw: bytes, first: bool) -> str | None:
    try:
        return raw.rstrip(b"\r").decode("utf-8-sig" if first else "utf-8")
    except UnicodeDecodeError:
        return None
