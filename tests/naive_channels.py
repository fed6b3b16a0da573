"""The slow twin of `newnormal.kernels.channels`: one stream, sample by sample, in plain Python."""

import math

import numpy as np

from newnormal.kernels.channels import ChannelParams
from newnormal.types import Floats

PAST, LONGEST, GAP, RECENT, LONG_AGO = 5, 128, 10, 32, 1 << 40


class NaiveChannel:
    """One channel: what is expected of it, its range, and its episodes."""

    def __init__(self, c: int, params: ChannelParams, first: float, base: float) -> None:
        self.c, self.params = c, params
        start = 0.0 if math.isnan(first) else min(max(first, params.lows[c]), params.highs[c])
        self.level, self.past = start - base, [0.0] * PAST
        self.hidden, self.age, self.quiet, self.gap = LONGEST, 0, 0, GAP
        self.raised, self.peak, self.silent, self.pause = 1.0, 0.0, 0, 0
        self.first = self.second = LONG_AGO
        self.homes: list[float] = []

    def forecast(self, z: float, base: float) -> bool:
        """Forecast the channel from its own past; return whether its value is not to be used."""
        lags, c = self.params.lags[self.c], self.c
        self.base, self.expected = base, self.level + float(np.dot(lags, self.past))
        self.width = self.params.limits[c] * self.raised * (0.75 if self.age else 1.0)
        if self.hidden:
            at = min(math.ceil(math.log2(self.hidden)), 7)
            self.width = max(self.width, self.params.widths[c, at])
        self.left = z - base - self.expected
        out = math.isnan(z) or self.age > 0 or abs(self.left) >= self.width
        slow = self.params.slow_limits[c] * self.raised
        if not out and not self.hidden and abs(z - base - self.level) >= slow:
            self.expected, self.width, self.hidden, out = self.level, slow, LONGEST, True
            self.past = [0.0] * PAST
        self.left = 0.0 if out else self.left
        self.out = out
        return out

    def judge(self, z: float) -> tuple[float, float, float]:
        """Judge the value; return what is expected, half the range, and the ratio."""
        y, own = z - self.base, self.expected
        expected = own + (self.left if self.out else 0.0)
        ratio = 0.0
        missing = math.isnan(z)
        if self.params.flags[self.c]:
            low, high = self.params.lows[self.c], self.params.highs[self.c]
            expected = min(max(self.level, low - self.base), high - self.base)
        elif not missing:
            if self.out and not self.age and abs(y - expected) < self.width:
                expected = own
            ratio = abs(y - expected) / self.width
        faulty = missing or ratio >= 1
        self.used = expected if faulty else y
        if faulty:
            self.hidden += 1
        elif self.hidden:
            self.hidden -= 1 + self.hidden // 4
        self._follow(ratio, missing)
        if self.params.flags[self.c]:
            self.level = self.used
        else:
            rest = self.used - self.level
            self.past = [rest, *self.past[:-1]]
            self.level += (1 - self.params.keep) * rest
        return expected, self.width, ratio

    def _follow(self, ratio: float, missing: bool) -> None:
        self.first, self.second, self.closed = self.first + 1, self.second + 1, False
        if self.age == 0:
            self.silent += 1
            if ratio >= 1:
                self.age, self.quiet, self.peak, self.gap = 1, 0, ratio, GAP
                if self.first <= self.params.day / 12:
                    self.gap = max(GAP, 2 * max(self.silent, self.pause))
                self.pause, self.first, self.second = self.silent, self.second, 0
            elif self.raised > 1:
                self.raised = max(1.0, self.raised - 0.5 / (2 * self.params.day))
            return
        self.age += 1
        if ratio >= 1:
            self.quiet, self.peak = 0, max(self.peak, ratio)
        elif not missing:
            self.quiet += 1
        if self.quiet >= self.gap:
            self.age, self.silent, self.closed = 0, self.quiet, self.peak < 1.5


def naive_channels(scaled: Floats, base: Floats, params: ChannelParams) -> dict[str, Floats]:
    """Judge scaled samples (T, C); return expected, widths, ratios and hidden of each, (T, C)."""
    scaled = np.clip(scaled, -2e6, 2e6)
    T, C = scaled.shape
    made = {name: np.zeros((T, C)) for name in ("expected", "width", "ratio", "hidden", "clean")}
    channels = [NaiveChannel(c, params, scaled[0, c], base[0, c]) for c in range(C)]
    for t in range(T):
        out = [ch.forecast(scaled[t, ch.c], base[t, ch.c]) for ch in channels]
        for _ in range(6):
            for c in np.flatnonzero(out):
                channels[c].left = sum(params.others[c, k] * channels[k].left for k in range(C))
        for channel in channels:
            c = channel.c
            expected, width, ratio = channel.judge(scaled[t, c])
            made["expected"][t, c], made["width"][t, c] = expected + base[t, c], width
            made["ratio"][t, c], made["clean"][t, c] = ratio, channel.used + base[t, c]
            made["hidden"][t, c] = math.isnan(scaled[t, c]) or ratio >= 1
            if channel.closed:
                for other in channels:
                    step, most = (0.5, 2.0) if other is channel else (0.1, 1.5)
                    other.raised = max(other.raised, min(other.raised + step, most))
    return made
