"""How history was read, and its rhythm, from data: every value checked."""

from __future__ import annotations

from typing import Any

from newnormal.core.phases import DAY
from newnormal.core.rhythm import Rhythm
from newnormal.errors import StateError
from newnormal.kernels.members import MembersParams
from newnormal.models.members import MOST_BINS
from newnormal.state.facts import Facts

_MOST = 1_000_000  # names of columns
_TEXTS = ("decimal", "date_format", "tz", "label")
_LISTS = ("by", "na", "time", "drop", "rate", "header")
_LONGEST_STEP = 2**62  # in ns
_KINDS = (1, 2, 7)  # of days
_LONGEST_PERIOD = 10**9  # samples
_LONGEST_ZONE = 100  # characters


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


def rhythm_of(facts: Facts, members: MembersParams) -> Rhythm:
    """Return the rhythm; its levels and spreads are those of the member."""
    by = facts.text("by")
    if by not in ("time", "sample"):
        raise facts.wrong("by", "time or sample", by)
    found: dict[str, Any] = {"by": by, "bins": facts.count("bins", 1, MOST_BINS)}
    if by == "sample":
        found["period"] = facts.count("period", 1, _LONGEST_PERIOD)
        found["origin"] = facts.count("origin")
    else:
        found["kinds"] = facts.count("kinds", 1)
        if found["kinds"] not in _KINDS:
            raise facts.wrong("kinds", "1, 2 or 7", found["kinds"])
        found["shift"] = facts.count("shift", -DAY, DAY)
        found["zone"] = zone_of(facts)
    facts.done()
    size, rows = found["bins"] * found.get("kinds", 1), len(members.rhythm_levels)
    if size != rows:
        raise StateError(f"model.own.members.rhythm_levels: expected {size} rows, found {rows}")
    return Rhythm.of(found, members.rhythm_levels, members.rhythm_spreads)


def zone_of(facts: Facts) -> str | None:
    """Take the zone of times out."""
    if not facts.has("zone"):
        found: None = facts.take("zone")
        return found
    zone = facts.text("zone")
    if len(zone) > _LONGEST_ZONE:
        raise facts.wrong("zone", f"at most {_LONGEST_ZONE} characters", zone)
    return zone
