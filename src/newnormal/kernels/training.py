"""What training does between matrix products, on batches (B, n), in one pass each.

Half of a small batch's step would be spent on starting NumPy's operations.
"""

from __future__ import annotations

import numpy as np

from newnormal.kernels.compiled import compiled
from newnormal.types import Floats32


@compiled
def activate(units: Floats32, bias: Floats32, rectify: bool) -> None:
    """Add the bias in place and, with `rectify`, set what is below 0 to 0."""
    for b in range(len(units)):
        for i in range(len(bias)):
            unit = units[b, i] + bias[i]
            units[b, i] = max(unit, np.float32(0)) if rectify else unit


@compiled
def pull_back(deltas: Floats32, units: Floats32, rectify: bool, bias_gradient: Floats32) -> None:
    """Take gradients back through what `activate` did, in place, and sum them up for the bias."""
    bias_gradient[:] = 0
    for b in range(len(deltas)):
        for i in range(len(bias_gradient)):
            delta = deltas[b, i] if units[b, i] > 0 or not rectify else np.float32(0)
            deltas[b, i] = delta
            bias_gradient[i] += delta
