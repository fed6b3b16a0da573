"""Slow obvious twins of the loop, its alarms and what it accepts, in plain Python.

Written from the docstrings: `newnormal.core.loop` has the order, `newnormal.kernels.alarm` the
alarm threshold, `newnormal.kernels.drift` the distance from normal, `newnormal.alarms.log` the
events and `newnormal.acceptance.policy` the reviews. Scores and shares come from outside:
`tests.naive` has the twins of what computes them. Samples are lists, NaN where missing.
"""

from __future__ import annotations

import math
from dataclasses import dataclass, field
from statistics import median
from typing import Any

from newnormal.acceptance import NormalRange
from newnormal.alarms import AlarmThreshold
from newnormal.types import AlarmEvent

INSIDE, OUTSIDE, BEYOND = 0, 1, 2

# ------------------------------------------------------------------ the alarm threshold


@dataclass
class NaiveThreshold:
    """Opens and closes alarms, and moves; remembers every sample of the open alarm."""

    location: float
    spread: float
    height: float
    floor: float
    severe: float
    rate: float
    step: float
    pace: float
    gap: int
    accept_after: float
    tail_median: float = math.nan  # the typical score where the threshold does not move

    def __post_init__(self) -> None:
        self.start_height = self.height
        self.alarms = 0
        self.seen = 0
        # Of the open alarm: each sample's height, the threshold's at the time, and its drift flag.
        self.samples: list[tuple[float, float, int]] = []

    @classmethod
    def of(cls, found: AlarmThreshold) -> NaiveThreshold:
        """Return the twin of a threshold at its start."""
        params = found.params._asdict()
        del params["span"]
        height = (found.threshold - params["location"]) / params["spread"]
        twin = cls(**{**params, "gap": int(params["gap"]), "height": height})
        twin.tail_median = found.typical
        return twin

    @property
    def threshold(self) -> float:
        return self.location + self.spread * self.height

    @property
    def number(self) -> int:
        return self.alarms if self.samples else 0

    @property
    def age(self) -> int:
        return len(self.samples) - 1 if self.samples else 0

    def judge(self, score: float, flag: int = INSIDE) -> tuple[float, float, bool, int]:
        """Return the threshold it was compared with, the ratio, the verdict, the open alarm."""
        threshold = self.threshold
        if math.isnan(score):
            return threshold, math.nan, False, self.number
        self.seen += 1
        anomalous = score >= threshold
        x = (score - self.location) / self.spread
        ratio = x / self.height if self.height > 0 else math.inf if anomalous else 0.0
        if self.samples:
            self.samples.append((x, self.height, flag))
            if self.is_over():
                self.height += self.step * self.charge()
                self.samples = []
        elif anomalous or flag == BEYOND:
            self.alarms += 1
            self.samples = [(x, self.height, flag)]

        if not self.samples:
            self.height = max(self.floor, self.height - self.step * self.rate)
        elif self.age > 0 and self.age % self.accept_after == 0 and flag == INSIDE:
            self.height += self.step
        if not self.samples or (self.age >= self.accept_after and flag == INSIDE):
            if score > self.location:
                self.location += self.pace * self.spread
            elif score < self.location:
                self.location -= self.pace * self.spread
        return threshold, ratio, anomalous, self.number

    def close(self) -> None:
        """Close the open alarm without a charge: it was accepted."""
        self.samples = []

    @property
    def typical(self) -> float:
        return self.location if self.rate else self.tail_median

    def lift(self, typical: float) -> None:
        """Rise with the typical score; never fall."""
        if self.rate:
            self.location = max(self.location, typical)
        elif typical > self.tail_median > 0:
            factor = typical / self.tail_median
            self.tail_median *= factor
            self.height *= factor
            self.start_height *= factor

    def levels(self) -> tuple[float, ...]:
        """Return what a baseline keeps of the threshold."""
        return self.location, self.height, self.start_height, self.tail_median

    def restore(self, levels: tuple[float, ...]) -> None:
        self.location, self.height, self.start_height, self.tail_median = levels

    def is_severe(self) -> bool:
        peak = max(x for x, *_ in self.samples)
        far = any(flag == BEYOND for *_, flag in self.samples)
        return far or peak >= max(self.height, self.start_height) + self.severe

    def is_over(self) -> bool:
        quiet = 5 * self.gap if self.is_severe() else self.gap
        after = self.samples[1:]
        if len(after) < quiet:
            return False
        low, calm = after[-self.gap :], after[-quiet:]
        if any(flag != INSIDE for *_, flag in calm):
            return False
        return all(x < 0.75 * h for x, h, _ in low) and all(x < h for x, h, _ in calm)

    def charge(self) -> float:
        return (0.1 if self.is_severe() else 1.0) * (1 - min(self.rate * self.age, 0.25))


# ------------------------------------------------------------------ the log of alarms


class NaiveLog:
    """Turns samples in alarm into events."""

    def __init__(self, channels: tuple[str, ...]) -> None:
        self.channels = channels
        self.alarm: dict[str, Any] = {}  # the open one
        self.events: list[dict[str, Any]] = []
        self.reported = 0.0  # the ratio of the newest event

    def judged(
        self,
        sample: int,
        score: float,
        ratio: float,
        anomalous: bool,
        number: int,
        shares: list[float],
        flag: int = INSIDE,
        where: int = -1,
    ) -> None:
        """Follow one sample that has its verdict; `number` is that of the open alarm, or 0."""
        if self.alarm and self.alarm["number"] != number:
            self.close("score back to normal", sample)
        if not number:
            return
        kind = "updated"
        if not self.alarm:
            kind = "opened"
            self.alarm = {"number": number, "start": sample, "end": sample, "score": -math.inf}
            cause = "score" if anomalous else "distance from the accepted normal"
            self.alarm |= {"cause": cause, "state": "in alarm", "reason": None}
        if anomalous or flag != INSIDE:
            self.alarm["end"] = sample
        if score > self.alarm["score"]:
            named = self.largest(shares) if anomalous else [where] if where >= 0 else []
            names = [self.channels[channel] for channel in named]
            self.alarm |= {"peak": sample, "score": score, "channels": names}
            if kind == "opened" or ratio >= max(1.0, 2 * self.reported):
                self.reported = ratio
                self.report(kind, sample)

    @staticmethod
    def largest(shares: list[float]) -> list[int]:
        """Return the fewest channels, five at most, that make up half of the score."""
        named: list[int] = []
        if any(math.isnan(share) for share in shares):
            return named
        for channel in sorted(range(len(shares)), key=lambda c: -shares[c])[:5]:
            if shares[channel] <= 0 or sum(shares[c] for c in named) >= 0.5:
                break
            named.append(channel)
        return named

    def mark(self, state: str, sample: int) -> None:
        if self.alarm["state"] != state:
            self.alarm["state"] = state
            self.report("updated", sample)

    def close(self, reason: str, sample: int) -> None:
        self.alarm["reason"] = reason
        self.report("closed", sample)
        self.alarm = {}

    def report(self, kind: str, sample: int) -> None:
        self.events.append({"event": kind, "sample": sample} | self.alarm)

    @staticmethod
    def fields(event: AlarmEvent) -> dict[str, Any]:
        """Return an event of the real log as this one writes it."""
        alarm = event.alarm
        return {
            "event": event.kind,
            "sample": event.sample,
            "number": alarm.number,
            "start": alarm.start,
            "end": alarm.end,
            "score": alarm.peak.score,
            "cause": alarm.cause,
            "state": alarm.state,
            "reason": alarm.reason,
            "peak": alarm.peak.sample,
            "channels": list(alarm.channels),
        }


# ------------------------------------------------------------------ the distance from normal


class NaiveRange:
    """Where the stream is, beside the range accepted as normal: one channel at a time."""

    def __init__(self, found: NormalRange) -> None:
        self.params = found.params
        self.lows, self.highs = found.state.lows.tolist(), found.state.highs.tolist()
        C = self.C = len(self.params.mean)
        self.levels, self.steps, self.still = [0.0] * C, [0.0] * C, [0] * C
        self.last: list[float | None] = [None] * C
        self.missing = [0] * C
        self.seen = 0
        self.marked: tuple[int, list[float]] | None = None
        self.position: list[float] = [0.0] * (4 * C)
        self.distance = self.jump = 0.0
        self.where = 0

    @property
    def outside(self) -> bool:
        return self.distance > 0.25 or self.jump > 1

    def step(self, sample: list[float]) -> int:
        """Consume one sample and return its flag."""
        self.seen += 1
        for c, value in enumerate(sample):
            self.missing[c] = self.missing[c] + 1 if math.isnan(value) else 0
            if math.isnan(value):
                continue
            z = (value - self.params.mean[c]) / self.params.scale[c]
            if abs(z) > 20:
                z = math.copysign(min(20 + 4 * math.log10(abs(z) / 20), 40), z)
            slow = max(1 - 0.5 ** (1 / 30), 1 / self.seen)
            quick = max(1 - 0.5 ** (1 / 12), 1 / self.seen)
            self.levels[c] = (1 - slow) * self.levels[c] + slow * z
            before = self.last[c]
            if before is not None:
                self.steps[c] = (1 - quick) * self.steps[c] + quick * min(abs(z - before), 5.0)
                self.still[c] = self.still[c] + 1 if z == before else 0
            self.last[c] = z
        if self.seen >= 60 and self.seen % 8 == 0:
            self.measure()
        if self.distance > 1:
            return BEYOND
        return OUTSIDE if self.outside else INSIDE

    def measure(self) -> None:
        params, C = self.params, self.C
        level = [value - centre for value, centre in zip(self.levels, params.centre, strict=True)]
        unexplained = self.position[:C]
        if all(count <= 30 for count in self.missing):
            unexplained = [
                sum(weight * each for weight, each in zip(row, level, strict=True))
                for row in params.blend.tolist()
            ]
        rough = [math.log(step + 0.001) for step in self.steps]
        still = [math.log(count + 1) for count in self.still]
        self.position = [*unexplained, *level, *rough, *still]
        out = [
            max(low - p, p - high) / margin
            for p, low, high, margin in zip(
                self.position, self.lows, self.highs, params.margins, strict=True
            )
        ]
        self.distance = max(0.0, *out)
        if self.distance > 0:
            self.where = out.index(max(out)) % C
        if self.marked is not None:
            since, start = self.marked
            wander = self.wander(self.seen - since)
            gone = zip(self.position, start, wander, strict=True)
            self.jump = max(abs(p - s) / w for p, s, w in gone)

    def wander(self, lag: int) -> list[float]:
        """Return how far a normal position goes in so many samples, rounded up to 8 times 2^k."""
        k = min(max(0, math.ceil(math.log2(max(lag, 1) / 8))), len(self.params.wanders) - 1)
        found: list[float] = self.params.wanders[k].tolist()
        return found

    def mark(self) -> None:
        if self.seen >= 60:
            self.marked = (self.seen, self.position)
            self.jump = 0.0

    def extrapolated(self, age: int) -> list[float]:
        """Return where a jump `age` samples ago leads: levels have a half-life of 30 samples."""
        if self.marked is None:
            return list(self.position)
        gone = 1 - 0.5 ** (max(age, 10) / 30)
        start = self.marked[1]
        return [
            s + (p - s) / gone if j < 2 * self.C else p
            for j, (p, s) in enumerate(zip(self.position, start, strict=True))
        ]

    def beyond(self, position: list[float]) -> list[bool]:
        """Return which channels' levels are too far out to be measured in full."""
        levels = zip(position[self.C : 2 * self.C], self.params.centre, strict=True)
        return [abs(level + centre) > 0.95 * 20 for level, centre in levels]

    def jumped(self, one: list[float], other: list[float], lag: int) -> bool:
        """Whether two positions are plainly farther apart than normal ones `lag` samples apart."""
        far = any(self.beyond(one)) or any(self.beyond(other))
        for j, wander in enumerate(self.wander(lag)):
            if far and j < self.C:
                continue
            if abs(one[j] - other[j]) > max(wander, self.params.margins[j] / 2):
                return True
        return False

    def widen(self, positions: list[list[float]]) -> None:
        """Include these positions and what is half a margin away; stillness has no upper end."""
        for j, column in enumerate(zip(*positions, strict=True)):
            room = self.params.margins[j] / 2
            self.lows[j] = min(self.lows[j], min(column) - room)
            if j >= 3 * self.C and max(column) > self.highs[j]:
                self.highs[j] = math.inf
            else:
                self.highs[j] = max(self.highs[j], max(column) + room)
        if self.seen >= 60:
            self.measure()


# ------------------------------------------------------------------ the loop


@dataclass
class Look:
    """What the twin is given of one call: what the models made of the samples."""

    scores: list[float] = field(default_factory=list)  # of the samples that became final
    shares: list[list[float]] = field(default_factory=list)
    shadow_scores: list[float] = field(default_factory=list)  # that became final, NaN left out
    moved: float = 0.0  # how far the weights are from the fitted ones, in their own length
    shadow_moved: float = 0.0  # the same of the shadow's


@dataclass
class NaiveBaseline:
    """What was normal at some time."""

    levels: tuple[float, ...]  # of the alarm threshold
    moved: float  # how far the weights were from the fitted ones


@dataclass
class NaiveVerdict:
    """What the loop makes of one score."""

    threshold: float
    anomalous: bool
    alarm: int
    flag: int


class NaiveLoop:
    """The order of `newnormal.core.loop`, a sample at a time, with alarms and acceptance."""

    def __init__(
        self,
        threshold: NaiveThreshold,
        normal: NaiveRange,
        log: NaiveLog,
        accept_after: float,
    ) -> None:
        self.threshold, self.range, self.log = threshold, normal, log
        self.accept_after = accept_after
        self.review_length = int(max(1, min(accept_after / 6, 512)))
        self.kept_scores = int(max(2, accept_after / 2))
        self.kept_positions = max(2, self.kept_scores // self.review_length)
        self.learn_threshold = self.limits()[0]
        self.pending: list[list[float]] = []
        self.seen = self.judged = self.accepted_count = 0
        self.frozen = False
        self.last_quiet = self.fitted = self.present(0.0)
        self.accepted: NaiveBaseline | None = None
        self.accepted_moved = 0.0  # how far the weights had moved when normal was last accepted
        self.moves = 0.0  # how far they have moved since, of the half of their length they may
        self.forget()

    def forget(self) -> None:
        """Forget the alarm that the timer is about."""
        self.number = 0
        self.restart_timer(None)

    def restart_timer(self, since: int | None) -> None:
        """Restart the acceptance timer at `since` (None: the alarm's start), without a shadow."""
        self.since = since
        self.trains = False
        self.shadow_scores: list[float] = []
        self.positions: list[list[float]] = []

    # ------------------------------------------------------------------ a sample

    def step(self, sample: list[float] | None, look: Look) -> list[NaiveVerdict]:
        """Consume one sample, or None to judge the tail; return the verdicts that became final."""
        if sample is not None:
            self.seen += 1
            self.pending.append(sample)
        # 1. The shadow learns it.
        if self.trains:
            kept = [*self.shadow_scores, *look.shadow_scores]
            self.shadow_scores = kept[-self.kept_scores :]
        # 2. The model has scored what became final.
        verdicts = []
        for score, shares in zip(look.scores, look.shares, strict=True):
            # 3. How far is it from the accepted normal?
            flag, where = self.range.step(self.pending.pop(0)), self.range.where
            if self.moves > 1:
                flag, where = BEYOND, -1
            # 4. Is it anomalous, and does an alarm open or close?
            height = math.log(max(score, 1e-30)) if self.threshold.rate else score
            level, ratio, anomalous, number = self.threshold.judge(height, flag)
            self.log.judged(self.judged, score, ratio, anomalous, number, shares, flag, where)
            if self.threshold.rate:
                level = math.exp(level)
            verdicts.append(NaiveVerdict(level, anomalous, number, flag))
            self.judged += 1
        # 5. The review, at fixed sample numbers.
        if sample is not None and self.seen % self.review_length == 0:
            self.review(look)
        return verdicts

    # ------------------------------------------------------------------ reviews

    @property
    def outside(self) -> bool:
        return self.range.outside or self.moves > 0.25

    def measure_weights(self, moved: float) -> None:
        self.moves = max(0.0, moved - self.accepted_moved) / 0.5

    def present(self, moved: float) -> NaiveBaseline:
        return NaiveBaseline(self.threshold.levels(), moved)

    def limits(self) -> tuple[float, float]:
        """Return the alarm threshold and the typical score, as scores."""
        threshold, typical = self.threshold.threshold, self.threshold.typical
        if self.threshold.rate:  # held as logarithms
            return math.exp(threshold), math.exp(typical)
        return threshold, typical

    def review(self, look: Look) -> None:
        self.measure_weights(look.moved)
        alarm = self.log.alarm
        if not alarm:
            self.frozen = False
            self.forget()
            self.last_quiet = self.present(look.moved)
            self.range.mark()
            return
        if alarm["number"] != self.number:
            self.frozen = False
            self.forget()
            self.number = alarm["number"]
        if alarm["state"] == "rejected":
            self.keep_frozen(alarm)
            return
        self.track(alarm)
        age = self.judged - (alarm["start"] if self.since is None else self.since)
        if not self.trains:
            self.trains = age >= 0.25 * self.accept_after
            return
        settled = self.is_settled(look)
        self.log.mark("candidate new normal" if settled else "in alarm", self.judged - 1)
        if settled and age >= self.accept_after:
            self.accept(look)

    def track(self, alarm: dict[str, Any]) -> None:
        """Keep the position; restart the timer where the stream has gone elsewhere."""
        position = self.range.extrapolated(self.judged - alarm["start"])
        elsewhere = self.outside and self.since is None
        if self.positions:
            last = self.positions[-1]
            elsewhere = elsewhere or self.range.jumped(last, position, self.review_length)
        if elsewhere:
            self.restart_timer(self.judged)
        self.positions = [*self.positions, position][-self.kept_positions :]

    def is_settled(self, look: Look) -> bool:
        """Whether the shadow finds the stream predictable and stable, and is still itself."""
        scores = self.shadow_scores
        if len(scores) < self.kept_scores or look.shadow_moved - self.accepted_moved > 0.5:
            return False
        half = (len(scores) + 1) // 2
        older, newer = scores[:half], scores[half:]
        threshold, typical = self.limits()
        predictable = median(newer) < max(threshold, 20 * typical)
        stable = quantile(newer, 0.9) <= max(threshold, *older)
        lag = max(1, len(self.positions) - 1) * self.review_length
        gone = self.range.jumped(self.positions[0], self.positions[-1], lag)
        return predictable and stable and not gone

    # ------------------------------------------------------------------ feedback

    def accept(self, look: Look) -> None:
        """Make normal what the open alarm is about."""
        alarm = self.log.alarm
        if alarm["number"] != self.number:
            self.forget()
        ahead = self.range.extrapolated(self.judged - alarm["start"])
        moved = look.shadow_moved if self.trains else look.moved
        if self.trains and len(self.shadow_scores) == self.kept_scores:
            scores = self.shadow_scores
            if self.threshold.rate:
                scores = [math.log(max(score, 1e-30)) for score in scores]
            self.threshold.lift(median(scores))
        self.threshold.close()
        self.log.close("new normal accepted", self.judged - 1)
        self.range.widen([*self.positions, self.range.position, ahead])
        self.accepted_count += 1
        self.accepted_moved, self.moves, self.frozen = moved, 0.0, False
        self.forget()
        self.accepted = self.last_quiet = self.present(moved)
        self.range.mark()
        self.learn_threshold = self.limits()[0]

    def reject(self) -> None:
        """Go back to what was known before the open alarm, and learn nothing of it."""
        alarm = self.log.alarm
        timed = alarm["number"] == self.number and self.since is not None
        self.forget()
        self.number = alarm["number"]
        self.since = self.judged if timed or self.outside else None
        self.go_back(alarm)
        self.log.mark("rejected", self.judged - 1)

    def go_back(self, alarm: dict[str, Any]) -> None:
        back = self.last_quiet
        if alarm["cause"] != "score":  # a drift was learned long before its alarm
            back = self.accepted or self.fitted
        self.threshold.restore(back.levels)
        self.frozen = True
        self.measure_weights(back.moved)

    def keep_frozen(self, alarm: dict[str, Any]) -> None:
        """Learn nothing while a rejected alarm lasts, except to come back when the stream does."""
        if not self.outside:
            self.frozen = self.since is None
        elif not self.frozen:
            self.go_back(alarm)
        if self.outside and self.since is None:
            self.since = self.judged


def quantile(values: list[float], share: float) -> float:
    """Return a quantile with linear interpolation."""
    ordered = sorted(values)
    place = share * (len(ordered) - 1)
    low = math.floor(place)
    high = min(low + 1, len(ordered) - 1)
    return ordered[low] + (place - low) * (ordered[high] - ordered[low])
