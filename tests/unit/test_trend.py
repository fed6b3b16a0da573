"""The trend as users see it starts at history's mean, whatever the model's scaling."""

from __future__ import annotations

import numpy as np
import pytest

from newnormal import M2N2
from newnormal.errors import MissingExtraError


@pytest.mark.parametrize("model", ["mlp", "usad"])
def test_the_trend_starts_at_the_mean_of_history(model: str) -> None:
    history = np.random.default_rng(0).normal((10, -3), (2, 0.1), (80, 2))
    try:
        detector = M2N2(window=4, model=model, epochs=1).fit(history)
    except MissingExtraError as error:
        pytest.skip(str(error))
    np.testing.assert_allclose(detector.trend_, history.mean(axis=0), rtol=1e-6)
    level = np.full((400, 2), (12.0, -2.9))
    detector.set_params(decay=0.5).fit(history).run(level)
    np.testing.assert_allclose(detector.trend_, level[0], rtol=1e-6)
