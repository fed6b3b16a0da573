"""A time as a user writes it, from which or until which samples are taken."""

from datetime import datetime
from typing import Any, NamedTuple, Self

import numpy as np

from newnormal.tabular.times import parse_time
from newnormal.tabular.zones import zone_of
from newnormal.types import ns_of_time
from newnormal.types.zones import QUARTER, utc_offset

_DAY = 86_400 * 10**9


class Bound(NamedTuple):
    """A time, which may be one on the clock that the samples' times are of."""

    time: np.datetime64  # the time, in UTC or on that clock
    local: bool  # whether it was written without a zone: it is then one on that clock

    @classmethod
    def of(cls, value: Any) -> Self:
        """Return it from what a user gave; arrays' times and numbers are UTC."""
        written = isinstance(value, str | datetime) and not _is_number(value)
        return cls(parse_time(value), written and zone_of(value) is None)

    def in_zone(self, zone: str | None) -> np.datetime64:
        """Return it in UTC, where samples' times have that zone; the first of two on the clock.

        >>> bound = Bound.of("2026-07-01 12:00")
        >>> bound.in_zone("Europe/Berlin")
        np.datetime64('2026-07-01T10:00:00.000000000')
        """
        if zone is None or not self.local:
            return self.time
        offset, clock = utc_offset(zone), ns_of_time(self.time)
        near = sorted({offset((clock + shift) // QUARTER) for shift in (-_DAY, _DAY)})
        fitting = [span for span in near if offset((clock - span) // QUARTER) == span]
        return np.datetime64(clock - (max(fitting) if fitting else near[0]), "ns")


def _is_number(value: object) -> bool:
    try:
        float(str(value))
    except ValueError:
        return False
    return True
