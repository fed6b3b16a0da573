"""Where a detector's verdicts become alarms, and wait to be told."""

from __future__ import annotations

import copy
from collections import deque
from collections.abc import Mapping, Sequence
from dataclasses import replace
from typing import Any

import numpy as np
from numpy.typing import NDArray

from newnormal.alarms.budget import Budget, Gauge
from newnormal.alarms.tracker import AlarmEvent, Tracker
from newnormal.types import Floats, Verdicts

__all__ = ["Desk"]

_EVENTS = 1000  # kept until somebody asks
_LEAST = 1e-30  # a score below this is as good as 0


class Desk:
    """A gauge, a tracker, and the events that nobody has asked for yet.

    Parameters
    ----------
    channels
        The channels' names.
    gauge
        Judges scores, or their logarithms where there is a budget.
    budget
        The budget the gauge is held to; None where its threshold stays.
    active
        Whether it does anything: one that is not leaves verdicts as they are.
    """

    def __init__(
        self, channels: Sequence[str], gauge: Gauge, budget: Budget | None, *, active: bool
    ) -> None:
        self.gauge = gauge
        self.budget = budget
        self.active = active
        self.tracker = Tracker(channels)
        self.events: deque[AlarmEvent] = deque(maxlen=_EVENTS)

    @classmethod
    def of(
        cls,
        channels: Sequence[str],
        threshold: float,
        scores: Floats,
        budget: Budget | None,
        *,
        samples_per_day: float,
        active: bool,
    ) -> Desk:
        """Return a desk for history's scores, in the order of time."""
        if budget is None:
            gauge = Gauge.at(threshold, scores, samples_per_day=samples_per_day)
        else:
            gauge = budget.calibrate(_log(scores))
        return cls(channels, gauge, budget, active=active or budget is not None)

    @property
    def threshold(self) -> float:
        """What the next score will be compared with."""
        threshold = self.gauge.threshold
        return threshold if self.budget is None else float(np.exp(threshold))

    @property
    def typical(self) -> float:
        """The score that is typical of the accepted normal."""
        typical = self.gauge.typical
        return typical if self.budget is None else float(np.exp(typical))

    def prepared(self, verdicts: Verdicts) -> Verdicts:
        """Return verdicts with room for what will be known of alarms."""
        if not self.active:
            return verdicts
        ratios, p_values = np.full((2, len(verdicts)), np.nan)
        alarms = np.zeros(len(verdicts), dtype=np.int64)
        return replace(verdicts, ratios=ratios, p_values=p_values, alarms=alarms)

    def judge(
        self,
        verdicts: Verdicts,
        rows: slice,
        away: NDArray[np.int8] | None = None,
        where: NDArray[np.int64] | None = None,
    ) -> None:
        """Write into prepared verdicts, the rows that became final, what is known of alarms.

        `away` and `where` say how far the stream is from its accepted normal at each of these, and
        in which channel.
        """
        if verdicts.ratios is None or verdicts.p_values is None or verdicts.alarms is None:
            return
        scores, first = verdicts.scores[rows], verdicts.first + rows.start
        if self.budget is None:
            judged = self.gauge.judge(scores, first, away)
        else:
            judged = self.gauge.judge(_log(scores), first, away)
            judged = replace(judged, scores=scores, thresholds=np.exp(judged.thresholds))
        shares = None if verdicts.shares is None else verdicts.shares[rows]
        times = None if verdicts.times is None else verdicts.times[rows]
        self.events.extend(self.tracker.track(judged, shares, times, where))
        verdicts.ratios[rows] = judged.ratios
        verdicts.p_values[rows] = judged.p_values
        verdicts.alarms[rows] = judged.alarms
        verdicts.thresholds[rows] = judged.thresholds
        verdicts.anomalous[rows] = judged.scores >= judged.thresholds

    def mark(self, state: str, sample: int, time: np.datetime64 | None) -> None:
        """Say what is thought of the open alarm."""
        self.events.extend(self.tracker.mark(state, sample, time))

    def close(self, reason: str, sample: int, time: np.datetime64 | None) -> None:
        """End the open alarm for a reason."""
        self.gauge.close()
        self.events.extend(self.tracker.close(reason, sample, time))

    def raise_threshold(self, scores: Floats) -> None:
        """Let the threshold rise with the typical one of these scores, of an accepted normal.

        It never falls, and what is rare among them, which may be a fault, has no part in it.
        """
        self.gauge.lift(float(np.median(scores if self.budget is None else _log(scores))))

    def take_events(self) -> list[AlarmEvent]:
        """Return the events since this was last asked."""
        events = list(self.events)
        self.events.clear()
        return events

    def reset(self) -> None:
        """Go back to where history left it."""
        self.gauge.reset()
        self.tracker = Tracker(self.tracker.channels)
        self.events.clear()

    def quieten(self) -> None:
        """Forget the open alarm, as for another series; the threshold stays."""
        self.gauge.close()
        self.tracker = Tracker(self.tracker.channels)

    def copy(self) -> Desk:
        """Return a desk that goes its own way from here, with no events waiting."""
        twin = Desk(self.tracker.channels, self.gauge.copy(), self.budget, active=self.active)
        twin.tracker = copy.copy(self.tracker)
        return twin

    def tensors(self) -> dict[str, NDArray[Any]]:
        """Return what are arrays of it, by name."""
        return self.gauge.tensors()

    def to_json(self) -> dict[str, Any]:
        """Return the rest as values JSON knows."""
        return {
            "budget": None if self.budget is None else self.budget.to_json(),
            "active": self.active,
            "tracker": self.tracker.to_json(),
            "events": [event.as_dict() for event in self.events],
        }

    @classmethod
    def restore(
        cls, channels: Sequence[str], facts: Mapping[str, Any], tensors: Mapping[str, NDArray[Any]]
    ) -> Desk:
        """Return the desk that `to_json` and `tensors` were called on."""
        budget = None if facts["budget"] is None else Budget.from_json(facts["budget"])
        desk = cls(channels, Gauge.restore(tensors), budget, active=facts["active"])
        desk.tracker = Tracker.from_json(channels, facts["tracker"])
        desk.events.extend(map(AlarmEvent.from_dict, facts["events"]))
        return desk


def _log(scores: Floats) -> Floats:
    """Return logarithms: distances between them mean the same everywhere."""
    logs: Floats = np.log(np.maximum(scores, _LEAST))
    return logs
