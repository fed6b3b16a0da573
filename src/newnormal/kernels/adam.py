"""Adam's update on packed parameters, in one pass."""

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
