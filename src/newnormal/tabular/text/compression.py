"""Compressed bytes, recognised by how they begin, whatever the file is called."""

import zlib
from abc import ABC, abstractmethod
from collections.abc import Callable
from typing import Any, ClassVar

from newnormal.errors import InputError, extra

# Returns the next bytes; b"" if none have come yet, None at the end.
Poll = Callable[[], "bytes | None"]

# The endings of compressed files' names.
COMPRESSED = {".gz": "gzip", ".gzip": "gzip", ".zst": "zstd", ".zstd": "zstd"}

_GZIP = b"\x1f\x8b"
_ZSTD = b"\x28\xb5\x2f\xfd"
# Beginnings of what is not read here, with the command that decompresses it.
_OTHERS = {
    b"BZh": ("bzip2", "bunzip2 FILE"),
    b"\xfd7zXZ\x00": ("xz", "unxz FILE"),
    b"\x04\x22\x4d\x18": ("lz4", "unlz4 FILE"),
    b"7z\xbc\xaf\x27\x1c": ("7-Zip", "7z x FILE"),
    b"Rar!\x1a\x07": ("RAR", "unrar x FILE"),
    b"\x1f\x9d": ("compress", "uncompress FILE"),
}

_OUT = 1 << 18  # bytes given out at a time
_GZIP_IN = 1 << 14  # what is behind a member's end is copied by each of its successors
_ZSTD_IN = 256  # bytes of zstd hold at most 64 blocks of 128 KiB, and usually some KiB


def compression_of(head: bytes) -> str | None:
    r"""Return how bytes that begin so are compressed; None if they are not.

    >>> compression_of(b"\x1f\x8b\x08\x00"), compression_of(b"time,a\n")
    ('gzip', None)
    """
    if head.startswith(_GZIP):
        return "gzip"
    if head.startswith(_ZSTD) or (head[1:4] == b"\x2a\x4d\x18" and head[0] & 0xF0 == 0x50):
        return "zstd"
    for magic, (what, command) in _OTHERS.items():
        if head.startswith(magic) and (what != "bzip2" or head[4:10] == b"1AY&SY"):
            raise InputError(
                f"expected text, or compressed by gzip or zstd, found {what}",
                hint=f"decompress it first: {command}",
            )
    return None


def decompressed(kind: str, poll: Poll) -> Poll:
    """Return what gives out the decompressed bytes of `poll`, in constant memory."""
    return (_Gzip(poll) if kind == "gzip" else _Zstd(poll)).poll


class _Decompression(ABC):
    """Compressed data: gzip members or zstd frames, one behind the other."""

    kind: ClassVar[str]

    def __init__(self, poll: Poll) -> None:
        self._poll = poll
        self._decoder: Any = None  # of the member that is being read
        self._left = memoryview(b"")  # received, and not yet decompressed
        self._has_more = False  # the decoder may give out more without being given any
        self._members = 0  # that were read to their ends

    @abstractmethod
    def _start(self) -> Any:
        """Return a decoder of a member."""

    @abstractmethod
    def _decompress(self) -> bytes:
        """Return more of a member."""

    @abstractmethod
    def _errors(self) -> type[Exception]:
        """Return what the decoder raises."""

    def poll(self) -> bytes | None:
        """Return the next bytes; b"" if none have come yet, None at the end."""
        parts: list[bytes] = []
        size = 0
        while size < _OUT:
            if not self._left and not self._has_more:
                if not (received := self._poll()):
                    if received is None and not parts:
                        self._check_end()
                    return b"".join(parts) if parts else received
                self._left = memoryview(received)
            if part := self._step():
                parts.append(part)
                size += len(part)
        return b"".join(parts)

    def _step(self) -> bytes:
        if self._decoder is None:
            if self._members and not bytes(self._left).strip(b"\0"):
                self._left = self._left[:0]  # what a tape is padded with
                return b""
            self._decoder = self._start()
        try:
            part = self._decompress()
        except self._errors() as error:
            raise InputError(
                f"expected {self.kind} data, found it damaged: {error}", hint=self._hint
            ) from error
        if self._decoder.eof:
            self._decoder, self._has_more = None, False
            self._members += 1
        return part

    def _check_end(self) -> None:
        if self._decoder is not None:
            self._decoder = None  # the end comes behind the error
            raise InputError(
                f"expected {self.kind} data up to its end, found it cut short", hint=self._hint
            )

    @property
    def _hint(self) -> str:
        return f"copy or write the file again; `{self.kind} -t FILE` checks it"


class _Gzip(_Decompression):
    kind = "gzip"

    def _start(self) -> Any:
        return zlib.decompressobj(wbits=31)

    def _decompress(self) -> bytes:
        taken, decoder = self._left[:_GZIP_IN], self._decoder
        part: bytes = decoder.decompress(taken, _OUT)
        left = len(decoder.unconsumed_tail) + len(decoder.unused_data)
        self._left = self._left[len(taken) - left :]
        self._has_more = len(part) == _OUT
        return part

    def _errors(self) -> type[Exception]:
        return zlib.error


class _Zstd(_Decompression):
    kind = "zstd"

    def __init__(self, poll: Poll) -> None:
        super().__init__(poll)
        with extra("zstd", "zstandard"):
            import zstandard
        self._zstandard = zstandard

    def _start(self) -> Any:
        return self._zstandard.ZstdDecompressor().decompressobj()

    def _decompress(self) -> bytes:
        taken, decoder = self._left[:_ZSTD_IN], self._decoder
        part: bytes = decoder.decompress(taken)
        self._left = self._left[len(taken) - len(decoder.unused_data) :]
        return part

    def _errors(self) -> type[Exception]:
        error: type[Exception] = self._zstandard.ZstdError
        return error
