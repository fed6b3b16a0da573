"""How history was read, from data: every value checked."""

from __future__ import annotations

from typing import Any

from newnormal.state.schema import Facts

_MOST = 1_000_000  # names of columns
_TEXTS = ("decimal", "date_format", "tz", "label")
_LISTS = ("by", "na", "time", "drop", "rate", "header")
_LONGEST_STEP = 2**62  # in ns


def reading_of(facts: Facts) -> dict[str, Any] | None:
    """Take out how history was read; None where it was not read from a file."""
    if not facts.has("reading"):
        nothing: None = facts.take("reading")
        return nothing
    part = facts.part("reading")
    found: dict[str, Any] = {name: _text(part, name) for name in _TEXTS}
    found |= {name: _names(part, name) for name in _LISTS}
    found["columns"] = _names(part, "columns") if part.has("columns") else part.take("columns")
    found["resample"] = (
        part.count("resample", 1, _LONGEST_STEP) if part.has("resample") else part.take("resample")
    )
    part.done()
    return found


def _text(facts: Facts, name: str) -> str | None:
    if facts.has(name):
        return facts.text(name)
    nothing: None = facts.take(name)
    return nothing


def _names(facts: Facts, name: str) -> list[str]:
    found = facts.list(name, _MOST)
    if not all(isinstance(each, str) for each in found):
        raise facts.wrong(name, "names", found)
    return found
