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

An open alarm closes after enough samples that are not anomalous, and ends with the last that is.
"""

from __future__ import annotations

import numpy as np

from newnormal.kernels.compiled import uncounted

# Severity, from 0 to 100: of a fault just at its limit, and what is added each time that its
# distance, the number of its channels, or its duration beyond _SAMPLES doubles.
_AT_LIMIT, _DOUBLED, _MORE_CHANNELS, _LONGER, _SAMPLES = 10.0, 22.0, 6.0, 6.0, 30.0
_JOINT = 4.0  # times as far: the joint score's ratio is one of logarithms
SEVERITIES = 4  # low, medium, high, critical: from 0, 25, 50 and 75


@uncounted
def decide(score: float, alarm_threshold: float, learn_threshold: float) -> tuple[bool, bool]:
    """Return whether a sample is anomalous (ŷ of the paper) and learnable (1 - ŷ of its loss)."""
    return score >= alarm_threshold, score < learn_threshold


@uncounted
def is_beyond(ratio: float) -> bool:
    """Whether a distance, in units of its limit, is anomalous."""
    return ratio >= 1


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
