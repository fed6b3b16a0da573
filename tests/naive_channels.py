"""The slow twin of `newnormal.kernels.channels`: one stream, sample by sample, in plain Python."""

import math

import numpy as np

from newnormal.kernels import channels
from newnormal.types import Floats
from tests.naive_episode import NaiveEpisode

PAST, LONGEST, GAP, RECENT, NO_TIME = 5, 128, 10, 32, -(1 << 63)


class NaiveChannel:
    """One channel: what is expected of it, its range, and its episodes."""

    def __init__(self, c: int, params: channels.ChannelParams, first: float, base: float) -> None:
        self.c, self.params = c, params
        start = 0.0 if math.isnan(first) else min(max(first, params.lows[c]), params.highs[c])
        level = 0.0 if math.isnan(first - base) else first - base
        self.level = min(max(level, params.low_levels[c]), params.high_levels[c])
        self.past = [0.0] * PAST
        self.episode = NaiveEpisode(GAP, params.day)
        self.hidden, self.raised, self.peak, self.seen = 4 * LONGEST, 1.0, 0.0, 0
        self.steady, self.slow = 0, 0
        self.lasting, self.lasts = (
            0.0,
            False,
        )  # the smoothed distance, and whether it is judged by it
        self.homes, self.shift, self.way, self.entered = [math.nan] * 4, 0.0, 0, 0.0
        self.recent = [self.level] * RECENT  # the newest first
        self.low, self.high, self.last = params.lows[c], params.highs[c], start
        self.steps = float(params.steps[c])

    def adopt(self, state: channels.ChannelState) -> None:
        """Go on from a state: reviews and people move channels."""
        c, counts = self.c, state.counts[self.c].tolist()
        self.episode.adopt(counts)
        self.hidden, self.way = counts[channels.HIDDEN], counts[channels.WAY]
        self.steady, self.slow = counts[channels.STEADY], counts[channels.SLOW]
        self.lasting, self.lasts = float(state.lasting[c]), bool(counts[channels.LASTING])
        self.entered = float(state.ways[c])
        self.level, self.raised, self.peak, self.shift = (
            float(each[c]) for each in (state.levels, state.raised, state.peaks, state.shifts)
        )
        self.past, self.homes = state.past[:, c].tolist(), state.normal.homes[:, c].tolist()
        self.low, self.high = float(state.normal.lows[c]), float(state.normal.highs[c])

    def skip(self, samples: int) -> None:
        """Go on over a gap of so many samples."""
        self.hidden, self.steady = self.hidden + samples, 0
        self.hidden = 4 * LONGEST if self.hidden > LONGEST else self.hidden
        for _ in range(min(samples, LONGEST)):
            self.past = self.gone_on(self.past)

    def gone_on(self, past: list[float]) -> list[float]:
        """Return the newest values after one more, as forecast."""
        return [float(np.dot(self.params.lags[self.c], past)), *past[:-1]]

    def half_range(self, hidden: int) -> float:
        """Return half the range of a channel that has been hidden for so many samples."""
        width: float = (
            self.params.limits[self.c] * self.raised * (0.75 if self.episode.age else 1.0)
        )
        if hidden:
            at = min(math.ceil(math.log2(hidden)), 7)
            width = max(width, self.params.widths[self.c, at])
        return max(width, self.params.slow_limits[self.c]) if hidden > LONGEST else width

    def forecast(self, z: float, base: float) -> bool:
        """Forecast the channel from its own past; return whether its value is not to be used."""
        y, self.base = z - base, base
        self.expected = self.level + float(np.dot(self.params.lags[self.c], self.past))
        away, usual = y - self.level, float(self.params.widths[self.c, 7])
        if not math.isnan(z):
            self.lasting += (1 - 0.5 ** (1 / 4)) * (min(max(away, -usual), usual) - self.lasting)
        self.slow, self.lasts = (
            self.slow if self.episode.age else 0,
            self.lasts and self.episode.age > 0,
        )
        self.width, self.left = self.half_range(self.hidden), y - self.expected
        self.width = usual if self.lasts else self.width
        self.out = math.isnan(z) or self.episode.age > 0
        slow = self.params.slow_limits[self.c] * self.raised
        stays = self.lasting / (self.params.lasting_limits[self.c] * self.raised)
        if not self.out and abs(self.left) >= self.width:
            self.out = not self.rewind(y, -self.left, is_back=True)
            if self.out:
                self.rewind(y, self.left, is_back=False)
            self.left = y - self.expected
        elif not self.out and not self.hidden:
            self.slow = int(abs(away) >= slow)
            stays = stays if away > 0 else -stays
            self.out = bool(self.slow) or (stays >= 1 and abs(away) >= usual)
            if self.out and not self.rewind(y, away, is_back=False):
                self.expected, self.width = self.level, slow if self.slow else usual
                self.hidden, self.lasts = LONGEST, not self.slow
                self.past = [0.0] * PAST
        self.left = 0.0 if self.out else self.left
        return self.out

    def rewind(self, y: float, side: float, *, is_back: bool) -> bool:
        """Go back to before a fault that was not beyond a limit at once; return whether it is."""
        level, levels, sums, lags = self.level, [self.level], [0.0], self.params.lags[self.c]
        seen = self.seen + 1
        for i in range(min(RECENT - PAST - 1, self.steady - PAST)):
            gain = max(1 - self.params.keep, 1 / (seen - i - 1))
            level = (level - gain * self.recent[i]) / (1 - gain)
            before = [each - level for each in self.recent[i + 1 : i + 1 + PAST]]
            left = math.copysign(1, side) * (self.recent[i] - level - float(np.dot(lags, before)))
            levels.append(level)
            sums.append(sums[-1] + left / self.params.limits[self.c] - 0.1)
        first = int(np.argmax(sums))
        if sums[first] < 1:
            return False
        level = levels[first]
        past = [each - level for each in self.recent[first : first + PAST]]
        for _ in range(first):
            past = self.gone_on(past)
        expected, hidden = level + float(np.dot(lags, past)), min(self.hidden + first, LONGEST)
        width = self.half_range(hidden)
        if (abs(y - expected) >= width) == is_back:
            return False
        self.level, self.past, self.hidden, self.steady = level, past, hidden, 0
        self.expected, self.width = expected, width
        return True

    def judge(self, z: float) -> tuple[float, float, float]:
        """Judge the value; return what is expected, half the range, and the ratio."""
        y, own = z - self.base, self.expected
        expected = own + (self.left if self.out else 0.0)
        ratio = self.rank = way = 0.0
        missing = math.isnan(z)
        if self.params.flags[self.c]:
            expected = min(max(self.level, self.low - self.base), self.high - self.base)
        elif not missing:
            if self.out and not self.episode.age and abs(y - expected) < self.width:
                expected = own
            ratio = abs(y - expected) / self.width
            self.rank = abs(y - expected + self.shift) / (4 * self.params.tails[0, self.c, 4])
            if ratio >= 1:
                moved, way = self._go_home(y, expected)
                expected += moved
                ratio = abs(y - expected) / self.width
                if moved and not way and abs(y - expected) > self.params.limits[self.c]:
                    way = y - expected  # what is left of it
        faulty = missing or ratio >= 1
        self.used = expected if faulty else y
        if faulty:
            self.hidden += self.hidden < LONGEST
        elif self.hidden:
            self.hidden -= 1 + self.hidden // 4
        if not missing:
            self.steps += (1 - 0.5 ** (1 / 12)) * (abs(z - self.last) - self.steps)
            self.last = z
        self.recent = [float(np.float32(self.used if missing else y)), *self.recent[:-1]]
        strength = ratio
        if self.slow and not missing:
            strength = abs(y - self.level) / (self.params.slow_limits[self.c] * self.raised)
        elif self.lasts and not missing:
            strength = abs(self.lasting) / (self.params.lasting_limits[self.c] * self.raised)
        self._follow(ratio, strength, missing, way != 0)
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
                self.homes[k], self.level, self.way, self.steady = self.level, home, 0, 0
                self.episode.close()
                if k == 0:
                    self.shift = 0.0 if self.shift else moved
                elif self.shift:
                    self.shift += moved
                return moved, 0.0
        away = y - expected
        for home in self.homes[1:]:
            if away * (home - self.level) > 0 and abs(away) < abs(home - self.level):
                if not self.way and abs(y - self.recent[0]) < self.params.limits[self.c]:
                    return away, away
                self.entered = self.entered if self.way else abs(away)
                self.way, self.episode.quiet = self.way + 1, 0
                made = (abs(away) - self.entered) / (abs(home - self.level) - self.entered)
                moved = away if self.way <= 10 or made >= self.way / 48 else 0.0
                return moved, moved
        low, high = self.params.lows[self.c] - self.base, self.params.highs[self.c] - self.base
        if low <= y <= high and not low <= self.level <= high:
            if self.steps < 1.5 * self.params.steps[self.c]:
                self.homes[0], self.level = self.level, self.level + away
                self.steady, self.shift = 0, 0.0
                self.episode.close()
                return away, 0.0
            return away, away
        return 0.0, 0.0

    def _follow(self, ratio: float, strength: float, missing: bool, on_way: bool) -> None:
        strange = not self.params.lows[self.c] <= self.last <= self.params.highs[self.c]
        strange = strange and self.steps >= 1.5 * self.params.steps[self.c]
        episode, self.closed = self.episode, False
        if not episode.is_open:
            self.steady = 0 if on_way else self.steady + 1
            if self.way and not on_way:
                episode.quiet += 1
                self.way += 3 if episode.quiet == 1 else 0
                self.way = 0 if episode.quiet >= GAP else self.way
        event = episode.follow(ratio >= 1, missing)
        if event == "opens":
            self.peak, self.steady = strength, 0
        elif episode.is_open:
            self.peak = max(self.peak, strength if ratio >= 1 else 0.0)
        elif event == "closes":
            self.closed, self.steady = self.peak < 1.5, episode.quiet
            self.raises = (0.5 * self.raised, 100.0) if strange else (0.5, 2.0)
        elif self.raised > 1 and not strange:
            back = max(0.5, self.raised - 1) / (2 * self.params.day)
            self.raised = max(1.0, self.raised - back)


class NaiveChannels:
    """All channels of a stream, a sample at a time; scaled values and the rhythm's levels."""

    def __init__(self, params: channels.ChannelParams, first: Floats, base: Floats) -> None:
        self.params, self.time = params, NO_TIME
        self.logs: list[float] = []  # of the scores so far
        self.each = [NaiveChannel(c, params, first[c], base[c]) for c in range(len(first))]

    def judge(self, scaled: Floats, base: Floats, time: int = NO_TIME) -> dict[str, Floats]:
        """Return of each channel what is expected, half the range, ratio, hidden, clean value."""
        if NO_TIME not in (self.time, time) and self.params.period > 0:
            skipped = int(min((time - self.time) / self.params.period - 0.5, 4 * LONGEST))
            for channel in self.each if skipped >= 1 else ():
                channel.skip(skipped)
        self.time = self.time if time == NO_TIME else time
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
                    step, most = channel.raises if other is channel else (0.1, 1.5)
                    other.raised = max(other.raised, min(other.raised + step, most))
        return made

    @property
    def rank(self) -> float:
        """The mean of the three largest distances from what was accepted; 0 with fewer channels."""
        highest = sorted((channel.rank for channel in self.each), reverse=True)[:3]
        return sum(highest) / 3 if len(highest) == 3 else 0.0

    def score(self, observed: float) -> float:
        """Return what ranks a sample with this joint score; its logarithm falls slowly."""
        score = min(observed * (1 + self.rank), 1.7976931348623157e308)
        if math.isnan(score):
            return score
        self.logs.append(math.log(max(score, 1e-300)))
        level = self.logs[0]
        for each in self.logs:
            level += (1 - 0.5**0.5) * (each - level)
        return max(score, math.exp(level))
