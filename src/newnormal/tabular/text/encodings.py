"""Text in any encoding as UTF-8: which one is found from its first bytes, or given."""

import codecs
import re

from newnormal.errors import InputError, ParameterError
from newnormal.tabular.text.compression import Poll
from newnormal.tabular.text.line_cutting import HEAD

LATIN = "latin-1 (cp1252)"
UTF8 = "UTF-8"

_MARKS = {  # UTF-32's first: the little-endian mark of UTF-16 begins it
    codecs.BOM_UTF32_LE: "UTF-32",
    codecs.BOM_UTF32_BE: "UTF-32",
    codecs.BOM_UTF8: UTF8,
    codecs.BOM_UTF16_LE: "UTF-16",
    codecs.BOM_UTF16_BE: "UTF-16",
}

# Bytes that text in cp1252 rarely has: undefined ones, and those of erased memory.
_RARE = frozenset(b"\x81\x8d\x8f\x90\x9d\xfe\xff")
_CONTROL = re.compile(rb"[\x01-\x08\x0e-\x1a\x1c-\x1f\x7f]")
_MANY_BYTES = re.compile(
    rb"[\xc2-\xdf][\x80-\xbf]|[\xe0-\xef][\x80-\xbf]{2}|[\xf0-\xf4][\x80-\xbf]{3}"
)
_HIGH = bytes(range(0x80, 0x100))
# Control characters are counted here, without NULs: a machine that lost power leaves these behind
# the text that it wrote.
_LOOK = 4096


def _keep_byte(error: UnicodeError) -> tuple[str, int]:
    assert isinstance(error, UnicodeDecodeError)
    return error.object[error.start : error.end].decode("latin-1"), error.end


def _mark_wrong(error: UnicodeError) -> tuple[str, int]:
    """Put a byte that no UTF-8 text has where bytes are wrong, so that the line is refused."""
    assert isinstance(error, UnicodeDecodeError)
    return "\udcff", error.end


codecs.register_error("newnormal.keep_byte", _keep_byte)
codecs.register_error("newnormal.mark_wrong", _mark_wrong)


def is_binary(head: bytes) -> bool:
    r"""Whether bytes that begin so are no text, in any encoding with a mark or without NULs.

    >>> is_binary(b"\x89HDF\r\n\x1a\n\x00\x00"), is_binary(b"time,a\n2026-01-01,1\n\x00\x00\n")
    (True, False)
    """
    look = head[:_LOOK]
    return len(_CONTROL.findall(look)) * 20 > len(look) or b"\0" in look.partition(b"\n")[0]


def encoding_of(head: bytes, *, ended: bool) -> str | None:
    r"""Return the encoding of text that begins so; None while it may be UTF-8 or another.

    Parameters
    ----------
    head
        The first bytes; the last character may be cut.
    ended
        Whether there are no more bytes.

    >>> encoding_of("Größe;1\n".encode(), ended=True)
    'UTF-8'
    >>> encoding_of("Größe;1\n".encode("latin-1"), ended=True)
    'latin-1 (cp1252)'
    >>> encoding_of("a;1\n".encode("utf-16"), ended=True)
    'UTF-16'
    """
    for mark, name in _MARKS.items():
        if head.startswith(mark):
            return name
    return _by_nuls(head) or _narrow(head, ended=ended)


def _by_nuls(head: bytes) -> str | None:
    """Return the kind of UTF-16 or UTF-32 without a mark, by where its NULs are."""
    if b"\0" not in head:
        return None
    share = [head[offset::4].count(0) / max(len(head[offset::4]), 1) for offset in range(4)]
    high, low = 0.4, 0.1
    if min(share[1:]) > high and share[0] < low:
        return "UTF-32-LE"
    if min(share[:3]) > high and share[3] < low:
        return "UTF-32-BE"
    if min(share[1], share[3]) > high and max(share[0], share[2]) < low:
        return "UTF-16-LE"
    if min(share[0], share[2]) > high and max(share[1], share[3]) < low:
        return "UTF-16-BE"
    return None


def _narrow(text: bytes, *, ended: bool) -> str | None:
    """Return which of UTF-8 and cp1252 bytes are; None if they are ASCII."""
    if text.isascii():
        return None
    decoder = codecs.getincrementaldecoder("utf-8")()
    try:
        decoder.decode(text, final=ended)
    except UnicodeDecodeError:
        wrong = [byte for byte in _MANY_BYTES.sub(b"", text) if byte >= 0x80]
        rare = sum(byte in _RARE for byte in wrong)
        good = len(_MANY_BYTES.findall(text))
        return LATIN if len(wrong) - rare > good + rare else UTF8
    held = decoder.getstate()[0]
    return None if text[: len(text) - len(held)].isascii() else UTF8


class Transcoding:
    """Text of any encoding as UTF-8.

    `poll` gives the text's bytes. `encoding`: `UTF8`, `LATIN`, or a name that Python knows; None:
    to be found in the first `HEAD` bytes, which up to there are ASCII.
    """

    def __init__(self, poll: Poll, encoding: str | None) -> None:
        self._poll = poll
        self.encoding: str | None = None  # the same; None as long as it is not known
        self._decoder: codecs.IncrementalDecoder | None = None
        self._left = HEAD  # bytes of the head still to come
        self._held = b""  # the beginning of a character
        if encoding is not None:
            self._set_encoding(encoding)

    @property
    def as_it_is(self) -> bool:
        """Whether the bytes given out are those received."""
        return self._decoder is None

    def begin_at(self, offset: int) -> None:
        """Go on behind that many bytes, none of which was given out."""
        self._left = HEAD - offset
        if self.encoding is None and self._left <= 0:
            self._set_encoding(UTF8)

    def poll(self) -> bytes | None:
        """Return the next bytes; b"" if none have come yet, None at the end."""
        while True:
            piece = self._poll()
            if self.encoding is None:
                if piece == b"":
                    return piece
                text = self._undecided(piece)
                if text is not None or piece is None:
                    return text
                continue
            if self._decoder is None:
                return piece
            if piece == b"":
                return piece
            text = self._decoded(piece)
            if text or piece is None:
                return text or None

    def _undecided(self, piece: bytes | None) -> bytes | None:
        """Return bytes that may be given out, None if that is not known yet."""
        text = self._held + (piece or b"")
        encoding = _narrow(text[: self._left], ended=piece is None)
        if encoding is None:
            whole = text.rstrip(_HIGH)
            text, self._held = whole, text[len(whole) :]
            self._left -= len(whole)
            if self._left <= 0:
                self._set_encoding(UTF8)
                text, self._held = text + self._held, b""
            return text or None
        self._held = b""
        self._set_encoding(encoding)
        return text if self._decoder is None else self._decoded(text) or None

    def _set_encoding(self, encoding: str) -> None:
        self.encoding = encoding
        if encoding == UTF8:
            return
        if encoding == LATIN:
            self._decoder = codecs.getincrementaldecoder("cp1252")("newnormal.keep_byte")
            return
        try:
            "".encode(encoding)
            self._decoder = codecs.getincrementaldecoder(encoding)("newnormal.mark_wrong")
        except (LookupError, UnicodeError):
            raise ParameterError(
                f"encoding: expected an encoding such as utf-8, utf-16 or latin-1, "
                f"found {encoding!r}"
            ) from None

    def _decoded(self, piece: bytes | None) -> bytes:
        assert self._decoder is not None
        try:
            text = self._decoder.decode(piece or b"", final=piece is None)
            return text.encode("utf-8", "surrogateescape")
        except UnicodeError as error:
            raise InputError(
                f"expected {self.encoding} text, found bytes that are none: {error}",
                hint="name the encoding that it was written in: --encoding latin-1 (encoding=)",
            ) from error
