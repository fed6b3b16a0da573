"""Names in a state file of what stands at a position in the code."""

from __future__ import annotations

from newnormal.acceptance import review
from newnormal.kernels import alarm, drift

__all__ = ["ALARM_COUNTS", "ALARM_LEVELS", "BASELINE_LEVELS", "DRIFT_COUNTS", "REVIEW_COUNTS"]

ALARM_COUNTS = {
    "samples": alarm.SEEN,
    "alarms": alarm.ALARMS,
    "open": alarm.OPEN,
    "age": alarm.AGE,
    "low": alarm.LOW,
    "quiet": alarm.QUIET,
}
ALARM_LEVELS = {
    "location": alarm.LOCATION,
    "height": alarm.HEIGHT,
    "peak": alarm.PEAK,
    "recent_alarms": alarm.RECENT_ALARMS,
    "recent_samples": alarm.RECENT_SAMPLES,
    "start_height": alarm.START_HEIGHT,
}
BASELINE_LEVELS = ("location", "height", "start_height", "moved")
REVIEW_COUNTS = {
    "reviews": review.REVIEWS,
    "alarm": review.NUMBER,
    "since": review.SINCE,
    "frozen": review.FROZEN,
}
DRIFT_COUNTS = {"samples": drift.SEEN, "channel": drift.WHERE, "mark": drift.MARK}
