"""What a notebook shows of our values."""

from __future__ import annotations

from html import escape
from typing import Any

__all__ = ["html"]


def html(found: Any) -> str:
    """Return a value as HTML for a notebook."""
    return f"<pre>{escape(repr(found))}</pre>"
