"""The values that travel between layers: arrays by name, verdicts, alarms and their events."""

from newnormal.types.alarms import (
    ACCEPTED,
    BACK_TO_NORMAL,
    CANDIDATE,
    CLOSED,
    DISTANCE,
    END_OF_STREAM,
    IN_ALARM,
    OPENED,
    REJECTED,
    SCORE,
    UPDATED,
    Alarm,
    AlarmEvent,
    Peak,
)
from newnormal.types.arrays import Bools, Floats, Floats32, Ints, Times, time_at, time_text
from newnormal.types.verdicts import Verdict, Verdicts

__all__ = [
    "ACCEPTED",
    "BACK_TO_NORMAL",
    "CANDIDATE",
    "CLOSED",
    "DISTANCE",
    "END_OF_STREAM",
    "IN_ALARM",
    "OPENED",
    "REJECTED",
    "SCORE",
    "UPDATED",
    "Alarm",
    "AlarmEvent",
    "Bools",
    "Floats",
    "Floats32",
    "Ints",
    "Peak",
    "Times",
    "Verdict",
    "Verdicts",
    "time_at",
    "time_text",
]
