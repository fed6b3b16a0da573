"""Per-channel standardisation, fitted on history."""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np

from newnormal.kernels.step import SATURATION
from newnormal.types import Floats


@dataclass(frozen=True, eq=False)
class Scaler:
    """Mean and standard deviation of each channel's observed history.

    >>> scaler = Scaler.fit(np.array([[1.0, 7.0], [3.0, 7.0]]))
    >>> scaler.apply(np.array([[5.0, 8.0]]))
    array([[3., 1.]])
    """

    mean: Floats  # (C,)
    scale: Floats  # (C,)

    @classmethod
    def fit(cls, history: Floats) -> Scaler:
        """Fit on history (T, C); NaN is left out, and a constant channel keeps scale 1."""
        # Halved or doubled into ±1 first, which is exact, so that no sum or square over- or
        # underflows; for ordinary values this changes no bit.
        exponent = np.frexp(np.nanmax(np.abs(history), axis=0))[1]
        small = np.ldexp(history, -exponent)
        mean = np.ldexp(np.nanmean(small, axis=0), exponent)
        scale = np.ldexp(np.nanstd(small, axis=0), exponent)
        # A constant channel's deviation comes out as rounding noise of its mean, not always as 0.
        constant = np.nanmax(history, axis=0) == np.nanmin(history, axis=0)
        mean[constant] = np.nanmin(history, axis=0)[constant]
        scale[constant | (scale == 0)] = 1.0
        return cls(mean, scale)

    @classmethod
    def fit_range(cls, history: Floats) -> Scaler:
        """Fit so that history (T, C) lies between 0 and 1: `mean` is then its minimum.

        For models whose output is bounded.
        """
        low, high = np.nanmin(history, axis=0), np.nanmax(history, axis=0)
        with np.errstate(over="ignore"):
            extent = np.minimum(high - low, np.finfo(np.float64).max)
        extent[extent == 0] = 1.0
        return cls(low, extent)

    def apply(self, samples: Floats) -> Floats:
        """Scale samples (..., C), within ±SATURATION; NaN stays NaN."""
        with np.errstate(over="ignore"):  # an infinite difference is clipped like a large one
            return saturate((samples - self.mean) / self.scale)


def saturate(scaled: Floats) -> Floats:
    """Return scaled values within ±SATURATION; NaN stays NaN."""
    return np.clip(scaled, -SATURATION, SATURATION)


def deviations(series: Floats) -> Floats:
    """Return each channel's standard deviation in a series (T, C), 0 where it is never observed."""
    spreads = np.zeros(series.shape[1])
    seen = ~np.isnan(series).all(axis=0)
    spreads[seen] = np.nanstd(series[:, seen], axis=0)
    return spreads
