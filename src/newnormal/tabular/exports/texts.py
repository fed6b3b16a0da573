"""Bytes of a program's file as text, and what was found in it, for messages."""

from __future__ import annotations

import json
from typing import Any, BinaryIO

from newnormal.errors import InputError

_LONGEST = 200  # characters of what is shown


def decoded(file: BinaryIO) -> str:
    """Return all of a file as text, which must be UTF-8."""
    content = file.read()
    try:
        return content.decode("utf-8-sig")
    except UnicodeDecodeError as error:
        raise InputError(
            f"expected UTF-8 text, found byte 0x{content[error.start]:02x} at byte {error.start}",
            hint="name the encoding with --encoding (encoding=), such as latin-1",
        ) from None


def shown(content: Any) -> str:
    """Return what was found as a message shows it: a text as it is, anything else as JSON.

    >>> shown({"a": [1]}), shown("bad_data")
    ('{"a": [1]}', 'bad_data')
    """
    try:
        text = content if isinstance(content, str) else json.dumps(content, default=str)
    except (ValueError, RecursionError):
        text = type(content).__name__
    return text if len(text) <= _LONGEST else text[: _LONGEST - 3] + "..."
