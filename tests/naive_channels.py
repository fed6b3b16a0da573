"""The slow twin of `newnormal.kernels.channels`: one stream, sample by sample, in plain Python."""

import math

import numpy as np

from newnormal.kernels.channels import ChannelParams, ChannelState
from newnormal.types import Floats

PAST, LONGEST, GAP, RECENT, LONG_AGO = 5, 128, 10, 32, 1 << 40


class NaiveChannel:
    """One channel: what is expected of it, its range, and its episodes."""

    def __init__(self, c: int, params: ChannelParams, first: float, base: float) -> None:
        self.c, self.params = c, params
        start = 0.0 if math.isnan(first) else min(max(first, params.lows[c]), params.highs[c])
        self.level, self.past = start - base, [0.0] * PAST
        self.hidden, self.age, self.quiet, self.gap = LONGEST, 0, 0, GAP
        self.raised, self.peak, self.silent, self.pause, self.seen = 1.0, 0.0, 0, 0, 0
        self.first = self.second = LONG_AGO
        self.homes, self.shift = [math.nan] * 4, 0.0
        self.low, self.high = params.lows[c], params.highs[c]

    def adopt(self, state: ChannelState) -> None:
        """Go on from a state: reviews and people move channels."""
        c, counts = self.c, state.counts[self.c].tolist()
        self.hidden, self.age, self.quiet, self.silent = counts[:4]
        self.first, self.second, self.pause, self.gap = counts[4:8]
        self.level, self.raised, self.peak, self.shift = (
            float(each[c]) for each in (state.levels, state.raised, state.peaks, state.shifts)
        )
        self.past, self.homes = state.past[:, c].tolist(), state.normal.homes[:, c].tolist()
        self.low, self.high = float(state.normal.lows[c]), float(state.normal.highs[c])

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
        ratio = self.rank = way = 0.0
        missing = math.isnan(z)
        if self.params.flags[self.c]:
            expected = min(max(self.level, self.low - self.base), self.high - self.base)
        elif not missing:
            if self.out and not self.age and abs(y - expected) < self.width:
                expected = own
            ratio = self.rank = abs(y - expected) / self.width
            if self.shift:
                self.rank = abs(y - expected + self.shift) / self.params.limits[self.c]
            if ratio >= 1:
                moved, way = self._go_home(y, expected)
                expected += moved
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
            rest = self.used - way - self.level
            self.past = [rest, *self.past[:-1]]
            self.seen += 1
            self.level += max(1 - self.params.keep, 1 / self.seen) * rest
        return expected, self.width, ratio

    def _go_home(self, y: float, expected: float) -> tuple[float, float]:
        """Return by how much to move: to an accepted level, or on the way to one."""
        for k, home in enumerate(self.homes):
            moved = home - self.level
            if abs(y - expected - moved) < self.width:  # not so for NaN
                self.homes[k], self.level, self.age = self.level, home, 0
                if k == 0:
                    self.shift = 0.0 if self.shift else moved
                elif self.shift:
                    self.shift += moved
                return moved, 0.0
        away = y - expected
        for home in self.homes[1:]:
            if away * (home - self.level) > 0 and abs(away) < abs(home - self.level):
                return away, away
        return 0.0, 0.0

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
                self.raised = max(
                    1.0, self.raised - max(0.5, self.raised - 1) / (2 * self.params.day)
                )
            return
        self.age += 1
        if ratio >= 1:
            self.quiet, self.peak = 0, max(self.peak, ratio)
        elif not missing:
            self.quiet += 1
        if self.quiet >= self.gap:
            self.age, self.silent, self.closed = 0, self.quiet, self.peak < 1.5


class NaiveChannels:
    """All channels of a stream, a sample at a time; scaled values and the rhythm's levels."""

    def __init__(self, params: ChannelParams, first: Floats, base: Floats) -> None:
        self.params = params
        self.each = [NaiveChannel(c, params, first[c], base[c]) for c in range(len(first))]

    def judge(self, scaled: Floats, base: Floats) -> dict[str, Floats]:
        """Return of each channel what is expected, half the range, ratio, hidden, clean value."""
        scaled, C = np.clip(scaled, -2e6, 2e6), len(scaled)
        made = {each: np.zeros(C) for each in ("expected", "width", "ratio", "hidden", "clean")}
        out = [channel.forecast(scaled[channel.c], base[channel.c]) for channel in self.each]
        for _ in range(6):
            for c in np.flatnonzero(out).tolist():
                terms = (float(self.params.others[c, k]) * self.each[k].left for k in range(C))
                self.each[c].left = sum(terms)
        for c, channel in enumerate(self.each):
            expected, width, ratio = channel.judge(scaled[c])
            made["expected"][c], made["width"][c] = expected + base[c], width
            made["ratio"][c], made["clean"][c] = ratio, channel.used + base[c]
            made["hidden"][c] = math.isnan(scaled[c]) or ratio >= 1
            if channel.closed:
                for other in self.each:
                    step, most = (0.5, 2.0) if other is channel else (0.1, 1.5)
                    other.raised = max(other.raised, min(other.raised + step, most))
        return made

    @property
    def rank(self) -> float:
        """The mean of the three highest ratios from what was accepted."""
        highest = sorted((channel.rank for channel in self.each), reverse=True)[:3]
        return sum(highest) / len(highest)


def naive_channels(scaled: Floats, base: Floats, params: ChannelParams) -> dict[str, Floats]:
    """Judge scaled samples (T, C); return expected, widths, ratios and hidden of each, (T, C)."""
    twin = NaiveChannels(params, np.clip(scaled[0], -2e6, 2e6), base[0])
    rows = [twin.judge(*each) for each in zip(scaled, base, strict=True)]
    return {name: np.array([row[name] for row in rows]) for name in rows[0]}
