"""The decisions about a score, made here and nowhere else.

| score                      | anomalous | learnable |
|----------------------------|-----------|-----------|
| below `learn_threshold`    |           | yes       |
| at or above it             |           | no        |
| below `alarm_threshold`    | no        |           |
| at or above it             | yes       |           |
| NaN                        | no        | no        |

The paper has one threshold τ for both, so that learnable is the complement of anomalous. A
threshold that moves with a limit on alarms moves `alarm_threshold` alone: what may be learned
stays as it was accepted. A sample without a score (nothing was observed) is neither anomalous nor
learnable.

An episode is that a channel or the joint score is beyond its limit, over short pauses too. It opens
with a sample beyond the limit, and closes after `gap` samples that are not. One that opens soon
after the last but one began comes and goes: it stays open over pauses like those before it. An
alarm is open as long as an episode is, and ends with the last sample that is anomalous.
"""

from __future__ import annotations

from typing import Any

import numpy as np

from newnormal.kernels.compiled import inner, uncounted
from newnormal.types import Ints

# Severity, from 0 to 100: of a fault just at its limit, and what is added each time that its
# distance, the number of its channels, or its duration beyond _SAMPLES doubles.
_AT_LIMIT, _DOUBLED, _MORE_CHANNELS, _LONGER, _SAMPLES = 10.0, 22.0, 6.0, 6.0, 30.0
_JOINT = 4.0  # times as far: the joint score's ratio is one of logarithms
SEVERITIES = 4  # low, medium, high, critical: from 0, 25, 50 and 75

GAP = 10  # quiet samples that close an episode of a channel
RAISE, RAISED = 0.5, 2.0  # of its start: what a weak episode adds to its limit, and the most
# Episodes whose highest ratio is below this are weak: they raise limits. A strong one does not show
# that a limit is too low.
JUST_BEYOND = 1.5
_HOURS = 2.0  # within which a third episode is one that comes and goes
_PAUSES = 2.0  # times the longest pause so far, for which such an episode stays open

# Positions in the counters of an episode; those of a channel go on after them.
AGE = 0  # samples since it opened, this one included; 0 without one
QUIET = 1  # newest samples of it that are not beyond
SILENT_FOR = 2  # samples since the last one was over, or since the start; 0 in one
FIRST = 3  # samples since the last one but one began, likewise; 0: there is none
SECOND = 4  # samples since the last one began
PAUSE = 5  # the pause before the last one
GAPS = 6  # quiet samples that close it: more than its `gap` where it comes and goes
COUNTED: dict[str, Any] = {
    "age": AGE,
    "quiet": QUIET,
    "silent_for": SILENT_FOR,
    "first": FIRST,
    "second": SECOND,
    "pause": PAUSE,
    "gaps": GAPS,
}

GOES_ON, OPENS, CLOSES = 0, 1, 2  # what `follow` returns


@uncounted
def decide(score: float, alarm_threshold: float, learn_threshold: float) -> tuple[bool, bool]:
    """Return whether a sample is anomalous (ŷ of the paper) and learnable (1 - ŷ of its loss)."""
    return score >= alarm_threshold, score < learn_threshold


@uncounted
def is_beyond(ratio: float) -> bool:
    """Whether a distance, in units of its limit, is anomalous."""
    return ratio >= 1


@inner
def follow(counts: Ints, beyond: bool, is_missing: bool, gap: int, day: float) -> int:
    """Open, continue or close an episode by one sample; a day has so many of them."""
    counts[FIRST] += counts[FIRST] > 0
    counts[SECOND] += counts[SECOND] > 0
    if counts[AGE] == 0:
        counts[SILENT_FOR] += 1
        if not beyond:
            return GOES_ON
        pause, since = counts[SILENT_FOR], counts[FIRST] - 1
        counts[AGE], counts[QUIET], counts[GAPS] = 1, 0, gap
        if 0 <= since <= _HOURS / 24 * day:
            counts[GAPS] = max(gap, int(_PAUSES * max(pause, counts[PAUSE])))
        counts[PAUSE], counts[FIRST], counts[SECOND] = pause, counts[SECOND], 1
        counts[SILENT_FOR] = 0
        return OPENS
    counts[AGE] += 1
    if beyond:
        counts[QUIET] = 0
    elif not is_missing or counts[QUIET] > 0:
        counts[QUIET] += 1
    if counts[QUIET] < counts[GAPS]:
        return GOES_ON
    counts[AGE], counts[SILENT_FOR] = 0, counts[QUIET]
    return CLOSES


@uncounted
def severity(channel: float, joint: float, channels: int, samples: int) -> float:
    """Return how severe an alarm is: a whole number from 0 to 100.

    `channel` and `joint` are its highest ratios of a channel and of the joint score, `channels` how
    many are beyond their limits, `samples` how long it has lasted.
    """
    far = max(channel, 1 + _JOINT * (joint - 1), 1.0)
    level = _AT_LIMIT + _DOUBLED * np.log2(far) + _MORE_CHANNELS * np.log2(max(channels, 1))
    return min(np.rint(level + _LONGER * np.log2(1 + samples / _SAMPLES)), 100.0)


@uncounted
def severity_class(level: float) -> int:
    """Return which of the SEVERITIES a severity has: 0 for the least."""
    return min(int(level * SEVERITIES / 100), SEVERITIES - 1)
