"""What may become normal, when, and the way back.

A stream is normal, in alarm, or a candidate for a new normal. The order of things:

1. At every turn, a fixed number of samples apart, without an alarm: what was learned is kept, for
   the case that the next alarm is rejected.
2. An alarm that lasts for a quarter of `accept_after` gets a shadow: a copy of the running model
   that learns what the running one refuses to.
3. Once the shadow finds the stream predictable and stable, the alarm is a candidate; from
   `accept_after` on it is accepted: the shadow takes over, and what was normal before is kept.
4. What a person rejects is not learned: the model goes back to what it knew before the alarm, and
   is held until the stream has come back.

The time runs for one change: it begins anew where the stream goes elsewhere meanwhile.

Turns come at fixed sample numbers, so that a series in pieces, or sample by sample, comes to the
same.
"""

from __future__ import annotations

import math
from collections import deque
from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any, NamedTuple, Self

import numpy as np
from numpy.typing import NDArray

from newnormal.alarms import Alarm, Desk, Gauge
from newnormal.alarms.tracker import ACCEPTED, CANDIDATE, DISTANCE, IN_ALARM, REJECTED
from newnormal.core import live
from newnormal.errors import FeedbackError
from newnormal.kernels.anchor import FAR, NEAR
from newnormal.kernels.step import PENDING, SEEN, Rules, Stream
from newnormal.models.base import Model
from newnormal.state import under
from newnormal.trust.anchor import Anchor, Bearing
from newnormal.types import Floats, Floats32

__all__ = ["Keeper", "Normal", "Running"]

_TURNS = 6  # in `accept_after`
_LONGEST_TURN = 512
_SHADOWED = 0.25  # of `accept_after`, after which an alarm gets a shadow
_JUDGED = 0.5  # of `accept_after`: how long a shadow is listened to
# A shadow learns from scores this many times the threshold; from any, one wild sample could throw
# its weights out of all bounds.
_EAGER = 100.0
# What is predictable scores below the threshold most of the time; or, where that is low, below this
# many times what was typical: for eight days one real stream has a normal that scores ten times so.
_PREDICTABLE = 20.0
_STABLE = 0.9  # of the shadow's newer scores are no higher than all of its older ones
_KEPT = 3  # normals that one can go back to
# The weights may move by half their own length. Learning at the rates that are chosen from
# history moved them by less than a fifth of it on each of twenty real streams.
_LIMIT = 0.5
_FARTHEST = 1e9  # told of weights that have left all bounds: JSON knows no infinity
_LONGEST = 1 << 20  # scores of a shadow that are listened to


@dataclass(frozen=True, eq=False)
class Normal:
    """What was normal at some time: enough to go back to it.

    Attributes
    ----------
    weights, trend
        What the model had learned.
    lows, highs
        Where the anchor held normal to be.
    gauge
        What scores were compared with.
    moved
        How far the weights were from the fitted ones when it was accepted.
    """

    weights: Floats32
    trend: Floats
    lows: Floats
    highs: Floats
    gauge: Gauge
    moved: float = 0.0

    def tensors(self) -> dict[str, NDArray[Any]]:
        """Return everything as arrays by name."""
        own = {name: getattr(self, name) for name in ("weights", "trend", "lows", "highs")}
        gauge = {f"gauge.{name}": each for name, each in self.gauge.tensors().items()}
        return {**own, **gauge, "moved": np.array([self.moved])}

    @classmethod
    def restore(cls, tensors: Mapping[str, NDArray[Any]]) -> Self:
        """Return what `tensors` was called on."""
        own = {name: tensors[name].copy() for name in ("weights", "trend", "lows", "highs")}
        gauge = Gauge.restore(under("gauge.", tensors))
        return cls(**own, gauge=gauge, moved=float(tensors["moved"][0]))


class Running(NamedTuple):
    """What runs, as the keeper sees it."""

    model: Model
    stream: Stream
    rules: Rules
    desk: Desk
    time: np.datetime64 | None  # of the newest sample judged

    @property
    def judged(self) -> int:
        """How many samples were judged."""
        return int(self.stream.counts[SEEN] - self.stream.counts[PENDING])


class Keeper:
    """Keeps the accepted normal of one stream, and decides what becomes the next.

    Parameters
    ----------
    anchor
        Measures how far the stream is from the accepted normal.
    home
        Normal as `fit` left it.
    accept_after
        Samples before which nothing is accepted without a person; infinity: never.
    """

    def __init__(self, anchor: Anchor, home: Normal, accept_after: float) -> None:
        self.anchor = anchor
        self.home = home
        self._length = float(np.linalg.norm(home.weights.astype(np.float64)))
        self.accept_after = accept_after
        self.turn_length = int(max(1, min(accept_after / _TURNS, _LONGEST_TURN)))  # in samples
        self.listening = int(max(2, min(_JUDGED * accept_after, _LONGEST)))  # in scores
        self._turns_listened = max(2, self.listening // self.turn_length)
        self._begin()

    def reset(self) -> None:
        """Go back to where `fit` left it."""
        self.anchor.reset()
        self.anchor.moved(self.home.lows, self.home.highs)
        self._begin()

    def _begin(self) -> None:
        self.before = self.accepted = self.home
        self.previous: list[Normal] = []
        self.moved = 0.0  # how far the weights had moved when normal was last accepted
        self.moves = 0.0  # and now; 1 is their limit
        self.held = False
        self.turns = 0
        self._forget()

    def _forget(self) -> None:
        """Forget the alarm."""
        self.number = 0  # of the alarm that all this is about
        self._wait(-1)

    def _wait(self, since: int) -> None:
        """Let the time that something new must last begin at this sample; -1: with the alarm."""
        self.since = since
        self.shadow: Stream | None = None
        self.heard: deque[float] = deque(maxlen=self.listening)  # the shadow's scores
        self.positions: list[Floats] = []  # of the stream, a turn each, while it is listened to

    # ------------------------------------------------------------------ with every stretch

    def until_turn(self, stream: Stream) -> int:
        """Return how many samples the next turn is away; 0: it is now."""
        return int((self.turns + 1) * self.turn_length - stream.counts[SEEN])

    def rules(self, rules: Rules) -> Rules:
        """Return the rules the running model is to follow: held after a rejection."""
        return rules._replace(decay=1.0, lr=np.float32(0)) if self.held else rules

    def accompany(self, values: Floats, flush: bool, model: Model, rules: Rules) -> None:
        """Let the shadow, if there is one, see what the running model sees."""
        if self.shadow is None:
            return
        rows = int(self.shadow.counts[PENDING]) + len(values)
        sheet = live.blank_sheet(rows, values.shape[1])
        eager = rules._replace(threshold=_EAGER * rules.threshold)
        model.eager(_EAGER).advance(values, flush, self.shadow, eager, sheet)
        scores = sheet.scores[: rows - int(self.shadow.counts[PENDING])]
        self.heard.extend(scores[~np.isnan(scores)].tolist())

    def follow(self, samples: Floats) -> Bearing:
        """Say of judged samples (T, C) how far the stream is from its accepted normal."""
        bearing = self.anchor.follow(samples)
        if self.moves > 1:
            bearing.flags[:] = FAR
            bearing.where[:] = -1
        return bearing

    @property
    def distance(self) -> float:
        """How far stream or weights are from the accepted normal; 1 is the limit."""
        return max(self.anchor.distance, self.moves)

    @property
    def _away(self) -> bool:
        return self.anchor.away or self.moves > NEAR

    # ------------------------------------------------------------------ turns

    def turn(self, running: Running) -> bool:
        """Look at where things stand; accept what has earned it, and say whether that was so."""
        self.turns += 1
        self._measure(running.stream)
        alarm = running.desk.tracker.alarm
        if alarm is None:
            self.held = False
            self._forget()
            self.before = self._now(running)
            self.anchor.mark()
            return False
        if alarm.number != self.number:  # the one before was over since the last turn
            self.held = False
            self._forget()
            self.number = alarm.number
        if alarm.state == REJECTED:
            self._hold(running, alarm)
            return False
        self._watch_the_time(running, alarm)
        age = running.judged - (alarm.start if self.since < 0 else self.since)
        if self.shadow is None:
            if age >= _SHADOWED * self.accept_after:
                self.shadow = live.copied(running.stream)
                self._catch_up(running._replace(stream=self.shadow), alarm)
            return False
        settled = self._settled(running.desk, self.shadow)
        running.desk.mark(CANDIDATE if settled else IN_ALARM, running.judged - 1, running.time)
        if not settled or age < self.accept_after:
            return False
        self.accept(running)
        return True

    def _watch_the_time(self, running: Running, alarm: Alarm) -> None:
        """Begin anew where the stream has gone elsewhere: it is another change, or it is over."""
        position = self.anchor.ahead(running.judged - alarm.start)
        begins = self._away and self.since < 0
        if self.positions:
            last = self.positions[-1]
            begins = begins or self.anchor.jumped(last, position, self.turn_length)
        if begins:
            self._wait(running.judged)
        self.positions = [*self.positions, position][-self._turns_listened :]

    def _settled(self, desk: Desk, shadow: Stream) -> bool:
        """Whether the shadow finds the stream predictable, and stable, and is still itself."""
        if len(self.heard) < self.listening or self._moved(shadow) - self.moved > _LIMIT:
            return False
        older, newer = np.array_split(np.array(self.heard), 2)
        predictable = np.median(newer) < max(desk.threshold, _PREDICTABLE * desk.typical)
        stable = np.quantile(newer, _STABLE) <= max(desk.threshold, older.max())
        lag = max(1, len(self.positions) - 1) * self.turn_length
        there = not self.anchor.jumped(self.positions[0], self.positions[-1], lag)
        return bool(predictable and stable and there)

    # ------------------------------------------------------------------ a person's word

    def accept(self, running: Running) -> None:
        """Let what the open alarm is about be normal from here on."""
        _, stream, _, desk, time = running
        alarm = self._open(desk, "accept")
        if alarm.number != self.number:
            self._forget()
        ahead = self.anchor.ahead(running.judged - alarm.start)
        if self.shadow is None:  # nothing has learned it yet: its level, at least, is known
            self._catch_up(running, alarm)
        else:
            for name in Stream._fields:
                getattr(stream, name)[...] = getattr(self.shadow, name)
        if len(self.heard) == self.listening:
            desk.raise_threshold(np.array(self.heard))
        desk.close(ACCEPTED, running.judged - 1, time)
        self.previous = [*self.previous, self.before][-_KEPT:]
        self.anchor.widen([*self.positions, self.anchor.position, ahead])
        self.moved = self._moved(stream)
        self.moves = 0.0
        self.held = False
        self._forget()
        self.before = self.accepted = self._now(running)
        self.anchor.mark()

    def reject(self, running: Running) -> None:
        """Never learn what the open alarm is about; go back to what was known before it."""
        alarm = self._open(running.desk, "reject")
        known = alarm.number == self.number and self.since >= 0
        self._forget()
        self.number = alarm.number
        self.since = running.judged if known or self._away else -1
        self._go_back(running, alarm)
        running.desk.mark(REJECTED, running.judged - 1, running.time)

    def _go_back(self, running: Running, alarm: Alarm) -> None:
        """Put back what was known before the alarm, and hold it."""
        # What drifts too slowly to stand out was learned long before its alarm.
        back = self.accepted if alarm.cause == DISTANCE else self.before
        running.model.recall(running.stream, back.weights, back.trend)
        running.desk.gauge.adopt(back.gauge)
        self.held = True
        self._measure(running.stream)

    def _hold(self, running: Running, alarm: Alarm) -> None:
        """Learn nothing while a rejected alarm lasts, but to come back when the stream does."""
        if not self._away:
            self.held = self.since < 0  # of what was never away, only the score tells the end
        elif not self.held:  # it was not over: what was learned since is put back
            self._go_back(running, alarm)
        if self._away and self.since < 0:
            self.since = running.judged

    def rollback(self, running: Running) -> None:
        """Undo the newest acceptance."""
        if not self.previous:
            raise FeedbackError(
                "expected an accepted new normal to go back from, found none since `fit`",
                hint="`reset` goes back to what `fit` left",
            )
        back = self.previous.pop()
        running.model.recall(running.stream, back.weights, back.trend)
        running.desk.gauge.adopt(back.gauge)
        self.anchor.moved(back.lows, back.highs)
        self.moved = back.moved
        self._measure(running.stream)
        self._forget()
        self.before = self.accepted = back
        alarm = running.desk.tracker.alarm
        if alarm is not None:
            self.number = alarm.number
            if alarm.state == CANDIDATE:
                running.desk.mark(IN_ALARM, running.judged - 1, running.time)

    # ------------------------------------------------------------------ inside

    def _open(self, desk: Desk, act: str) -> Alarm:
        alarm = desk.tracker.alarm
        if alarm is None:
            raise FeedbackError(
                f"expected an open alarm to {act}, found none",
                hint="`rollback` undoes the newest acceptance",
            )
        return alarm

    def _now(self, running: Running) -> Normal:
        weights, trend = running.model.learned(running.stream)
        chart = self.anchor.chart
        gauge = running.desk.gauge.copy()
        return Normal(weights, trend, chart.lows, chart.highs, gauge, self.moved)

    def _catch_up(self, running: Running, alarm: Alarm) -> None:
        """Let the trend be where it would be in the end, given where the stream is bound for."""
        model, stream, rules, *_ = running
        if rules.decay == 1:
            return
        age = 0 if self.held else running.judged - alarm.start
        start, ahead = self.anchor.place.start, self.anchor.ahead(running.judged - alarm.start)
        jump: Floats = (self.anchor.level(ahead) - self.anchor.level(start)) / rules.scale
        # So far out that the anchor measures no more in full, the newest samples know better.
        out = self.anchor.beyond(ahead) & ~np.isnan(stream.samples).all(axis=0)
        jump[out] = 0
        model.catch_up(stream, jump, age, rules.decay)
        if out.any():
            weights, trend = model.learned(stream)
            level = np.nanmedian(stream.samples[:, out], axis=0)
            trend[..., out] = (level - rules.mean[out]) / rules.scale[out] - model.center[out]
            model.recall(stream, weights, trend)

    def _measure(self, stream: Stream) -> None:
        self.moves = max(0.0, self._moved(stream) - self.moved) / _LIMIT

    def _moved(self, stream: Stream) -> float:
        """Return how far the weights are from the fitted ones, in their own length."""
        if not self._length:
            return 0.0
        apart = stream.weights.astype(np.float64) - self.home.weights
        return min(float(np.linalg.norm(apart)) / self._length, _FARTHEST)

    # ------------------------------------------------------------------ state

    def copy(self) -> Keeper:
        """Return a keeper that goes its own way from here."""
        return Keeper.restore(self.to_json(), self.tensors(), self.home.weights)

    def to_json(self) -> dict[str, Any]:
        """Return what are no arrays of it, as values JSON knows."""
        places = {id(normal): at for at, normal in enumerate(self._normals)}
        return {
            "accept_after": None if math.isinf(self.accept_after) else self.accept_after,
            "before": places[id(self.before)],
            "accepted": places[id(self.accepted)],
            "previous": [places[id(normal)] for normal in self.previous],
            "moved": self.moved,
            "moves": self.moves,
            "held": self.held,
            "turns": self.turns,
            "number": self.number,
            "since": self.since,
            "shadow": self.shadow is not None,
        }

    def tensors(self) -> dict[str, NDArray[Any]]:
        """Return the rest as arrays by name, but for the weights `fit` left."""
        found: dict[str, NDArray[Any]] = {
            "heard": np.array(self.heard, dtype=np.float64),
            "positions": np.array(self.positions).reshape(-1, len(self.anchor.chart.lows)),
        }
        found |= {f"anchor.{name}": array for name, array in self.anchor.tensors().items()}
        for at, normal in enumerate(self._normals):
            found |= {f"normal{at}.{name}": array for name, array in normal.tensors().items()}
        del found["normal0.weights"]
        if self.shadow is not None:
            found |= {f"shadow.{name}": each for name, each in self.shadow._asdict().items()}
        return found

    @property
    def _normals(self) -> list[Normal]:
        """Every normal that is kept, once, that of `fit` first."""
        kept = (self.home, self.before, self.accepted, *self.previous)
        return list({id(normal): normal for normal in kept}.values())

    @classmethod
    def restore(
        cls, facts: Mapping[str, Any], tensors: Mapping[str, NDArray[Any]], fitted: Floats32
    ) -> Keeper:
        """Return the keeper that `to_json` and `tensors` were called on."""
        count = 1 + max(facts["before"], facts["accepted"], *facts["previous"])
        kept = {**tensors, "normal0.weights": fitted}
        normals = [Normal.restore(under(f"normal{at}.", kept)) for at in range(count)]
        anchor = Anchor.restore(under("anchor.", tensors))
        accept_after = facts["accept_after"]
        keeper = cls(anchor, normals[0], math.inf if accept_after is None else accept_after)
        keeper.before, keeper.accepted = normals[facts["before"]], normals[facts["accepted"]]
        keeper.previous = [normals[at] for at in facts["previous"]]
        keeper.moved, keeper.moves = facts["moved"], facts["moves"]
        keeper.held, keeper.turns = facts["held"], facts["turns"]
        keeper.number, keeper.since = facts["number"], facts["since"]
        keeper.heard.extend(tensors["heard"].tolist())
        keeper.positions = list(tensors["positions"].copy())
        if facts["shadow"]:
            shadow = under("shadow.", tensors)
            keeper.shadow = Stream(**{name: live.aligned(shadow[name]) for name in Stream._fields})
        return keeper
