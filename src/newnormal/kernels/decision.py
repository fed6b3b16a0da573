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

An open alarm closes after enough samples that are quiet, and ends with the last one that is not.
"""

from __future__ import annotations

from newnormal.kernels.compiled import uncounted

# Of the threshold's height: lower lets alarms grow into the body of the scores, 1 is no hysteresis.
LOW_RATIO = 0.75


@uncounted
def decide(score: float, alarm_threshold: float, learn_threshold: float) -> tuple[bool, bool]:
    """Return whether a sample is anomalous (ŷ of the paper) and learnable (1 - ŷ of its loss)."""
    return score >= alarm_threshold, score < learn_threshold


@uncounted
def is_quiet(level: float, height: float) -> bool:
    """Whether a score is quiet, by its own height above what is typical and the threshold's."""
    return level < (LOW_RATIO * height if height > 0 else height)
