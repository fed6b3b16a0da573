"""Which streams of a fleet a person looks at first."""

import numpy as np

from newnormal.alarms.words import urgency
from newnormal.plots.thinning import ratios_of
from newnormal.types import Alarm, Change, Timeline


def attention(timeline: Timeline) -> tuple[float, ...]:
    """Return what streams are sorted by: the one that needs attention most is the least.

    1. An open alarm; the higher its peak's ratio, the earlier.
    2. A pending change, which waits for a decision; the farther from normal, the earlier.
    3. A rejected change, from which the stream is not back.
    4. Alarms that are over; the newer the last one, the earlier.
    5. Changes that are over; the newer, the earlier.
    6. The others; the higher their worst ratio of score and threshold, the earlier.

    Equal ones stay in the fleet's order.
    """
    remaining = timeline.observed.remaining
    alarms = [item for item in remaining if isinstance(item, Alarm)]
    changes = [item for item in remaining if isinstance(item, Change)]
    if remaining:
        place, size = urgency(alarms, changes)
        return 1 + place, size
    if timeline.alarms:
        return 4, min(timeline.last - alarm.end for alarm in timeline.alarms)
    if timeline.changes:
        return 5, min(timeline.last - span.end for span in timeline.changes)
    return 6, -_highest(timeline)


def needs_attention(timeline: Timeline) -> bool:
    """Whether something is open: an alarm, or a change."""
    return bool(timeline.observed.remaining)


def _highest(timeline: Timeline) -> float:
    return float(np.nan_to_num(ratios_of(timeline.verdicts)).max(initial=-np.inf))
