"""From scores to alarms: the threshold that opens them, and the log that reports them."""

from newnormal.alarms.log import AlarmLog, open_alarm
from newnormal.alarms.threshold import AlarmRate, AlarmThreshold, Tail

__all__ = ["AlarmLog", "AlarmRate", "AlarmThreshold", "Tail", "open_alarm"]
