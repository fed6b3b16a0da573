"""Bytes of text cut into lines, in constant memory and linear time."""

from collections.abc import Sequence

from newnormal.errors import InputError
from newnormal.tabular.reading import LONGEST_LINE

HEAD = 1 << 16  # bytes of an input's beginning that tell how it is written


class RefusedLine(str):
    """A line that is no text: empty, with the reason.

    `error`: what was expected and what was found.

    >>> line = RefusedLine(InputError("expected UTF-8 text, found byte 0xff"))
    >>> line == "", line.error.message
    (True, 'expected UTF-8 text, found byte 0xff')
    """

    __slots__ = ("error",)
    error: InputError

    def __new__(cls, error: InputError) -> "RefusedLine":
        """Return an empty line with the reason."""
        line = super().__new__(cls)
        line.error = error
        return line


class OversizedLine(bytes):
    """A line that was too long: empty, with its size in bytes, without its end."""

    size: int
    longest: int

    def __new__(cls, size: int, longest: int) -> "OversizedLine":
        """Return an empty line of that size."""
        line = super().__new__(cls)
        line.size, line.longest = size, longest
        return line


class LineCutter:
    r"""Complete lines of bytes that come in pieces.

    Lines end in LF or CRLF; if the first `HEAD` bytes that have an end of line have no LF, in CR.
    Each line is without the byte that ends it: with CRLF its last byte is CR. Blank lines are
    lines. At most `longest` bytes and a piece are held.

    Parameters
    ----------
    longest
        Bytes of the longest line; a longer one is given out as `OversizedLine`.
    newline
        What ends lines, if that is known.

    Examples
    --------
    >>> cutter = LineCutter(longest=5)
    >>> cutter.cut(b"a,b\n1,"), cutter.cut(b"2\n123"), cutter.cut(b"4567\n\n3")
    ([b'a,b'], [b'1,2'], [b'', b''])
    >>> cutter.unfinished, cutter.finish()
    (True, [b'3'])
    """

    def __init__(self, longest: int = LONGEST_LINE, newline: bytes | None = None) -> None:
        self.newline = newline  # what ends lines; None until that is known
        self.last_end = 1  # bytes that end the last line, once it is known: 0 or 1
        self.skipped = 0  # how many lines were too long
        self._longest = longest
        self._parts: list[bytes] = []  # of the unfinished line
        self._size = 0  # of the unfinished line, more than its parts have if it is too long
        self._held = b""  # a CR that may be the first byte of the first CRLF

    @property
    def unfinished(self) -> bool:
        """Whether bytes came behind the last end of line."""
        return self._size > 0 or self._held != b""

    @property
    def skipping(self) -> bool:
        """Whether the unfinished line is too long already."""
        return self._size > self._longest

    def cut(self, piece: bytes) -> list[bytes]:
        """Return the lines that a piece completes."""
        newline = self.newline
        if newline is None:
            piece = self._held + piece
            self._held = b""
            newline = self.newline = self._line_end(piece)
            if newline is None:
                if piece.endswith(b"\r"):
                    piece, self._held = piece[:-1], b"\r"
                self._hold(piece)
                return []
        if self._size:
            first, end, piece = piece.partition(newline)
            self._hold(first)
            if not end:
                return []
            lines = [self._taken(), *piece.split(newline)]
        else:
            lines = piece.split(newline)
        rest = lines.pop()
        if len(piece) > self._longest:
            limit = self._longest
            lines = [line if len(line) <= limit else self._skipped(len(line)) for line in lines]
        if rest:
            self._hold(rest)
        return lines

    def cut_texts(self, piece: bytes, first: bool = False, encoding: str = "UTF-8") -> list[str]:
        """Return the lines that a piece completes as `line_texts` does, in less time."""
        newline = self.newline
        end = -1 if newline is None else piece.rfind(newline)
        if newline is None or end < 0 or self._size + len(piece) > self._longest:
            return line_texts(self.cut(piece), first, encoding)
        start = piece.find(newline) + 1  # behind the line that was begun
        self._parts.append(piece[: start - 1])
        begun = b"".join(self._parts)
        lines = [line_text(begun, first, encoding)]
        if start <= end:
            block = memoryview(piece)[start:end]
            try:
                text = str(block, "utf-8")
            except UnicodeDecodeError:
                lines += line_texts(bytes(block).split(newline), encoding=encoding)
            else:
                rest = text.split(newline.decode())
                is_mixed = ("\r" if newline == b"\n" else "\n") in text
                lines += [line.strip("\r\n") for line in rest] if is_mixed else rest
        begun = piece[end + 1 :]
        self._parts, self._size = [begun], len(begun)
        return lines

    def finish(self) -> list[bytes]:
        """Return the last line, if it has no end or only now is known to have one."""
        if self._held:
            self.newline, self._held = self._held, b""
            self.last_end = 1
            return [self._taken()]
        self.last_end = 0
        return [self._taken()] if self._size else []

    def _line_end(self, piece: bytes) -> bytes | None:
        """Return what ends lines; None if a piece does not tell."""
        for start in range(0, len(piece), HEAD):
            window = piece[start : start + HEAD + 1]  # with the LF of a CRLF that it cuts
            if b"\n" in window:
                return b"\n"
            position = window.find(b"\r")
            if position >= 0:
                return None if start + position == len(piece) - 1 else b"\r"
        return None

    def _hold(self, part: bytes) -> None:
        self._size += len(part)
        if self._size > self._longest:
            self._parts.clear()
        else:
            self._parts.append(part)

    def _skipped(self, size: int) -> OversizedLine:
        self.skipped += 1
        return OversizedLine(size, self._longest)

    def _taken(self) -> bytes:
        """Return the unfinished line as a finished one."""
        if self._size > self._longest:
            line: bytes = self._skipped(self._size)
        else:
            line = b"".join(self._parts)
        self._parts.clear()
        self._size = 0
        return line


def line_text(line: bytes, first: bool = False, encoding: str = "UTF-8") -> str:
    r"""Return a line as text without its end, `RefusedLine` if it is none.

    Parameters
    ----------
    line
        A line of a `LineCutter`.
    first
        Whether it is an input's first: it may begin with a byte order mark.
    encoding
        What the input was written in, for the message.

    >>> line_text(b"caf\xc3\xa9,1\r")
    'café,1'
    >>> print(line_text(b"caf\xe9,1").error)
    expected UTF-8 text, found byte 0xe9
    hint: name the encoding that it was written in: --encoding latin-1 (encoding=)
    """
    try:
        text = line.strip(b"\r\n").decode("utf-8-sig" if first else "utf-8")
    except UnicodeDecodeError as error:
        return RefusedLine(_no_text(error, encoding))
    return text if type(line) is bytes else _too_long(line)


def line_texts(lines: Sequence[bytes], first: bool = False, encoding: str = "UTF-8") -> list[str]:
    r"""Return lines as `line_text` does; `first` is of the first of them.

    >>> line_texts([b"a,b\r", b"", b"1,\xff\r", b"1,2\r"])
    ['a,b', '', '', '1,2']
    """
    return [line_text(line, first and not row, encoding) for row, line in enumerate(lines)]


def _no_text(error: UnicodeDecodeError, encoding: str) -> InputError:
    detail = "" if encoding != "UTF-8" else f", found byte 0x{error.object[error.start]:02x}"
    return InputError(
        f"expected {encoding} text{detail}",
        hint="name the encoding that it was written in: --encoding latin-1 (encoding=)",
    )


def _too_long(line: bytes) -> str:
    assert isinstance(line, OversizedLine)
    return RefusedLine(
        InputError(
            f"expected a line of at most {line.longest:,} bytes, found a longer one",
            hint="raise the limit: --longest-line BYTES (longest_line=)",
        )
    )
