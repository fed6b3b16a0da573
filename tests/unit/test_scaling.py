"""Standardisation, where rounding and range could spoil it."""

from __future__ import annotations

import numpy as np
import pytest

from newnormal.core.scaling import Scaler
from newnormal.kernels.step import SATURATION


@pytest.mark.parametrize("value", [0.1, 1e-300, 1.7e308, -3.3, 0.0])
def test_a_constant_channel_is_exactly_0_and_keeps_scale_1(value: float) -> None:
    history = np.full((1000, 1), value)  # the mean of 1,000 times 0.1 is not 0.1
    scaler = Scaler.fit(history)
    assert scaler.mean[0] == value
    assert scaler.scale[0] == 1
    assert (scaler.apply(history) == 0).all()


@pytest.mark.parametrize("size", [1e-310, 1e-200, 1.0, 1e200, 1e307])
def test_no_size_of_values_over_or_underflows(size: float) -> None:
    values = np.random.default_rng(0).normal(size=(200, 1)) * size
    scaled = Scaler.fit(values).apply(values)
    np.testing.assert_allclose(scaled.mean(), 0, atol=1e-9)
    np.testing.assert_allclose(scaled.std(), 1, rtol=1e-9 if size > 1e-300 else 1e-2)


def test_missing_values_stay_missing_and_are_left_out() -> None:
    scaler = Scaler.fit(np.array([[1.0], [np.nan], [3.0]]))
    assert (scaler.mean[0], scaler.scale[0]) == (2, 1)
    assert np.isnan(scaler.apply(np.array([[np.nan]]))).all()


def test_a_scaled_value_saturates() -> None:
    scaler = Scaler(np.array([-1e308]), np.array([1e-3]))
    found = scaler.apply(np.array([[1.7e308], [-1.7e308], [0.0]]))
    assert found.ravel().tolist() == [SATURATION, -SATURATION, SATURATION]
