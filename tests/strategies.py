"""What random tests draw from: one grid of nasty series, and small settings of the method."""

import math
from collections.abc import Callable
from dataclasses import dataclass

import numpy as np
from hypothesis import strategies as st

from newnormal.types import Floats


def _none_missing(series: Floats) -> None:
    pass


def _some_missing(series: Floats) -> None:
    rng = np.random.default_rng(series.size)
    series[rng.random(series.shape) < 0.2] = np.nan


def _most_missing(series: Floats) -> None:
    rng = np.random.default_rng(series.size)
    series[rng.random(series.shape) < 0.8] = np.nan


def _first_missing(series: Floats) -> None:
    series[:1] = np.nan


def _last_missing(series: Floats) -> None:
    series[-1:] = np.nan


def _samples_missing(series: Floats) -> None:
    series[::3] = np.nan


def _channel_missing_for_long(series: Floats) -> None:
    series[len(series) // 4 : 3 * len(series) // 4, 0] = np.nan


def _channel_always_missing(series: Floats) -> None:
    series[:, -1] = np.nan


def _all_missing_for_long(series: Floats) -> None:
    series[len(series) // 4 : 3 * len(series) // 4] = np.nan


def _all_missing(series: Floats) -> None:
    series[:] = np.nan


def _constant(series: Floats) -> None:
    series[:, 0] = 7.0


def _zero(series: Floats) -> None:
    series[:] = 0.0


def _shifted(series: Floats) -> None:
    series[len(series) // 2 :] += 10


def _tiny(series: Floats) -> None:
    series *= 1e-300


def _denormal(series: Floats) -> None:
    series *= 5e-324


def _huge_once(series: Floats) -> None:
    series[len(series) // 2 :][:1, 0] = 1e300


def _huge_both_ways(series: Floats) -> None:
    series[::2] = 1.7e308
    series[1::2] = -1.7e308


#: Things to do to an innocent series, by name. All but the last two leave it ordinary in size.
NASTY: dict[str, Callable[[Floats], None]] = {
    "none missing": _none_missing,
    "some missing": _some_missing,
    "most missing": _most_missing,
    "first missing": _first_missing,
    "last missing": _last_missing,
    "every third sample missing": _samples_missing,
    "a channel missing for long": _channel_missing_for_long,
    "a channel always missing": _channel_always_missing,
    "all missing for long": _all_missing_for_long,
    "all missing": _all_missing,
    "a constant channel": _constant,
    "zero": _zero,
    "shifted": _shifted,
    "tiny": _tiny,
    "denormal": _denormal,
    "huge once": _huge_once,
    "huge both ways": _huge_both_ways,
}
HUGE = ("huge once", "huge both ways")


def nasty_series(name: str, length: int, channels: int, seed: int = 0) -> Floats:
    """Return a series of that kind: a slow wave and noise, then spoiled as the name says."""
    rng = np.random.default_rng(seed)
    wave = np.sin(np.arange(length)[:, None] / 5 + np.arange(channels))
    series: Floats = wave + 0.3 * rng.normal(size=(length, channels))
    NASTY[name](series)
    return series


@dataclass(frozen=True)
class Setting:
    """One setting of the method, and the stream it is tried on."""

    window: int
    channels: int
    stride: int
    latent: int
    decay: float
    lr: float
    threshold: float
    kind: str
    length: int
    seed: int

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
