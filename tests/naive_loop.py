"""Slow obvious twins of the loop, its alarms and its changes, in plain Python.

Written from the docstrings: `newnormal.core.loop` has the order, `newnormal.kernels.alarm` the
alarm threshold, `newnormal.kernels.drift` the distance from normal, `newnormal.alarms.log` the
events of alarms and `newnormal.acceptance.policy` the reviews. Scores and shares come from outside:
`tests.naive` has the twins of what computes them. Samples are lists, NaN where missing.
"""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import dataclass, field
from statistics import median, quantiles
from typing import Any, NamedTuple

from newnormal.acceptance import NormalRange
from newnormal.alarms import AlarmThreshold
from newnormal.kernels import alarm as kernel
from newnormal.kernels.drift import CROSSED, MARK, DriftState
from newnormal.types import Event
from tests.naive_episode import NaiveEpisode


@dataclass
class NaiveThreshold:
    """Opens and closes alarms, and moves; remembers every ratio of the joint score's episode."""

    location: float
    spread: float
    height: float
    rate: float
    step: float
    gap: int
    stand: float
    day: float
    tail_median: float = math.nan  # the typical score where the threshold does not move

    def __post_init__(self) -> None:
        self.start_location, self.start_height = self.location, self.height
        self.alarms = 0
        self.is_open = False  # the newest alarm
        self.joint = math.nan  # the newest ratio of the joint score
        self.scores: list[float] = []  # all of them, without the missing
        self.episode = NaiveEpisode(self.gap, self.day)
        self.ratios: list[float] = []  # of the episode

    @classmethod
    def of(cls, found: AlarmThreshold) -> NaiveThreshold:
        """Return the twin of a threshold at its start."""
        params = found.params._asdict()
        height = (found.threshold - params["location"]) / params["spread"]
        twin = cls(**{**params, "gap": int(params["gap"]), "height": height})
        twin.tail_median = found.typical
        return twin

    @property
    def threshold(self) -> float:
        return self.location + self.spread * self.height

    @property
    def number(self) -> int:
        return self.alarms if self.is_open else 0

    @property
    def age(self) -> int:
        return self.episode.age - 1 if self.episode.is_open else 0

    @property
    def seen(self) -> int:
        return len(self.scores)

    def judge(
        self, score: float, channels: Sequence[float] = (), episodes: int = 0
    ) -> tuple[float, float, bool, int]:
        """Return the threshold it was compared with, the ratio, the verdict, the open alarm.

        `channels` are the ratios of channels, `episodes` how many of these are open.
        """
        threshold = self.threshold
        self.joint = math.nan
        if not math.isnan(score):
            self.follow(score)
        ratios = [ratio for ratio in (self.joint, *channels) if not math.isnan(ratio)]
        ratio = max(ratios, default=math.nan)
        if not self.episode.is_open and not episodes:
            self.is_open = False
        elif not self.is_open:
            self.alarms += 1
            self.is_open = True
        return threshold, ratio, ratio >= 1, self.number

    def follow(self, score: float) -> None:
        """Open, continue or close the joint score's episode, and move the threshold."""
        self.scores.append(score)
        is_above = score >= self.threshold
        x = (score - self.location) / self.spread
        self.joint = x / self.height if self.height > 0 else math.inf if is_above else 0.0
        event = self.episode.follow(is_above)
        self.ratios = [] if event == "opens" else self.ratios
        self.ratios.append(self.joint)
        if event == "closes" and max(self.ratios) < 1.5:
            raised = min(self.height + self.step * self.start_height, 2 * self.start_height)
            self.height = max(self.height, raised)
        if not self.episode.is_open:
            self.come_back(score)
        elif self.age and self.age % self.stand == 0 and len(self.scores) >= 60:
            self.location = max(self.location, median(self.scores[-60:]))

    def come_back(self, score: float) -> None:
        """Go back to the start by what one sample out of an episode allows."""
        if self.height > self.start_height:
            self.height = max(
                self.start_height, self.height - self.step * self.start_height * self.rate
            )
        if self.location > self.start_location:
            follows = self.location + 0.02 * (score - self.location)
            self.location = max(self.start_location, follows)

    def close(self) -> None:
        """Close the open alarm: it was accepted."""
        self.is_open = False
        self.episode.close()

    def adopt(self, state: kernel.AlarmState) -> None:
        """Go on from a state: what is accepted closes alarms, and moves the threshold."""
        self.location, self.height = state.levels[[kernel.LOCATION, kernel.HEIGHT]].tolist()
        starts = state.levels[[kernel.START_LOCATION, kernel.START_HEIGHT]]
        self.start_location, self.start_height = starts.tolist()
        self.is_open = bool(state.counts[kernel.OPEN])
        self.episode.adopt(state.counts)

    @property
    def typical(self) -> float:
        return self.location if self.rate else self.tail_median

    def lift(self, typical: float) -> None:
        """Rise with the typical score; never fall."""
        if self.rate:
            self.location = self.start_location = max(self.start_location, typical)
        elif typical > self.tail_median > 0:
            factor = typical / self.tail_median
            self.tail_median *= factor
            self.height *= factor
            self.start_height *= factor

    def levels(self) -> tuple[float, ...]:
        """Return what a baseline keeps of the threshold."""
        starts = self.start_location, self.start_height
        return (self.location, self.height, self.tail_median, *starts)

    def restore(self, levels: tuple[float, ...]) -> None:
        self.location, self.height, self.tail_median = levels[:3]
        self.start_location, self.start_height = levels[3:]


class LogSample(NamedTuple):
    """What is known of one sample; `channels` are ratios, empty where a model has none."""

    sample: int
    score: float
    ratio: float
    joint: float
    shares: Sequence[float]
    channels: Sequence[float] = ()


class NaiveLog:
    """Turns samples in alarm into events; looks at all samples of the alarm each time."""

    def __init__(self, channels: tuple[str, ...]) -> None:
        self.channels = channels
        self.alarm: dict[str, Any] = {}  # the open one
        self.newest: dict[str, Any] = {}  # the newest, open or closed
        self.events: list[dict[str, Any]] = []
        self.samples: list[LogSample] = []  # of the newest alarm
        self.goes_on = False  # whether a change that began with the open alarm is open

    def judged(self, number: int, new: LogSample) -> None:
        """Follow one sample that has its verdict; `number` is that of the open alarm, or 0."""
        if self.alarm and self.alarm["number"] != number:
            self.close("changed" if self.goes_on else "back to normal", new.sample)
        if not number:
            return
        kind = "updated" if self.alarm else "opened"
        if not self.alarm:
            self.samples = []
            self.newest = self.alarm = {"number": number, "start": new.sample}
            self.alarm |= {"cause": "score", "reason": None, "severity": 0, "evidence": []}
        self.samples.append(new)
        before, named = self.alarm["severity"], len(self.alarm["evidence"])
        ends = [each.sample for each in self.samples if each.ratio >= 1]
        self.alarm["end"] = max(ends, default=self.alarm["start"])
        known = [each for each in self.samples if not math.isnan(each.ratio)]
        peak = max(known, key=lambda each: each.ratio)
        self.alarm |= {"peak": peak.sample, "score": 0.0 if math.isnan(peak.score) else peak.score}
        found = [(name, *self.beyond(c)) for c, name in enumerate(self.channels)]
        beyond = [each for each in found if each[1] >= 1]
        beyond.sort(key=lambda each: -each[1])
        self.alarm["evidence"] = beyond
        scored = [each for each in self.samples if each.joint > 0]
        lead = max(scored, key=lambda each: each.joint, default=None)
        led = [self.channels[c] for c in self.largest(lead.shares)] if lead else []
        self.alarm["channels"] = [each[0] for each in beyond] or led
        far = max([1.0, *(each[1] for each in beyond), 4 * lead.joint - 3 if lead else 0.0])
        severity = 10 + 22 * math.log2(far) + 6 * math.log2(max(len(beyond), 1))
        severity += 6 * math.log2(1 + (self.alarm["end"] - self.alarm["start"] + 1) / 30)
        self.alarm["severity"] = min(round(severity), 100)
        worse = self.word(self.alarm["severity"]) > self.word(before)
        if kind == "opened" or worse or len(beyond) > named:
            self.report(kind, new.sample)

    def beyond(self, c: int) -> tuple[float, int, int, int]:
        """Return the highest ratio of a channel from 1 on; its first, last and worst sample."""
        found = [(each.channels[c], each.sample) for each in self.samples if each.channels]
        found = [each for each in found if each[0] >= 1] or [(0.0, -1)]
        ratio, sample = max(found, key=lambda each: each[0])
        return ratio, found[0][1], found[-1][1], sample

    @staticmethod
    def word(severity: int) -> int:
        """Return 0 for a low severity, then 1, 2, and 3 for a critical one."""
        return sum(severity >= limit for limit in (25, 50, 75))

    @staticmethod
    def largest(shares: Sequence[float]) -> list[int]:
        """Return the fewest channels, five at most, that make up half of the score."""
        named: list[int] = []
        known = [c for c, share in enumerate(shares) if share > 0]
        for channel in sorted(known, key=lambda c: -shares[c])[:5]:
            if sum(shares[c] for c in named) >= 0.5:
                break
            named.append(channel)
        return named

    def close(self, reason: str, sample: int) -> None:
        self.alarm["reason"] = reason
        self.report("closed", sample)
        self.alarm = {}

    def report(self, kind: str, sample: int) -> None:
        self.events.append({"event": kind, "sample": sample} | self.alarm)

    @staticmethod
    def fields(event: Event) -> dict[str, Any]:
        """Return an event of the real log as this one writes it."""
        alarm = event.alarm
        assert alarm is not None
        names = ("number", "start", "end", "cause", "reason", "severity")
        found = {"event": event.kind, "sample": event.sample, "channels": list(alarm.channels)}
        found |= {"score": alarm.peak.score, "peak": alarm.peak.sample}
        found["evidence"] = [
            (each.channel, each.ratio, each.start, each.end, each.sample)
            for each in alarm.evidence
            if each.ratio is not None
        ]
        return found | {name: getattr(alarm, name) for name in names}


class NaiveRange:
    """Where the stream is, beside the range accepted as normal: one channel at a time."""

    def __init__(self, found: NormalRange) -> None:
        self.params = found.params
        self.lows, self.highs = found.state.lows.tolist(), found.state.highs.tolist()
        C = self.C = len(self.params.mean)
        self.levels, self.steps, self.still = [0.0] * C, [0.0] * C, [0] * C
        self.last: list[float | None] = [None] * C
        self.observed: list[float | None] = [None] * C
        self.missing = [0] * C
        self.seen = 0
        self.marked: int | None = None
        self.start: list[float] = [0.0] * (4 * C)
        self.position: list[float] = [0.0] * (4 * C)
        self.distances, self.jumps = [0.0] * C, [0.0] * C
        self.in_change: set[int] = set()  # the channels of open changes
        self.has_crossed = False  # since the newest review

    def adopt(self, state: DriftState) -> None:
        """Go on from a state: reviews and people move the range."""
        known = (state.lows, state.highs, state.levels, state.steps, state.position, state.start)
        self.lows, self.highs, self.levels, self.steps, self.position, self.start = (
            each.tolist() for each in known
        )
        self.still, self.missing = state.unchanged_for.tolist(), state.missing.tolist()
        self.last, self.observed = (
            [None if math.isnan(x) else x for x in each.tolist()]
            for each in (state.last, state.seen)
        )
        self.distances, self.jumps = state.distances.tolist(), state.jumps.tolist()
        self.marked = int(state.counts[MARK]) if state.counts[MARK] >= 0 else None
        self.in_change = {c for c in range(self.C) if state.in_change[c]}
        self.has_crossed = bool(state.counts[CROSSED])

    @property
    def distance(self) -> float:
        return max(self.distances)

    @property
    def outside(self) -> list[bool]:
        """Which channels are outside of normal, or farther from the mark than normal ones go."""
        pairs = zip(self.distances, self.jumps, strict=True)
        return [distance > 0.25 or (jump > 1 and distance > 0) for distance, jump in pairs]

    def step(self, sample: list[float], hidden: dict[int, float] | None = None) -> bool:
        """Consume one sample; return whether a channel of no change crosses the limit.

        `hidden` has what is expected of the channels whose values are hidden.
        """
        self.seen += 1
        hidden = hidden or {}
        for c, value in enumerate(sample):
            self.missing[c] = self.missing[c] + 1 if math.isnan(value) else 0
            if math.isnan(value):
                continue
            mean, scale = self.params.mean[c], self.params.scale[c]
            z, seen = (squeezed((x - mean) / scale) for x in (hidden.get(c, value), value))
            slow = max(1 - 0.5 ** (1 / 30), 1 / self.seen)
            quick = max(1 - 0.5 ** (1 / 12), 1 / self.seen)
            self.levels[c] = (1 - slow) * self.levels[c] + slow * z
            before = self.last[c]
            if before is not None:
                if c not in hidden:
                    self.steps[c] = (1 - quick) * self.steps[c] + quick * min(abs(z - before), 5.0)
                self.still[c] = self.still[c] + 1 if seen == self.observed[c] else 0
            self.last[c], self.observed[c] = z, seen
        if self.seen < 60 or self.seen % 8 != 0:
            return False
        self.measure()
        far = any(self.distances[c] > 1 for c in range(self.C) if c not in self.in_change)
        crosses = far and not self.has_crossed
        self.has_crossed = self.has_crossed or crosses
        return crosses

    def measure(self) -> None:
        """Bring position, distances and jumps up to date."""
        params, C = self.params, self.C
        level = [value - centre for value, centre in zip(self.levels, params.centre, strict=True)]
        unexplained = self.position[:C]
        if all(count <= 30 for count in self.missing):
            for c in self.in_change or range(C):
                row = params.unexplained[c].tolist()
                unexplained[c] = sum(w * each for w, each in zip(row, level, strict=True))
        rough = [math.log(step + 0.001) for step in self.steps]
        still = [math.log(count + 1) for count in self.still]
        self.position = [*unexplained, *level, *rough, *still]
        wander = self.wander(self.seen - (self.marked or 0))
        for c in range(C):
            self.distances[c] = self.jumps[c] = 0.0
            for j in range(c, 4 * C, C):
                self.distances[c] = max(self.distances[c], self.out(j))
                if self.marked is not None:
                    gone = abs(self.position[j] - self.start[j])
                    self.jumps[c] = max(self.jumps[c], gone / wander[j])

    def out(self, j: int) -> float:
        """Return how far a position is out of its range, in margins."""
        p = self.position[j]
        return float(max(self.lows[j] - p, p - self.highs[j]) / self.params.margins[j])

    def moved(self) -> set[int]:
        """Return the channels of no change whose own level or roughness went far."""
        found = set()
        wander = self.wander(self.seen - (self.marked or 0))
        for c in set(range(self.C)) - self.in_change:
            for j in range(self.C + c, 4 * self.C, self.C):
                gone = abs(self.position[j] - self.start[j])
                if self.out(j) > 0.5 or (self.marked is not None and gone > wander[j]):
                    found.add(c)
        return found

    def about(self) -> set[int]:
        """Return the channels of no change that moved, or else the farthest."""
        free = set(range(self.C)) - self.in_change
        return self.moved() or {max(sorted(free), key=lambda c: self.distances[c])}

    def stuck(self) -> set[int]:
        """Return the channels of no change that stand still for longer than they may."""
        rows = {c: 3 * self.C + c for c in set(range(self.C)) - self.in_change}
        margins = self.params.margins
        return {c for c, j in rows.items() if self.position[j] - self.highs[j] > margins[j]}

    def wander(self, lag: int) -> list[float]:
        """Return how far a normal position goes in so many samples, rounded up to 8 times 2^k."""
        k = min(max(0, math.ceil(math.log2(max(lag, 1) / 8))), len(self.params.max_drift) - 1)
        found: list[float] = self.params.max_drift[k].tolist()
        return found

    def mark(self) -> None:
        if self.seen >= 60:
            self.marked, self.start = self.seen, list(self.position)
            self.jumps = [0.0] * self.C

    def extrapolated(self, age: int) -> list[float]:
        """Return where a jump `age` samples ago leads: levels have a half-life of 30 samples."""
        if self.marked is None:
            return list(self.position)
        gone = 1 - 0.5 ** (max(age, 10) / 30)
        return [
            s + (p - s) / gone if j < 2 * self.C else p
            for j, (p, s) in enumerate(zip(self.position, self.start, strict=True))
        ]

    def beyond(self, position: list[float]) -> list[bool]:
        """Return which channels' levels are too far out to be measured in full."""
        levels = zip(position[self.C : 2 * self.C], self.params.centre, strict=True)
        return [abs(level + centre) > 0.95 * 20 for level, centre in levels]

    def jumped(self, one: list[float], other: list[float], lag: int) -> bool:
        """Whether two positions are plainly farther apart than normal ones `lag` samples apart."""
        far = [any(pair) for pair in zip(self.beyond(one), self.beyond(other), strict=True)]
        for j, wander in enumerate(self.wander(lag)):
            if (any(far) and j < self.C) or (j // self.C == 2 and far[j % self.C]):
                continue
            if abs(one[j] - other[j]) > max(wander, self.params.margins[j] / 2):
                return True
        return False

    def own(self, channels: set[int]) -> None:
        """Give channels to a change: from here on they explain nothing of the others."""
        self.in_change |= channels
        for c in range(self.C):
            if c not in self.in_change:
                self.position[c] = self.start[c]
        self.measure_if_known()

    def disown(self, channels: set[int]) -> None:
        self.in_change -= channels
        self.measure_if_known()

    def widen(self, positions: list[list[float]], explained: list[float]) -> None:
        """Include these positions and what is half a margin away; stillness has no upper end.

        The range of channels that belong to a change grows by what this one explains of them.
        """
        far = [any(each) for each in zip(*map(self.beyond, positions), strict=True)]
        for j, column in enumerate(zip(*positions, strict=True)):
            if j % self.C in self.in_change:
                if j < self.C:
                    self.lows[j] += min(explained[j], 0.0)
                    self.highs[j] += max(explained[j], 0.0)
                continue
            room = self.params.margins[j] / 2
            self.lows[j] = min(self.lows[j], min(column) - room)
            if j // self.C == 2 and far[j % self.C]:  # not measured in full: its steps seem small
                self.lows[j] = math.log(0.001)
            if j >= 3 * self.C and max(column) > self.highs[j]:
                self.highs[j] = math.inf
            else:
                self.highs[j] = max(self.highs[j], max(column) + room)
        self.measure_if_known()

    def measure_if_known(self) -> None:
        if self.seen >= 60:
            self.measure()


def squeezed(level: float) -> float:
    """Return a level as it is measured: beyond 20 a tenfold one counts 4 more, and 40 is most."""
    far = 20 + 4 * math.log10(max(abs(level), 20.0) / 20)
    return math.copysign(min(far, 40.0), level) if abs(level) > 20 else level


def unsqueezed(level: float) -> float:
    return math.copysign(20 * 10 ** ((abs(level) - 20) / 4), level) if abs(level) > 20 else level


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
    accepted_moved: float  # the same when normal was last accepted
    lows: list[float]
    highs: list[float]


@dataclass
class NaiveChange:
    """A stretch in which some channels stand away from the accepted normal."""

    number: int
    start: int
    known: int
    since: int  # where its acceptance timer started
    placed: int  # where `after` was taken
    channels: set[int]
    before: list[float]  # levels of all channels, in history's standard deviations
    after: list[float]
    farthest: list[float]  # from `before`
    alarm: int
    distance: float
    state: str = "pending"


@dataclass
class NaiveVerdict:
    """What the loop makes of one score."""

    threshold: float
    anomalous: bool
    alarm: int
    distance: float
    change: int


class NaiveLoop:
    """The order of `newnormal.core.loop`, a sample at a time, with alarms and changes."""

    def __init__(
        self, threshold: NaiveThreshold, normal: NaiveRange, log: NaiveLog, accept_after: float
    ) -> None:
        self.threshold, self.range, self.log = threshold, normal, log
        self.accept_after = accept_after
        self.review_length = int(max(1, min(accept_after / 6, 60)))
        self.kept_scores = int(max(2, accept_after / 2))
        self.kept_positions = max(2, self.kept_scores // self.review_length)
        self.learn_threshold = self.limits()[0]
        self.pending: list[list[float]] = []  # samples without a verdict
        self.seen = self.judged = 0
        self.changes: list[NaiveChange] = []  # the open ones, the oldest first
        self.change_events: list[dict[str, Any]] = []
        self.newest_change = self.last_alarm = self.rejected_alarm = 0
        self.accepted_moved = 0.0  # how far the weights had moved when normal was last accepted
        self.moves = 0.0  # how far they have moved since, of the half of their length they may
        self.last_quiet = self.fitted = self.present(0.0)
        self.accepted: NaiveBaseline | None = None
        self.baselines: list[NaiveBaseline] = []
        self.drop_shadow()

    def drop_shadow(self) -> None:
        self.trains = False
        self.shadow_scores: list[float] = []
        self.positions: list[list[float]] = []

    @property
    def frozen(self) -> bool:
        return any(change.state == "rejected" for change in self.changes)

    @property
    def waiting(self) -> list[NaiveChange]:
        return [change for change in self.changes if change.state == "pending"]

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
            crosses = self.range.step(self.pending.pop(0))
            distance, change = self.range.distance, self.newest_open()
            # 4. Is it anomalous, does an alarm open or close, does a change open?
            height = math.log(max(score, 1e-30)) if self.threshold.rate else score
            level, ratio, anomalous, number = self.threshold.judge(height)
            new = LogSample(self.judged, score, ratio, self.threshold.joint, shares)
            self.log.judged(number, new)
            if self.threshold.rate:
                level = math.exp(level)
            verdicts.append(NaiveVerdict(level, anomalous, number, distance, change))
            self.judged += 1
            if crosses:
                self.crossed()
        # 5. The review, at fixed sample numbers.
        if sample is not None and self.seen % self.review_length == 0:
            self.review(look)
        return verdicts

    def newest_open(self) -> int:
        return max((change.number for change in self.changes), default=0)

    def crossed(self) -> None:
        """Open the change of the channels that went beyond the limit just now."""
        if stuck := self.range.stuck():
            self.open(stuck, {}, max(self.range.still[c] for c in stuck))
            return
        channels = self.range.about()
        alarm = self.recent_alarm()
        names = [self.log.channels[c] for c in channels]
        if alarm and not self.log.alarm and not set(alarm["channels"]) & set(names):
            alarm = {}  # it is over, and about other channels
        self.open(channels, alarm)

    def measure_weights(self, moved: float) -> None:
        self.moves = max(0.0, moved - self.accepted_moved) / 0.5

    def present(self, moved: float) -> NaiveBaseline:
        lows, highs = list(self.range.lows), list(self.range.highs)
        return NaiveBaseline(self.threshold.levels(), moved, self.accepted_moved, lows, highs)

    def limits(self) -> tuple[float, float]:
        """Return the alarm threshold and the typical score, as scores."""
        threshold, typical = self.threshold.threshold, self.threshold.typical
        if self.threshold.rate:  # held as logarithms
            return math.exp(threshold), math.exp(typical)
        return threshold, typical

    def review(self, look: Look) -> None:
        """Find what changed or reverted, and accept what has been stable long enough."""
        self.range.has_crossed = False
        self.measure_weights(look.moved)
        self.revert()
        self.find_changes()
        for change in self.waiting:
            if change.alarm == self.rejected_alarm > 0:
                self.reject(change)
        self.follow_levels()
        if not self.changes and not self.log.alarm:
            self.last_quiet = self.present(look.moved)
            self.range.mark()
        if self.waiting:
            self.wait(look)
        else:
            self.drop_shadow()

    def revert(self) -> None:
        """Close the changes whose channels are back where they were."""
        for change in list(self.changes):
            if self.is_back(change):
                change.after = change.farthest
                self.report("reverted", change)
                self.free(change)

    def is_back(self, change: NaiveChange) -> bool:
        if not change.channels:
            return self.moves <= 0.25
        if self.judged - change.known < self.review_length:
            return False
        for c in change.channels:
            moved = abs(squeezed(change.after[c]) - squeezed(change.before[c]))
            away = abs(self.range.levels[c] - squeezed(change.before[c]))
            if self.range.distances[c] > 0.25 or (moved >= 0.5 and away >= moved / 2):
                return False
        return True

    def find_changes(self) -> None:
        """Open the change of the weights, or of what an alarm left outside its normal."""
        if self.moves > 1 and all(change.channels for change in self.changes):
            self.open(set(), {})
        alarm = self.recent_alarm()
        if not alarm or self.judged - alarm["start"] < self.review_length or self.range.seen < 60:
            return
        outside = [c for c, is_out in enumerate(self.range.outside) if is_out]
        far = {
            c: max(self.range.distances[c], self.range.jumps[c])
            for c in outside
            if c not in self.range.in_change
        }
        if far:
            self.open(self.range.moved() or {max(far, key=lambda c: far[c])}, alarm)

    def recent_alarm(self) -> dict[str, Any]:
        """Return the newest alarm, if a change that is found now may have begun with it."""
        alarm = self.log.newest
        if not alarm or alarm["number"] <= self.last_alarm:
            return {}
        recent = self.judged - alarm["start"] <= 2 * self.review_length
        return alarm if self.log.alarm or recent else {}

    def open(self, channels: set[int], alarm: dict[str, Any], still: int = 0) -> None:
        """Open a change of these channels, which began with this alarm, or now but for `still`."""
        assert len(self.changes) < 8, "one more would join the newest"
        normal, C, newest = self.range, self.range.C, self.judged - 1
        self.newest_change += 1
        if alarm:
            self.last_alarm = alarm["number"]
        centre = normal.params.centre.tolist()
        start = list(normal.start[C : 2 * C])
        if not alarm:  # it came slowly: from the border of what was normal
            for c in range(C):
                level, low, high = (
                    each[C + c] for each in (normal.position, normal.lows, normal.highs)
                )
                if not low <= level <= high:
                    start[c] = low if level < low else high
        before = [unsqueezed(level + at) for level, at in zip(start, centre, strict=True)]
        far = max((normal.distances[c] for c in channels), default=self.moves)
        first, number = alarm.get("start", newest - still), alarm.get("number", 0)
        known, levels = (first, newest, newest, newest), (before, before, before)
        change = NaiveChange(self.newest_change, *known, channels, *levels, number, far)
        change.after, change.farthest = self.level(change), self.level(change, 0)
        self.changes.append(change)
        normal.own(channels)
        self.report("changed", change)

    def level(self, change: NaiveChange, beyond: float = 2) -> list[float]:
        """Return where each level is going: at once where the change began with an alarm."""
        if not change.alarm:
            return [unsqueezed(level) for level in self.range.levels]
        gone = 1 - 0.5 ** (max(self.judged - change.start, 10) / 30)
        levels = []
        for before, level, newest in zip(
            map(squeezed, change.before), self.range.levels, self.range.last, strict=True
        ):
            both = (level, level if newest is None else newest)
            end = before + (level - before) / gone
            levels.append(unsqueezed(min(max(end, min(both) - beyond), max(both) + beyond)))
        return levels

    def follow_levels(self) -> None:
        for change in self.changes:
            self.follow(change)
        self.range.measure_if_known()

    def follow(self, change: NaiveChange) -> None:
        if not change.channels:
            return
        if self.moves_on(change):
            change.after, change.placed = self.level(change), self.judged
            change.farthest = [
                level if abs(level - before) > abs(far - before) else far
                for before, level, far in zip(
                    change.before, self.level(change, 0), change.farthest, strict=True
                )
            ]
        change.distance = max(self.range.distances[c] for c in change.channels)

    def moves_on(self, change: NaiveChange) -> bool:
        """Whether a change is still settling, or has gone farther than normal streams wander."""
        if change.placed < change.start + 128:
            return True
        wander = self.range.wander(self.judged - change.placed)
        for c in change.channels:
            level = self.range.levels[c]
            away = abs(level - squeezed(change.after[c]))
            back = abs(level - squeezed(change.before[c]))
            if away > wander[self.range.C + c] and back >= away:
                return True
        return False

    def wait(self, look: Look) -> None:
        """Train a shadow on what is pending; accept what has been stable long enough."""
        self.track()
        ages = [(change, self.judged - change.since) for change in self.waiting]
        if not self.trains:
            self.trains = max(age for _, age in ages) >= 0.25 * self.accept_after
            return
        if self.is_settled(look):
            for change, age in ages:
                if age >= self.accept_after:
                    self.accept(change, look)

    def track(self) -> None:
        """Keep the position; restart the timers where the stream has gone elsewhere."""
        position = self.range.extrapolated(self.judged - self.waiting[-1].start)
        last = self.positions[-1:]
        if last and self.range.jumped(last[0], position, self.review_length):
            self.restart_timers()
        self.positions = [*self.positions, position][-self.kept_positions :]

    def restart_timers(self) -> None:
        for change in self.waiting:
            change.since = self.judged
        self.drop_shadow()

    def is_settled(self, look: Look) -> bool:
        """Whether the shadow finds the stream predictable and stable, and is still itself."""
        scores = self.shadow_scores
        if len(scores) < self.kept_scores or look.shadow_moved - self.accepted_moved > 0.5:
            return False
        half = (len(scores) + 1) // 2
        older, newer = scores[:half], scores[half:]
        threshold, typical = self.limits()
        predictable = median(newer) < max(threshold, 20 * typical)
        stable = quantiles(newer, n=10, method="inclusive")[8] <= max(threshold, *older)
        lag = max(1, len(self.positions) - 1) * self.review_length
        gone = self.range.jumped(self.positions[0], self.positions[-1], lag)
        return predictable and stable and not gone

    def accept(self, change: NaiveChange, look: Look) -> None:
        """Make normal what a change is about."""
        self.follow(change)
        ahead = self.range.extrapolated(self.judged - change.start)
        is_alone = len(self.changes) == 1
        moved = look.moved
        if self.trains and is_alone:
            moved = look.shadow_moved
            if len(self.shadow_scores) == self.kept_scores:
                scores = self.shadow_scores
                if self.threshold.rate:
                    scores = [math.log(max(score, 1e-30)) for score in scores]
                self.threshold.lift(median(scores))
        if self.log.alarm and (is_alone or self.log.alarm["number"] == change.alarm):
            self.threshold.close()
            self.log.close("accepted", self.judged - 1)
        start, now = self.threshold.start_location, self.threshold.location
        self.threshold.start_location = max(start, now)
        self.report("accepted", change)
        explained = self.explained(change)
        beside = list(self.range.position)
        for c, more in enumerate(explained):
            beside[c] += more
        self.free(change)
        self.baselines = [*self.baselines, self.last_quiet][-3:]
        self.range.widen([*self.positions, list(self.range.position), ahead, beside], explained)
        self.accepted_moved, self.moves = moved, 0.0
        self.learn_threshold = self.limits()[0]
        self.accepted = self.last_quiet = self.present(moved)
        if not self.changes:
            self.range.mark()

    def explained(self, change: NaiveChange) -> list[float]:
        """Return by how much the change moves what is left unexplained of the other channels."""
        found = [0.0] * self.range.C
        for c in range(self.range.C):
            if c not in change.channels:
                for k in change.channels:
                    moved = squeezed(change.after[k]) - squeezed(change.before[k])
                    found[c] += float(self.range.params.unexplained[c, k]) * moved
        return found

    def reject(self, change: NaiveChange) -> None:
        """Go back to what was known before a change, and learn nothing while it lasts."""
        change.state = "rejected"
        self.follow(change)
        back = self.last_quiet
        if not change.alarm:  # a drift was learned long before it was known
            back = self.accepted or self.fitted
        self.drop_shadow()
        self.measure_weights(back.moved)
        self.report("rejected", change)
        if not change.channels:
            self.revert()

    def reject_alarm(self) -> None:
        """Reject the open alarm: the change that begins with it will be rejected."""
        self.rejected_alarm = self.log.alarm["number"]

    def undo(self) -> None:
        """Undo the newest acceptance."""
        back = self.baselines.pop()
        self.threshold.restore(back.levels)
        self.range.lows, self.range.highs = list(back.lows), list(back.highs)
        bounds = zip(self.range.start, back.lows, back.highs, strict=True)
        self.range.start = [min(max(at, low), high) for at, low, high in bounds]
        self.range.measure_if_known()
        self.accepted_moved = back.accepted_moved
        self.measure_weights(back.moved)
        self.restart_timers()
        self.accepted = self.last_quiet = back
        self.learn_threshold = self.limits()[0]
        self.change_events.append({"event": "undone", "sample": self.judged - 1})

    def free(self, change: NaiveChange) -> None:
        self.changes.remove(change)
        self.range.disown(change.channels)

    def report(self, kind: str, change: NaiveChange) -> None:
        """Write an event of a change, with levels in the user's units."""
        params = self.range.params
        order = sorted(change.channels, key=lambda c: (-abs(change.after[c] - change.before[c]), c))
        state = kind if kind in ("accepted", "reverted") else change.state
        levels = [
            level[c] * params.scale[c] + params.mean[c]
            for level in (change.before, change.after)
            for c in order
        ]
        found = {"event": kind, "sample": self.judged - 1, "number": change.number, "state": state}
        found |= {"start": change.start, "alarm": change.alarm or None, "levels": levels}
        found |= {"channels": [self.log.channels[c] for c in order], "distance": change.distance}
        self.change_events.append(found)

    @staticmethod
    def fields(event: Event) -> dict[str, Any]:
        """Return an event of a change as this loop writes it."""
        found: dict[str, Any] = {"event": event.kind, "sample": event.sample}
        change = event.change
        if change is None:
            return found
        names, levels = list(change.channels), (change.before, change.after)
        found |= {"channels": names, "levels": [level[name] for level in levels for name in names]}
        same = ("number", "start", "alarm", "state", "distance")
        return found | {name: getattr(change, name) for name in same}
