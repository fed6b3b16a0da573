"""What random tests draw from: one grid of nasty series, and small settings of the method."""

import math
from collections.abc import Callable
from dataclasses import dataclass

import numpy as np
from hypothesis import strategies as st

from newnormal.types import Floats


def _drop(series: Floats, share: float) -> None:
    series[np.random.default_rng(series.size).random(series.shape) < share] = np.nan


def _middle(series: Floats) -> Floats:
    return series[len(series) // 4 : 3 * len(series) // 4]


def _half(series: Floats) -> Floats:
    return series[len(series) // 2 :]


def _huge_both_ways(series: Floats) -> None:
    series[::2] = 1.7e308
    series[1::2] = -1.7e308


#: Things to do to an innocent series, by name. All but the last two leave it ordinary in size.
NASTY: dict[str, Callable[[Floats], object]] = {
    "none missing": lambda series: None,
    "some missing": lambda series: _drop(series, 0.2),
    "most missing": lambda series: _drop(series, 0.8),
    "first missing": lambda series: series[:1].fill(np.nan),
    "last missing": lambda series: series[-1:].fill(np.nan),
    "every third sample missing": lambda series: series[::3].fill(np.nan),
    "a channel missing for long": lambda series: _middle(series)[:, 0].fill(np.nan),
    "a channel always missing": lambda series: series[:, -1].fill(np.nan),
    "all missing for long": lambda series: _middle(series).fill(np.nan),
    "all missing": lambda series: series.fill(np.nan),
    "a constant channel": lambda series: series[:, 0].fill(7.0),
    "zero": lambda series: series.fill(0.0),
    "shifted": lambda series: np.add(_half(series), 10, out=_half(series)),
    "tiny": lambda series: np.multiply(series, 1e-300, out=series),
    "denormal": lambda series: np.multiply(series, 5e-324, out=series),
    "huge once": lambda series: _half(series)[:1, 0].fill(1e300),
    "huge both ways": _huge_both_ways,
}
HUGE = ("huge once", "huge both ways")
ORDINARY = tuple(kind for kind in NASTY if kind not in HUGE)


def nasty_series(name: str, length: int, channels: int, seed: int = 0) -> Floats:
    """Return a series of that kind: a slow wave and noise, then spoiled as the name says."""
    rng = np.random.default_rng(seed)
    wave = np.sin(np.arange(length)[:, None] / 5 + np.arange(channels))
    series: Floats = wave + 0.3 * rng.normal(size=(length, channels))
    NASTY[name](series)
    return series


@dataclass(frozen=True, kw_only=True)
class Setting:
    """One setting of the method, and the stream it is tried on."""

    window: int = 4
    channels: int = 3
    stride: int = 4
    latent: int = 2
    decay: float = 0.9
    lr: float = 0.1
    threshold: float = math.inf
    kind: str = "none missing"
    length: int = 60
    seed: int = 1

    def series(self) -> Floats:
        return nasty_series(self.kind, self.length, self.channels, self.seed)


@st.composite
def settings_of_the_method(draw: st.DrawFn, kinds: tuple[str, ...] = tuple(NASTY)) -> Setting:
    """Windows 1..6, channels 1..4, every stride, each switch on and off, every nasty series."""
    window = draw(st.integers(1, 6))
    divisors = [stride for stride in range(1, window + 1) if window % stride == 0]
    return Setting(
        window=window,
        channels=draw(st.integers(1, 4)),
        stride=draw(st.sampled_from(divisors)),
        latent=draw(st.integers(1, 3)),
        decay=draw(st.sampled_from([1.0, 0.0, 0.5, 0.9, 0.999])),
        lr=draw(st.sampled_from([0.0, 1e-3, 0.1])),
        threshold=draw(st.sampled_from([-math.inf, 0.3, 1.0, math.inf])),
        kind=draw(st.sampled_from(kinds)),
        length=draw(st.integers(0, 60)),
        seed=draw(st.integers(0, 2**16)),
    )
