"""What binary data is, by how it begins, for messages."""

from newnormal.errors import InputError

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


def binary_data() -> InputError:
    """Return the error for binary data of a kind that is not known."""
    return InputError("expected text, found binary data", hint=_TEXT)
