"""What the options of a fleet may be."""

from __future__ import annotations

from typing import Any

from newnormal.base import BaseDetector
from newnormal.errors import ParameterError
from newnormal.tabular import Long


def names_columns(given: Any) -> bool:
    """Whether an option names columns; an array is one value a row, of that data alone."""
    texts = isinstance(given, list | tuple) and all(isinstance(each, str) for each in given)
    return texts or isinstance(given, str | bool | Long)


def limit_of(limit: float | None, detector: BaseDetector) -> float | None:
    """Return the limit on the alarms of all streams, if it can be one."""
    if limit is None:
        return None
    if not limit > 0:
        raise ParameterError(f"fleet_alarms_per_day: expected more than 0, found {limit}")
    for name in ("alarms_per_day", "risk", "threshold"):
        if detector.get_params()[name] is not None:
            raise ParameterError(
                f"fleet_alarms_per_day and {name}: expected one of them, found both",
                hint="fleet_alarms_per_day is divided among the streams, alarms_per_day is of each",
            )
    return float(limit)
