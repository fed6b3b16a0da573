"""Files of other programs as wide CSV text: Excel, Parquet, Prometheus, InfluxDB."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from typing import BinaryIO

from newnormal.errors import InputError
from newnormal.tabular.reading import Reading

__all__ = ["recognised", "translate"]


def recognised(head: bytes, name: str, reading: Reading) -> str | None:
    """Return what kind of file begins with these bytes, None if it is no kind known here."""
    del head, name, reading
    return None


def translate(
    kind: str, file: BinaryIO, reading: Reading, by: Sequence[str] = ()
) -> Iterator[bytes]:
    """Return a file of a kind that was recognised as CSV text, piece by piece."""
    del file, reading, by
    raise InputError(f"expected CSV or JSON lines, found {kind}")
