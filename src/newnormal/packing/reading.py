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
    reading: dict[str, Any] = {name: _text(part, name) for name in _TEXTS}
    reading |= {name: _names(part, name) for name in _LISTS}
    reading["columns"] = _names(part, "columns") if part.has("columns") else part.take("columns")
    reading["resample"] = (
        part.count("resample", 1, _LONGEST_STEP) if part.has("resample") else part.take("resample")
    )
    part.done()
    return reading


def _text(facts: Facts, name: str) -> str | None:
    if facts.has(name):
        return facts.text(name)
    nothing: None = facts.take(name)
    return nothing


def _names(facts: Facts, name: str) -> list[str]:
    names = facts.list(name, _MOST)
    if not all(isinstance(each, str) for each in names):
        raise facts.wrong(name, "names", names)
    return names


def rhythm_of(facts: Facts, members: MembersParams) -> Rhythm:
    """Return the rhythm; its levels and spreads are those of the member."""
    by = facts.text("by")
    if by not in ("time", "sample"):
        raise facts.wrong("by", "time or sample", by)
    rhythm: dict[str, Any] = {"by": by, "bins": facts.count("bins", 1, MOST_BINS)}
    if by == "sample":
        rhythm["period"] = facts.count("period", 1, _LONGEST_PERIOD)
        rhythm["origin"] = facts.count("origin")
    else:
        rhythm["kinds"] = facts.count("kinds", 1)
        if rhythm["kinds"] not in _KINDS:
            raise facts.wrong("kinds", "1, 2 or 7", rhythm["kinds"])
        rhythm["shift"] = facts.count("shift", -DAY, DAY)
        rhythm["zone"] = zone_of(facts)
    facts.done()
    size, rows = rhythm["bins"] * rhythm.get("kinds", 1), len(members.rhythm_levels)
    if size != rows:
        raise StateError(f"model.own.members.rhythm_levels: expected {size} rows, found {rows}")
    return Rhythm.of(rhythm, members.rhythm_levels, members.rhythm_spreads)


def zone_of(facts: Facts) -> str | None:
    """Take the zone of times out."""
    if not facts.has("zone"):
        nothing: None = facts.take("zone")
        return nothing
    zone = facts.text("zone")
    if len(zone) > _LONGEST_ZONE:
        raise facts.wrong("zone", f"at most {_LONGEST_ZONE} characters", zone)
    return zone
