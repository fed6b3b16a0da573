"""The two decisions about a score, made here and nowhere else.

| score     | anomalous | learnable |
|-----------|-----------|-----------|
| below τ   | no        | yes       |
| equal to τ| yes       | no        |
| above τ   | yes       | no        |
| NaN       | no        | no        |

A sample without a score (nothing was observed) is neither: there is nothing to alarm about and
nothing to learn from.
"""

from __future__ import annotations

from newnormal.kernels.compiled import compiled

__all__ = ["is_anomalous", "is_learnable"]


@compiled
def is_anomalous(score: float, threshold: float) -> bool:
    """Whether a sample with this score is called anomalous: ŷ of the paper."""
    return score >= threshold


@compiled
def is_learnable(score: float, threshold: float) -> bool:
    """Whether the model may learn from a sample with this score: 1 - ŷ of the paper's loss."""
    return score < threshold
