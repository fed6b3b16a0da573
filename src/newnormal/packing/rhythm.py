"""The rhythm of a stream from data: every name checked before it is used."""

from __future__ import annotations

from typing import Any

from newnormal.core.phases import DAY
from newnormal.core.rhythm import Rhythm
from newnormal.errors import StateError
from newnormal.kernels.members import MembersParams
from newnormal.state.schema import Facts

MOST_BINS = 4096
_KINDS = (1, 2, 7)  # of days
_LONGEST_PERIOD = 10**9  # samples
_LONGEST_ZONE = 100  # characters


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
        raise StateError(f"model.own.rhythm_levels: expected {size} rows, found {rows}")
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
