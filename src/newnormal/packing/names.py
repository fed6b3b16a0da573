"""Names in a state file of what stands at a position in the code."""

from __future__ import annotations

from newnormal.acceptance import changes
from newnormal.alarms import log, silence
from newnormal.kernels import alarm, drift

ALARM_COUNTS = {
    "samples": alarm.SEEN,
    "alarms": alarm.ALARMS,
    "open": alarm.OPEN,
    "age": alarm.AGE,
    "low": alarm.LOW,
    "next": alarm.NEXT,
    "lead": alarm.LEAD,
}
ALARM_LEVELS = {
    "location": alarm.LOCATION,
    "height": alarm.HEIGHT,
    "peak": alarm.PEAK,
    "recent_alarms": alarm.RECENT_ALARMS,
    "recent_samples": alarm.RECENT_SAMPLES,
    "start_height": alarm.START_HEIGHT,
    "start_location": alarm.START_LOCATION,
}
LOG_COUNTS = {
    "open": log.NUMBER,
    "start": log.START,
    "end": log.END,
    "peak": log.PEAK,
    "newest": log.NEWEST,
}
LOG_LEVELS = {
    "score": log.PEAK_SCORE,
    "ratio": log.PEAK_RATIO,
    "p_value": log.PEAK_P_VALUE,
    "reported": log.REPORTED,
}
SILENCE_COUNTS = {
    "open": silence.NUMBER,
    "start": silence.START,
    "all_missing": silence.ALL,
    "any_missing": silence.ANY,
}
# In the order of Baseline.levels.
BASELINE_LEVELS = ("location", "height", "start_height", "start_location", "moved")
REVIEW_COUNTS = {
    "reviews": changes.REVIEWS,
    "newest_change": changes.NEWEST,
    "last_alarm": changes.LAST_ALARM,
    "rejected_alarm": changes.REJECTED_ALARM,
}
CHANGE_COUNTS = {
    "number": changes.NUMBER,
    "start": changes.START,
    "known": changes.KNOWN,
    "since": changes.SINCE,
    "alarm": changes.ALARM,
    "placed": changes.PLACED,
}
CHANGE_STATES = {"pending": changes.IS_PENDING, "rejected": changes.IS_REJECTED}
DRIFT_COUNTS = {
    "samples": drift.SEEN,
    "mark": drift.MARK,
    "crossed": drift.CROSSED,
}
