"""What fitting left of the streams, each fit once, in one file.

A fit is the content of an ordinary state file, at the start of a stream: it has a digest and a
version of its own, and older versions are brought up to date as state files are. Fits are added
at the end.
"""

import json
import os
from collections.abc import Iterable
from hashlib import blake2b
from pathlib import Path
from typing import NamedTuple

from newnormal.base import BaseDetector, Parts
from newnormal.core.state import Fitted
from newnormal.detector import from_state
from newnormal.errors import StateError
from newnormal.fleet.folder.names import AGAIN, new_name, ordinary
from newnormal.fleet.stream import Shape, Stream
from newnormal.state import decode, encode
from newnormal.state.files import write_new

_MARK = b"newnormal fits 1\n".ljust(64)


class Fit(NamedTuple):
    """A fit that was read."""

    fitted: Fitted
    template: BaseDetector  # with its options, not fitted
    shape: Shape  # of the live state of its streams


class FitWriter:
    """Writes fits; knows which ones the file has.

    `name`, `size`: the file's name in the folder, and how much of it is used.
    """

    def __init__(self, folder: Path, name: str = "", size: int = 0) -> None:
        self.folder, self.name, self.size = folder, name, size
        self._places: dict[tuple[int, str], tuple[int, int]] = {}
        self._contents: dict[bytes, tuple[int, int]] = {}  # by digest: fits may be equal
        self._kept: list[Fitted] = []  # so that their identities stay theirs
        self._options: dict[int, tuple[BaseDetector, str]] = {}  # by the identity of a template

    def know(self, fitted: Fitted, template: BaseDetector, place: tuple[int, int]) -> None:
        """Take note of where a fit is."""
        self._places[id(fitted), self._text(template)] = place
        self._kept.append(fitted)

    def has(self, stream: Stream) -> bool:
        """Whether the file has the fit of a stream, with its options."""
        return (id(stream.fitted), self._text(stream.template)) in self._places

    def place(self, stream: Stream) -> tuple[int, int]:
        """Return where the fit of a stream is: its offset and its length."""
        return self._places[id(stream.fitted), self._text(stream.template)]

    def add(self, streams: Iterable[Stream]) -> None:
        """Add the fits of streams that the file does not have."""
        new: list[bytes] = []
        size = self.size or len(_MARK)
        for stream in streams:
            key = id(stream.fitted), self._text(stream.template)
            if key in self._places:
                continue
            start = Parts(stream.fitted, stream.fitted.initial())
            content = encode(stream.template.with_parts(start).to_state())
            digest = blake2b(content, digest_size=32).digest()
            self._kept.append(stream.fitted)
            if digest not in self._contents:
                self._contents[digest] = size, len(content)
                new.append(content)
                size += len(content)
            self._places[key] = self._contents[digest]
        if not self.name:
            self.name = new_name("fits")
            write_new(self.folder / self.name, [_MARK, *new])
        elif new:
            self._append(new)
        self.size = size

    def used(self, streams: Iterable[Stream]) -> int:
        """Return how many bytes of the file these streams need."""
        return sum(length for _, length in {self.place(stream) for stream in streams})

    def _append(self, new: list[bytes]) -> None:
        path = self.folder / self.name
        try:
            with path.open("r+b") as file:
                file.truncate(self.size)  # a kill may have left a part of an earlier one
                file.seek(self.size)
                file.writelines(new)
                file.flush()
                os.fsync(file.fileno())
        except OSError as error:
            self._contents.clear()
            self._places.clear()  # not known any more: the next checkpoint begins another file
            self._options.clear()
            self.name, self.size = "", 0
            raise StateError(
                f"cannot write {path}: {error.strerror}", hint="make room, and save again"
            ) from error

    def _text(self, template: BaseDetector) -> str:
        """Return the options of a template as a text, which tells it from others."""
        if id(template) not in self._options:
            text = json.dumps(template.options_as_json(), sort_keys=True, default=str)
            self._options[id(template)] = template, text
        return self._options[id(template)][1]


class FitReader:
    """Reads fits, each once."""

    def __init__(
        self, folder: Path, name: str, size: int, model: object = None, threshold: object = None
    ) -> None:
        self._path, self._size = folder / name, size
        self._taken = 0  # bytes of all fits that were read
        self._given = model, threshold
        self._known: dict[tuple[int, int], Fit] = {}
        self._templates: dict[str, BaseDetector] = {}

    def open(self) -> None:
        """Raise a StateError unless there is such a file."""
        if self._read(0, len(_MARK)) != _MARK:
            raise StateError(f"{self._path.name} is not a file of fits", hint=AGAIN)

    def get(self, offset: int, length: int) -> Fit:
        """Return the fit at a place."""
        key = offset, length
        if key not in self._known:
            origin = f"{self._path.name}, the fit at {offset}"
            if not 0 <= offset <= self._size - length or self._taken + length > self._size:
                raise StateError(f"{origin}: expected a place beside the others", hint=AGAIN)
            content = self._read(offset, length)
            if len(content) < length:
                raise StateError(f"{origin} is truncated", hint=AGAIN)
            try:
                detector = from_state(decode(content, origin), origin, *self._given)
            except StateError as error:
                raise StateError(error.message, hint=AGAIN) from error
            fitted = detector.to_parts().fitted
            template = detector.unfitted()
            text = json.dumps(template.options_as_json(), sort_keys=True, default=str)
            template = self._templates.setdefault(text, template)
            self._taken += length
            self._known[key] = Fit(fitted, template, Shape.of(fitted.initial()))
        return self._known[key]

    def _read(self, offset: int, length: int) -> bytes:
        try:
            with ordinary(self._path).open("rb") as file:
                room = os.fstat(file.fileno()).st_size - offset
                file.seek(offset)
                return file.read(max(0, min(length, room)))
        except FileNotFoundError:
            raise
        except OSError as error:
            raise StateError(f"cannot read {self._path}: {error.strerror}", hint=AGAIN) from error
