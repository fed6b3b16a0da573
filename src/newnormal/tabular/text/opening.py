"""Any input as UTF-8 text: compressed, in any encoding, or written by another program."""

import re
from collections import deque
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from io import BufferedReader
from os import PathLike, fspath
from tempfile import SpooledTemporaryFile
from typing import IO, Any, BinaryIO, Literal, Self

from newnormal.errors import InputError
from newnormal.tabular import exports
from newnormal.tabular.exports import ExportText
from newnormal.tabular.reading import InputProfile, Reading
from newnormal.tabular.text.compression import Poll, compression_of, decompressed
from newnormal.tabular.text.encodings import LATIN, UTF8, Transcoding, encoding_of, is_binary
from newnormal.tabular.text.file_names import format_of_name
from newnormal.tabular.text.line_cutting import HEAD, LineCutter, line_texts
from newnormal.tabular.text.raw_bytes import RawBytes, RawFile, raw_bytes


class Lookahead:
    """Bytes whose beginning can be looked at before it is given out.

    With `live` it does not wait where none have come yet; with `hasty` the first line is enough.
    """

    def __init__(self, poll: Poll, *, live: bool, hasty: bool) -> None:
        self.ended = False
        self._source = poll
        self._live, self._hasty = live, hasty
        self._held: deque[bytes] = deque()

    def look(self, enough: int = HEAD) -> bytes | None:
        """Return the first `HEAD` bytes, or all that have come; None if these are too few.

        A line or `enough` bytes are not too few.
        """
        head = b"".join(self._held)
        while len(head) < HEAD and not self.ended:
            is_enough = len(head) >= enough or b"\n" in head or b"\r" in head
            if self._hasty and is_enough:
                break
            piece = self._source()
            if piece is None:
                self.ended = True
            elif piece:
                self._held.append(piece)
                head += piece
            elif self._live:
                return head if is_enough else None
        return head[:HEAD]

    def poll(self) -> bytes | None:
        """Return the next bytes; b"" if none have come yet, None at the end."""
        if self._held:
            return self._held.popleft()
        return None if self.ended else self._source()

    def forget(self) -> None:
        """Drop what is held: the source is at another place."""
        self._held.clear()
        self.ended = False


_KINDS = (
    (b"PK\x03\x04", "a zip archive", "unpack it first: unzip FILE"),
    (b"PK\x05\x06", "an empty zip archive", None),
    (b"\xd0\xcf\x11\xe0", "an old Excel or Word file", "save it as .xlsx or as CSV"),
    (b"PAR1", "Parquet", None),
    (b"ARROW1", "an Arrow file", "save it as Parquet or CSV"),
    (b"FEA1", "a Feather file", "save it as Parquet or CSV"),
    (b"%PDF", "a PDF", "export the data as CSV"),
    (b"\x89HDF", "HDF5", "export the data as CSV or Parquet"),
    (b"MATLAB 5.0 MAT-file", "a MATLAB file", "export the data as CSV"),
    (b"\x93NUMPY", "a NumPy array", "load it in Python, and pass the array"),
    (b"SQLite format 3", "an SQLite database", "export the table as CSV"),
    (b"Obj\x01", "Avro", "export the data as CSV or Parquet"),
    (b"ORC", "ORC", "export the data as CSV or Parquet"),
    (b"\x89PNG", "a picture", None),
    (b"\xff\xd8\xff", "a picture", None),
    (b"GIF8", "a picture", None),
    (b"\x7fELF", "a program", None),
    (b"{\\rtf", "an RTF document", "save it as CSV"),
)
_TEXT = "give CSV or JSON lines, or a file in a format of --input-format (format=)"


def known_binary(head: bytes) -> InputError | None:
    """Return the error for data that begins as no text does; None if it may be text.

    >>> print(known_binary(b"%PDF-1.7"))
    expected text, found a PDF
    hint: export the data as CSV
    """
    for magic, what, hint in _KINDS:
        if head.startswith(magic) and (not magic.isalnum() or not _is_words(head)):
            return InputError(f"expected text, found {what}", hint=hint or _TEXT)
    return None


def _is_words(head: bytes) -> bool:
    """Whether a beginning of letters goes on as text does: a column may be called ORC."""
    return head[:64].isascii() and b"\0" not in head[:64]


# Names of text that may as well be JSON lines: its first character tells.
_LOOSE = re.compile(r"\.(txt|dat|log)(\.[a-z]+)?$")
_SPOOL = 1 << 24  # bytes of a file that is translated that are held in memory, if it is a stream
_ENOUGH = 8  # bytes that tell how data is compressed


def open_input(
    path: str | PathLike[str],
    reading: Reading | None = None,
    by: Sequence[str] = (),
    *,
    live: bool = False,
    follow: bool = False,
) -> "OpenInput":
    """Open an input.

    Parameters
    ----------
    path
        A path, or "-" for standard input.
    reading
        How it is written, as far as that is known.
    by
        The columns that name the stream, for formats that have none of their own.
    live
        Give out what has come; do not wait for the first 64 KB to see how it is written.
    follow
        The end of the file is no end: more may come.

    Raises
    ------
    InputError
        If it cannot be read, or is no text and of no known format. The messages do not name the
        input: who calls does.
    MissingExtraError
        If a package is needed that is not installed.
    """
    name = fspath(path)
    opened = OpenInput(raw_bytes(name, follow=follow), name, reading or Reading(), by, live, follow)
    try:
        if opened.seekable or not live:
            opened.look()
    except BaseException:
        opened.close()
        raise
    return opened


class OpenInput:
    """An input as bytes of UTF-8 text, whatever it is. `open_input` makes it.

    `path`, `name`: its path ("-": standard input), and what it is called in messages. `kind`: csv
    or jsonl, of the text given out; None while that is not known. `written`: how it is written,
    where that is not plain text: compression, encoding, format.
    """

    def __init__(
        self,
        raw: RawBytes,
        path: str,
        reading: Reading,
        by: Sequence[str],
        live: bool,
        follow: bool,
    ) -> None:
        self.path = path
        self.name = "standard input" if path == "-" else path
        self._raw = raw
        self._reading, self._by = reading, by
        self._live, self._follow = live, follow
        self._file: BufferedReader | None = None  # of a translation
        self._spool: IO[bytes] | None = None  # the same of a stream
        self._begin(None)

    def _begin(self, encoding: str | None) -> None:
        self.kind: Literal["csv", "jsonl"] | None = None
        self.written: dict[str, str] = {}
        self._translated: ExportText | None = None
        self._given = self._reading.encoding if self._reading.encoding is not None else encoding
        self._first = self._lookahead(self._raw.poll)
        self._second: Lookahead | None = None  # behind the decompression
        self._text: Transcoding | None = None
        self._poll: Poll | None = None  # of the text; None until it is known how it is written
        self._rest = b""  # of `read`

    @property
    def seekable(self) -> bool:
        """Whether it can be read again from the beginning."""
        return self._raw.seekable

    @property
    def finished(self) -> bool:
        """Whether nothing can be added to it: it is compressed, or a format that has an end."""
        return self._poll is not None and (self._text is None or "compression" in self.written)

    @property
    def plain(self) -> bool:
        """Whether the bytes are those of the file: offsets can be sought."""
        if not self.seekable or self.finished:
            return False
        return self._text is None or self._text.as_it_is

    @property
    def encoding(self) -> str | None:
        """The encoding of the text that was read; None as long as it is ASCII."""
        if self._text is None:
            return UTF8 if self.finished else None
        return self._text.encoding

    def read(self, count: int = -1) -> bytes:
        """Return at most `count` bytes, b"" at the end; any number if `count` is negative."""
        while not (piece := self.poll()):
            if piece is None:
                return b""
        if 0 <= count < len(piece):
            piece, self._rest = piece[:count], piece[count:]
        return piece

    def poll(self) -> bytes | None:
        """Return the next bytes; b"" if none have come yet, None at the end."""
        if self._rest:
            rest, self._rest = self._rest, b""
            return rest
        if self._poll is None and not self.look():
            return b""
        assert self._poll is not None
        piece = self._poll()
        if self._text is not None and piece:
            self._note_encoding()
        return piece

    def look(self) -> bool:
        """Find out how it is written; return False if too little of it has come."""
        if self._poll is not None:
            return True
        if (head := self._first.look(_ENOUGH)) is None:
            return False
        if self._second is None:
            self._second = self._decompression(head)
        if (head := self._second.look()) is None:
            return False
        self._choose_text(head, self._second)
        return True

    def begin_again(self, encoding: str | None = None) -> None:
        """Go back to the beginning, and read it in an encoding that was found before."""
        assert isinstance(self._raw, RawFile)
        self._raw.file.seek(0)
        self._end_translation()
        self._begin(encoding)
        self.look()

    def seek(self, offset: int) -> None:
        """Go to a place in a plain file."""
        assert self.plain and isinstance(self._raw, RawFile)
        self._raw.file.seek(offset)
        self._rest = b""
        self._first.forget()
        if self._text is not None:
            self._text.begin_at(offset)

    @property
    def raw(self) -> RawBytes:
        """The bytes as they are stored."""
        return self._raw

    def close(self) -> None:
        """Close the file. May be called twice."""
        self._end_translation()
        self._raw.close()

    def __enter__(self) -> Self:
        return self

    def __exit__(self, *error: object) -> None:
        self.close()

    def _decompression(self, head: bytes) -> Lookahead:
        """Return the bytes without compression."""
        if (kind := compression_of(head)) is None:
            return self._first
        self.written["compression"] = kind
        self._refuse_following(kind)
        return self._lookahead(decompressed(kind, self._first.poll))

    def _lookahead(self, poll: Poll) -> Lookahead:
        return Lookahead(poll, live=self._live, hasty=self._live and not self.seekable)

    def _choose_text(self, head: bytes, source: Lookahead) -> None:
        """Find out how the text is written that begins so."""
        reading = self._reading
        kind = exports.recognised(head, reading)
        if kind is None and reading.format not in (None, "csv", "jsonl"):
            kind = reading.format
        if kind is not None:
            self.written["format"] = kind
            self._refuse_following(kind)
            self.kind = "csv"
            self._poll = self._translation(kind, source)
            return
        encoding = self._given
        if encoding is None:
            if (error := known_binary(head)) is not None:
                raise error
            encoding = encoding_of(head, ended=source.ended and len(head) < HEAD)
            if encoding in (None, UTF8, LATIN) and is_binary(head):
                raise InputError("expected text, found binary data", hint=_TEXT)
        self._text = Transcoding(source.poll, _canonical_name(encoding))
        self._poll = self._text.poll
        self._note_encoding()
        self.kind = self._kind_of(head)

    def _kind_of(self, head: bytes) -> Literal["csv", "jsonl"] | None:
        if self._reading.format in ("csv", "jsonl"):
            return self._reading.format
        named = None if self.path == "-" else format_of_name(self.path)
        if named == "jsonl" or (named == "csv" and not _LOOSE.search(self.path.lower())):
            return named
        text = head.lstrip(b"\xef\xbb\xbf\xff\xfe\0 \t\r\n")
        return ("jsonl" if text.startswith(b"{") else "csv") if text else None

    def _translation(self, kind: str, source: Lookahead) -> Poll:
        """Return a file of another program as text. A stream is stored first."""
        if source is self._first and isinstance(self._raw, RawFile):
            self._raw.file.seek(0)
            self._file = BufferedReader(self._raw.file)
            pieces = self._translated = self._translate(kind, self._file)
            return lambda: next(pieces, None)
        self._spool = SpooledTemporaryFile(_SPOOL)  # noqa: SIM115 - close() closes it
        spool: Any = self._spool

        def poll() -> bytes | None:
            while self._translated is None:
                piece = source.poll()
                if piece == b"":
                    return piece
                if piece is None:
                    spool.seek(0)
                    self._translated = self._translate(kind, spool)
                else:
                    spool.write(piece)
            return next(self._translated, None)

        return poll

    def _translate(self, kind: str, file: BinaryIO) -> ExportText:
        text = exports.translate(kind, file, self._reading, self._by)
        self.written.update(text.written)
        return text

    def note(self, profile: InputProfile) -> None:
        """Note what was found out so far about how the input is written."""
        profile.kind = self.kind
        profile.written.update(self.written)
        if self._translated is not None:
            profile.bad_lines = profile.lines = self._translated.bad_lines
            profile.first_bad = self._translated.first_bad

    def _refuse_following(self, what: str) -> None:
        if self._follow:
            raise InputError(
                f"expected text that grows, to follow it, found {what}",
                hint="leave --follow out: it is read to its end",
            )

    def _note_encoding(self) -> None:
        encoding = self.encoding
        if encoding is not None and encoding != UTF8:
            self.written["encoding"] = encoding

    def _end_translation(self) -> None:
        if self._file is not None:
            self._file.detach()
            self._file = None
        if self._spool is not None:
            self._spool.close()
            self._spool = None


def _canonical_name(encoding: str | None) -> str | None:
    same = encoding is not None and encoding.lower().replace("_", "-") in ("utf-8", "utf-8-sig")
    return UTF8 if same else encoding


@contextmanager
def text_lines(
    path: str | PathLike[str], reading: Reading, profile: InputProfile, by: Sequence[str] = ()
) -> Iterator[Iterator[list[str]]]:
    r"""Open an input to read all its lines.

    Gives an iterator of lists of lines, without their ends: all lines of the file, in order. One
    that is no text or too long is a `Refused`, whose `error` tells why. What is found out about
    the file is noted in `profile`: `kind` and `written`.

    >>> from pathlib import Path
    >>> from tempfile import TemporaryDirectory
    >>> profile = InputProfile()
    >>> with TemporaryDirectory() as folder:
    ...     path = Path(folder, "plant.csv")
    ...     _ = path.write_bytes("Größe;b\r\n1;2\r\n".encode("latin-1"))
    ...     with text_lines(path, Reading(), profile) as chunks:
    ...         list(chunks)
    [['Größe;b', '1;2']]
    >>> profile.kind, profile.written
    ('csv', {'encoding': 'latin-1 (cp1252)'})
    """
    with open_input(path, reading, by) as opened:
        opened.note(profile)
        yield _chunks(opened, LineCutter(reading.longest_line), profile)


def _chunks(opened: OpenInput, cutter: LineCutter, profile: InputProfile) -> Iterator[list[str]]:
    first = True
    while piece := opened.read():
        if lines := cutter.cut_texts(piece, first, opened.encoding or UTF8):
            first = False
            yield lines
    if last := cutter.finish():
        yield line_texts(last, first, opened.encoding or UTF8)
    opened.note(profile)
