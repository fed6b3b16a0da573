"""Alerts as JSON lines in a file."""

import json
import os
from collections import OrderedDict
from collections.abc import Mapping
from contextlib import suppress
from pathlib import Path
from typing import Any

from newnormal.io.sinks.alerts import Alert, AlertSink, SinkDownError
from newnormal.state.targets import check_file, what_is

_TAIL = 1 << 20  # bytes at the end of a file in which keys are looked for
_KEYS = 10_000  # that are remembered
_FLAGS = os.O_RDWR | os.O_APPEND | os.O_CREAT | getattr(os, "O_BINARY", 0)


class AlertLinesSink(AlertSink):
    """Appends each alert to a file as a line of JSON, which is on the disk when `send` returns.

    The file can be renamed or removed at any time, as logrotate does it: it is then made anew. A
    line that a kill cut short stays as it is; the next one begins behind it. An alert that is sent
    again, and is in the last megabyte of the file, is not written again.

    Options: `path`, the file.
    """

    def __init__(self, name: str, options: Mapping[str, Any]) -> None:
        super().__init__(name, options)
        self._path = Path(self.options.text("path"))
        self.options.end()
        self._handle: int | None = None
        self._keys: OrderedDict[str, None] = OrderedDict()

    def send(self, alert: Alert) -> None:
        """Append an alert."""
        line = json.dumps(alert.body, ensure_ascii=False, allow_nan=False) + "\n"
        try:
            handle = self._opened()
            if alert.key not in self._keys:
                _write(handle, line.encode("utf-8", "backslashreplace"))
                os.fsync(handle)
                self._remember(alert.key)
        except OSError as error:
            self.close()  # a line may be there in part: opening the file again finds that
            raise SinkDownError(
                f"{self._path}: expected a file that can be written, found: {error.strerror}",
                hint="make room, or let the service's user write there",
            ) from error

    def check(self) -> str:
        """Try whether the file can be written, without writing to it."""
        if what_is(self._path) is not None or not self._path.exists():
            check_file(self._path, error=SinkDownError)
            return f"{self._path} can be written; it is made with the first alert"
        try:
            os.close(os.open(self._path, _FLAGS & ~os.O_CREAT))
            size = self._path.stat().st_size
        except OSError as error:
            raise SinkDownError(
                f"{self._path}: expected a file that can be written, found: {error.strerror}",
                hint="let the service's user write there",
            ) from error
        return f"{self._path} can be written; it has {size:,} bytes"

    def close(self) -> None:
        """Close the file."""
        handle, self._handle = self._handle, None
        if handle is not None:
            with suppress(OSError):
                os.close(handle)

    def _opened(self) -> int:
        """Return the file, open; another one if it was rotated away."""
        if self._handle is not None and not self._is_rotated(self._handle):
            return self._handle
        self.close()
        if (kind := what_is(self._path)) is not None:
            raise OSError(0, kind)
        new = not self._path.exists()
        handle = self._handle = os.open(self._path, _FLAGS, 0o640)
        if new and os.name == "posix":  # the name is to survive a power cut, too
            folder = os.open(self._path.parent, os.O_RDONLY)
            try:
                os.fsync(folder)
            finally:
                os.close(folder)
        self._read_end(handle)
        return handle

    def _is_rotated(self, handle: int) -> bool:
        try:
            named, opened = os.stat(self._path), os.fstat(handle)
        except FileNotFoundError:
            return True
        return (named.st_dev, named.st_ino) != (opened.st_dev, opened.st_ino)

    def _read_end(self, handle: int) -> None:
        """Remember the alerts at the end of the file; end a line that was cut short."""
        os.lseek(handle, max(os.fstat(handle).st_size - _TAIL, 0), os.SEEK_SET)
        text = b""
        while piece := os.read(handle, _TAIL):
            text += piece
        for line in text.split(b"\n"):
            with suppress(ValueError, TypeError, KeyError):
                self._remember(str(json.loads(line)["key"]))
        if text and not text.endswith(b"\n"):
            _write(handle, b"\n")

    def _remember(self, key: str) -> None:
        self._keys[key] = None
        if len(self._keys) > _KEYS:
            self._keys.popitem(last=False)


def _write(handle: int, text: bytes) -> None:
    while text:
        text = text[os.write(handle, text) :]
