"""What training does between matrix products, in one pass each: on batches (B, n), and Adam.

Half of a small batch's step would be spent on starting NumPy's operations.
"""

from __future__ import annotations

import numpy as np

from newnormal.kernels.compiled import compiled
from newnormal.types import Floats32


@compiled
def adam_step(
    weights: Floats32, gradient: Floats32, first: Floats32, second: Floats32, step: int, lr: float
) -> None:
    """Update `weights` and both moments in place; `step` counts from 1.

    Notes
    -----
    Kingma & Ba 2015, algorithm 1, with their defaults. AdamW (Loshchilov & Hutter 2019) with a
    weight decay of 0, which the paper uses, is the same.
    """
    beta1, beta2, epsilon = np.float32(0.9), np.float32(0.999), np.float32(1e-8)
    # In float32, 1 - 0.999 is 1.3e-5 off: enough to move a loss by a hundredth within an epoch.
    rest1, rest2 = np.float32(1 - 0.9), np.float32(1 - 0.999)
    rate = np.float32(lr / (1 - 0.9**step))
    correction = np.float32(1 / np.sqrt(1 - 0.999**step))
    for i in range(len(weights)):
        g = gradient[i]
        first[i] = beta1 * first[i] + rest1 * g
        second[i] = beta2 * second[i] + rest2 * g * g
        weights[i] -= rate * first[i] / (np.sqrt(second[i]) * correction + epsilon)


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
