"""From scores to alarms: a budget that holds the threshold, and events that call a person once."""

from newnormal.alarms.budget import Budget, Gauge, Judged, Realised, check_target
from newnormal.alarms.desk import Desk
from newnormal.alarms.tail import Tail
from newnormal.alarms.tracker import Alarm, AlarmEvent, Peak, Tracker

__all__ = [
    "Alarm",
    "AlarmEvent",
    "Budget",
    "Desk",
    "Gauge",
    "Judged",
    "Peak",
    "Realised",
    "Tail",
    "Tracker",
    "check_target",
]
