"""Adam's update, against what it must be in closed form."""

import numpy as np

from newnormal.kernels.adam import adam_step


def test_under_a_constant_gradient_adam_moves_by_the_rate_each_step() -> None:
    gradient = np.array([3.0, -0.5, 0.0], dtype=np.float32)
    weights, first, second = (np.zeros(3, dtype=np.float32) for _ in range(3))
    for step in range(1, 101):
        adam_step(weights, gradient, first, second, step, 1e-3)
    # 1 - 0.999 taken in float32 is off by 1.3e-5, and moves the weights 6e-6 too far.
    np.testing.assert_allclose(weights, [-0.1, 0.1, 0.0], rtol=2e-6)
